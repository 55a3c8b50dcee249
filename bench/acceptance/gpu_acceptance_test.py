"""Tests the acceptance script without a GPU, and its verdicts on cases."""

import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import time
import types
import unittest
from unittest import mock

import cases
import gpu_acceptance
import gpus
import programs
import report
import results
from cases import PARTS, ROOT, Case
from plan import Plan

SCRIPT = ROOT / "scripts" / "gpu_acceptance.sh"


def run(*arguments):
    """Runs the script without a GPU, also on a machine that has one."""
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def case(name, script, limit=60, **more):
    return Case("tests", name, ["sh", "-c", script], limit, **more)


class WithoutAGpu(unittest.TestCase):
    def test_reports_a_missing_gpu_in_one_line_and_runs_nothing(self):
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
        self.assertEqual(list(dict.fromkeys(line.split()[0] for line in done.stdout.splitlines())),
                         list(PARTS))
        self.assertEqual(list(PARTS), ["build", "versions", "tests", "trace", "step", "head", "resume",
                                       "train", "sanitizer"])

    def test_the_three_calls_divide_the_cases(self):
        found = {}
        for call in "abc":
            done = run("--dry-run", "--python", "/bin/false", "--call", call)
            found[call] = [line.split(":")[0] for line in done.stdout.splitlines()]
        self.assertEqual(found["a"], ["build cuda", "versions nvidia-smi", "versions check",
                                      "tests ctest", "tests ctest-comm",
                                      "sanitizer memcheck-kernels_gpu_test", "trace r50"])
        self.assertEqual(found["b"], ["build cuda", "step r50-128", "step r100-128",
                                      "head 1000000-1", "head 1000000-0.1", "head 10000000-1",
                                      "head 10000000-0.1"])
        self.assertEqual(found["c"], ["build cuda"] + [
            f"sanitizer {tool}-{program}" for tool in ("racecheck", "synccheck")
            for program in ("kernels_gpu_test", "head_gpu_test")] + ["resume r50", "train r50"])

    def test_the_most_informative_cases_come_first(self):
        done = run("--dry-run", "--python", "/bin/false", "--only", "step,head", "--rounds", "3",
                   "--precisions", "bf16")
        lines = [line.split(":")[0] for line in done.stdout.splitlines()]
        self.assertEqual(lines[0], "step r50-128")
        self.assertEqual(lines[9:14], ["head 1000000-1", "head 1000000-0.1", "head 29000000-1",
                                       "head train-16000000", "head 4000000-1"])
        self.assertIn("--rounds 3 --precisions bf16", done.stdout.splitlines()[0])


