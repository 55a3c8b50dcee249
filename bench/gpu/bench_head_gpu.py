"""Measures a step of the classification layer on a GPU, alternating in one run with the PyTorch
reference (head_torch.py) on the same GPU.

    bench_head_gpu.py --program build/cuda/benchmarks/head_benchmark --classes 1000000 --rate 0.1
                      [--samples 1024] [--rounds 2] [--steps 20]

pfc runs with centres and momentum in fp32 and in bf16. The reference runs with its product in fp16 (autocast, as its
users run it) and, below rate 1, also with only the sampled rows in the optimizer. Each round starts every program
again; the first steps of a run are left out. Prints a table in markdown: medians over the steps of all rounds, with
the smallest and the largest value in brackets. Memory is all memory in use on the GPU, including contexts.

Times and ratios are given without and with the sampling of classes: pfc samples during the forward pass, the
reference inside its step. Ratios compare with the reference as its users run it, and the smaller ratio must reach the
goal.

The floors are lower bounds of a step's time over S active classes. One counts the FLOPs of three products of 2 N D S
each. The other counts the bytes of two reads and one write of each active centre, and of one read and one write of its
momentum. `--programs pfc` leaves the reference out.

A program that fails or takes longer than --limit gets a row that reports this. The script prints the table, and then
fails if a program has failed, if no run of pfc was measured, or if the first losses differ.
"""

import argparse
import json
import pathlib
import statistics
import sys

import gpu_runs
from bench_head import LOSS_TOLERANCE, same_loss
from gpu_runs import REFERENCE

GOALS = {1.0: 5.0}  # times faster than PyTorch, by sample rate
# Bytes that a step reads and writes for each number of an active centre.
CENTRES = {"fp32": 4 * 3 + 4 * 2, "bf16": 2 * 3 + 2 * 2}
WARM_UP_STEPS = 3
HEADER = ("| classes | sample rate | program | step, ms | with sampling, ms | floor: FLOPs, ms "
          "| floor: bytes, ms | GPU, GiB | PyTorch / pfc | with sampling | goal |\n"
          "|" + "---|" * 11)


def measured(command, limit):
    """Returns the program's JSON object."""
    result = json.loads(gpu_runs.run(command, limit))
    if result.get("out_of_memory"):
        raise gpu_runs.DoesNotFit
    return result


def shape(options):
    return ["--samples", options.samples, "--dimension", options.dimension, "--classes",
            options.classes, "--rate", options.rate, "--device", options.device, "--warm-up",
            WARM_UP_STEPS, "--steps", options.steps]


def pfc(options, centres):
    result = measured([options.program, *shape(options), "--precision", "bf16",
                       "--centre-precision", centres], options.limit)
    whole = [sum(pair) for pair in zip(result["seconds"], result["sample_seconds"])]
    return {**result, "step": result["seconds"], "whole": whole}


def needed_by_torch(options):
    """Returns the least memory of a step of the reference, in bytes: centres and momentum in float32, the
    active centres' copy in 16 bits, and four float32 matrices of logits (before and after the
    clamp, scaled, and their logarithmic softmax)."""
    active = options.classes * min(1, options.rate)
    return (8 * options.classes * options.dimension + 2 * active * options.dimension +
            16 * active * options.samples)


def reference(options, *more):
    needed = needed_by_torch(options)
    if 0 < options.gpu_memory < needed:
        raise gpu_runs.DoesNotFit(f"not tried, at least {needed / 2**30:.0f} GiB are needed")
    result = measured([sys.executable, "-B", REFERENCE / "head_torch.py", *shape(options), "--precision",
                       options.torch_precision, *more], options.limit)
    sampling = result["sample_seconds"] or [0] * len(result["seconds"])  # empty at rate 1
    step = [whole - part for whole, part in zip(result["seconds"], sampling)]
    return {**result, "step": step, "whole": result["seconds"]}


