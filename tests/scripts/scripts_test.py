"""Runs the scripts with a fake apt-get, cmake and other commands that record their arguments."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench/soak"))
import curves  # noqa: E402

SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))
NOTED = ["apt-get", "dpkg-query", "sudo", "cmake", "ctest", "cpack", "ninja", "g++", "clang-format",
         "clang-tidy-16", "nvcc"]


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.notes = self.folder / "notes"
        for name in NOTED:
            # As if nothing were installed: dpkg-query fails.
            self.stub(name, "exit 1" if name == "dpkg-query" else "exit 0")

    def stub(self, name, end):
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.notes}\n{end}\n')
        path.chmod(0o755)

    def run_script(self, name, *arguments):
        return subprocess.run([ROOT / "scripts" / name, *arguments], capture_output=True, text=True,
                              cwd=self.folder, timeout=30,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})

    def noted(self):
        return self.notes.read_text() if self.notes.exists() else ""

    def installed(self, *parts):
        """Returns the words of the apt-get install command."""
        done = self.run_script("setup.sh", *parts)
        self.assertEqual(done.returncode, 0, done.stderr)
        installs = [line.split() for line in self.noted().split("\n") if " install " in line]
        self.assertEqual(len(installs), 1, self.noted())
        return installs[0]


class HelpOfScripts(ScriptTest):
    def test_every_script_prints_its_usage_with_help_and_does_nothing_else(self):
        for script in SCRIPTS:
            if script.name in ("help.sh", "build_environment.sh"):  # sourced by the others
                continue
            for arguments in (["--help"], ["-h"], ["step", "--help"]):
                with self.subTest(script=script.name, arguments=arguments):
                    done = self.run_script(script.name, *arguments)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(script.name.removesuffix(".sh"), done.stdout)
                    self.assertEqual(self.noted(), "")


class SetupScript(ScriptTest):
    def test_installs_no_test_or_lint_package_for_training(self):
        words = self.installed()
        self.assertIn("libgrpc++-dev", words)
        for name in ("python3-torch", "libgtest-dev", "clang-format", "clang-tidy-16"):
            self.assertNotIn(name, words)

    def test_installs_each_part_by_itself(self):
        self.assertIn("clang-tidy-16", self.installed("lint"))
        self.notes.unlink()
        self.assertIn("python3-torch", self.installed("test"))
        self.notes.unlink()
        self.assertIn("libopenblas0-pthread", self.installed("bench"))
        self.notes.unlink()
        self.assertIn("chromium-driver", self.installed("browser"))

    def test_never_removes_a_package(self):
        words = self.installed("build", "test", "bench", "lint", "package")
        self.assertIn("--no-remove", words)
        self.assertFalse([word for word in words if word.startswith("libomp")])

    def test_says_that_apt_get_failed(self):
        self.stub("apt-get", "exit 100")
        done = self.run_script("setup.sh")
        self.assertNotEqual(done.returncode, 0)

    def test_does_not_reinstall_packages(self):
        self.stub("dpkg-query", "echo 'install ok installed'")
        done = self.run_script("setup.sh", "build", "test")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("apt-get", self.noted())

    def test_refuses_an_unknown_part(self):
        done = self.run_script("setup.sh", "bilud")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bilud", done.stderr)
        self.assertNotIn("apt-get", self.noted())


class TestScript(ScriptTest):
    def test_runs_each_test_in_one_preset_and_prints_the_expected_time(self):
        done = self.run_script("test.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        for command in ("cmake --build --preset cpu --target all", "ctest --preset cpu --parallel 4",
                        "cmake --build --preset asan --target unit_tests", "ctest --preset asan --parallel 2"):
            self.assertIn(command + "\n", self.noted())
        self.assertRegex(done.stdout, r"test: about \d+ minutes from here on")

    def test_fails_if_tests_fail_but_runs_the_other_preset(self):
        self.stub("ctest", 'case "$*" in *cpu*) exit 8;; esac')
        done = self.run_script("test.sh")
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("ctest --preset asan", self.noted())

    def test_builds_all_test_programs_of_a_preset_or_those_named(self):
        done = self.run_script("test.sh", "asan")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cmake --build --preset asan --target unit_tests\n", self.noted())
        self.notes.unlink()
        done = self.run_script("test.sh", "tsan", "--targets", "a_test,b_test", "-R", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cmake --build --preset tsan --target a_test b_test\n", self.noted())
        self.assertIn("ctest --preset tsan --parallel 2 -R a\n", self.noted())


class Goodput(unittest.TestCase):
    def test_is_zero_if_the_job_lost_more_images_than_it_trained(self):
        self.assertEqual(curves.good_rate(before=100, after=90, seconds=5), 0)
        self.assertEqual(curves.good_rate(before=100, after=150, seconds=5), 10)


if __name__ == "__main__":
    unittest.main()
