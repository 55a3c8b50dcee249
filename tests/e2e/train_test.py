"""Training jobs of two workers, from the data to the model."""

import json
import re
import unittest

from support import BIN, LIMIT, JobTest, run

LINE = re.compile(
    r"Training: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}-Speed [\d.]+ samples/sec   Loss [\d.]+   "
    r"LearningRate [\d.]+   Epoch: \d+   Global Step: \d+   Required: \d+ (hour|minute|second)s?$")


class Train(JobTest):
    def test_two_workers_leave_model_log_metrics_and_checkpoint(self):
        job = self.job(max_steps=3, val_targets=["val"])
        done = self.finished(2, job)
        out = self.folder / "out"
        log = (out / "training.log").read_text().splitlines()
        self.assertEqual(len([line for line in log if LINE.match(line)]), 3, "\n".join(log))
        self.assertTrue(any("Accuracy-Flip" in line for line in log))
        self.assertIn("Global Step: 3", done.stdout, "rank 0's log reaches the terminal")
        steps = [m for m in self.metrics() if "loss" in m]
        self.assertEqual([m["step"] for m in steps], [1, 2, 3])
        for key in ("data_wait_seconds", "samples_per_second", "phases", "memory_bytes"):
            self.assertIn(key, steps[0])
        self.assertTrue(any(m["reduce_overlapped_seconds"] > 0 for m in steps))
        self.assertEqual(steps[0]["resident_bytes"] > 10_000_000, "gpu_memory_bytes" not in steps[0])
        self.assertTrue((out / "backbone.safetensors").stat().st_size > 1_000_000)
        manifest = json.loads((out / "step-000000003" / "manifest.json").read_text())
        self.assertEqual(manifest["world_size"], 2)
        self.assertEqual([p.name for p in out.glob("*tmp*")], [], "incomplete files were left")
        self.check_what_every_communicator_sent(steps[-1])

    def check_what_every_communicator_sent(self, third_step):
        sent = third_step["comm_bytes"]
        # Each of two workers sends half of its gradients and then half of the sums.
        model = (self.folder / "out" / "backbone.safetensors").stat().st_size
        self.assertAlmostEqual(sent["gradients"] / (3 * model), 1, delta=0.1)
        # In each step: the embeddings [4, 64]; 24 bytes of statistics for each of the other worker's 4 samples, and
        # 24 bytes of merged statistics for each of its own 4 samples; half of the gradients of 8 embeddings. Once, for
        # a histogram: half of 8 cosines and half of their sums.
        self.assertEqual(sent["step"], 3 * (4 * 4 * 64 + 8 * 24 + 4 * 4 * 64) + 8 * 4)
        # 4 labels and 3 signals of 8 bytes; prefetched batches count too.
        self.assertGreaterEqual(sent["inputs"], 3 * 7 * 8)
        self.assertEqual(third_step["comm_calls"]["step"], 4 * 3 + 1,
                         "four collectives a step, and one for the histograms of the first step")

    def test_a_job_of_one_step_has_the_full_learning_rate(self):
        self.finished(2, self.job(batch_size=40, num_epoch=1))  # all 80 images in one batch
        self.assertEqual(self.of_steps("lr"), [0.02])

    def test_evaluations_and_checkpoints_are_events_and_belong_to_no_step(self):
        done = self.finished(2, self.job(max_steps=4, val_targets=["val"], verbose=2, save_every_steps=2))
        events = self.metrics()
        kinds = [m["kind"] for m in events]
        self.assertEqual((kinds[0], kinds[-1]), ("start", "end"))
        self.assertEqual([m["step"] for m in events if m["kind"] == "evaluation"], [2, 4])
        stages = [(m["step"], m["stage"]) for m in events if m["kind"] == "checkpoint"]
        self.assertEqual(stages, [(2, "begun"), (2, "published"), (4, "begun"), (4, "published")])
        for step in (m for m in events if m["kind"] == "step"):
            self.assertLessEqual(sum(step["phases"].values()), step["step_seconds"])
            self.assertNotIn("evaluate", step["phases"])
            self.assertNotIn("checkpoint", step["phases"])
        spent = events[-1]["phase_seconds"]
        evaluations = sum(m["seconds"] for m in events if m["kind"] == "evaluation")
        self.assertGreaterEqual(spent["evaluate"], evaluations)
        self.assertGreaterEqual(spent["checkpoint"],
                                sum(m["seconds"] for m in events if m["kind"] == "checkpoint"))
        self.assertLessEqual(sum(spent.values()), events[-1]["seconds"])
        self.assertIn(" evaluate ", done.stdout.split("where the time went:")[1])

    def test_phase_metrics_and_status_are_available_during_training(self):
        # Large batches, so that the phases of a step are much longer than the gaps between them.
        process = self.start(2, self.job(num_epoch=10_000, batch_size=16))
        try:
            lines = self.read_until(process, "Global Step: 3")
            port = self.http_port(lines)
            self.check_metrics_and_status(port)
            seen = []
            for _ in range(30):
                status = json.loads(self.page(port, "/status.json"))
                seen += [w["phase"] for w in status["workers"]]
                self.read_until(process, "Global Step")
            self.assertLess(seen.count("between phases"), len(seen) / 5, "the gaps are short")
            self.assertIn("backward", seen, "the longest phase of a step")
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT)

    def check_metrics_and_status(self, port):
        text = self.page(port, "/metrics")
        for name in ("pfc_job_step", "pfc_job_loss", "pfc_job_learning_rate",
                     "pfc_worker_up{", "pfc_worker_samples_total{",
                     "pfc_worker_resident_memory_bytes{", "pfc_worker_phase_duration_seconds_bucket{",
                     "pfc_worker_data_wait_seconds_total",
                     'communicator="gradients"'):
            self.assertIn(name, text)
        self.assertEqual(self.page(port, "/healthz"), "ok\n")
        status = self.succeeded(self.pfcctl("status", "--json"))
        self.assertEqual(len(json.loads(status.stdout)["workers"]), 2)

    def test_a_stop_does_not_wait_for_the_end_of_a_long_step(self):
        # 10 micro-batches per epoch, so the job's only step goes through the data 500 times.
        process = self.start(2, self.job(gradient_acc=5000, num_epoch=500), until="weights from seed")
        rest = self.stopped(process)
        self.assertNotIn("Global Step", rest)
        self.assertEqual(list((self.folder / "out").glob("step-*")), [])

    def test_a_job_also_leaves_its_model_in_other_formats(self):
        out = self.folder / "out"
        (out / "model.pt").mkdir(parents=True)  # so this file cannot be written
        done = self.finished(2, self.job(max_steps=3, export=["onnx", "pt"]))
        self.assertIn(f"{out}/model.pt was not exported: ", done.stdout + done.stderr)
        self.assertTrue((out / "step-000000003").is_dir())
        self.succeeded(run(BIN / "pfcctl", "export", "pt", "--model", out / "backbone.onnx", "--output", out / "again.pt",
                           env=self.environment))

    def test_a_job_that_is_stopped_leaves_its_model_in_other_formats(self):
        process = self.start(1, self.job(num_epoch=500, frequent=1, export=["onnx", "pt"]), until="Global Step: 2 ")
        rest = self.stopped(process)
        for name in ("backbone.safetensors", "backbone.onnx", "model.pt"):
            self.assertTrue((self.folder / "out" / name).is_file(), name + rest)

    def test_a_worker_alone_needs_no_coordinator(self):
        done = self.succeeded(run(BIN / "pfc-worker", "--config", self.job(max_steps=2), env=self.environment))
        self.assertIn("Global Step: 2", done.stdout)
        self.assertTrue((self.folder / "out" / "backbone.safetensors").exists())

    def test_two_workers_have_the_losses_of_one_worker_with_twice_the_batch(self):
        # With sync_bn both compute the same function. The first loss differs only by summation order; later steps of
        # a deep network amplify that (as do one or two threads of one worker).
        common = dict(max_steps=3, sync_bn=True, augment=True, lr=0.01)
        self.train(2, self.job("a.json", batch_size=4, output=str(self.folder / "a"), **common))
        self.train(1, self.job("b.json", batch_size=8, output=str(self.folder / "b"), **common))
        a = self.of_steps("loss", "a")
        b = self.of_steps("loss", "b")
        self.assertEqual(len(a), 3)
        for one, two, bound in zip(a, b, (1e-5, 2e-2, 2e-2)):
            self.assertLess(abs(one - two) / abs(one), bound)


if __name__ == "__main__":
    unittest.main()
