"""Checks that every script prints its usage with --help and does nothing else."""

import os
import subprocess
import unittest

import pages

# A script that uses one of these checks its arguments for --help first.
WORDS = ("scripts/help.sh", "gpu_acceptance.py")


class Scripts(unittest.TestCase):
    def test_help_prints_the_usage_and_does_nothing_else(self):
        scripts = [p for p in (pages.ROOT / "scripts").glob("*.sh") if os.access(p, os.X_OK)]
        self.assertTrue(scripts)
        for script in sorted(scripts):
            with self.subTest(script=script.name):
                # Otherwise a script would take --help for a folder or a preset and start.
                known = [word for word in WORDS if word in script.read_text()]
                self.assertTrue(known, f"{script.name} does not know --help")
                done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(script.name.removesuffix(".sh"), done.stdout)


if __name__ == "__main__":
    unittest.main()
