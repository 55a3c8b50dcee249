"""Several data sets in one job, and data in other layouts than RecordIO."""

import json
import struct
import unittest

from support import BIN, JobTest, digest, run


def records_of(rec):
    """Yields (label, image bytes) of each image of a .rec in InsightFace's layout with unsplit records."""
    data = rec.read_bytes()
    at = 0
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 4)[0] & ((1 << 29) - 1)
        flag, label = struct.unpack_from("<If", data, at + 8)
        if flag == 0:
            yield int(label), data[at + 8 + 24:at + 8 + length]
        at += 8 + (length + 3) // 4 * 4


class SeveralSets(JobTest):
    def offsets(self):
        """Returns the offsets of records 0, 1 ... of the shared data."""
        return [int(line.split()[1]) for line in (self.data / "train.idx").read_text().splitlines()]

    def write_lists(self):
        """Writes the images as files, and lists: a and b have half of the people each, with labels from 0 and names;
        `merged` is a followed by b; in `shared`, the person in both a and b has one class."""
        people = self.IDENTITIES // 2
        lists = {"a": [], "b": [], "merged": [], "shared": []}
        for i, (label, image) in enumerate(records_of(self.data / "train.rec")):
            (self.folder / f"{i}.jpg").write_bytes(image)
            own, mine = ("a", label) if label < people else ("b", label - people)
            lists[own].append((i, mine))
            lists["merged"].append((i, label))
            # b's person 0 has the same name as a's person 1.
            lists["shared"].append((i, 1 if label == people else label - (label > people)))
        for name, images in lists.items():
            (self.folder / name).mkdir()
            (self.folder / name / "train.lst").write_text(
                "".join(f"{i}\t{label}.000000\t../{i}.jpg\n" for i, label in images))
        names = {"a": [f"person {k}" for k in range(people)],
                 "b": ["person 1"] + [f"other {k}" for k in range(1, people)]}
        for name, of in names.items():
            (self.folder / name / "identities.txt").write_text("".join(n + "\n" for n in of))
        return [str(self.folder / "a"), str(self.folder / "b")]

    def losses(self, name, workers=1, **keys):
        job = self.job(name + ".json", output=str(self.folder / f"out-{name}"), max_steps=6, **keys)
        self.finished(workers, job)
        return self.of_steps("loss", f"out-{name}")

    def test_two_sets_train_like_the_set_merged_by_hand(self):
        sets = self.write_lists()
        both = self.losses("both", rec=sets)
        self.assertEqual(both, self.losses("by-hand", rec=str(self.folder / "merged")))
        shared = self.losses("shared", rec=sets, share_identities=True)
        self.assertEqual(shared, self.losses("shared-by-hand", rec=str(self.folder / "shared")))
        self.assertNotEqual(both, shared)

    def test_separate_heads_train_on_any_number_of_workers_and_resume(self):
        sets = self.write_lists()
        one = self.losses("separate", rec=sets, heads="separate", batch_size=4)
        two = self.losses("two-workers", 2, rec=sets, heads="separate", batch_size=2, sync_bn=True)
        # With four images per batch, rounding errors grow by a factor of a hundred or more per step.
        self.assertAlmostEqual(two[0] / one[0], 1, delta=1e-5)
        self.assertAlmostEqual(two[1] / one[1], 1, delta=1e-2)
        self.assertNotEqual(one, self.losses("one-head", rec=sets, batch_size=4))
        out = self.folder / "out-separate"
        self.finished(1, self.job("separate.json", output=str(out), rec=sets, heads="separate",
                                  max_steps=8, resume=True))
        steps = self.of_steps("step", out)
        self.assertEqual(steps, list(range(1, 9)))

    def test_a_resume_refuses_sets_in_another_order_and_accepts_moved_sets(self):
        sets = self.write_lists()
        job = self.job(rec=sets, max_steps=1)
        self.assertEqual(self.train(2, job).returncode, 0)
        again = self.train(2, self.job(rec=sets[::-1], max_steps=2, resume=True))
        self.assert_one_line(again, "was trained with", "other people")
        planned = run(BIN / "pfcctl", "plan", "--config", self.folder / "job.json", "--gpus", 2)
        self.assertIn("other people", planned.stdout + planned.stderr)
        (self.folder / "moved").symlink_to(self.folder)
        moved = [str(self.folder / "moved" / name) for name in "ab"]
        done = self.finished(2, self.job(rec=moved, max_steps=2, resume=True))
        self.assertNotIn("other data", done.stdout)

    def test_staged_data_train_like_the_original_data(self):
        fast = self.folder / "fast"
        fast.mkdir()
        expected = self.losses("where-they-are", 2, rec=str(self.data))
        self.assertEqual(self.losses("staged", 2, rec=str(self.data), stage=str(fast)), expected)
        copies = [path.name for path in fast.glob("pfc-staged-*/*")]
        self.assertIn("train.rec", copies)

    def test_an_overlay_trains_like_the_rewritten_set(self):
        def finding(kind, action, label, **more):
            return json.dumps({"kind": kind, "action": action, "confidence": 0.9, "identity": {"label": label},
                               "decision": "accept", **more})

        def image(row):
            return {"row": row, "name": f"{self.data}/train.rec: record {row + 1} (offset {self.offsets()[row + 1]})"}

        findings = self.folder / "reviewed.jsonl"
        findings.write_text("\n".join([
            finding("wrong_label", "move", 0, image=image(3), other_identity={"label": 5}),
            finding("same_person", "merge", 2, other_identity={"label": 6}),
            finding("two_people", "split", 4, images=[image(41), image(43)]),
            finding("stranger", "drop", 1, image=image(17)),
            finding("duplicate", "drop", 1, image=image(18), other_image=image(17), other_identity={"label": 1}),
            finding("leaked", "drop", 7, other_identity={"label": 0, "test": True})]))
        overlay, rewritten = self.folder / "overlay.jsonl", self.folder / "rewritten"
        for target in ("--overlay", overlay), ("--out", rewritten):
            done = self.succeeded(run(BIN / "pfcctl", "data", "apply", "--findings", findings, "--in", self.data, *target))
            self.assertIn("6 findings chosen (6 accepted, 0 certain), 0 findings rejected, 0 without a decision\n"
                          "  1 image moved, 11 left out; 1 identity merged, 1 split off\n"
                          "  1 duplicate kept", done.stdout)
            self.assertRegex(done.stdout, "69 images of 7 identities")
        expected = self.losses("rewritten", 2, rec=str(rewritten))
        self.assertEqual(self.losses("overlay", 2, rec=str(self.data), overlay=str(overlay)), expected)
        self.assertNotEqual(self.losses("raw", 2, rec=str(self.data)), expected)
        self.assertEqual(*(digest(self.folder / f"out-{name}/backbone.safetensors") for name in ("rewritten", "overlay")))
        # A checkpoint names its data, with the overlay.
        overlay.write_text(overlay.read_text().replace('"image": 3, "label": 5', '"image": 3, "label": 1'))
        again = self.finished(2, self.job("again.json", output=str(self.folder / "out-overlay"), max_steps=7, resume=True,
                                          rec=str(self.data), overlay=str(overlay)))
        self.assertIn("was trained on other data", again.stderr)
        planned = self.succeeded(run(BIN / "pfcctl", "plan", "--config", self.folder / "again.json", "--workers", 2))
        self.assertIn(", 7 classes, ", planned.stdout)

        def refused(data, *words):
            self.assert_one_line(run(BIN / "pfcctl", "data", "apply", "--findings", findings, "--in", data,
                                     "--overlay", overlay), *words)
        refused(self.data, "overlay.jsonl: exists already", "--force")
        overlay.write_text("notes")
        refused(self.data, "overlay.jsonl: found a file that is not an overlay")
        overlay.unlink()
        refused(rewritten, "reviewed.jsonl: line 1: row 3: found the image")

    def test_a_folder_of_people_trains_like_its_packed_copy(self):
        people = self.folder / "people"
        for i, (label, image) in enumerate(records_of(self.data / "train.rec")):
            (people / f"{label:04d}").mkdir(parents=True, exist_ok=True)
            (people / f"{label:04d}" / f"{i:04d}.jpg").write_bytes(image)
        packed = self.succeeded(run(BIN / "pfcctl", "data", "pack", people, "--out", self.folder / "packed"))
        self.assertIn(f"{self.IDENTITIES * self.IMAGES} images of {self.IDENTITIES} identities",
                      packed.stdout)
        told = run(BIN / "pfcctl", "data", "info", self.folder / "packed")
        self.assertIn("RecordIO with InsightFace's record 0", told.stdout)
        expected = self.losses("rec", rec=str(self.data))
        self.assertEqual(self.losses("people", rec=str(people)), expected)
        self.assertEqual(self.losses("packed", rec=str(self.folder / "packed")), expected)


if __name__ == "__main__":
    unittest.main()
