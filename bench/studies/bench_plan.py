"""Compares the steps that `pfcctl plan --gpu this` predicts with those of real jobs (docs/capacity.md).

    bench_plan.py --bin build/cpu/bin [--folder build/plan] [--steps 8] [--cases 0 20] [--phases]

For each job measures the machine with 8 images of the job's network (2 to 15 s), asks for the plan, and
runs a few steps. The machine is measured again for each job, because the speed of shared machines changes within
minutes by more than the plan's error. Prints one line for each job, in the format of the table in the documentation,
and the errors.
"""

import argparse
import json
import pathlib
import shutil
import statistics

from many_classes import spread_labels
from pfc_runs import run

WARM_UP = 3
# network, batch size, workers, classes, sample rate, other keys of the job
CASES = [
    ("mbf", 8, 1, 1_000, 1, {}), ("mbf", 32, 1, 1_000, 1, {}), ("mbf", 64, 1, 100_000, 1, {}),
    ("mbf", 32, 2, 200_000, 0.1, {}), ("mbf", 16, 4, 50_000, 1, {}), ("mbf", 32, 1, 500_000, 0.1, {}),
    ("mbf", 64, 1, 20_000, 1, {"optimizer": "adamw"}), ("mbf", 16, 3, 30_000, 0.3, {}),
    ("mbf_large", 16, 1, 10_000, 1, {}), ("mbf_large", 8, 2, 100_000, 0.1, {}),
    ("r18", 8, 1, 1_000, 1, {}), ("r18", 32, 1, 100_000, 0.1, {}), ("r18", 16, 2, 300_000, 1, {}),
    ("r18", 8, 4, 10_000, 1, {}), ("r18", 16, 1, 50_000, 1, {"gradient_acc": 2}),
    ("r34", 16, 1, 20_000, 1, {}), ("r34", 8, 3, 200_000, 0.1, {}),
    ("r50", 8, 1, 1_000, 1, {}), ("r50", 16, 2, 100_000, 0.1, {}), ("r100", 8, 1, 50_000, 1, {}),
]


class Bench:
    def __init__(self, options):
        self.bin, self.folder, self.steps = options.bin, options.folder, options.steps
        self.faces = self.folder / "faces"
        if not (self.faces / "train.rec").exists():
            run([self.bin / "pfcctl", "data", "synth", "--identities", 50, "--images-per-identity", 20,
                 "--size", 112, "--val-identities", 10, "--val-pairs", 10, "--force", "--out", self.faces])
        self.machine = self.folder / "machine.json"
        shutil.rmtree(self.folder / "out", ignore_errors=True)  # removes the output of a run that was killed

    def job(self, network, batch, classes, rate, more):
        data = self.folder / f"data-{classes}"
        if not (data / "train.rec").exists():
            spread_labels(self.faces, data, classes)
        path = self.folder / "job.json"
        path.write_text(json.dumps({
            "network": network, "batch_size": batch, "num_classes": classes, "sample_rate": rate,
            "embedding_size": 512, "rec": str(data), "output": str(self.folder / "out"), "verbose": 0,
            "num_epoch": 1000, "max_steps": WARM_UP + self.steps, "device": "cpu", **more}))
        return path

    def measure_machine(self, job):
        self.machine.unlink(missing_ok=True)
        run([self.bin / "pfcctl", "plan", "--config", job, "--gpu", "this", "--save", self.machine])

    def planned(self, job, workers):
        return json.loads(run([self.bin / "pfcctl", "plan", "--config", job, "--workers", workers,
                               "--gpu", self.machine, "--json"]))["time"]

    def measured(self, job, workers):
        """Median seconds of a step, and of its phases."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        run([self.bin / "pfc-coordinator", "--hosts", f"localhost:{workers}", "--config", job,
             "--port", 0, "--http-port", 0, "--state-dir", self.folder / "state"])
        with open(self.folder / "out" / "metrics.jsonl") as lines:
            events = [json.loads(line) for line in lines]
        steps = [event for event in events if event["kind"] == "step"][WARM_UP:]
        phases = {name: statistics.median(step["phases"].get(name, 0) for step in steps)
                  for name in steps[0]["phases"]}
        shutil.rmtree(self.folder / "out")
        return statistics.median(step["step_seconds"] for step in steps), phases


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/plan"))
    parser.add_argument("--steps", type=int, default=8, help="measured steps of each job")
    parser.add_argument("--cases", type=int, nargs=2, default=(0, len(CASES)),
                        help="the first job, and one past the last")
    parser.add_argument("--phases", action="store_true", help="each phase, planned and measured")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    print("| network | batch | workers | classes | sample rate | other keys | planned, ms | measured, ms |"
          " error |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    errors = []
    for network, batch, workers, classes, rate, more in CASES[slice(*options.cases)]:
        job = bench.job(network, batch, classes, rate, more)
        bench.measure_machine(job)
        plan = bench.planned(job, workers)
        seconds, phases = bench.measured(job, workers)
        errors.append(plan["step_seconds"] / seconds - 1)
        other = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"| {network} | {batch} | {workers} | {classes:,} | {rate} | {other} | "
              f"{plan['step_seconds'] * 1e3:,.0f} | {seconds * 1e3:,.0f} | {errors[-1]:+.1%} |",
              flush=True)
        if options.phases:
            print("  " + ", ".join(f"{name} {plan['phases'].get(name, 0) * 1e3:.1f}/{took * 1e3:.1f}"
                                   for name, took in sorted(phases.items())), flush=True)
    sizes = sorted(abs(error) for error in errors)
    print(f"{len(errors)} jobs: the error is {statistics.mean(errors):+.1%} on average; its size "
          f"{statistics.median(sizes):.1%} in the median, {sizes[-1]:.1%} at most")


if __name__ == "__main__":
    main()
