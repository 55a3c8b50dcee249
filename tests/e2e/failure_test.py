"""Output of a job in which a process fails or is stopped. No process is left running."""

import os
import signal
import time
import unittest

from support import LIMIT, JobTest


class Failure(JobTest):
    def end_of(self, process):
        output, _ = process.communicate(timeout=LIMIT)
        return output.strip().splitlines()

    def test_a_killed_worker_is_named_with_its_cause(self):
        process = self.start(2, self.job(num_epoch=10_000), until="Global Step: 2")
        os.kill(self.workers()[1], signal.SIGKILL)
        lines = self.end_of(process)
        self.assertNotEqual(process.returncode, 0)
        for word in ("rank 1", "localhost", "SIGKILL"):
            self.assertIn(word, lines[-1])
        self.assertEqual(self.processes(), [])

    def test_a_stop_ends_every_process_and_leaves_a_checkpoint(self):
        process = self.start(2, self.job(num_epoch=10_000), until="Global Step: 2")
        process.send_signal(signal.SIGINT)
        self.end_of(process)
        self.assertEqual(self.processes(), [])
        self.assertEqual(len(list((self.folder / "out").glob("step-*/manifest.json"))), 1)

    def test_workers_write_a_checkpoint_and_end_when_their_coordinator_is_killed(self):
        process = self.start(2, self.job(num_epoch=10_000), "--coordinator-grace", "1s", until="Global Step: 2")
        process.kill()
        process.communicate()
        self.wait_until_all_have_ended()
        self.assertEqual(len(list((self.folder / "out").glob("step-*/manifest.json"))), 1)

    def test_a_stuck_worker_is_named_after_the_collective_timeout(self):
        process = self.start(2, self.job(num_epoch=10_000), "--collective-timeout", "5s", until="Global Step: 2")
        stopped = time.monotonic()
        os.kill(self.workers()[1], signal.SIGSTOP)
        lines = self.end_of(process)
        self.assertNotEqual(process.returncode, 0)
        self.assertLess(time.monotonic() - stopped, 200)  # the default is 300 s
        for word in ("rank 1", "silent for"):
            self.assertIn(word, lines[-1])
        self.assertEqual(self.processes(), [])

    def test_a_coordinator_reports_its_suspension_and_the_job_continues(self):
        process = self.start(2, self.job(num_epoch=10_000), until="Global Step: 2")
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)  # the coordinator reports a suspension of 3 s or more
        process.send_signal(signal.SIGCONT)
        self.read_until(process, "the coordinator itself did not run for ")
        self.read_until(process, "Global Step")
        process.terminate()
        self.end_of(process)
        self.assertEqual(process.returncode, 143)

    def test_a_nan_loss_stops_every_rank_with_one_line(self):
        done = self.train(2, self.job(lr=1e30, num_epoch=100, clip_norm=0))
        self.assert_one_line(done, "ranks 0-1", "not finite at step", "learning rate")
        self.assertEqual(done.stderr.count("not finite at step"), 1, done.stderr)
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    unittest.main()