def programs(options):
    known = {}
    if "pfc" in options.programs:
        known = {f"pfc, centres {centres}": lambda centres=centres: pfc(options, centres)
                 for centres in options.centres}
    if "torch" in options.programs:
        known["PyTorch"] = lambda: reference(options)
        if options.rate < 1:
            known["PyTorch, sampled rows"] = lambda: reference(options, "--update", "rows")
    return known


def spread(rounds, key):
    """Returns median, smallest and largest in milliseconds."""
    values = [1e3 * seconds for result in rounds for seconds in result[key]]
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def ratio(theirs, ours, key):
    """Returns the median of the rounds' ratios."""
    return statistics.median(statistics.median(a[key]) / statistics.median(b[key])
                             for a, b in zip(theirs, ours))


def compared(options, name, rounds, theirs):
    """Returns the last three cells of a row: both ratios, and whether the smaller one reaches the goal."""
    if not theirs or name == "PyTorch":
        return " | | |"
    ratios = [ratio(theirs, rounds, key) for key in ("step", "whole")]
    goal, verdict = GOALS.get(options.rate), ""
    if goal and name.startswith("pfc"):
        verdict = f">= {goal:g} {'met' if min(ratios) >= goal else 'MISSED'}"
    return f"{ratios[0]:.2f} | {ratios[1]:.2f} | {verdict} |"


def row(options, name, runs):
    rounds = runs.measured(name)
    start = f"| {options.classes:,} | {options.rate:g} | {name} | "
    if not rounds:
        return start + (runs.why_not(name) or "not measured yet") + " |" * 8
    active = options.classes * options.rate
    flops = 6 * options.samples * options.dimension * active
    moved = options.dimension * active * CENTRES["bf16" if name.endswith("bf16") else "fp32"]
    memory = max(r.get("gpu_memory_bytes", 0) for r in rounds) / 2**30
    return (start + f"{spread(rounds, 'step')} | {spread(rounds, 'whole')} | "
            f"{1e3 * flops / options.flops_per_second:.2f} | "
            f"{1e3 * moved / options.bytes_per_second:.2f} | {memory:.2f} | " +
            compared(options, name, rounds, runs.measured("PyTorch")))


def problems(known, runs):
    """Returns the reasons why the benchmark fails."""
    found = runs.failures()
    losses = {name: runs.measured(name)[0]["loss"] for name in known if runs.measured(name)}
    ours = [name for name in known if name.startswith("pfc")]
    if ours and not set(ours) & set(losses):
        found.append("no run of pfc was measured")
    found += [f"the first losses of {name} and PyTorch differ: {loss} and {losses['PyTorch']}"
              for name, loss in losses.items()
              if "PyTorch" in losses and not same_loss(loss, losses["PyTorch"], LOSS_TOLERANCE)]
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--centres", nargs="+", choices=CENTRES, default=["fp32", "bf16"])
    parser.add_argument("--programs", nargs="+", choices=("pfc", "torch"), default=["pfc", "torch"])
    parser.add_argument("--torch-precision", default="fp16")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="measured steps of a run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda",
                        help="cpu: to try this script")
    parser.add_argument("--flops-per-second", type=float, default=790e12)
    parser.add_argument("--bytes-per-second", type=float, default=3.0e12)
    parser.add_argument("--gpu-memory", type=int, default=0, metavar="BYTES",
                        help="leave PyTorch out if it needs more; 0: always try it")
    gpu_runs.add_arguments(parser, limit=240)
    return parser.parse_args()


def summary(result):
    return f"{1e3 * statistics.median(result['step']):.3f} ms"


def print_table(options, known, runs):
    print(HEADER)
    for name in known:
        print(row(options, name, runs))


def main():
    options = parse()
    known, runs = programs(options), gpu_runs.Runs(options.kept, options)
    gpu_runs.table_even_if_ended(lambda: runs.alternate(known, options.rounds, summary),
                                 lambda: print_table(options, known, runs))
    if found := problems(known, runs):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
