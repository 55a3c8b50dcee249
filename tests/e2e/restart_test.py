"""A job that goes on after a failure: who stays, what is trained again, and what it says."""

import json
import os
import re
import signal
import unittest

from support import LIMIT, JobTest, digest


class Restart(JobTest):
    KEYS = dict(num_epoch=3, save_every_steps=2, sample_rate=0.5)

    def trained(self, workers, job, *more):
        done = self.train(workers, job, *more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def end_of(self, process):
        """What was printed until the job had ended well."""
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(self.processes(), [])
        return output

    def whole(self, **keys):
        """The output of three workers of which none is lost; trained once for all tests."""
        name = "-".join(["whole", *map(str, keys.values())])
        output = self.shared / name
        if not output.exists():
            self.trained(3, self.job(**keys, output=str(output)))
        return output

    def losses(self, output):
        """{step: loss}; of a step that was trained twice, the last one."""
        lines = (output / "metrics.jsonl").read_text().splitlines()
        return {m["step"]: m["loss"] for m in map(json.loads, lines) if m["kind"] == "step"}

    def loses(self, rank, how, *more):
        """Trains with three workers, of which one is lost in mid job, beside a job that loses none."""
        whole, out = self.whole(**self.KEYS), self.folder / "out"
        process = self.start(3, self.job(**self.KEYS), "--max-restarts", 1, *more)
        self.read_until(process, "Global Step: 5")
        before = self.workers()
        os.kill(before[rank], how)
        self.read_until(process, "resumed from")
        after = self.workers()
        output = self.end_of(process)
        self.assertNotEqual(after[rank], before[rank])
        for other in {0, 1, 2} - {rank}:
            self.assertEqual(after[other], before[other], "a survivor keeps its process")
        self.assertEqual(self.losses(out), self.losses(whole))
        self.assertEqual(digest(out / "backbone.safetensors"), digest(whole / "backbone.safetensors"))
        return output

    def test_a_killed_worker_is_replaced_and_the_job_gives_the_same_bits(self):
        self.loses(1, signal.SIGKILL)

    def test_rank_zero_can_be_replaced_too(self):
        self.loses(0, signal.SIGKILL)

    def test_a_worker_that_hangs_is_found_by_its_peers_and_replaced(self):
        self.loses(2, signal.SIGSTOP, "--collective-timeout", "5s")

    def goes_on_from_memory(self, rank, *more):
        """Loses a worker of three, in a job that writes no checkpoint before its end."""
        keys = dict(num_epoch=8, sample_rate=0.5, replicate=True, snapshot_seconds=0.01)
        whole, out = self.whole(**keys), self.folder / "out"
        process = self.start(3, self.job(**keys), "--max-restarts", 1, *more)
        self.read_until(process, "Global Step: 10")
        self.assertEqual(list(out.glob("step-*")), [], "nothing is on disk")
        before = self.workers()
        os.kill(before[rank], signal.SIGKILL)
        line = self.read_until(process, "went on from the copies in memory of step")[-1]
        self.assertIn("2 of 3 parts from their own worker, 1 from the neighbour", line)
        after = self.workers()
        output = self.end_of(process)
        self.assertNotIn("training begins at step 1", output)
        for other in {0, 1, 2} - {rank}:
            self.assertEqual(after[other], before[other], "a survivor keeps its process")
        self.assertEqual(self.losses(out), self.losses(whole))
        centres = [path.relative_to(whole) for path in whole.glob("step-*/centres-*")]
        self.assertTrue(centres)
        for file in ("backbone.safetensors", *centres):
            self.assertEqual(digest(out / file), digest(whole / file))

    def test_without_a_checkpoint_a_job_goes_on_from_its_workers_memory(self):
        self.goes_on_from_memory(1)

    def test_rank_zero_comes_back_from_its_neighbour(self):
        self.goes_on_from_memory(0)

    def test_without_a_checkpoint_training_begins_again(self):
        process = self.start(2, self.job(num_epoch=2), "--max-restarts", 1)
        self.read_until(process, "Global Step: 2")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.read_until(process, "training begins at step 1")
        self.end_of(process)

    def test_two_failures_of_which_the_second_ends_the_job(self):
        process = self.start(2, self.job(num_epoch=100), "--max-restarts", 1)
        for rank, begun in ((1, 1), (0, 2)):
            self.read_until(process, "Global Step: 2")
            os.kill(self.workers()[rank], signal.SIGKILL)
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1, output)
        last = output.strip().splitlines()[-1]
        for word in ("rank 0", "SIGKILL", "after 1 restart"):
            self.assertIn(word, last)
        self.assertEqual(self.processes(), [])

    def test_status_and_metrics_say_that_and_why_it_was_restarted(self):
        process = self.start(2, self.job(num_epoch=1000), "--max-restarts", 3)
        lines = self.read_until(process, "Global Step: 2")
        port = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(lines)).group(1)
        os.kill(self.workers()[1], signal.SIGKILL)
        self.read_until(process, "Global Step: 2")
        status = json.loads(self.page(port, "/status.json"))
        self.assertEqual((status["generation"], status["restarts"], status["max_restarts"]), (2, 1, 3))
        self.assertIn("SIGKILL", status["last_restart"])
        self.assertIn('pfc_job_restarts_total{cause="crash"} 1', self.page(port, "/metrics"))
        process.terminate()
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 143)


if __name__ == "__main__":
    unittest.main()
