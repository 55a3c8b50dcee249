"""A worker that cannot start more threads reports that in one line and exits."""

import os
import unittest

from support import BIN, JobTest, run


@unittest.skipUnless(os.geteuid() == 0, "only root can become a user without other processes")
class Processes(JobTest):
    def test_a_worker_reports_any_limit_of_threads_without_a_crash(self):
        job = self.job(max_steps=1, num_workers=4)
        for path in (self.shared, self.folder):
            path.chmod(0o777)
        codes = set()
        for limit in range(1, 12):
            done = run("prlimit", f"--nproc={limit}", "setpriv", f"--reuid={62000 + limit}", "--regid=65534",
                       "--clear-groups", BIN / "pfc-worker", "--config", job, "--set",
                       f"output={self.folder}/out-{limit}", env={**self.environment, "OMP_NUM_THREADS": "2"})
            with self.subTest(limit=limit, stderr=done.stderr):
                self.assertGreaterEqual(done.returncode, 0, "ended by a signal")
                self.assertNotIn("terminate called", done.stderr)
                if done.returncode != 0:
                    self.assertIn("Resource temporarily unavailable", done.stderr)
            codes.add(done.returncode == 0)
        self.assertEqual(codes, {True, False}, "some limits are too low, and some are not")


if __name__ == "__main__":
    unittest.main()
