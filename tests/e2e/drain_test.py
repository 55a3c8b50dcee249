"""Drains a host: the job writes a checkpoint, ends, and resumes when it is started again."""

import os
import pathlib
import signal
import unittest

from support import JobTest


class Drain(JobTest):
    def agent(self):
        [pid] = [pid for pid in self.processes()
                 if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "pfc-agent"]
        return pid

    def trains_on_until(self, frees_the_host):
        """Returns the output of a long job from its first step on."""
        process = self.start(2, self.job(num_epoch=10_000, max_steps=1_000_000), until="Loss")
        frees_the_host()
        return self.ended(process, 5)

    def assert_it_goes_on(self):
        done = max(self.of_steps("step"))
        self.finished(2, self.job(num_epoch=10_000, max_steps=done + 2, resume=True))
        steps = self.of_steps("step")
        self.assertEqual(steps, list(range(1, done + 3)), "no step is lost or done twice")

    def test_sigterm_to_an_agent_ends_the_job_after_a_checkpoint(self):
        output = self.trains_on_until(lambda: os.kill(self.agent(), signal.SIGTERM))
        self.assertTrue(output.endswith("pfc-coordinator: job stopped: host localhost is leaving (SIGTERM)\n"), output)
        self.assert_it_goes_on()

    def test_pfcctl_drain_ends_the_job_after_a_checkpoint(self):
        def drain():
            done = self.succeeded(self.pfcctl("drain", "localhost"))
            self.assertIn("host localhost is being drained", done.stdout)
        output = self.trains_on_until(drain)
        self.assertTrue(output.endswith("job stopped: host localhost is leaving (pfcctl drain)\n"), output)
        self.assert_it_goes_on()

    def test_draining_an_unknown_host_is_an_error_that_names_it(self):
        def drain():
            wrong = self.pfcctl("drain", "elsewhere")
            self.assert_one_line(wrong, "unknown host elsewhere", "pfcctl status", code=2)
            os.kill(self.agent(), signal.SIGTERM)
        self.trains_on_until(drain)


if __name__ == "__main__":
    unittest.main()
