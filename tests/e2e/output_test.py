"""The output folder of a job: only one job uses it at a time, and nothing in it is lost."""

import json
import os
import resource
import shutil
import struct
import unittest

from support import BIN, JobTest, digest, run


class Output(JobTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def checkpoints(self):
        return sorted(p.name for p in self.out.glob("step-*"))

    def assert_saved(self, done, step):
        """Asserts that the failed job has left a complete checkpoint of `step`, and the model."""
        self.assert_one_line(done, f"the state after step {step} is in {self.out}/step-{step:09d}")
        manifest = json.loads((self.out / f"step-{step:09d}" / "manifest.json").read_text())
        self.assertEqual(manifest["step"], step)
        self.assertTrue((self.out / "backbone.safetensors").exists())
        self.assertEqual(list(self.out.glob(".step-*")), [])


class TwoJobs(Output):
    def test_a_second_job_is_refused_and_the_first_one_continues(self):
        first = self.start(2, self.job(num_epoch=10_000), until="Global Step: 2")
        # The second job waits half of --collective-timeout for the output folder.
        second = self.train(2, self.job("second.json", resume=True), "--collective-timeout", "6s")
        self.assert_one_line(second, "ranks 0-1: ", str(self.out), "is in use by job ", "pid ", code=2)
        self.stopped(first)
        self.assertEqual(len(self.checkpoints()), 1)

    def test_a_restarted_job_waits_for_the_workers_of_its_killed_coordinator(self):
        job = self.job(num_epoch=10_000)
        first = self.start(2, job, until="Global Step: 2")
        first.kill()
        first.wait()
        self.finished(2, job, "--set", "resume=true", "--set", "max_steps=3")
        first.stdout.close()
        self.wait_until_all_have_ended()
        self.assertEqual(list(self.out.glob(".step-*")), [])
        jobs = {json.loads(path.read_text())["job_id"] for path in self.out.glob("step-*/manifest.json")}
        self.assertTrue(jobs)


class KeptOutput(Output):
    def test_a_fresh_start_keeps_the_log_and_the_metrics_of_an_earlier_one(self):
        job = self.job(max_steps=2)
        self.finished(1, job)
        for checkpoint in self.checkpoints():
            shutil.rmtree(self.out / checkpoint)
        before = [(self.out / name).read_text() for name in ("training.log", "metrics.jsonl")]
        done = self.finished(1, job, "--set", "resume=true")
        kept = [(self.out / name).read_text() for name in ("training.log.old-1", "metrics.jsonl.old-1")]
        self.assertEqual(kept, before)
        self.assertIn("an earlier run's files are kept: training.log.old-1", done.stdout)
        self.assertEqual(self.of_steps("step"), [1, 2])

    def test_resuming_a_complete_job_reports_that_no_step_is_left(self):
        job = self.job(max_steps=2)
        self.finished(2, job)
        again = self.finished(2, job, "--set", "resume=true")
        self.assertIn("(step 2, saved by 2 workers): nothing is left to train; to continue", again.stdout)
        self.assertIn("nothing was left to train; the model is in", again.stdout)
        self.assertNotIn("next is step", again.stdout)
        fewer = self.finished(1, job, "--set", "resume=true")
        self.assertIn("(step 2, saved by 2 workers): nothing is left to train; to continue", fewer.stdout)

    def test_an_edited_manifest_is_ignored(self):
        job = self.job(max_steps=2, save_every_steps=1)
        self.finished(1, job)
        path = self.out / "step-000000002" / "manifest.json"
        manifest = json.loads(path.read_text())
        path.write_text(json.dumps({**manifest, "step": 10**12}))
        done = self.finished(1, job, "--set", "resume=true")
        self.assertIn("step-000000002/manifest.json: sha256 of its other keys is ", done.stderr)
        self.assertIn("next is step 2", done.stdout)

    def test_a_link_to_itself_does_not_hide_a_complete_checkpoint(self):
        job = self.job(max_steps=2)
        self.finished(1, job)
        (self.out / "step-000000009").symlink_to("step-000000009")
        with open(self.out / "metrics.jsonl", "a") as metrics:
            metrics.write('{"images_seen": null}\n')
        done = self.finished(1, job, "--set", "resume=true", "--set", "max_steps=3")
        self.assertIn("step-000000009", done.stderr)
        self.assertIn("metrics.jsonl: line ", done.stderr)
        self.assertIn("next is step 3", done.stdout)
        self.assertTrue((self.out / "step-000000009").is_symlink())


class SavedAfterAFailure(Output):
    def data_with_a_bad_label(self, image):
        data = self.copy_of_data()
        raw = bytearray((data / "train.rec").read_bytes())
        offsets = dict(line.split("\t") for line in (data / "train.idx").read_text().splitlines())
        at = int(offsets[str(image)])  # the label follows the RecordIO header (8 bytes) and the flag (4)
        raw[at + 12:at + 16] = struct.pack("<f", 12345.0)
        (data / "train.rec").write_bytes(raw)
        return str(data)

    def test_a_bad_label_in_the_middle_of_an_epoch_leaves_a_checkpoint(self):
        # With 8 images per step, image 41 is the first of step 6.
        done = self.train(2, self.job(rec=self.data_with_a_bad_label(41), shuffle=False))
        self.assert_one_line(done, "found label 12345", code=2)
        self.assert_saved(done, 5)
        last = self.metrics(self.out)[-1]
        self.assertEqual((last["kind"], last["reason"]), ("end", "failed"))

    def test_a_bad_label_in_the_middle_of_a_step_leaves_the_state_of_the_step_before(self):
        # Image 46 is in the second micro-batch of step 6.
        keys = dict(shuffle=False, batch_size=2, gradient_acc=2)
        self.finished(2, self.job(**keys, max_steps=5, output=str(self.folder / "whole")))
        done = self.train(2, self.job(**keys, rec=self.data_with_a_bad_label(46)))
        self.assert_saved(done, 5)
        for path in (self.out / "step-000000005").glob("*.safetensors"):
            self.assertEqual(digest(path), digest(self.folder / "whole/step-000000005" / path.name), path)

    def test_data_that_are_truncated_during_training_leave_a_checkpoint(self):
        data = self.copy_of_data()
        process = self.start(2, self.job(rec=str(data), num_epoch=10_000), until="Global Step: 2")
        os.truncate(data / "train.rec", 20_000)
        output = self.ended(process, 2)
        self.assertIn("the state after step ", output.splitlines()[-1])
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertTrue((self.out / "backbone.safetensors").exists())

    def test_a_job_whose_output_folder_is_removed_ends_and_leaves_a_checkpoint(self):
        process = self.start(2, self.job(num_epoch=10_000), until="Global Step: 2")
        shutil.rmtree(self.out)
        output = self.ended(process, 2)
        last = output.splitlines()[-1]
        self.assertIn(f"output: {self.out} was removed or replaced", last)
        self.assertIn("the state after step ", last)
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertEqual(self.processes(), [])

    def test_a_file_size_limit_is_reported_in_one_line_and_leaves_nothing(self):
        limit = 4 << 20

        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = run(BIN / "pfc-worker", "--config", self.job(max_steps=2), env=self.environment,
                   preexec_fn=limited)
        self.assert_one_line(done, "File too large: the limit is 4.00 MiB for a file (ulimit -f)", code=2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(self.checkpoints() + list(self.out.glob(".step-*")), [])


if __name__ == "__main__":
    unittest.main()
