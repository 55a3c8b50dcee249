"""The event files of real jobs, read by an independent reader (event_files.py)."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "reference"))

import event_files
import image_records
import safetensors_io
from support import BIN, LIMIT, JobTest, run

SINGLE = 1e-6  # relative error of a number rounded to float32


class TensorBoard(JobTest):
    @property
    def board(self):
        return self.folder / "out" / "tensorboard"

    def alone(self, *more, **keys):
        """Runs a job of one worker without a coordinator."""
        return self.succeeded(run(BIN / "pfc-worker", "--config", self.job(**keys), *more, env=self.environment))

    def assert_close(self, found, expected, what):
        self.assertLessEqual(abs(found - expected), SINGLE * max(abs(expected), 1e-30), what)

    def test_scalars_are_those_of_metrics_jsonl(self):
        self.alone(max_steps=10, frequent=3, verbose=5, val_targets=["val"])
        found = event_files.scalars(self.board)
        steps = {m["step"]: m for m in self.metrics() if m["kind"] == "step"}
        ends, begin = [3, 6, 9, 10], 0
        self.assertEqual(sorted(step for tag, step in found if tag == "train/loss"), ends)
        for end in ends:
            window = [steps[step] for step in range(begin + 1, end + 1)]
            begin = end

            def mean(get):
                return sum(get(m) for m in window) / len(window)

            last = window[-1]
            expected = {"train/loss": mean(lambda m: m["loss"]), "train/learning_rate": last["lr"],
                        "train/gradient_norm": mean(lambda m: m["gradient_norm"]),
                        "train/epoch": last["epoch"],
                        "speed/step_seconds": mean(lambda m: m["step_seconds"]),
                        "speed/data_wait_seconds": mean(lambda m: m["data_wait_seconds"])}
            for phase in last["phases"]:
                expected[f"phases/{phase}"] = mean(lambda m: m["phases"][phase])
            for tag, number in expected.items():
                self.assert_close(found[tag, end], number, f"{tag} at {end}")
            logged = [line for line in (self.folder / "out/training.log").read_text().splitlines()
                      if f"Global Step: {end} " in line]
            speed = float(logged[0].split("Speed ")[1].split()[0])
            self.assertAlmostEqual(found["speed/samples_per_second", end], speed, delta=0.006)
        evaluations = [m for m in self.metrics() if m["kind"] == "evaluation"]
        self.assertEqual([m["step"] for m in evaluations], [5, 10])
        for m in evaluations:
            for tag, key in (("verification/val", "accuracy"),
                             ("verification_deviation/val", "accuracy_deviation"),
                             ("verification_threshold/val", "threshold")):
                self.assert_close(found[tag, m["step"]], m[key], tag)

    def test_histograms_and_images_are_what_pytorch_computes_of_the_same_batch(self):
        # With a learning rate of 0, the final weights are those of step 1.
        batch = 12
        self.alone(batch_size=batch, max_steps=1, lr=0, shuffle=False, augment=False)
        found = event_files.values(self.board)
        images, labels = image_records.read(self.data)

        pixels = found["batch/images", 1].tensor.string_val
        self.assertEqual([int(text) for text in pixels[:2]], [self.SIZE, self.SIZE])
        self.assertEqual(len(pixels), 2 + 8)
        for i, file in enumerate(pixels[2:]):
            error = image_records.decode(file).astype(float) - images[i]
            self.assertLess(np.sqrt(np.mean(error**2)), 4, f"image {i}")

        embeddings = self.embeddings(images[:batch])
        (centres,) = (self.folder / "out" / "step-000000001").glob("centres-*.safetensors")
        centres = safetensors_io.load(centres)["weight"].astype(float)[labels[:batch]]
        lengths = np.linalg.norm(embeddings, axis=1)
        cosines = np.sum(embeddings * centres, axis=1) / lengths / np.linalg.norm(centres, axis=1)
        for tag, expected in (("length", lengths), ("target_cosine", cosines)):
            mean = found[f"embeddings/{tag}_mean", 1].simple_value
            self.assertAlmostEqual(mean, expected.mean(), delta=1e-5 * max(1, abs(expected.mean())))
            rows = event_files.buckets(found[f"embeddings/{tag}", 1])
            self.assertEqual(sum(count for _, _, count in rows), batch)
            self.assertAlmostEqual(rows[0][0], expected.min(), delta=1e-4)
            self.assertAlmostEqual(rows[-1][1], expected.max(), delta=1e-4)
            near = 1e-4  # a value this close to an edge may be on either side
            for left, right, count in rows:
                surely = np.sum((expected > left + near) & (expected < right - near))
                perhaps = np.sum((expected > left - near) & (expected < right + near))
                self.assertTrue(surely <= count <= perhaps, (tag, left, right, count))

    def embeddings(self, images):
        """Returns PyTorch's embeddings with the job's weights, in training mode: float64 [B, D]."""
        import torch
        from backbone_reference import make_backbone, normalised
        weights = safetensors_io.load(self.folder / "out" / "backbone.safetensors")
        network = make_backbone("mbf", 64, height=self.SIZE, width=self.SIZE).double()
        network.load_state_dict({name: torch.from_numpy(np.asarray(value))
                                 for name, value in weights.items()}, strict=False)
        with torch.no_grad():
            return network.train()(normalised(torch.from_numpy(np.array(images))).double()).numpy()

    def test_all_workers_of_a_job_are_in_the_histograms(self):
        self.finished(2, self.job(max_steps=2))
        found = event_files.values(self.board)
        for tag in ("embeddings/length", "embeddings/target_cosine"):
            self.assertEqual(sum(count for _, _, count in event_files.buckets(found[tag, 1])), 8)
        self.assertNotIn(("embeddings/length", 2), found)

    def test_images_are_written_as_the_network_gets_them(self):
        self.alone(batch_size=8, max_steps=1, shuffle=False)
        images, _ = image_records.read(self.data)
        mirrored = 0
        for i, file in enumerate(event_files.values(self.board)["batch/images", 1].tensor.string_val[2:]):
            seen = image_records.decode(file).astype(float)
            errors = [np.sqrt(np.mean((seen - image)**2)) for image in (images[i], images[i][:, ::-1])]
            self.assertLess(min(errors), 4)
            mirrored += errors[1] < errors[0]
        self.assertTrue(0 < mirrored < 8, mirrored)

    def test_no_event_files_are_written_if_the_key_is_false(self):
        self.alone("--set", "tensorboard=false", max_steps=1)
        self.assertFalse(self.board.exists())

    def test_a_killed_job_continues_without_repeated_points(self):
        job = self.job(max_steps=1000, num_epoch=100, save_every_steps=4, histograms_every_steps=2)
        process = subprocess.Popen([BIN / "pfc-worker", "--config", job], env=self.environment,
                                   stdout=subprocess.PIPE, text=True)
        self.read_until(process, "Global Step: 11 ")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LIMIT)
        (killed,) = event_files.files(self.board)
        with open(killed, "ab") as file:  # like a process killed while it wrote
            file.write(next(event_files.frames(killed.read_bytes()))[:5])
        self.succeeded(run(BIN / "pfc-worker", "--config", job, "--set", "resume=true", "--set", "max_steps=100",
                           env=self.environment))
        first, second = event_files.files(self.board)
        self.assertEqual(first, killed)
        found = event_files.values(self.board)  # fails on duplicate points
        steps = sorted(step for tag, step in found if tag == "train/loss")
        self.assertEqual(steps, list(range(1, 101)))
        self.assertEqual(sorted(step for tag, step in found if tag == "embeddings/length"),
                         [1, *range(2, 101, 2)])
        resumed = event_files.events(second)
        self.assertEqual(resumed[0].file_version, "brain.Event:2")
        start = event_files.event_class()().session_log.START
        self.assertEqual(resumed[1].session_log.status, start)
        begins = min(event.step for event in resumed[2:])
        self.assertEqual(resumed[1].step, begins)
        self.assertEqual(max(event.step for event in event_files.events(first)), begins - 1)

    def test_a_resume_with_another_batch_size_continues_the_same_curves(self):
        self.alone(max_steps=4, batch_size=8, save_every_steps=4, num_epoch=10)
        # 6 of the planned steps are left: 12 of half the size.
        self.alone("--set", "resume=true", max_steps=10, batch_size=4, num_epoch=10)
        self.assertEqual(sorted(step for tag, step in event_files.values(self.board) if tag == "train/loss"),
                         list(range(1, 17)))

    def test_a_new_job_keeps_the_files_of_an_earlier_one_under_another_name(self):
        self.alone(max_steps=2)
        for state in (self.folder / "out").glob("step-*"):  # without a checkpoint, a job starts from step 1
            shutil.rmtree(state)
        self.alone(max_steps=1)
        self.assertEqual(max(step for _, step in event_files.values(self.board)), 1)
        self.assertEqual(max(step for _, step in event_files.values(self.folder / "out/tensorboard.old-1")), 2)

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_a_full_disk_ends_the_job_of_all_workers_with_its_state_saved(self):
        self.board.mkdir(parents=True)
        mounted = run("mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", self.board)
        if mounted.returncode != 0:
            self.skipTest("no tmpfs can be mounted here: " + mounted.stderr.strip())
        try:
            done = self.train(2, self.job(max_steps=1000, batch_size=8, histograms_every_steps=1))
            (file,) = event_files.files(self.board)
        finally:
            run("umount", self.board)
        self.assert_one_line(done, f"{file}: cannot write: No space left on device (make room on its disk)",
                             "; the state after step ", "set \"resume\": true to continue from it")
        self.assertTrue(list((self.folder / "out").glob("step-*/manifest.json")))
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    unittest.main()
