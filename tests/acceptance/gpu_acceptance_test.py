"""The acceptance script where there is no GPU, and what it takes for having passed."""

import os
import pathlib
import subprocess
import tempfile
import types
import unittest

import gpu_acceptance
import gpus
import report
import results
from cases import PARTS, ROOT, Case, Plan

SCRIPT = ROOT / "scripts" / "gpu_acceptance.sh"


def run(*arguments):
    """Without a GPU, also on a machine that has one."""
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def case(name, script, limit=60, **more):
    return Case("tests", name, ["sh", "-c", script], limit, **more)


class WithoutAGpu(unittest.TestCase):
    def test_says_so_in_one_line_and_runs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            done = run("--only", "tests,step", "--work", pathlib.Path(folder) / "work", "--report",
                       page)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("no GPU", done.stderr)
        self.assertIn("Not run: tests, step", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_dry_run_prints_the_commands_of_every_part(self):
        done = run("--dry-run", "--python", "/bin/false")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({line.split()[0] for line in done.stdout.splitlines()}, set(PARTS))


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = results.Store(pathlib.Path(self.folder.name))

    def accept(self, *cases, minutes=1, again=False):
        """(exit code, {name: verdict})"""
        plan = types.SimpleNamespace(cases=lambda part: cases)
        options = types.SimpleNamespace(only=["tests"], minutes=minutes, again=again)
        done = gpu_acceptance.run_all(options, plan, self.store)
        return gpu_acceptance.verdict(done), {result.name: result.verdict for result in done}

    def test_one_that_fails_stops_no_other_and_decides_the_exit_code(self):
        code, verdicts = self.accept(case("a", "exit 7"), case("b", "true"))
        self.assertEqual(verdicts, {"a": "failed: exit code 7", "b": "passed"})
        self.assertEqual(code, gpu_acceptance.FAILED)

    def test_skipped_tests_and_no_tests_have_not_passed(self):
        _, verdicts = self.accept(
            case("skipped", "echo '[  PASSED  ] 3 tests.'; echo '[  SKIPPED ] 1 test.'", tests=True),
            case("none", "echo '[  PASSED  ] 0 tests.'", tests=True),
            case("passed", "echo '[  PASSED  ] 3 tests.'", tests=True))
        self.assertEqual(verdicts, {"skipped": "failed: some tests did not run",
                                    "none": "failed: no test ran", "passed": "passed"})

    def test_what_cannot_be_run_has_not_passed(self):
        code, verdicts = self.accept(case("tool", "true", missing="it is not installed"))
        self.assertEqual(verdicts, {"tool": "not run: it is not installed"})
        self.assertEqual(code, gpu_acceptance.NOT_ALL_RUN)

    def test_one_that_takes_too_long_is_ended_with_its_children(self):
        mark = pathlib.Path(self.folder.name) / "late"
        _, verdicts = self.accept(case("slow", f"(sleep 0.5; touch {mark}) & sleep 30", limit=0.1))
        self.assertEqual(verdicts, {"slow": "failed: not done after 0 s"})
        self.assertFalse(mark.exists())

    def test_the_next_call_goes_on_where_time_ran_out(self):
        count = pathlib.Path(self.folder.name) / "count"
        first, second = case("first", f"echo >> {count}"), case("second", "true")
        self.accept(first)
        self.assertEqual(self.accept(first, second, minutes=0.1)[0], gpu_acceptance.NOT_ALL_RUN)
        self.assertEqual(self.accept(first, second)[0], 0)
        self.assertEqual(len(count.read_text()), 1)
        self.accept(first, again=True)
        self.assertEqual(len(count.read_text()), 2)

    def test_the_page_counts_what_did_not_run_as_not_run(self):
        page = pathlib.Path(self.folder.name) / "page.md"
        self.accept(case("a", "exit 7"), case("b", "true"), case("c", "true", missing="no tool"))
        report.write(page, [gpus.Gpu("A GPU", 80 << 30, "9.0")], "/bin/false", self.store.all())
        text = page.read_text()
        self.assertIn("| tests | 1 | 1 | 1 |", text)
        self.assertIn("**c** not run: no tool", text)

    def test_tables_with_one_header_become_one_table(self):
        tables = ["| a |\n|---|\n| 1 |\n", "| a |\n|---|\n| 2 |\n"]
        self.assertEqual(report.merged(tables), ["", "| a |", "|---|", "| 1 |", "| 2 |"])


class Bundle(unittest.TestCase):
    def test_is_started_through_its_own_script(self):
        with tempfile.TemporaryDirectory() as folder:
            bundle = pathlib.Path(folder) / "bundle"
            (bundle / "bin").mkdir(parents=True)
            (bundle / "bin" / "kernels_gpu_test").touch()
            (bundle / "run").write_text('#!/bin/sh\necho "[  PASSED  ] 1 test." $@\n')
            (bundle / "run").chmod(0o755)
            options = types.SimpleNamespace(bin=bundle, python="/bin/false")
            found = Plan([], pathlib.Path(folder), options).cases("tests")
            result = results.run(found[0], 60)
        self.assertEqual(result.verdict, "passed")
        self.assertIn("kernels_gpu_test --gtest_brief=1", result.output)


if __name__ == "__main__":
    unittest.main()
