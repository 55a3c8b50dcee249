"""Tests what the benchmarks on a CPU choose and write, with programs that only pretend to measure."""

import argparse
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import bench_head
import bench_peer
import bench_report
import bench_runs
import bench_step
import torch
import head_torch


def candidates(*names):
    return [bench_peer.setting(name) for name in names]


def probed(outcomes):
    """Replaces Runner.attempt: returns what gemm_probe.py would print for a core type, or raises."""
    def attempt(_, settings, __):
        outcome = outcomes[dict(settings).get("OPENBLAS_CORETYPE", "")]
        if isinstance(outcome, Exception):
            raise outcome
        rate, error = outcome
        return f'{{"gflops": {rate}, "error": {error}, "core": "x", "config": "", "library": ""}}'
    return attempt


class Quiet(unittest.TestCase):
    def setUp(self):
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))


class Environment(unittest.TestCase):
    def test_speed_settings_of_the_caller_are_removed(self):
        slow = {"OPENBLAS_CORETYPE": "Prescott", "OMP_NUM_THREADS": "64", "MALLOC_ARENA_MAX": "1",
                "LD_PRELOAD": "", "HOME": "/root"}
        with mock.patch.dict(os.environ, slow, clear=True):
            found = bench_runs.environment(2, {"OPENBLAS_CORETYPE": "HASWELL"})
        self.assertEqual(found, {"OPENBLAS_CORETYPE": "HASWELL", "OMP_NUM_THREADS": "2",
                                 "HOME": "/root"})


class Choosing(Quiet):
    OTHERS = {core: (5, 1e-7) for core in bench_peer.CORE_TYPES}

    def choose(self, **outcomes):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                bench_peer, "LIBRARIES", pathlib.Path(folder)):
            build = pathlib.Path(folder) / "openblas-pthread"
            build.mkdir()
            (build / "libblas.so.3").touch()
            runner = bench_runs.Runner(1, 1)
            runner.attempt = probed({**self.OTHERS, **outcomes})
            return bench_peer.choose_blas(runner)

    def test_the_fastest_core_type_is_chosen(self):
        settings, found, _ = self.choose(ZEN=(90, 1e-7), HASWELL=(70, 1e-7))
        self.assertEqual(dict(settings.environment)["OPENBLAS_CORETYPE"], "ZEN")
        self.assertEqual(found["gflops"], 90)

    def test_a_core_type_that_crashes_or_computes_wrong_results_is_left_out(self):
        settings, _, tried = self.choose(SAPPHIRERAPIDS=(900, 0.3), ZEN=bench_runs.Failed("signal 4"),
                                         COOPERLAKE=(800, "NaN"), HASWELL=(70, 1e-7))
        self.assertEqual(dict(settings.environment)["OPENBLAS_CORETYPE"], "HASWELL")
        self.assertEqual(sum("why_not" in entry for entry in tried), 3)

    def test_a_candidate_that_fails_is_skipped(self):
        def seconds(settings, _):
            if settings.name == "b":
                raise bench_runs.Failed("no")
            return {"a": 3.0, "c": 2.0}[settings.name]
        best, tried = bench_peer.fastest(candidates("a", "b", "c"), seconds)
        self.assertEqual(best.settings.name, "c")
        self.assertEqual(tried[1], {"name": "b", "why_not": "no"})

    def test_it_is_an_error_if_every_candidate_fails(self):
        def seconds(_, __):
            raise bench_runs.Failed("no")
        with self.assertRaises(bench_runs.Failed):
            bench_peer.fastest(candidates("a"), seconds)


class Runs(Quiet):
    def test_a_program_that_fails_is_named(self):
        with self.assertRaisesRegex(bench_runs.Failed, "failed with 3:\nboom"):
            bench_runs.Runner(1, 1).attempt(["sh", "-c", "echo boom; exit 3"])

    def test_a_program_that_takes_too_long_is_ended(self):
        with self.assertRaisesRegex(bench_runs.Failed, "slower than 0 s"):
            bench_runs.Runner(1, 1).attempt(["sleep", "5"], limit=0.1)


