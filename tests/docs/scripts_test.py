"""Every script says what it does with --help, at once and without doing anything else."""

import pathlib
import subprocess
import unittest

import pages


class Scripts(unittest.TestCase):
    def test_help_tells_the_usage_and_does_nothing_else(self):
        for script in sorted((pages.ROOT / "scripts").glob("*.sh")):
            with self.subTest(script=script.name):
                # Without this a script would take --help for a folder or a preset, and begin.
                known = "--help" in script.read_text() or "gpu_acceptance.py" in script.read_text()
                self.assertTrue(known, f"{script.name} does not know --help")
                done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(script.name.removesuffix(".sh"), done.stdout)


if __name__ == "__main__":
    unittest.main()
