"""Jobs that train only the classification layer, on embeddings, and sets with several .rec files."""

import json
import os
import random
import shutil
import signal
import struct
import unittest

from several_sets_test import records_of
from support import BIN, LIMIT, JobTest, digest, run

DIMENSION, CLASSES, IMAGES = 24, 11, 160


def npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def draw(seed=5):
    """Returns rows around one direction per class, and their labels."""
    rng = random.Random(seed)
    directions = [[rng.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(CLASSES)]
    labels = list(range(CLASSES)) + [rng.randrange(CLASSES) for _ in range(IMAGES - CLASSES)]
    rows = [[x + rng.gauss(0, 0.3) for x in directions[label]] for label in labels]
    return rows, labels


class Embeddings(JobTest):
    def write(self, name="embeddings"):
        rows, labels = draw()
        folder = self.folder / name
        folder.mkdir()
        flat = [x for row in rows for x in row]
        npy(folder / "embeddings.npy", "<f4", (IMAGES, DIMENSION), struct.pack(f"<{len(flat)}f", *flat))
        npy(folder / "labels.npy", "<i8", (IMAGES,), struct.pack(f"<{IMAGES}q", *labels))
        return folder

    def embeddings_job(self, name, **keys):
        job = {"network": "none", "rec": str(self.folder / "embeddings"), "batch_size": 16, "num_epoch": 4,
               "lr": 0.1, "margin_scale": 16, "output": str(self.folder / name), "num_workers": 2,
               "frequent": 5, "verbose": 0, **keys}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        return path

    def steps(self, name, workers=1, more=(), **keys):
        done = self.finished(workers, self.embeddings_job(name, **keys), *more)
        self.told = done.stdout
        return [m for m in self.metrics(self.folder / name) if m["kind"] == "step"]

    def centres(self, name, step):
        folder = self.folder / name / f"step-{step:09d}"
        return {p.name: digest(p) for p in folder.glob("*.safetensors")}

    def test_one_and_two_workers_have_the_same_losses_which_fall(self):
        self.write()
        one = self.steps("one", sample_rate=0.5)
        two = self.steps("two", 2, batch_size=8, sample_rate=0.5)
        self.assertEqual(len(one), 40)
        self.assertLess(one[-1]["loss"], 0.3 * one[0]["loss"])
        for a, b in zip(one, two):
            self.assertAlmostEqual(a["loss"] / b["loss"], 1, delta=1e-4)
        self.assertIn("training is complete: the class centres, in ", self.told)
        self.assertFalse((self.folder / "two/backbone.safetensors").exists())

    def test_a_resumed_job_gives_the_same_bits(self):
        self.write()
        self.steps("a", 2, batch_size=4, max_steps=20, sample_rate=0.5, optimizer="adamw", lr=1e-3)
        keys = dict(batch_size=4, sample_rate=0.5, optimizer="adamw", lr=1e-3)
        self.steps("b", 2, max_steps=9, **keys)
        steps = self.steps("b", 2, max_steps=20, resume=True, **keys)
        self.assertEqual([m["step"] for m in steps], list(range(1, 21)))
        self.assertEqual(self.centres("a", 20), self.centres("b", 20))

    def test_a_linear_layer_is_trained_and_resumed_to_the_same_bits(self):
        self.write()
        keys = dict(batch_size=4, feature_size=DIMENSION, embedding_size=8, ema_decay=0.9)
        losses = [m["loss"] for m in self.steps("a", 2, max_steps=20, **keys)]
        self.assertLess(losses[-1], losses[0])
        self.steps("b", 2, max_steps=9, **keys)
        self.steps("b", 2, max_steps=20, resume=True, **keys)
        self.assertEqual(self.centres("a", 20), self.centres("b", 20))
        self.assertEqual(*(digest(self.folder / name / "backbone.safetensors") for name in "ab"))
        plan = self.succeeded(run(BIN / "pfcctl", "plan", "--config", self.embeddings_job("plan", **keys)))
        self.assertIn("backbone weights", plan.stdout)

    def test_continues_from_the_copies_in_memory_after_a_worker_was_killed(self):
        self.write()
        job = self.embeddings_job("out", batch_size=4, num_epoch=400, replicate=True, snapshot_seconds=0.1)
        process = self.start(2, job, "--max-restarts", 3, until="Global Step: 200")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.read_until(process, "continued from the copies in memory")
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=LIMIT)
        self.assertIn("checkpoint written", rest)

    def test_gradient_accumulation_gives_the_losses_of_the_whole_batch_and_saves_checkpoints(self):
        self.write()
        whole = self.steps("whole", batch_size=16, max_steps=10)
        parts = self.steps("parts", batch_size=8, gradient_acc=2, max_steps=10, save_every_steps=3)
        for a, b in zip(whole, parts):
            self.assertAlmostEqual(a["loss"] / b["loss"], 1, delta=1e-4)
        self.assertTrue((self.folder / "parts/step-000000009").exists())

    def test_embeddings_that_do_not_fit_the_job_are_reported_in_one_line(self):
        data = self.write()
        for keys, words in ((dict(network="r50", embedding_size=DIMENSION), ["network", "\"none\""]),
                            (dict(rec=str(self.data)), ["network", "has images"]),
                            (dict(embedding_size=32), ["embedding_size", "found 24 numbers"]),
                            (dict(feature_size=32, embedding_size=8), ["feature_size", "found 24 numbers"]),
                            (dict(val_targets=["x"]), ["val_targets", "cannot embed images"]),
                            (dict(image_size=112), ["image_size", "reads no images"]),
                            (dict(augment={"blur": 0.1}), ["augment", "remove this key"])):
            done = self.train(1, self.embeddings_job("bad", **keys))
            self.assert_one_line(done, *words)
        for verb in ("pack", "shuffle", "split", "unpack"):
            done = run(BIN / "pfcctl", "data", verb, data, "--out", self.folder / "made")
            self.assert_one_line(done, "embeddings", f"pfcctl data {verb} is for images")

    def test_pfcctl_inspects_plans_checks_and_stages_embeddings(self):
        data = self.write()
        info = run(BIN / "pfcctl", "data", "info", data)
        self.assertIn(f"embeddings of {DIMENSION} numbers, float32", info.stdout, info.stderr)
        self.assertIn("images per class", info.stdout)
        self.assertEqual(run(BIN / "pfcctl", "data", "validate", data).returncode, 0)
        job = self.embeddings_job("out")
        plan = self.succeeded(run(BIN / "pfcctl", "plan", "--config", job, "--workers", 2))
        self.assertIn(f"none, {CLASSES} classes", plan.stdout)
        self.assertNotIn("backbone", plan.stdout)
        staged = run(BIN / "pfcctl", "data", "stage", data, "--in", self.folder)
        self.assertEqual(run(BIN / "pfcctl", "data", "validate", staged.stdout.strip()).returncode, 0)

    def test_a_check_times_a_step_of_embeddings(self):
        self.write()
        checked = self.train(2, self.embeddings_job("out"), "--check")
        self.assertNotIn("all-reduce of gradients", checked.stdout)
        self.assertIn("all-gather of embeddings", checked.stdout, checked.stdout + checked.stderr)


class SeveralRecordFiles(JobTest):
    def test_several_rec_files_train_like_one(self):
        """All parts share one range of labels, unlike several data sets."""
        parts = self.folder / "parts"
        parts.mkdir()
        images = list(records_of(self.data / "train.rec"))
        for part in range(3):
            lines, rec = "", b""
            for key, (label, image) in enumerate(images[part * 30:(part + 1) * 30]):
                payload = struct.pack("<IfQQ", 0, label, key, 0) + image
                lines += f"{key}\t{len(rec)}\n"
                rec += struct.pack("<II", 0xced7230a, len(payload)) + payload + bytes(-len(payload) % 4)
            (parts / f"train-{part:05d}.rec").write_bytes(rec)
            (parts / f"train-{part:05d}.idx").write_text(lines)
        shutil.copy(self.data / "property", parts)
        losses = []
        for name, rec in (("whole", self.data), ("folder", parts), ("pattern", parts / "train-{00000..00002}.rec")):
            self.finished(1, self.job(f"{name}.json", rec=str(rec), max_steps=4,
                                      output=str(self.folder / name)))
            losses.append(self.of_steps("loss", name))
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])


if __name__ == "__main__":
    unittest.main()
