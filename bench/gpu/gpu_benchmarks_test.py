"""Tests how the benchmarks on a GPU report programs that fail, hang, do not fit or compute a wrong result, with
programs that only pretend to measure."""

import argparse
import contextlib
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import bench_head_gpu
import bench_step_gpu
import gpu_runs
import train_gpu
import train_reference

HERE = pathlib.Path(__file__).parent
MEASURED = {"seconds": [0.004, 0.002, 0.003], "sample_seconds": [0.001] * 3, "loss": 40.0}
NO_MEMORY = "CUDA: 3 GiB of GPU memory requested, 1 GiB of 79 GiB free; see `pfcctl plan`"


def outcomes(**measured):
    """Returns gpu_runs.Runs of programs with these measurements."""
    runs = gpu_runs.Runs(None, argparse.Namespace())
    runs.outcomes = {name: {"measured": [value], "why_not": ""} for name, value in measured.items()}
    return runs


class Head(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.count = self.folder / "count"

    def command(self, script, *more):
        """Returns the command of a benchmark whose program is this shell script; $centres is fp32 or bf16.
        If the script does not exit, the program prints measurements."""
        program = self.folder / "program"
        program.write_text(f'#!/bin/sh\nfor centres; do :; done\necho >> {self.count}\n{script}\n'
                           f"echo '{json.dumps(MEASURED)}'\n")
        program.chmod(0o755)
        return [sys.executable, "-B", HERE / "bench_head_gpu.py", "--program", program, "--classes",
                "4000000", "--programs", "pfc", "--rounds", "2", *more]

    def bench(self, script, *more):
        done = subprocess.run(self.command(script, *more), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def starts(self):
        return len(self.count.read_text())

    def test_a_program_that_fails_has_a_row_and_sets_the_exit_code(self):
        code, table, said = self.bench("[ $centres = fp32 ] || { echo boom >&2; exit 3; }")
        self.assertEqual(code, 1)
        self.assertIn("pfc, centres fp32 | 3.000 (2.000 to 4.000) | 4.000 (3.000 to 5.000)", table)
        self.assertIn("pfc, centres bf16 | failed: boom |", table)
        self.assertEqual(said.splitlines()[-1], "pfc, centres bf16: failed: boom")
        self.assertEqual(self.starts(), 3)  # a program that has failed is not run in the second round

    def test_a_program_that_ends_without_measurements_has_failed(self):
        code, table, _ = self.bench("[ $centres = bf16 ] || { echo '{}'; exit 0; }")
        self.assertEqual(code, 1)
        self.assertIn("pfc, centres fp32 | failed: no measurements: KeyError('seconds') |", table)
        self.assertIn("pfc, centres bf16 | 3.000", table)

    def test_a_program_that_hangs_is_ended(self):
        code, table, _ = self.bench("[ $centres = fp32 ] || exec sleep 30", "--limit", "0.5")
        self.assertEqual(code, 1)
        self.assertIn("pfc, centres bf16 | failed: not done after 0.5 s", table)

    def test_measurements_are_not_repeated(self):
        kept = ("--kept", self.folder / "kept.json")
        self.bench("", *kept)
        first = self.starts()
        code, table, _ = self.bench("exit 1", *kept)
        self.assertEqual((code, first, self.starts()), (0, 4, 4))
        self.assertIn("pfc, centres bf16 | 3.000", table)
        self.bench("", *kept, "--rounds", "3")
        self.assertEqual(self.starts(), 6)
        self.bench("", *kept, "--steps", "7")
        self.assertEqual(self.starts(), 10)

    def test_prints_the_measured_rows_when_it_is_ended(self):
        process = subprocess.Popen(self.command("[ $centres = fp32 ] || exec sleep 30"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while not (self.count.exists() and self.starts() == 2):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        table, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1)
        self.assertIn("pfc, centres fp32 | 3.000", table)
        self.assertIn("pfc, centres bf16 | not measured yet |", table)

    def test_too_little_memory_is_a_failure_only_if_no_run_of_pfc_fits(self):
        does_not = f'{{ echo "{NO_MEMORY}" | tr -d "\\`" >&2; exit 2; }}'
        code, table, said = self.bench(f"[ $centres = bf16 ] || {does_not}")
        self.assertEqual(code, 0, said)
        self.assertIn("pfc, centres fp32 | does not fit into memory |", table)
        code, _, said = self.bench(does_not)
        self.assertEqual(code, 1)
        self.assertIn("no run of pfc was measured", said)

    def test_omits_pytorch_if_it_does_not_fit(self):
        code, table, said = self.bench("", "--programs", "pfc", "torch", "--gpu-memory",
                                       str(79 << 30))
        self.assertEqual(code, 0, said)
        self.assertIn("| PyTorch | does not fit into memory: not tried, at least 80 GiB", table)
        self.assertEqual({line.count("|") for line in table.splitlines()}, {12})
        shape = dict(samples=1024, dimension=512)
        for classes, rate in ((1_000_000, 1), (10_000_000, 0.1)):
            options = types.SimpleNamespace(**shape, classes=classes, rate=rate)
            self.assertLess(bench_head_gpu.needed_by_torch(options), 79 << 30)

    def test_reports_times_of_both_programs_without_and_with_sampling(self):
        options = types.SimpleNamespace(program="", samples=1, dimension=1, classes=1, rate=0.1,
                                        device="cuda", steps=1, limit=1, gpu_memory=0,
                                        torch_precision="fp16")
        with mock.patch.object(bench_head_gpu, "measured", return_value={
                "seconds": [3], "sample_seconds": [1]}):
            ours, theirs = bench_head_gpu.pfc(options, "fp32"), bench_head_gpu.reference(options)
        self.assertEqual((ours["step"], ours["whole"]), ([3], [4]))
        self.assertEqual((theirs["step"], theirs["whole"]), ([2], [3]))

    def test_the_smaller_ratio_is_compared_with_the_goal(self):
        options = types.SimpleNamespace(rate=1.0)
        ours, theirs = [{"step": [1], "whole": [2]}], [{"step": [9], "whole": [9]}]
        self.assertEqual(bench_head_gpu.compared(options, "pfc", ours, theirs),
                         "9.00 | 4.50 | >= 5 MISSED |")

    def test_fails_if_the_first_losses_differ(self):
        known = ("pfc", "PyTorch")
        for loss, right in ((40.0, True), (41.0, True), (42.0, False), (None, False)):
            runs = outcomes(pfc={"loss": loss}, PyTorch={"loss": 40.0})
            self.assertEqual(bench_head_gpu.problems(known, runs) == [], right, loss)


class Step(unittest.TestCase):
    KNOWN = {"pfc, bf16": ("bf16", None, None), "PyTorch, bf16": ("bf16", None, 1.3),
             "PyTorch, fp16": ("fp16", None, 2.0)}
    OPTIONS = types.SimpleNamespace(network="mbf", batch=2, size=112, flops_per_second=1, bytes_per_second=1)

    def steps(self, loss=40.0, speed=100):
        step = {"loss": loss, "samples_per_second": speed, "step_seconds": 1, "note": "noted"}
        return [step] * 20

    def runs(self, ours, theirs):
        return outcomes(**{"pfc, bf16": ours, "PyTorch, bf16": theirs})

    def test_fails_if_the_first_losses_in_the_same_precision_differ(self):
        for loss, right in ((41.9, True), (42.1, False), (None, False), (float("nan"), False)):
            found = bench_step_gpu.problems(self.KNOWN, self.runs(self.steps(loss), self.steps()))
            self.assertEqual(found == [], right, loss)
        other = outcomes(**{"pfc, bf16": self.steps(50), "PyTorch, fp16": self.steps()})
        self.assertEqual(bench_step_gpu.problems(self.KNOWN, other), [])

    def test_fails_if_no_run_of_pfc_was_measured(self):
        found = bench_step_gpu.problems(self.KNOWN, outcomes(**{"PyTorch, bf16": self.steps()}))
        self.assertEqual(found, ["no run of pfc was measured"])

    def test_a_row_has_as_many_cells_as_the_header(self):
        runs = self.runs(self.steps(speed=120), self.steps())
        cells = bench_step_gpu.HEADER.splitlines()[0].count("|")
        with mock.patch.object(bench_step_gpu, "floor", return_value=(1, 1)):
            rows = {name: bench_step_gpu.row(self.OPTIONS, name, entry, runs)
                    for name, entry in self.KNOWN.items()}
        self.assertEqual({row.count("|") for row in rows.values()}, {cells})
        self.assertIn("| 1.20 | >= 1.3 MISSED |", rows["PyTorch, bf16"])
        self.assertIn("; noted |", rows["PyTorch, bf16"])
        self.assertIn("| not measured yet |", rows["PyTorch, fp16"])


class Train(unittest.TestCase):
    def test_fails_if_pfc_has_learnt_less(self):
        for accuracy, right in ((0.95, True), (0.881, True), (0.879, False), (float("nan"), False)):
            runs = outcomes(pfc={"accuracy": accuracy}, PyTorch={"accuracy": 0.9})
            self.assertEqual(train_gpu.problems(runs) == [], right, accuracy)

    def test_fails_if_a_program_failed(self):
        runs = outcomes(pfc={"accuracy": 0.9})
        runs.outcomes["PyTorch"] = {"measured": [], "why_not": "does not fit into memory"}
        self.assertEqual(train_gpu.problems(runs), ["PyTorch: does not fit into memory"])

    def test_a_row_has_as_many_cells_as_the_header_and_the_images_are_named(self):
        options = types.SimpleNamespace(network="r50", precision="bf16", epochs=1)
        runs = outcomes(pfc={"steps": 1, "loss": 1, "accuracy": 0.9, "speed": 1})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            train_gpu.print_table(options, ("pfc", "PyTorch"), runs, "drawn faces", 1000)
        lines = out.getvalue().splitlines()
        self.assertEqual({line.count("|") for line in lines[:4]}, {10})
        self.assertEqual(lines[-1], "Learnt from drawn faces.")


class Reference(unittest.TestCase):
    def test_continues_without_fused_sgd_if_the_first_step_rejects_it(self):
        trainer = object.__new__(train_reference.Trainer)
        trainer.make_optimizer = lambda: f"fused: {trainer.fused}"
        refusal = RuntimeError("params, grads must have the same layout")
        for step in (2, 1):
            trainer.fused = True
            with contextlib.redirect_stderr(io.StringIO()):
                if step > 1:
                    self.assertRaises(RuntimeError, trainer.go_on_unfused, step, refusal)
                else:
                    trainer.go_on_unfused(step, refusal)
        self.assertEqual((trainer.optimizer, trainer.note), ("fused: False", "SGD not fused"))


if __name__ == "__main__":
    unittest.main()
