#!/usr/bin/env python3
"""Measures how the threads of kernels should wait beside many decoding threads.

  bench/studies/thread_waiting.py --bin build/cpu/bin [--rounds 5]

One worker with two threads trains mbf on drawn faces. Each setting runs once per round, one after the other.
Prints medians of the runs' median samples/s, and of their ratios to the default's run of the same round.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SETTINGS = {
    "libgomp's default": {},
    "`GOMP_SPINCOUNT=10000`": {"GOMP_SPINCOUNT": "10000"},
    "`OMP_WAIT_POLICY=passive`": {"OMP_WAIT_POLICY": "passive"},
    "`OMP_PROC_BIND=true`": {"OMP_PROC_BIND": "true"},
}
WARM_UP = 3  # first steps of a run, which are not counted


def samples_per_second(programs, data, folder, environment, num_workers, steps):
    job = {"network": "mbf", "rec": str(data), "output": str(folder), "batch_size": 32, "num_epoch": 1000,
           "max_steps": WARM_UP + steps, "num_workers": num_workers}
    config = folder.with_suffix(".json")
    config.write_text(json.dumps(job))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    subprocess.run([programs / "pfc-worker", "--config", config], check=True, stdout=subprocess.DEVNULL,
                   env=clean | {"OMP_NUM_THREADS": "2"} | environment)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    speeds = [e["samples_per_second"] for e in events if e["kind"] == "step"]
    return statistics.median(speeds[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="the folder of the programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25, help="counted steps of a run")
    parser.add_argument("--num-workers", type=int, nargs="+", default=[8, 2])
    arguments = parser.parse_args()
    print("| `num_workers` | setting | samples/s | against the default |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        data = scratch / "data"
        subprocess.run([arguments.bin / "pfcctl", "data", "synth", "--identities", "40",
                        "--images-per-identity", "30", "--out", data], check=True, stdout=subprocess.DEVNULL)
        for num_workers in arguments.num_workers:
            speeds = {name: [] for name in SETTINGS}
            for round_number in range(arguments.rounds):
                for i, (name, environment) in enumerate(SETTINGS.items()):
                    folder = scratch / f"{num_workers}-{round_number}-{i}"
                    speeds[name].append(samples_per_second(arguments.bin, data, folder, environment, num_workers,
                                                           arguments.steps))
            default = next(iter(speeds.values()))
            for name, found in speeds.items():
                ratio = statistics.median(a / b for a, b in zip(found, default))
                print(f"| {num_workers} | {name} | {statistics.median(found):.1f} ({min(found):.1f} to "
                      f"{max(found):.1f}) | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
