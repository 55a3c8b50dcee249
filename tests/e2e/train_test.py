"""One training job from data to model, with two workers."""

import json
import re
import unittest
import urllib.request

from support import BIN, JobTest, run

LINE = re.compile(
    r"Training: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}-Speed [\d.]+ samples/sec   Loss [\d.]+   "
    r"LearningRate [\d.]+   Epoch: \d+   Global Step: \d+   Required: \d+ (hour|minute|second)s?$")


class Train(JobTest):
    def test_two_workers_leave_model_log_metrics_and_checkpoint(self):
        job = self.job(max_steps=6, val_targets=["val"])
        done = self.train(2, job)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = self.folder / "out"
        log = (out / "training.log").read_text().splitlines()
        self.assertEqual(len([line for line in log if LINE.match(line)]), 6, "\n".join(log))
        self.assertTrue(any("Accuracy-Flip" in line for line in log))
        self.assertIn("Global Step: 6", done.stdout, "rank 0's log reaches the terminal")
        steps = [m for m in self.metrics() if "loss" in m]
        self.assertEqual([m["step"] for m in steps], list(range(1, 7)))
        for key in ("data_wait_seconds", "samples_per_second", "phases", "memory_bytes"):
            self.assertIn(key, steps[0])
        self.assertTrue(any(m["reduce_overlapped_seconds"] > 0 for m in steps))
        self.assertEqual(steps[-1]["comm_calls"], 3 * 6, "three collectives a step")
        self.assertTrue((out / "backbone.safetensors").stat().st_size > 1_000_000)
        manifest = json.loads((out / "step-000000006" / "manifest.json").read_text())
        self.assertEqual(manifest["world_size"], 2)
        self.assertEqual([p.name for p in out.glob("*tmp*")], [], "nothing half-written")

    def test_a_worker_alone_needs_no_coordinator(self):
        done = run(BIN / "pfc-worker", "--config", self.job(max_steps=2), env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Global Step: 2", done.stdout)
        self.assertTrue((self.folder / "out" / "backbone.safetensors").exists())

    def test_two_workers_and_one_with_twice_the_batch_see_the_same_losses(self):
        # sync_bn makes them the same function. The first loss differs by summation order only; a
        # deep network's next steps amplify that (one worker on one or two threads differs as much).
        common = dict(max_steps=3, sync_bn=True, augment=True)
        self.train(2, self.job("a.json", batch_size=4, output=str(self.folder / "a"), **common))
        self.train(1, self.job("b.json", batch_size=8, output=str(self.folder / "b"), **common))
        a = [m["loss"] for m in self.metrics(self.folder / "a") if "loss" in m]
        b = [m["loss"] for m in self.metrics(self.folder / "b") if "loss" in m]
        self.assertEqual(len(a), 3)
        for one, two, bound in zip(a, b, (1e-5, 2e-2, 2e-2)):
            self.assertLess(abs(one - two) / abs(one), bound)

    def test_metrics_and_status_are_there_while_it_trains(self):
        process = self.start(2, self.job(num_epoch=50))
        try:
            lines = self.read_until(process, "Global Step: 3")
            port = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(lines)).group(1)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                text = page.read().decode()
            for name in ("pfc_job_step", "pfc_job_loss", "pfc_job_samples_per_second",
                         "pfc_worker_up{", "pfc_worker_samples_per_second{",
                         "pfc_worker_device_memory_used_bytes{", "pfc_worker_phase_seconds_bucket{",
                         "pfc_worker_data_wait_seconds_total"):
                self.assertIn(name, text)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as page:
                self.assertEqual(page.status, 200)
            status = run(BIN / "pfcctl", "status", "--state-dir", self.folder / "state", "--json",
                         env=self.environment)
            self.assertEqual(status.returncode, 0, status.stderr)
            self.assertEqual(len(json.loads(status.stdout)["workers"]), 2)
        finally:
            process.terminate()
            process.communicate(timeout=120)


if __name__ == "__main__":
    unittest.main()