class Cases(unittest.TestCase):
    def test_no_job_has_more_classes_than_a_data_set_can_hold(self):
        self.assertLessEqual(cases.MANY_TRAINED, 2**24)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = results.Store(pathlib.Path(self.folder.name), "version")
        began = mock.patch.object(gpu_acceptance, "BEGIN", time.monotonic())
        began.start()
        self.addCleanup(began.stop)

    def accept(self, *cases, minutes=1, again=False):
        """Returns (exit code, {name: verdict})."""
        plan = types.SimpleNamespace(cases=lambda part: cases)
        options = types.SimpleNamespace(only=["tests"], minutes=minutes, again=again)
        done = gpu_acceptance.run_all(options, plan, self.store)
        return gpu_acceptance.verdict(done), {result.name: result.verdict for result in done}

    def test_a_failed_case_sets_the_exit_code_and_other_cases_still_run(self):
        code, verdicts = self.accept(case("a", "exit 7"), case("b", "true"))
        self.assertEqual(verdicts, {"a": "failed: exit code 7", "b": "passed"})
        self.assertEqual(code, gpu_acceptance.FAILED)

    def test_a_case_with_skipped_tests_or_without_tests_fails(self):
        _, verdicts = self.accept(
            case("skipped", "echo '[  PASSED  ] 3 tests.'; echo '[  SKIPPED ] 1 test.'", tests=True),
            case("none", "echo '[  PASSED  ] 0 tests.'", tests=True),
            case("passed", "echo '[  PASSED  ] 3 tests.'", tests=True))
        self.assertEqual(verdicts, {"skipped": "failed: some tests did not run",
                                    "none": "failed: no test ran", "passed": "passed"})

    def test_a_case_that_cannot_run_is_reported_as_not_run(self):
        code, verdicts = self.accept(case("tool", "true", missing="it is not installed"))
        self.assertEqual(verdicts, {"tool": "not run: it is not installed"})
        self.assertEqual(code, gpu_acceptance.NOT_ALL_RUN)

    def test_a_slow_case_is_ended_with_its_children(self):
        mark = pathlib.Path(self.folder.name) / "late"
        _, verdicts = self.accept(case("slow", f"(sleep 0.5; touch {mark}) & sleep 30", limit=0.1))
        self.assertEqual(verdicts, {"slow": "failed: not done after 0.1 s"})
        self.assertFalse(mark.exists())

    def test_a_hanging_case_is_killed_and_names_its_test(self):
        hangs = "trap '' TERM; echo '[ RUN      ] A.OfTwo'; sleep 30"
        ran = ("echo '[ RUN      ] A.One'; echo '[       OK ] A.One (1 ms)'; " + hangs)
        with mock.patch.object(results, "GRACE", 0.2):
            _, verdicts = self.accept(case("hangs", ran, limit=0.3, tests=True))
        self.assertEqual(verdicts, {"hangs": "failed: not done after 0.3 s, in A.OfTwo"})

    def test_a_case_that_exceeds_the_time_limit_counts_as_not_run_and_keeps_its_table(self):
        script = "trap 'echo \"| so far |\"; exit 1' TERM; sleep 30 & wait"
        long = Case("step", "long", ["sh", "-c", script], 60)
        result = results.run(long, results.GRACE + 0.3)
        self.assertEqual(result.verdict, "not run: it was cut off after 0 s; run again")
        self.assertEqual(result.table, "| so far |\n")

    def test_a_failed_case_keeps_its_table_and_its_last_line_is_the_reason(self):
        script = "echo '| 1 |'; echo why >&2; exit 1"
        result = results.run(Case("step", "a", ["sh", "-c", script], 9), 60)
        self.assertEqual((result.verdict, result.table), ("failed: exit code 1: why", "| 1 |\n"))

    def test_a_missed_speed_goal_passes_and_is_shown(self):
        result = results.run(Case("step", "a", ["echo", "| >= 2 MISSED |"], 9), 60)
        self.assertEqual((result.verdict, result.summary), ("passed", "passed, 1 goals MISSED"))
        self.assertIn("| step | 1 | 0 | 0 | 1 |", "\n".join(report.overview([result])))

    def test_compute_sanitizer_must_say_that_it_found_nothing(self):
        tests = "echo '[  PASSED  ] 3 tests.'; echo '========= "
        _, verdicts = self.accept(*[
            case(name, tests + said + "'", tests=True, sanitized=True) for name, said in {
                "clean": "ERROR SUMMARY: 0 errors", "nothing": "",
                "errors": "ERROR SUMMARY: 2 errors",
                "no race": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
                "race": "RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)"}.items()])
        self.assertEqual([name for name, verdict in verdicts.items() if verdict == "passed"],
                         ["clean", "no race"])

    def test_the_option_minutes_counts_from_the_start_of_the_program(self):
        with mock.patch.object(gpu_acceptance, "BEGIN", time.monotonic() - 50):
            code, verdicts = self.accept(case("a", "true"), minutes=1)
        self.assertEqual(verdicts, {"a": "not run: no time was left"})

    def test_the_option_again_discards_measurements(self):
        kept = pathlib.Path(self.folder.name) / "kept"
        kept.touch()
        self.accept(case("a", "true", kept=kept))
        self.assertTrue(kept.exists())
        self.accept(case("a", "true", kept=kept), again=True)
        self.assertFalse(kept.exists())

    def test_the_next_call_continues_where_time_ran_out(self):
        count = pathlib.Path(self.folder.name) / "count"
        first, second = case("first", f"echo >> {count}"), case("second", "true")
        self.accept(first)
        self.assertEqual(self.accept(first, second, minutes=0.1)[0], gpu_acceptance.NOT_ALL_RUN)
        self.assertEqual(self.accept(first, second)[0], 0)
        self.assertEqual(len(count.read_text()), 1)
        self.accept(first, again=True)
        self.assertEqual(len(count.read_text()), 2)

    def test_the_page_counts_the_cases_that_did_not_run(self):
        page = pathlib.Path(self.folder.name) / "page.md"
        self.accept(case("a", "exit 7"), case("b", "true"), case("c", "true", missing="no tool"))
        plan = types.SimpleNamespace(gpus=[gpus.Gpu("A GPU", 80 << 30, "9.0")], torch="none",
                                     version="1234567-abcdef")
        report.write(page, plan, self.store.all())
        text = page.read_text()
        self.assertIn("| tests | 1 | 1 | 1 | 0 |", text)
        self.assertIn("| commit and programs | 1234567-abcdef |", text)
        self.assertIn("**c** not run: no tool", text)

    def test_tables_with_one_header_become_one_table(self):
        tables = ["| a |\n|---|\n| 1 |\n", "| a |\n|---|\n| 2 |\n"]
        self.assertEqual(report.merged(tables), ["", "| a |", "|---|", "| 1 |", "| 2 |"])


