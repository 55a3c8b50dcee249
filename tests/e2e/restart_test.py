"""A job that resumes after a failure: surviving processes, repeated steps, and reports."""

import json
import os
import signal
import unittest

from support import JobTest, digest


class Restart(JobTest):
    KEYS = dict(num_epoch=12, sample_rate=0.5)  # 72 steps with three workers, so that no job ends before its fault

    def end_of(self, process):
        """Waits until the job ends with exit code 0. Returns its output."""
        output = self.ended(process)
        self.assertEqual(self.processes(), [])
        return output

    def whole(self):
        """Returns the output of three workers without a fault. All tests share it."""
        output = self.shared / "whole"
        if not output.exists():
            begun = self.shared / "whole.begun"
            self.finished(3, self.job("whole.json", **self.KEYS, output=str(begun)))
            begun.rename(output)
        return output

    def losses(self, output):
        """Returns {step: loss}; for a repeated step, the last loss."""
        lines = (output / "metrics.jsonl").read_text().splitlines()
        return {m["step"]: m["loss"] for m in map(json.loads, lines) if m["kind"] == "step"}

    def assert_same_bits(self, whole, out):
        self.assertEqual(self.losses(out), self.losses(whole))
        centres = [path.relative_to(whole) for path in whole.glob("step-*/centres-*")]
        self.assertTrue(centres)
        for file in ("backbone.safetensors", *centres):
            self.assertEqual(digest(out / file), digest(whole / file), file)

    def loses(self, process, rank, how, step, line):
        """Loses one of three workers after `step`. Returns the line that says where the job resumed."""
        self.read_until(process, f"Global Step: {step} ")
        before = self.workers()
        os.kill(before[rank], how)
        found = self.read_until(process, line)[-1]
        after = self.workers()
        self.assertNotEqual(after[rank], before[rank])
        for other in {0, 1, 2} - {rank}:
            self.assertEqual(after[other], before[other], "a survivor keeps its process")
        return found

    def test_a_job_that_loses_rank_1_and_then_rank_0_gives_the_same_bits(self):
        whole = self.whole()
        process = self.start(3, self.job(**self.KEYS, save_every_steps=2), "--max-restarts", 2)
        self.loses(process, 1, signal.SIGKILL, 5, "resumed from")
        self.loses(process, 0, signal.SIGKILL, 15, "resumed from")
        self.end_of(process)
        self.assert_same_bits(whole, self.folder / "out")

    def test_a_worker_that_hangs_is_found_by_its_peers_and_replaced(self):
        whole = self.whole()
        process = self.start(3, self.job(**self.KEYS, save_every_steps=2), "--max-restarts", 1,
                             "--collective-timeout", "5s")
        self.loses(process, 2, signal.SIGSTOP, 5, "resumed from")
        self.end_of(process)
        self.assert_same_bits(whole, self.folder / "out")

    def test_without_a_checkpoint_a_job_continues_from_its_workers_memory(self):
        whole, out = self.whole(), self.folder / "out"
        process = self.start(3, self.job(**self.KEYS, replicate=True, snapshot_seconds=0.01), "--max-restarts", 2)
        self.read_until(process, "Global Step: 4 ")
        self.assertEqual(list(out.glob("step-*")), [], "nothing is on disk")
        for rank, step in ((1, 8), (0, 18)):  # rank 0 also writes the logs
            line = self.loses(process, rank, signal.SIGKILL, step, "continued from the copies in "
                                                                   "memory of step")
            self.assertIn("2 of 3 parts from their own worker, 1 from the neighbour", line)
        self.assertNotIn("training begins at step 1", self.end_of(process))
        self.assert_same_bits(whole, out)

    def test_without_a_checkpoint_training_begins_again(self):
        process = self.start(2, self.job(num_epoch=20), "--max-restarts", 1, until="Global Step: 2 ")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.read_until(process, "training begins at step 1")
        self.end_of(process)

    def test_a_first_failure_is_in_status_and_metrics_and_a_second_one_ends_the_job(self):
        process = self.start(2, self.job(num_epoch=10_000), "--max-restarts", 1)
        lines = self.read_until(process, "Global Step: 2 ")
        port = self.http_port(lines)
        os.kill(self.workers()[1], signal.SIGKILL)
        self.read_until(process, "training begins at step 1")
        self.read_until(process, "Global Step: 2 ")
        status = json.loads(self.page(port, "/status.json"))
        self.assertEqual((status["generation"], status["restarts"], status["max_restarts"]), (2, 1, 1))
        self.assertIn("SIGKILL", status["last_restart"])
        self.assertIn('pfc_job_restarts_total{cause="crash"} 1', self.page(port, "/metrics"))
        os.kill(self.workers()[0], signal.SIGKILL)
        output = self.ended(process, 1)
        last = output.strip().splitlines()[-1]
        for word in ("rank 0", "SIGKILL", "after 1 restart"):
            self.assertIn(word, last)
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    unittest.main()
