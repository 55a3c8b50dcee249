"""Verbs that evaluate a model, on a generated model and images. NumPy computes the expected figures from the
embeddings that pfcctl embed writes."""

import hashlib
import json
import pathlib
import pickle
import re
import shutil
import unittest
import xml.etree.ElementTree

import numpy as np

from support import BIN, run
from trained_model import TrainedModel

import evaluation_protocols as reference  # in tests/reference, like the next
import safetensors_io

SIZE = 32
TEMPLATE = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]])


class Evaluate(TrainedModel):
    STEPS = 6

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        one = cls()
        one.setUp()
        cls.spread_embeddings(np.array(list(one.embed(cls.people).values())))

    @classmethod
    def spread_embeddings(cls, rows):
        """Gives the last batch norm the statistics of these embeddings. Without this, all embeddings are nearly the
        same after six training steps, and figures would depend on the rounding of similarities."""
        state = safetensors_io.load(cls.model)
        mean = [name for name in state if name.endswith("running_mean")][-1]
        norm = mean.removesuffix("running_mean")
        deviation = np.sqrt(state[norm + "running_var"] + 1e-5) / state[norm + "weight"]
        state[mean] += ((rows.mean(0) - state[norm + "bias"]) * deviation).astype(np.float32)
        state[norm + "running_var"] = ((rows.std(0) * deviation) ** 2).astype(np.float32)
        safetensors_io.save(cls.model, state, {"network": "mbf"})

    def pfcctl(self, *words):
        return self.succeeded(run(BIN / "pfcctl", *words)).stdout

    def embed(self, data, *more, model=None):
        """Returns [images, D], keyed by image name relative to the folder."""
        out = self.folder / "embedded.safetensors"
        self.pfcctl("embed", "--model", model or self.model, "--in", data, "--out", out, *more)
        names = out.with_suffix(".names.txt").read_text().splitlines()
        rows = safetensors_io.load(out)["embeddings"]
        self.assertEqual(len(names), len(rows))
        return {str(pathlib.Path(name).relative_to(data)): row for name, row in zip(names, rows)}

    def assert_close(self, found, expected):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)

    def test_embed_writes_what_a_job_without_a_network_trains_on(self):
        for name in ("embeddings.npy", "x.safetensors"):
            folder = self.folder / name.replace(".", "-")
            folder.mkdir()
            told = json.loads(self.pfcctl("embed", "--model", self.model, "--in", self.data, "--out", folder / name,
                                          "--batch", 7, "--json"))
            self.assertEqual((told["images"], told["embedding_size"], told["damaged"]), (80, 64, 0))
            self.assertEqual(len((folder / name).with_suffix(".names.txt").read_text().splitlines()), 80)
            rec = folder if name.endswith("npy") else folder / name
            self.finished(1, self.job(network="none", rec=str(rec), num_epoch=10, lr=0.1,
                                      margin_list=[1.0, 0.0, 0.0], output=str(folder / "out")))
            steps = [m for m in self.metrics(folder / "out") if m["kind"] == "step"]
            self.assertEqual(len(steps), 200)
            mean = [np.mean([m["loss"] for m in part]) for part in (steps[:20], steps[-20:])]
            self.assertLess(mean[1], 0.8 * mean[0])
        rows = np.load(self.folder / "embeddings-npy/embeddings.npy")
        tensors = safetensors_io.load(self.folder / "x-safetensors/x.safetensors")
        np.testing.assert_array_equal(rows, tensors["embeddings"])
        np.testing.assert_array_equal(np.load(self.folder / "embeddings-npy/labels.npy"), tensors["labels"])

    def test_prune_keeps_the_images_near_the_dominant_centre_of_their_class(self):
        self.finished(2, self.job(sub_centres=3, max_steps=6))
        step, out = self.folder / "out/step-000000006", self.folder / "embedded.safetensors"

        def embedded(data):
            self.pfcctl("embed", "--model", step / "backbone.safetensors", "--in", data, "--out", out)
            tensors = safetensors_io.load(out)
            return tensors["embeddings"], tensors["labels"]

        rows, labels = embedded(self.data)
        centres = np.concatenate([safetensors_io.load(file)["weight"] for file in sorted(step.glob("centres-*"))])
        own = centres.reshape(-1, 3, rows.shape[1])[labels]  # [N, 3, D]
        cosines = np.einsum("nd,nkd->nk", rows, own) / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(own, axis=2)
        dominant = np.array([np.bincount(cosines[labels == c].argmax(1), minlength=3).argmax() for c in range(8)])
        near = cosines[np.arange(len(labels)), dominant[labels]]
        # One class loses all its images.
        limit = np.sort([near[labels == c].max() for c in range(8)])[:2].mean()
        kept = np.flatnonzero(near > limit)
        words = ("prune", "--checkpoint", step, "--out", self.folder / "pruned", "--angle", np.degrees(np.arccos(limit)))
        told = json.loads(self.pfcctl(*words, "--json"))
        self.assertEqual([told[key] for key in ("images", "classes", "removed_images", "removed_classes", "damaged")],
                         [len(kept), 7, 80 - len(kept), 1, 0])
        pruned, renumbered = embedded(self.folder / "pruned")
        order = kept[np.argsort(labels[kept], kind="stable")]
        np.testing.assert_allclose(pruned, rows[order], rtol=0, atol=1e-4 * np.abs(rows).max())
        np.testing.assert_array_equal(renumbered, np.unique(labels[order], return_inverse=True)[1])
        self.assert_one_line(run(BIN / "pfcctl", *words), "train.rec", "already exists")
        self.assert_one_line(run(BIN / "pfcctl", *words[:-1], 0), "--angle: found 0, expected a number above 0, at most 180")
        folder = next(self.shared.glob("out/step-*"))
        self.assert_one_line(run(BIN / "pfcctl", "prune", "--checkpoint", folder, "--out", self.folder / "other"),
                             "manifest.json: sub_centres: found 1, expected 2 or more")
        self.assert_prune_refuses_what_does_not_fit(step)

    def assert_prune_refuses_what_does_not_fit(self, step):
        original = json.loads((step / "manifest.json").read_text())
        original.pop("sha256")
        out = self.folder / "refused"

        def assert_refused(found, *words, job=(), **keys):
            """Asserts that prune refuses the checkpoint if its manifest has these keys, or its job the keys `job`."""
            manifest = {**original, **keys, "job": {**original["job"], **dict(job)}}
            text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
            manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
            (step / "manifest.json").write_text(json.dumps(manifest))
            self.assert_one_line(run(BIN / "pfcctl", "prune", "--checkpoint", step, "--out", out, *words), *found)
            self.assertFalse(out.exists())

        images = enumerate(sorted(self.people.rglob("*.jpg")))
        several = self.folder / "several.tsv"
        several.write_text("".join(f"{image}\t{i % 8}{',5' if i == 0 else ''}\n" for i, image in images))
        assert_refused(("several.tsv: found up to 2 labels for an image, but pfcctl prune needs exactly one",),
                       "--in", several, job={"labels_per_image": 2})
        assert_refused((f"{self.people}: found 80 images of 8 classes", "manifest.json was trained on 80 images", "--in"),
                       "--in", self.people)
        assert_refused(("manifest.json: classes: found 9, expected 8",), classes=9)
        assert_refused(("manifest.json: embedding_size: found 64, expected 192",), embedding_size=64)
        assert_refused(("backbone.safetensors: length of an embedding: found 64, expected 32",),
                       job={"embedding_size": 32}, embedding_size=96)
        assert_refused(('manifest.json: heads: found "separate", expected "one"',),
                       job={"heads": "separate", "head_classes": [4, 4], "rec": [str(self.data), str(self.people)]})
        assert_refused(("no image of", "is within this angle of its class's dominant centre"), "--angle", 0.001)
        state = safetensors_io.load(step / "backbone.safetensors")
        norm = [name for name in state if name.endswith("running_mean")][-1].removesuffix("running_mean")
        state |= {norm + name: np.zeros_like(state[norm + name]) for name in ("weight", "bias")}
        safetensors_io.save(step / "backbone.safetensors", state, {"network": "mbf"})
        self.assert_one_line(run(BIN / "pfcctl", "prune", "--checkpoint", step, "--out", out),
                             "1 of 80 images are damaged", "its embedding is zero")

    def test_embed_writes_zeros_for_a_damaged_image_and_limits_their_number(self):
        data = pathlib.Path(shutil.copytree(self.people, self.folder / "damaged"))
        sorted(data.rglob("*.jpg"))[3].write_bytes(b"\xff\xd8 cut short")
        command = (BIN / "pfcctl", "embed", "--model", self.model, "--in", data, "--out", self.folder / "x.npy")
        self.assert_one_line(run(*command), "1 of 80 images are damaged", "--max-damaged")
        self.assertFalse((self.folder / "x.npy").exists())
        self.assertEqual(run(*command, "--max-damaged", 0.1).returncode, 0)
        self.assertEqual((np.abs(np.load(self.folder / "x.npy")).sum(1) == 0).sum(), 1)

    def test_embed_keeps_the_identities_of_another_data_set(self):
        other = self.folder / "identities.txt"
        other.write_text("somebody else\n")
        command = (BIN / "pfcctl", "embed", "--model", self.model, "--in", self.people, "--out", self.folder / "x.npy")
        self.assert_one_line(run(*command), "identities.txt", "already exists with other people", "another folder")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["identities.txt"])
        other.unlink()
        for _ in range(2):  # the second run finds a list with the same people
            self.assertEqual(run(*command).returncode, 0)
        self.assertEqual(other.read_text().splitlines(), sorted(path.name for path in self.people.iterdir()))

    def test_clean_with_a_model_finds_the_same_as_in_its_embeddings(self):
        data, findings, kept = self.folder / "forty", self.folder / "findings.jsonl", self.folder / "kept"
        self.pfcctl("data", "synth", "--identities", 40, "--images-per-identity", 4, "--val-identities", 6,
                    "--val-pairs", 20, "--size", SIZE, "--out", data)
        bin = data / "val.bin"
        words = ("--in", data, "--output", findings, "--min-confidence", 0)
        self.pfcctl("data", "clean", "--model", self.model, "--against", bin, *words)
        found = findings.read_text()
        self.assertIn(f"{data}/train.rec: record ", found)
        self.assertEqual(list(self.folder.glob("findings*")), [findings])
        self.pfcctl("data", "clean", "--model", self.model, "--against", bin, "--save-embeddings", kept, *words)
        self.assertEqual(findings.read_text(), found)
        self.assertEqual((kept / "against/embeddings.names.txt").read_text().splitlines()[3], f"{bin}: pair 2, image 2")
        findings.unlink()
        self.pfcctl("data", "clean", "--embeddings", kept / "in", "--against", kept / "against", "--against-in", bin, *words)
        self.assertEqual(findings.read_text(), found)
        self.assert_one_line(run(BIN / "pfcctl", "data", "clean", "--in", data), "--model", "--embeddings")
        self.assert_one_line(run(BIN / "pfcctl", "data", "clean", "--in", data, "--model", self.model, "--output", self.model),
                             self.model.name)

    def test_verify_agrees_with_numpy_and_draws_a_picture(self):
        images, same = pickle.loads((self.data / "val.bin").read_bytes())
        folder = self.folder / "pairs/one"
        folder.mkdir(parents=True)
        for i, image in enumerate(images):
            (folder / f"{i:04}.jpg").write_bytes(image)
        (self.folder / "pairs/another").mkdir()
        shutil.copy(folder / "0000.jpg", self.folder / "pairs/another/x.jpg")
        rows = self.embed(self.folder / "pairs", "--flip")
        unit = reference.unit(np.array([rows[f"one/{i:04}.jpg"] for i in range(len(images))])).astype(np.float32)
        expected = reference.verification(unit[0::2], unit[1::2], np.array(same))
        picture = self.folder / "roc.svg"
        command = ("verify", "--model", self.model, self.model, "--bin", self.data / "val.bin", "--roc", picture)
        for found in json.loads(self.pfcctl(*command, "--json")):
            self.assert_close([found[k] for k in ("accuracy", "deviation", "threshold", "min_dcf")],
                              [expected[k] for k in ("accuracy", "deviation", "threshold", "min_dcf")])
            self.assert_close([t["tar"] for t in found["tar_at_far"]], [t[0] for t in expected["tars"]])
        self.assertIn(f"{expected['accuracy']:.5f} +- {expected['deviation']:.5f}", self.pfcctl(*command))
        drawn = xml.etree.ElementTree.parse(picture).getroot()
        words = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(len([w for w in words if w.endswith("%)")]), 2, "a legend line for each model")

    def test_verify_evaluates_each_group_of_a_set_and_averages_them(self):
        images, same = pickle.loads((self.data / "val.bin").read_bytes())
        names = ["b c" if k % 3 == 1 else "a" for k in range(len(same))]
        groups, verify = self.folder / "groups.txt", ("verify", "--model", self.model, "--json", "--bin")
        groups.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(names).encode())
        found = json.loads(self.pfcctl(*verify, self.data / "val.bin", "--groups", groups))
        for name in ("a", "b c"):
            pairs = [k for k, each in enumerate(names) if each == name]
            (self.folder / f"{name}.bin").write_bytes(
                pickle.dumps(([images[2 * k + side] for k in pairs for side in (0, 1)], [same[k] for k in pairs])))
        alone = json.loads(self.pfcctl(*verify, self.folder / "a.bin", self.folder / "b c.bin"))
        self.assertEqual([each["set"] for each in found], ["val/a", "val/b c", "average"])
        for figures in zip(found, alone):
            for each in figures:
                each.pop("seconds", None), each.pop("set")
            self.assertEqual(*figures)
        accuracies = [each["accuracy"] for each in found[:2]]
        self.assertNotEqual(*accuracies)
        self.assert_close([found[2][key] for key in ("pairs", "accuracy", "deviation")],
                          [len(same), np.mean(accuracies), np.std(accuracies, ddof=1)])
        self.assertRegex(self.pfcctl("verify", "--model", self.model, "--bin", self.data / "val.bin", "--groups", groups),
                         f" average +{len(same)} +{np.mean(accuracies):.5f} \\+- {np.std(accuracies, ddof=1):.5f}\n")
        lines = "\n".join(names)
        for text, words in (("a\n", ["found 1 lines", f"the {len(same)} pairs"]), (lines + "\na", [f"line {len(same) + 1}", "an extra line"]),
                            ("a\n\n" + lines, ["line 2", "no group"]), ("a\n".encode("utf-16"), ["found 1 lines"]),
                            ("\n".join("b" if each else "a" for each in same), ["(group", "all", "pairs are of"]),
                            ("x" * 20000, ["line 1: longer than"]), (None, ["cannot open"])):
            groups.unlink()
            if text is not None:
                groups.write_bytes(text if isinstance(text, bytes) else text.encode())
            self.assert_one_line(run(BIN / "pfcctl", *verify, self.data / "val.bin", "--groups", groups), *words)
        self.assert_one_line(run(BIN / "pfcctl", *verify, self.data / "val.bin", self.data / "val.bin", "--groups", groups),
                             "found 2 verification sets, expected one --bin")

    def test_the_panel_has_all_known_sets_that_exist(self):
        data = self.copy_of_data()
        for name in ("lfw", "cplfw"):
            shutil.copy(data / "val.bin", data / f"{name}.bin")
        done = self.finished(1, self.job(rec=str(data), max_steps=2, val_targets="panel", verbose=2))
        self.assertEqual(re.findall(r"\[(\w+)\]\[\d+\]Accuracy-Flip", done.stdout), ["lfw", "cplfw"])
        found = json.loads(self.pfcctl("verify", "--model", self.model, "--bin", data, "--json"))
        self.assertEqual([each["set"] for each in found], ["lfw", "cplfw", "average"])
        done = run(BIN / "pfcctl", "verify", "--model", self.model, "--bin", self.folder)
        self.assert_one_line(done, "panel of verification sets: found none", "agedb_30.bin")

    def recall_of(self, model, measure=reference.recall):
        rows = self.embed(self.people, "--flip", model=model)
        return measure(reference.unit(np.array(list(rows.values()))), np.array([int(name.split("/")[0]) for name in rows]))

    def test_recall_agrees_with_numpy(self):
        expected = self.recall_of(self.model)
        self.assertGreater(expected[1], expected[0])
        command = ("identify", "--model", self.model, "--probes", self.people)
        found = json.loads(self.pfcctl(*command, "--json"))
        self.assertEqual((found["images"], found["queries"]), (80, 80))
        self.assert_close(list(found["recall"].values()), expected)
        self.assert_close(list(found["precision"].values()), self.recall_of(self.model, reference.precision))
        printed = self.pfcctl(*command)
        self.assertIn(f"Recall@1    {expected[0]:.5f}\n", printed)
        self.assertIn(f"P@1         {expected[0]:.5f}\n", printed)

    def test_a_job_evaluates_recall_with_two_workers(self):
        out = self.folder / "out"
        # Enough steps for batch norm to learn the images' statistics, so that embeddings differ.
        done = self.train(2, self.job(max_steps=60, num_epoch=10, val_targets=[str(self.data / "val.bin"), str(self.people)],
                                      output=str(out)))
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = self.recall_of(out / "backbone.safetensors")
        self.assertIn(f"[people][60]Recall@1: {expected[0]:.5f}  Recall@10: {expected[1]:.5f}  Recall@100: 1", done.stdout)
        told = [m for m in self.metrics(out) if m["kind"] == "evaluation"][1]
        self.assertEqual((told["val_target"], told["images"], told["queries"]), ("people", 80, 80))
        self.assert_close(list(told["recall"].values()), expected)
        precisions = self.recall_of(out / "backbone.safetensors", reference.precision)
        self.assert_close(list(told["precision"].values()), precisions)
        self.assertIn(f"  P@1: {expected[0]:.5f}  P@10: {precisions[1]:.5f}", done.stdout)

    def test_a_retrieval_set_with_a_damaged_image_is_refused_before_the_first_step(self):
        data = pathlib.Path(shutil.copytree(self.people, self.folder / "damaged"))
        broken = sorted(data.rglob("*.jpg"))[3]
        broken.write_bytes(b"\xff\xd8 cut short")
        job = self.job(val_targets=[str(data)], max_steps=1)
        self.assert_one_line(self.train(2, job), "retrieval set", str(broken))
        for folder in data.iterdir():
            for image in sorted(folder.iterdir())[1:]:
                image.unlink()
        self.assert_one_line(run(BIN / "pfcctl", "plan", "--config", job), "retrieval set", "8 images are of different classes")

    def write_ijb(self, rng):
        """Writes a set for 1:1 and 1:N; each template has images of one person."""
        root, names = self.folder / "ijb", sorted(str(p.relative_to(self.people)) for p in self.people.rglob("*.jpg"))
        shutil.copytree(self.people, root / "loose_crop")
        (root / "meta").mkdir()
        people = sorted({name.split("/")[0] for name in names})
        template = [(len(people) * int(rng.integers(0, 4)) + people.index(name.split("/")[0])) for name in names]
        medium, score = rng.integers(0, 3, len(names)), rng.uniform(0.5, 1, len(names)).astype(np.float32)
        # The image is already aligned as the network expects.
        points = (TEMPLATE + 0.5) * SIZE / 112 - 0.5
        order = rng.permutation(len(names))

        def write(name, lines):
            (root / "meta" / f"ijbc_{name}").write_text("".join(line + "\n" for line in lines))

        write("name_5pts_score.txt", (f"{names[i]} {' '.join(repr(float(x)) for x in points.ravel())} {score[i]!r}" for i in order))
        write("face_tid_mid.txt", (f"{names[i]} {template[i]} {medium[i]}" for i in order))
        ids = np.unique(template)
        pairs = [(a, b, int(a % len(people) == b % len(people))) for a in ids for b in ids if a < b]
        write("template_pair_label.txt", (f"{a} {b} {same}" for a, b, same in pairs))
        galleries = [ids[(ids < len(people)) & (ids % 2 == half)] for half in (0, 1)]
        probes = ids[ids >= len(people)]
        for name, chosen in (("1N_gallery_G1.csv", galleries[0]), ("1N_gallery_G2.csv", galleries[1]),
                             ("1N_probe_mixed.csv", probes)):
            write(name, ["TEMPLATE_ID,SUBJECT_ID,FILENAME", *(f"{t},{t % len(people)},x.jpg" for t in chosen for _ in "ab")])
        return root, names, np.array(template), medium, score, ids, pairs, galleries, probes, len(people)

    def test_ijbc_agrees_with_numpy(self):
        root, names, template, medium, score, ids, pairs, galleries, probes, people = self.write_ijb(np.random.default_rng(3))
        for options, flip in ((["--no-flip"], []), (["--no-detector-score"], ["--flip"]),
                              (["--normalise", "--no-media-pooling"], ["--flip"])):
            rows = self.embed(self.people, *flip)
            features = np.array([rows[name] for name in names])
            if "--normalise" in options:
                features = reference.unit(features).astype(np.float32)
            if "--no-detector-score" not in options:
                features = features * score[:, None]
            media = np.arange(len(names)) if "--no-media-pooling" in options else medium
            pooled = reference.templates(features, template, media)
            row = {t: pooled[i] for i, t in enumerate(ids)}
            curve = reference.roc(np.array([row[a] @ row[b] for a, b, _ in pairs]), np.array([s for *_, s in pairs], dtype=bool))
            found = json.loads(self.pfcctl("ijbc", "--model", self.model, "--data", root, "--json", *options))
            self.assertEqual((found["set"], found["images"], found["templates"]), ("ijbc", len(names), len(ids)))
            self.assert_close([found["tar_at_far"][f"1e-{k:02}"] for k in range(1, 7)],
                              [reference.tpr_near(curve, 10.0**-k) for k in range(1, 7)])
            hits, tpirs = np.zeros(3), np.zeros(2)
            for gallery in galleries:
                chosen = np.array([row[t] for t in (*probes, *gallery)])
                one = reference.identification(chosen, np.array([*probes, *gallery]) % people, len(probes))
                mated = np.isin(probes % people, gallery % people).sum()
                hits += np.array(one["ranks"][:3]) * mated
                tpirs += np.array(one["tpirs"][1:]) / 2
            self.assert_close(list(found["identification"]["rank"].values()), hits / len(probes))
            self.assert_close(list(found["identification"]["tpir_at_fpir"].values()), tpirs)

    def test_ijbc_says_which_line_is_wrong(self):
        root = self.write_ijb(np.random.default_rng(4))[0]
        scores = root / "meta/ijbc_name_5pts_score.txt"
        good = scores.read_text()
        for old, new, words in ((r"^\S+", "../../etc/passwd", "a file in loose_crop"), (r" \S+$", " many", "expected a number"),
                                (r" \S+$", "", "expected 12 fields, found 11"), (r"^.*\n", "", "the next image of"),
                                (r".*\n\Z", "", "as many lines as")):
            scores.write_text(re.sub(old, new, good, count=1, flags=re.MULTILINE))
            done = run(BIN / "pfcctl", "ijbc", "--model", self.model, "--data", root)
            self.assert_one_line(done, " line ", words)

    def test_identify_agrees_with_numpy(self):
        rng = np.random.default_rng(5)
        rows = {name: reference.unit(row[None])[0] for name, row in self.embed(self.people, "--flip").items()}
        sets = {"probes": {}, "gallery": {}, "rest": {}}
        for name in sorted(rows):
            person = name.split("/")[0]
            # Persons 0 to 4 are probes and gallery, person 5 is a probe only, and the others are distractors.
            kinds = ["probes", "gallery"] if int(person) < 5 else ["probes"] if int(person) == 5 else ["rest"]
            chosen = kinds[int(rng.integers(0, len(kinds)))]
            sets[chosen][name] = rows[name]
            to = self.folder / chosen / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.people / name, to)
        people = {kind: [-1 if kind == "rest" else int(name.split("/")[0]) for name in names] for kind, names in sets.items()}
        array = {kind: np.array(list(names.values())) for kind, names in sets.items()}
        command = ("identify", "--model", self.model, "--probes", self.folder / "probes", "--distractors", self.folder / "rest", "--json")
        found = json.loads(self.pfcctl(*command, "--gallery", self.folder / "gallery"))
        joined = np.concatenate([array["probes"], array["gallery"], array["rest"]])
        subject = np.array([*people["probes"], *people["gallery"], *people["rest"]])
        expected = reference.identification(joined, subject, len(array["probes"]))
        self.assert_close(list(found["rank"].values()), expected["ranks"])
        self.assert_close(list(found["tpir_at_fpir"].values()), expected["tpirs"][1:])
        among = np.array(reference.among_distractors(array["probes"], np.array(people["probes"]), array["rest"]))
        found = json.loads(self.pfcctl(*command))
        self.assert_close(list(found["rank"].values()), [np.mean(among <= k) for k in (1, 5, 10, 20)])
        # Names in the formats of FaceScrub's and MegaFace's lists.
        lists = [self.folder / "facescrub_noises.txt", self.folder / "megaface_noises.txt"]
        noisy = [sorted(sets["probes"])[2], sorted(sets["rest"])[1]]
        lists[0].write_text(f"# noisy\n{noisy[0].split('/')[-1]}\r\nnot_there.jpg\n")
        lists[1].write_text(f"1\t{noisy[1]}\n2\tx/y.jpg")
        kept = {"probes": [name not in noisy and name.split("/")[-1] != noisy[0].split("/")[-1] for name in sets["probes"]],
                "rest": [name not in noisy and name.split("/")[-1] != noisy[0].split("/")[-1] for name in sets["rest"]]}
        among = np.array(reference.among_distractors(array["probes"][kept["probes"]], np.array(people["probes"])[kept["probes"]],
                                                     array["rest"][kept["rest"]]))
        found = json.loads(self.pfcctl(*command, "--noises", *lists))
        self.assert_close(list(found["rank"].values()), [np.mean(among <= k) for k in (1, 5, 10, 20)])
        self.assertEqual((found["searches"], found["noises"]), (len(among), {"matched": 2, "unmatched": 2}))
        lists[0].write_text("# nothing\n")
        self.assert_one_line(run(BIN / "pfcctl", *command, "--noises", lists[0]), "found no names")


if __name__ == "__main__":
    unittest.main()
