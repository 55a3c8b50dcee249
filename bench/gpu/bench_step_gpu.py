"""Measures a whole training step of pfc-worker on a GPU and of the PyTorch reference, alternating
in one run on the same GPU, each in bf16 and fp16.

    bench_step_gpu.py --bin build/cuda/bin --folder build/bench --network r50 --batch 128
                      [--rounds 2] [--steps 40] [--compile max-autotune] [--kept FILE]

The reference runs as its users run it (autocast fp16 with a GradScaler, NCHW) and at its best
(channels-last, torch.compile, TF32, a fused optimizer), in both precisions. Both programs use the same drawn faces
and start with the same weights. Each round starts every program again. The first steps of a run are left out, because
they choose algorithms, capture graphs and compile kernels.

Prints a table in markdown: medians over the steps of all rounds, with the smallest and the largest value in brackets.
The ratio to pfc in the same precision is the median of the rounds' ratios. Memory is all memory in use on the GPU,
including contexts. The floors, lower bounds of a step's time, follow from network_floor.py.

A program that fails or takes longer than --limit gets a row that reports this. The script prints the table, and then
fails if a program has failed, if no run of pfc was measured, or if the losses of the first step differ much. They are
never equal: the initial weights are the same, but the programs read the images in different orders.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import sys

import gpu_runs
import reference_input
import safetensors_io
import torch
from backbone_reference import embedding_size_of
from bench_head import same_loss
from gpu_runs import REFERENCE
from pfc_runs import metrics
from network_floor import floor

WARM_UP_STEPS = 12
USERS_GOAL, BEST_GOAL = 2.0, 1.3  # how many times as fast as PyTorch pfc must be: as its users run it, and at its best
LOSS_TOLERANCE = 0.05
HEADER = ("| network | batch | program | samples/s | ms | floor: FLOPs, ms | floor: bytes, ms "
          "| GPU, GiB | waits for data | pfc is faster by | goal |\n|" + "---|" * 11)


def faces(options):
    """Draws the faces, unless an earlier call has drawn them. Returns their folder."""
    folder = options.folder / f"faces-{options.classes}x{options.images}-{options.size}"
    if not (folder / "val.bin").exists():
        gpu_runs.run([options.bin / "pfcctl", "data", "synth", "--identities", options.classes,
                      "--images-per-identity", options.images, "--size", options.size, "--force", "--out", folder],
                     options.limit)
    return folder


def initial(options):
    """Makes the initial weights of both programs, unless an earlier call has made them. Returns their file."""
    path = options.folder / f"{options.network}-{options.classes}-{options.size}.safetensors"
    if not path.exists():
        torch.manual_seed(1)
        new = path.with_suffix(".new")
        safetensors_io.save(new, reference_input.initial_weights(
            options.network, embedding_size_of(options.network), options.classes, options.size))
        new.replace(path)  # atomically, because the script may be ended at any time
    return path


def write_job(options, precision):
    path = options.folder / f"{options.network}-{options.batch}-{precision}.json"
    path.write_text(json.dumps({
        "network": options.network, "embedding_size": embedding_size_of(options.network), "batch_size": options.batch,
        "lr": 0.01, "num_epoch": 100_000, "max_steps": WARM_UP_STEPS + options.steps,
        "num_workers": min(16, os.cpu_count()), "verbose": 0, "frequent": 10,
        "precision": precision, "device": options.device, "rec": str(faces(options)),
        "init_from": str(initial(options)), "output": str(options.folder / "out")}))
    return path


def pfc(options, precision):
    output = options.folder / "out"
    shutil.rmtree(output, ignore_errors=True)  # otherwise the job would resume from a checkpoint there
    gpu_runs.run([options.bin / "pfc-worker", "--config", write_job(options, precision)],
                 options.limit)
    return metrics(output / "metrics.jsonl")


def reference(options, precision, *more):
    out = options.folder / "reference.jsonl"
    gpu_runs.run([sys.executable, "-B", REFERENCE / "train_reference.py", "--device", options.device,
                  "--job", write_job(options, precision), "--input", initial(options), "--data",
                  faces(options), "--precision", precision, "--metrics", out, *more], options.limit)
    return metrics(out)


def programs(options):
    """Returns {name: (precision, function that measures it, goal)}."""
    best = ["--layout", "channels_last", "--tf32", "--fast-transformer"]
    if options.compile != "off":
        best += ["--compile", options.compile]
    known = {}
    if "pfc" in options.programs:
        known = {f"pfc, {p}": (p, lambda p=p: pfc(options, p), None) for p in options.precisions}
    if "torch" not in options.programs:
        return known
    if "fp16" in options.precisions:
        known["PyTorch as users run it, fp16"] = (
            "fp16", lambda: reference(options, "fp16", "--layout", "nchw"), USERS_GOAL)
    for p in options.precisions:
        known[f"PyTorch at its best, {p}"] = (p, lambda p=p: reference(options, p, *best), BEST_GOAL)
    return known


def speeds(steps):
    return [step["samples_per_second"] for step in steps[WARM_UP_STEPS:]]


def faster(ours, theirs):
    """Returns the median of the rounds' ratios."""
    return statistics.median(statistics.median(speeds(a)) / statistics.median(speeds(b))
                             for a, b in zip(ours, theirs))


