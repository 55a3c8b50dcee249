"""A small sample of scripts/soak.sh: the job overcomes a few faults of each kind that hosts have."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

from network import may_make_namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 1500


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Soak(unittest.TestCase):
    def test_a_job_overcomes_some_random_faults(self):
        with tempfile.TemporaryDirectory(prefix="pfc-e2e-") as folder:
            done = subprocess.run([ROOT / "scripts/soak.sh", "--faults", "6", "--interval", "4", "--hosts", "2", "--workers",
                                   "1", "--least-steps", "30", "--hang", "300", "--seed", "2", "--folder", folder],
                                  env=os.environ, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("hangs (no new step for 300 s): 0", done.stdout)
        self.assertTrue(re.search(r"^all +6 +6 ", done.stdout, re.MULTILINE), done.stdout)
        self.assertIn("of that between two seeds", done.stdout)


if __name__ == "__main__":
    unittest.main()
