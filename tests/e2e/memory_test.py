"""Compares a job's planned memory with its real use, and measures a machine for its plan. --table prints the table of docs/memory.md."""

import json
import os
import shutil
import sys
import unittest

from support import BIN, JobTest, plain_set, run

MIB = 1 << 20
# network, batch, workers, classes, sample rate, other keys; --table measures all of them.
CASES = [
    ("mbf", 8, 1, 1_000, 1, {}), ("mbf", 32, 1, 1_000, 1, {}), ("mbf", 64, 1, 100_000, 1, {}),
    ("mbf", 8, 2, 1_000, 1, {}), ("mbf", 32, 2, 200_000, 0.1, {}),
    ("mbf", 32, 1, 500_000, 0.1, {}), ("mbf", 8, 1, 2_000_000, 0.1, {}),
    ("mbf", 32, 1, 2_000_000, 1, {}), ("mbf", 64, 2, 2_000_000, 0.1, {}),
    ("r18", 8, 1, 1_000, 1, {}), ("r18", 32, 1, 100_000, 0.1, {}), ("r18", 64, 1, 1_000, 1, {}),
    ("r18", 16, 2, 1_000_000, 1, {}), ("r18", 64, 2, 10_000, 1, {}),
    ("r50", 8, 1, 1_000, 1, {}), ("r50", 64, 1, 10_000, 1, {}), ("r50", 32, 1, 1_000_000, 0.1, {}),
    ("r50", 16, 1, 2_000_000, 1, {}), ("r50", 16, 2, 100_000, 0.1, {}),
    ("r50", 32, 2, 1_000_000, 1, {}),
    ("mbf", 8, 1, 300_000, 0.1, {"centre_precision": "bf16"}),
    ("mbf", 8, 1, 300_000, 1, {"centre_precision": "bf16_momentum"}),
    ("mbf", 8, 1, 300_000, 1, {"centre_precision": "int8"}),
    ("mbf", 8, 1, 1_000_000, 0.1, {"centre_precision": "fp8", "centre_momentum": 0}),
    ("mbf", 8, 2, 300_000, 1, {"optimizer": "adamw"}),
    ("mbf", 8, 1, 300_000, 0.1, {"gradient_acc": 2}),
    ("mbf", 8, 1, 300_000, 0.1, {"save_every_steps": 1}),
    ("mbf", 8, 2, 300_000, 0.1, {"replicate": True, "snapshot_seconds": 0.001, "max_steps": 25}),
    ("r50", 16, 2, 300_000, 0.1, {"replicate": True, "snapshot_seconds": 0.001, "max_steps": 25}),
    ("r100", 64, 1, 1_000, 1, {}), ("r100", 64, 1, 1_000, 1, {"recompute": True}),
    ("vit_b", 64, 1, 1_000, 1, {}), ("vit_b", 64, 1, 1_000, 1, {"recompute": True}),
]


class Memory(JobTest):
    SIZE = 112  # pixels; large enough for activations to matter

    def keys(self, network, batch, classes, rate, **more):
        rec = self.shared / "plain"
        if not rec.exists():
            plain_set(self.data, rec, 256)
        return {"network": network, "batch_size": batch, "num_classes": classes,
                "sample_rate": rate, "embedding_size": 512, "rec": str(rec), "max_steps": 3, **more}

    def plan(self, job, workers, *more):
        done = run(BIN / "pfcctl", "plan", "--config", job, "--workers", workers, "--json", *more)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def peak(self, job, workers):
        """Returns the peak resident memory of the largest worker in bytes."""
        process = self.start(workers, job)
        output = process.stdout.read()
        process.stdout.close()
        # wait4 also counts the agent and its workers, because their parents have waited for them.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, output)
        return used.ru_maxrss * 1024

    def compare(self, workers, keys):
        job = self.job(**keys)
        planned = self.plan(job, workers)["total_bytes"]
        peak = self.peak(job, workers)
        shutil.rmtree(self.folder / "out")
        return planned, peak

    def test_plan_and_measured_peak_differ_by_less_than_a_tenth(self):
        for network, batch, workers, classes, rate in (("mbf", 8, 1, 1_000, 1),
                                                       ("mbf", 8, 2, 60_000, 0.1),
                                                       ("r18", 8, 1, 20_000, 1)):
            with self.subTest(network=network, batch=batch, workers=workers, classes=classes):
                planned, peak = self.compare(workers, self.keys(network, batch, classes, rate))
                self.assertLess(abs(planned - peak) / peak, 0.1, f"{planned} bytes planned, {peak} used")

    def test_memory_of_the_copy_for_checkpoints_is_as_planned(self):
        keys = self.keys("mbf", 8, 60_000, 0.1, save_every_steps=1)
        planned, peak = self.compare(1, keys)
        self.assertLess(abs(planned - peak) / peak, 0.1, f"{planned} bytes planned, {peak} used")

    def test_memory_of_snapshots_is_as_planned(self):
        # Enough steps to write a second snapshot while the first is kept.
        keys = self.keys("mbf", 8, 60_000, 0.1, replicate=True, snapshot_seconds=0.001, max_steps=20)
        planned, peak = self.compare(2, keys)
        self.assertLess(abs(planned - peak) / peak, 0.1, f"{planned} bytes planned, {peak} used")

    def test_a_measured_machine_plans_the_same_steps_from_its_file(self):
        job, saved = self.job(**self.keys("mbf", 8, 1_000, 1)), self.folder / "this.json"
        measured = self.plan(job, 2, "--gpu", "this", "--save", saved)["time"]
        self.assertRegex(measured["machine_source"], r"^measured \d{4}-\d\d-\d\d with mbf$")
        factors = json.loads(saved.read_text())["measured"]
        self.assertNotIn(1, factors.values(), "an unmeasured part counts as the roofline says")
        from_file, larger = (self.plan(job, 2, "--gpu", saved, "--set", f"batch_size={batch}")["time"]["phases"]
                             for batch in (8, 16))
        for phase in ("forward", "backward", "head", "optimizer", "all_gather"):
            self.assertGreater(measured["phases"][phase], 0, phase)
            self.assertAlmostEqual(from_file[phase] / measured["phases"][phase], 1, places=3, msg=phase)
        self.assertGreater(larger["forward"], 1.5 * from_file["forward"])


def print_table(cases):
    test = Memory()
    Memory.setUpClass()
    for network, batch, workers, classes, rate, more in cases:
        test.setUp()
        planned, peak = test.compare(workers, test.keys(network, batch, classes, rate, **more))
        other = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"| {network} | {batch} | {workers} | {classes:,} | {rate} | {other} | "
              f"{planned / MIB:,.0f} | {peak / MIB:,.0f} | {(planned - peak) / peak:+.1%} |",
              flush=True)
        test.tearDown()
    Memory.tearDownClass()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:  # optionally with a range of cases: first, and one past the last
        print_table(CASES[slice(*(int(word) for word in sys.argv[2:4]))] if sys.argv[2:] else CASES)
    else:
        unittest.main()