class Versions(unittest.TestCase):
    def test_the_commit_is_pfc_commit_or_unknown_without_git(self):
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent", "PFC_COMMIT": "v1"}):
            self.assertEqual(programs.commit(), "v1")
            del os.environ["PFC_COMMIT"]
            self.assertEqual(programs.commit(), "unknown")

    def test_a_changed_page_of_measurements_does_not_make_the_commit_dirty(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(programs, "ROOT", folder):
            page, source = (pathlib.Path(folder) / name for name in ("docs/benchmarks/a.md", "b.cc"))
            page.parent.mkdir(parents=True)
            for path in (page, source):
                path.write_text("old")
            programs.git("init")
            programs.git("add", ".")
            programs.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "a")
            page.write_text("new")
            clean = programs.commit()
            source.write_text("new")
            self.assertEqual(programs.commit(), clean + "-dirty")
        self.assertRegex(clean, "^[0-9a-f]{7,}$")

    def test_the_version_changes_with_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "pfc-worker"
            found = []
            for text in ("one", "two", "one"):
                program.write_text(text)
                found.append(programs.Programs(pathlib.Path(folder), None).version())
        self.assertEqual(found[0], found[2])
        self.assertNotEqual(found[0], found[1])


class Algorithms(unittest.TestCase):
    def test_algorithms_are_kept_unless_another_folder_is_named(self):
        for given, kept in (({}, "/there/cache"), ({"HOME": "/root"}, None),
                            ({"HOME": "", "XDG_CACHE_HOME": "relative"}, "/there/cache")):
            with mock.patch.dict(os.environ, given, clear=True):
                gpu_acceptance.keep_algorithms(pathlib.Path("/there"))
                self.assertEqual(os.environ.get("XDG_CACHE_HOME"), kept, given)


class Bundle(unittest.TestCase):
    """Programs that print their library path and arguments."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle"
        (self.bundle / "bin").mkdir(parents=True)
        for name in ("comm_gpu_test", "kernels_gpu_test", "other_gpu_test", "head_gpu_test"):
            programs.write_script(self.bundle / "bin" / name, f"echo >> {self.folder}/started\n"
                                  'echo "[  PASSED  ] 1 test." $LD_LIBRARY_PATH $(basename $0) $@')
        programs.write_script(self.bundle / "run", f"echo >> {self.folder}/searched\n"
                              'export LD_LIBRARY_PATH="/found/once:"\n'
                              'program=$1; shift; exec "$(dirname $0)/bin/$program" "$@"')
        self.plan = Plan([], self.folder / "work",
                         types.SimpleNamespace(bin=self.bundle, python="/bin/false", call=None,
                                               worker_tests=[]))

    def test_programs_start_with_libraries_that_are_searched_once(self):
        for test in self.plan.cases("tests")[2:]:
            result = results.run(test, 600)
            self.assertEqual(result.verdict, "passed")
            self.assertIn(f"/found/once: {test.name}", result.output)
        self.assertEqual((self.folder / "searched").read_text(), "\n")

    def test_each_test_program_has_its_own_limit_and_that_of_nccl_runs_last(self):
        found = {test.name: test.limit for test in self.plan.cases("tests")}
        self.assertEqual(list(found.items()),
                         [("libraries", 60), ("worker", 300), ("other_gpu_test", 120), ("kernels_gpu_test", 150),
                          ("head_gpu_test", 180), ("comm_gpu_test", 120)])

    def test_compute_sanitizer_watches_the_program_not_a_shell(self):
        tool = self.folder / "compute-sanitizer"
        programs.write_script(tool, 'echo "ERROR SUMMARY: 0 errors" "$@"')
        with mock.patch.object(cases.shutil, "which", return_value=str(tool)):
            first = self.plan.cases("sanitizer")[0]
        self.assertIn(f"--require-cuda-init no {self.bundle}/bin/kernels_gpu_test --gtest_filter=",
                      results.run(first, 600).output)

    def test_a_whole_call_writes_the_page_and_the_next_one_has_nothing_to_do(self):
        page = self.folder / "page.md"
        call = ["", "--bin", self.bundle, "--only", "tests,head", "--work", self.folder / "all",
                "--report", page, "--python", "/bin/false", "--minutes", "5"]
        found = [gpus.Gpu("A GPU", 80 << 30, "9.0")]
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()), \
                 mock.patch.object(gpus, "find_gpus", return_value=found), \
                 mock.patch.object(gpu_acceptance.sys, "argv", [str(word) for word in call]), \
                 mock.patch.object(gpu_acceptance.signal, "signal"), \
                 mock.patch.dict(os.environ, {"PFC_COMMIT": "v1"}):
                self.assertEqual(gpu_acceptance.main(), gpu_acceptance.NOT_ALL_RUN)
            self.assertIn("| tests | 5 | 0 | 1 | 0 |", page.read_text())
            self.assertIn("| head | 0 | 0 | 8 | 0 | 0 |", page.read_text())
        self.assertEqual((self.folder / "started").read_text(), 4 * "\n")

    def test_a_missing_library_is_named(self):
        script = "echo 'libx.so => not found'"
        programs.write_script(self.folder / "ldd", script)
        with mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
            result = results.run(self.plan.cases("tests")[0], 600)
        self.assertEqual(result.verdict, "failed: exit code 1: libx.so => not found")


if __name__ == "__main__":
    unittest.main()