class Reports(Quiet):
    def test_a_section_replaces_the_text_between_its_marks(self):
        page = "# A\n<!-- bench: x -->\nold\n<!-- end: x -->\nkept\n"
        text, found = bench_report.replaced(page, {"x": "new \\1", "y": "not here"})
        self.assertEqual(text, "# A\n<!-- bench: x -->\nnew \\1\n<!-- end: x -->\nkept\n")
        self.assertEqual(found, ["x"])

    def test_a_file_without_marks_becomes_all_sections(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            path = pathlib.Path(folder) / "table.md"
            options = argparse.Namespace(json=None, markdown=[path])
            bench_report.write(options, {"x": "one", "y": "two"}, {})
            self.assertEqual(path.read_text(), "one\n\ntwo\n")

    def test_all_rows_of_a_step_table_have_the_same_number_of_cells(self):
        def program(speed):
            return [{"samples_per_second": [speed, speed], "memory_bytes": 2**30}] * 2
        result = {"network": "r18", "settings": "s",
                  "runs": {"fp32": program(30.0), "bf16": program(60.0), "torch": program(20.0)}}
        data = {"machine": bench_report.machine(2), "blas_described": "", "blas_tried": [],
                "batch": 32, "size": 112, "rounds": 2, "steps": 2, "others": [0.0], "results": [result]}
        for section in bench_step.sections(data).values():
            table = [line for line in section.splitlines() if line.startswith("|")]
            self.assertEqual(len({line.count("|") for line in table}), 1)
            self.assertIn("1.50", table[-2])  # fp32, relative to PyTorch
            self.assertIn("3.00", table[-1])  # bf16, relative to PyTorch
        self.assertIn("| 2.00 |", table_row := bench_step.sections(data)["step"].splitlines()[-1])
        self.assertTrue(table_row.startswith("| r18 | bf16 |"))

    def test_the_table_of_the_head_has_both_variants_of_pytorch_and_rows_of_equal_length(self):
        options = argparse.Namespace(classes=1000, dimension=4, variants=[("fp32", "fp32")])
        results, settings = {}, {}
        for rate in bench_head.RATES:
            for name, seconds in (("pfc {:g} fp32 fp32", 1.0), ("torch {:g} dense", 9.0),
                                  ("torch {:g} rows", 4.0)):
                results[name.format(rate)] = [{"seconds": [seconds], "sample_seconds": [0.1],
                                               "memory_bytes": 10**9}]
            for variant in bench_head.VARIANTS:
                settings[rate, variant] = bench_peer.setting("blas, malloc")
        for section in bench_head.against_torch_sections(options, results, settings).values():
            table = [line for line in section.splitlines() if line.startswith("|")]
            self.assertEqual(len({line.count("|") for line in table}), 1)
            self.assertTrue(all("9.0" in row and "4.0" in row for row in table if "pfc, fp32" in row))

    LIMITS = {"stream": {"copy": 30, "triad": 30, "read": 20, "update": 40},
              "gathered": {"2048": {"read": 10, "update": 25}, "1024": {"read": 8, "update": 20}},
              "fp32": {"oneDNN": {"products": 400, "embeddings": 400, "centres": 400},
                       "pfc": {"products": 500, "embeddings": 250, "centres": 500}},
              "bf16": {"oneDNN": {"products": 800, "embeddings": 800, "centres": 800}}}

    def test_the_limits_of_a_step_are_computed_from_the_rates_of_the_machine(self):
        options = argparse.Namespace(classes=1_000_000, dimension=512, samples=128)
        whole = bench_head.step_limits(options, 1.0, "fp32", "fp32", self.LIMITS)
        # Bytes per class: forward reads 2,048 of the centre, and backward moves 8,192 of the centre and its momentum.
        # Of the 512 bytes of logits, 409.6 are kept: they are written once and read once.
        self.assertAlmostEqual(whole["bytes"] / 1e6, 2048 + 8192 + 2 * 409.6)
        self.assertAlmostEqual(whole["memory"], 2.048 / 20 + (8.192 + 0.8192) / 40)
        self.assertAlmostEqual(whole["arithmetic"], 3.2 * 2 * 128 * 512e6 / 400e9)
        tenth = bench_head.step_limits(options, 0.1, "bf16", "bf16", self.LIMITS)
        self.assertAlmostEqual(tenth["memory"], 0.2048 / 8 + 0.4096 / 20 + 0.1024 / 40)
        self.assertAlmostEqual(tenth["arithmetic"], 3 * 2 * 128 * 51.2e6 / 800e9)

    def test_the_rate_of_a_machine_is_the_best_of_all_rounds(self):
        again = {**self.LIMITS, "stream": {"copy": 31, "triad": 20, "read": 25, "update": 39}}
        best = bench_head.best_of([self.LIMITS, again])["stream"]
        self.assertEqual(best, {"copy": 31, "triad": 30, "read": 25, "update": 40})
        table = bench_head.limits_table(self.LIMITS).splitlines()
        self.assertEqual({line.count("|") for line in table}, {3})

    def test_it_is_an_error_if_the_losses_of_both_programs_differ(self):
        with self.assertRaisesRegex(bench_runs.Failed, "do not compute the same thing"):
            bench_head.expect_same_loss("rate 1", [{"loss": 40.0}], [{"loss": 44.0}])


class Reference(unittest.TestCase):
    """Both variants of the head's reference must compute the same."""

    def losses(self, rate, update):
        options = argparse.Namespace(classes=50, dimension=8, rate=rate, update=update, device="cpu",
                                     precision="fp32", compile=None)
        torch.manual_seed(1)
        step = head_torch.make_step(options)
        found = []
        for _ in range(4):
            embeddings = torch.randn(6, 8, requires_grad=True)
            found.append(step(embeddings, torch.randint(50, (6,))))
        return found

    def test_pytorch_rows_has_the_losses_of_pytorch_dense_if_all_classes_take_part(self):
        for a, b in zip(self.losses(1.0, "dense"), self.losses(1.0, "rows")):
            self.assertAlmostEqual(a, b, places=3)

    def test_pytorch_rows_has_the_first_loss_of_pytorch_dense_below_rate_1(self):
        self.assertAlmostEqual(self.losses(0.5, "dense")[0], self.losses(0.5, "rows")[0], places=3)


if __name__ == "__main__":
    sys.exit(unittest.main())