def compared(ours, rounds, goal):
    """Returns the last two cells of a row: the ratio, and whether it reaches the goal."""
    if not (goal and ours):
        return " | |"
    value = faster(ours, rounds)
    return f"{value:.2f} | >= {goal:g} {'met' if value >= goal else 'MISSED'} |"


def row(options, name, entry, runs):
    precision, _, goal = entry
    rounds = runs.measured(name)
    start = f"| {options.network} | {options.batch} | {name} | "
    if not rounds:
        return start + (runs.why_not(name) or "not measured yet") + " |" * 8
    flops, moved = floor(options.network, embedding_size_of(options.network), options.size)
    values = [speed for steps in rounds for speed in speeds(steps)]
    speed = statistics.median(values)
    waits = sum(s.get("data_wait_seconds", 0) for r in rounds for s in r[WARM_UP_STEPS:])
    seconds = sum(s["step_seconds"] for r in rounds for s in r[WARM_UP_STEPS:])
    memory = max(s.get("gpu_memory_bytes", 0) for r in rounds for s in r) / 2**30
    note = " ".join(sorted({s["note"] for r in rounds for s in r if s.get("note")}))
    return (start + f"{speed:.0f} ({min(values):.0f} to {max(values):.0f}){note and f'; {note}'} | "
            f"{1e3 * options.batch / speed:.2f} | "
            f"{1e3 * options.batch * flops / options.flops_per_second:.2f} | "
            f"{1e3 * options.batch * moved / options.bytes_per_second:.2f} | {memory:.2f} | "
            f"{waits / seconds:.1%} | " + compared(runs.measured(f"pfc, {precision}"), rounds, goal))


def problems(known, runs):
    """Returns the reasons why the benchmark fails."""
    found = runs.failures()
    losses = {name: runs.measured(name)[0][0]["loss"] for name in known if runs.measured(name)}
    ours = [name for name in known if name.startswith("pfc")]
    if ours and not set(ours) & set(losses):
        found.append("no run of pfc was measured")
    for name, other in itertools.product(losses, losses):
        comparable = name in ours and other not in ours and known[name][0] == known[other][0]
        if comparable and not same_loss(losses[name], losses[other], LOSS_TOLERANCE):
            found.append(f"the first losses of {name} and {other} differ: {losses[name]} and "
                         f"{losses[other]}")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder for data and output")
    parser.add_argument("--network", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--programs", nargs="+", choices=("pfc", "torch"), default=["pfc", "torch"])
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp16"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40, help="measured steps of a run")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--size", type=int, default=112, help="pixels a side")
    parser.add_argument("--images", type=int, default=4, help="images of each class")
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda",
                        help="cpu: to try this script")
    parser.add_argument("--flops-per-second", type=float, default=790e12)
    parser.add_argument("--bytes-per-second", type=float, default=3.0e12)
    gpu_runs.add_arguments(parser, limit=300)
    return parser.parse_args()


def summary(steps):
    return f"{statistics.median(speeds(steps)):.1f} samples/s"


def print_table(options, known, runs):
    print(HEADER)
    for name, entry in known.items():
        print(row(options, name, entry, runs))


def main():
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    known, runs = programs(options), gpu_runs.Runs(options.kept, options)
    starts = {name: start for name, (_, start, _) in known.items()}
    gpu_runs.table_even_if_ended(lambda: runs.alternate(starts, options.rounds, summary),
                                 lambda: print_table(options, known, runs))
    if found := problems(known, runs):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
