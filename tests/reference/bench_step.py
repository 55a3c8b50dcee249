"""Measures a whole training step of pfc-worker and of the PyTorch reference, alternating in one run
on the same cores.

    bench_step.py --bin build/cpu/bin [--networks r18 r50 mbf] [--batch 32] [--rounds 3] [--steps 6]

Each round starts both programs anew, one after the other. The first steps of a run are left out:
memory is touched and plans are made in them. Prints a table in markdown: medians of samples a second
over all steps of all rounds, the median of the rounds' ratios, and peak resident memory.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import reference_input
from loss_parity import metrics

WARM_UP_STEPS = 2
GOALS = {"r18": 1.7, "r50": 1.3, "mbf": 2.0}


def run(command, cores):
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(cores))}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


def measured(path):
    """Samples a second of each step after the warm-up, and the peak memory in bytes."""
    steps = metrics(path)
    return [s["samples_per_second"] for s in steps[WARM_UP_STEPS:]], steps[-1]["memory_bytes"]


def measure(network, arguments, cores, folder):
    """Rounds of ((pfc's speeds, memory), (PyTorch's speeds, memory))."""
    job = {"network": network, "embedding_size": 512, "batch_size": arguments.batch, "lr": 0.02,
           "num_epoch": 100, "max_steps": WARM_UP_STEPS + arguments.steps, "num_workers": 1}
    path = reference_input.make(folder, job, classes=arguments.classes,
                                per_class=-(-4 * arguments.batch // arguments.classes))
    here = pathlib.Path(__file__).parent
    rounds = []
    for number in range(arguments.rounds):
        out = folder / f"out-{number}"
        run([arguments.bin / "pfc-worker", "--config", path, "--set", f"output={out}"], cores)
        ours = measured(out / "metrics.jsonl")
        run(["/usr/bin/python3", here / "train_reference.py", "--job", path, "--threads",
             len(cores), "--input", folder / "reference.safetensors",
             "--metrics", folder / "reference.jsonl"], cores)
        rounds.append((ours, measured(folder / "reference.jsonl")))
    return rounds


def row(network, rounds):
    def speeds(which):
        return [speed for entry in rounds for speed in entry[which][0]]

    def spread(values):
        return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"

    ratios = [statistics.median(ours[0]) / statistics.median(theirs[0]) for ours, theirs in rounds]
    memory = [max(entry[which][1] for entry in rounds) / 2**20 for which in (0, 1)]
    goal = f"{GOALS[network]:.1f}" if network in GOALS else "-"
    return (f"| {network} | {spread(speeds(0))} | {spread(speeds(1))} | "
            f"{statistics.median(ratios):.2f} | {goal} | {memory[0]:.0f} | {memory[1]:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a run")
    parser.add_argument("--classes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:arguments.threads]
    print(f"Batch {arguments.batch}, fp32, {len(cores)} threads, {arguments.rounds} alternating "
          f"rounds of {arguments.steps} steps; load average before: {os.getloadavg()[0]:.1f}\n")
    print("| network | pfc, samples/s | PyTorch, samples/s | ratio | goal | pfc, MiB | PyTorch, MiB |")
    print("|---|---|---|---|---|---|---|")
    for network in arguments.networks:
        with tempfile.TemporaryDirectory(prefix="pfc-bench-") as folder:
            print(row(network, measure(network, arguments, cores, pathlib.Path(folder))), flush=True)


if __name__ == "__main__":
    main()
