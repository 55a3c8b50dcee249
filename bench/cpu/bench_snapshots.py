"""Measures the cost of copies of the state in memory ("replicate") while nothing fails. Alternates jobs of two
workers on this machine: without copies, with one every --snapshot-seconds, and with many more.

    bench_snapshots.py --bin build/cpu/bin [--network r18] [--batch 16] [--classes 50000] [--rounds 3]
                       [--seconds 130] [--snapshot-seconds 60] [--often 5] [--json FILE]

The script reads the log's times of the last warm-up step and of the last step, and divides their difference by the
number of steps. So the time of a step includes the work between steps. The cost of one copy per minute is about as
small as the noise of the measurement. So the third job takes a copy every --often seconds, and the script also prints
the cost of each copy. The machine should be idle otherwise; the script takes 25 minutes.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import bench_report
from bench_runs import Runner, say
import reference_input  # in tests/reference, like the next
from pfc_runs import metrics, seconds_between

WARM_UP_STEPS = 4
WORKERS = 2


class Case:
    def __init__(self, arguments, folder, path):
        self.arguments, self.folder, self.path = arguments, folder, path
        self.runner = Runner(WORKERS, 1)
        self.number = 0

    def run(self, steps, every):
        """Returns the seconds of a step, the number of copies, and the peak memory in bytes."""
        self.number += 1
        out = self.folder / f"out-{self.number}"
        settings = {"max_steps": steps, "output": out, "replicate": "false" if every is None else "true"}
        if every is not None:
            settings["snapshot_seconds"] = every
        command = [self.arguments.bin / "pfc-coordinator", "--hosts", f"localhost:{WORKERS}", "--port", "0",
                   "--http-port", "0", "--state-dir", self.folder / "state", "--config", self.path]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.runner.run(command, lambda _: None)
        found = metrics(out / "metrics.jsonl")
        steps, seconds = len(found) - WARM_UP_STEPS, seconds_between(found[WARM_UP_STEPS - 1], found[-1])
        return {"step": seconds / steps, "copies": 0 if every is None else seconds / every, "steps": steps,
                "memory": found[-1]["memory_bytes"]}


def measure(arguments, folder):
    path = reference_input.make_head_job(folder, arguments.network, arguments.batch, arguments.classes)
    case = Case(arguments, folder, path)
    steps = max(round(arguments.seconds / case.run(12, None)["step"]), 20) + WARM_UP_STEPS
    kinds = {"without": None, "with": arguments.snapshot_seconds, "often": arguments.often}
    rounds = []
    for number in range(arguments.rounds):
        rounds.append({name: case.run(steps, every) for name, every in kinds.items()})
        say(f"  round {number + 1}: " + ", ".join(f"{name} {1000 * r['step']:.1f} ms" for name, r in rounds[-1].items()))
    return rounds, case.runner.others


def ratio(rounds, name):
    return statistics.median(r[name]["step"] / r["without"]["step"] for r in rounds)


def cost_of_one(rounds):
    """Returns the seconds that a copy adds, measured with the job that takes many copies."""
    return statistics.median((r["often"]["step"] - r["without"]["step"]) * r["often"]["steps"] / r["often"]["copies"]
                             for r in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--network", default="r18")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--snapshot-seconds", type=float, default=60)
    parser.add_argument("--often", type=float, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    with tempfile.TemporaryDirectory(prefix="pfc-bench-") as folder:
        rounds, others = measure(arguments, pathlib.Path(folder))
    without = statistics.median(r["without"]["step"] for r in rounds)
    one = cost_of_one(rounds)
    memory = {name: max(r[name]["memory"] for r in rounds) / 2**20 for name in rounds[0]}
    print(f"{arguments.network}, {WORKERS} workers, batch {arguments.batch} each, {arguments.classes} classes; "
          f"{arguments.rounds} alternating rounds. {bench_report.others(others)}\n"
          f"a step without copies: {1000 * without:.1f} ms\n"
          f"with one each {arguments.snapshot_seconds:g} s: {ratio(rounds, 'with'):.4f} of that\n"
          f"with one each {arguments.often:g} s: {ratio(rounds, 'often'):.4f} of that; each adds {1000 * one:.0f} ms, "
          f"which is {100 * one / arguments.snapshot_seconds:.2f} % of {arguments.snapshot_seconds:g} s\n"
          f"peak memory of rank 0: {memory['without']:.0f} MiB without, {memory['with']:.0f} MiB with")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rounds": rounds}))


if __name__ == "__main__":
    main()
