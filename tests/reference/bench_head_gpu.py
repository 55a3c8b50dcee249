"""Measures a step of the classification layer on a GPU, alternating in one run with the PyTorch
reference (head_torch.py) on the same GPU.

    bench_head_gpu.py --program build/cuda/benchmarks/head_benchmark --classes 1000000 --rate 0.1
                      [--samples 1024] [--rounds 2] [--steps 20]

pfc with centres and momentum in fp32 and in bf16, the reference with its product in fp16 (autocast, as
its users run it) and, below rate 1, also with only the sampled rows in the optimizer. Each round starts
every program anew; the first steps of a run are left out. Prints a table in markdown: medians over the
steps of all rounds, in brackets the smallest and the largest; the ratio is that of the reference as its
users run it. Memory is what the GPU had no longer free, contexts included.

Floors of a step over S active classes: three products of 2 N D S FLOPs, and of each active centre two
readings and a writing, of its momentum one of each. `--programs pfc` leaves the reference out.
"""

import argparse
import json
import pathlib
import statistics
import sys

from bench_head import ratio, spread
from bench_step_gpu import HERE, run

GOALS = {1.0: 5.0}  # times faster than PyTorch, by sample rate
CENTRES = {"fp32": 4 * 3 + 4 * 2, "bf16": 2 * 3 + 2 * 2}  # bytes moved of one number of a centre
WARM_UP_STEPS = 3
HEADER = ("| classes | sample rate | program | ms | sampling, ms | floor: FLOPs, ms | floor: bytes, ms "
          "| GPU, GiB | times as long | goal |\n|" + "---|" * 10)


def measured(command):
    """The program's JSON object; None where memory does not suffice."""
    said = run(command)
    result = json.loads(said) if said else {"out_of_memory": True}
    return None if result.get("out_of_memory") else result


def shape(options):
    return ["--samples", options.samples, "--dimension", options.dimension, "--classes",
            options.classes, "--rate", options.rate, "--device", options.device, "--warm-up",
            WARM_UP_STEPS, "--steps", options.steps]


def pfc(options, centres):
    return measured([options.program, *shape(options), "--precision", "bf16", "--centre-precision",
                     centres])


def reference(options, *more):
    return measured([sys.executable, "-B", HERE / "head_torch.py", *shape(options), "--precision",
                     options.torch_precision, *more])


def programs(options):
    known = {f"pfc, centres {centres}": lambda centres=centres: pfc(options, centres)
             for centres in options.centres}
    if "torch" in options.programs:
        known["PyTorch"] = lambda: reference(options)
        if options.rate < 1:
            known["PyTorch, sampled rows"] = lambda: reference(options, "--update", "rows")
    return known


def in_milliseconds(results):
    return spread([{"seconds": [1e3 * s for s in r["seconds"]]} for r in results])


def row(options, name, results):
    rounds, theirs = results[name], results.get("PyTorch")
    start = f"| {options.classes:,} | {options.rate:g} | {name} | "
    if None in rounds:
        return start + "does not fit into memory" + " |" * 7
    active = options.classes * options.rate
    flops = 6 * options.samples * options.dimension * active
    moved = options.dimension * active * CENTRES["bf16" if name.endswith("bf16") else "fp32"]
    sampling = [1e3 * s for r in rounds for s in r["sample_seconds"]]
    sampling = f"{statistics.median(sampling):.2f}" if sampling else "-"
    compared, verdict = "", ""
    if theirs and None not in theirs:
        value = ratio(theirs, rounds)
        compared, goal = f"PyTorch {value:.2f}", GOALS.get(options.rate)
        if goal and name.startswith("pfc"):
            verdict = f">= {goal:g} {'met' if value >= goal else 'MISSED'}"
    memory = max(r.get("gpu_memory_bytes", 0) for r in rounds) / 2**30
    return (start + f"{in_milliseconds(rounds)} | {sampling} | "
            f"{1e3 * flops / options.flops_per_second:.2f} | "
            f"{1e3 * moved / options.bytes_per_second:.2f} | {memory:.2f} | {compared} | {verdict} |")


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
    return parser.parse_args()


def main():
    options = parse()
    known = programs(options)
    results = {name: [] for name in known}
    for number in range(options.rounds):
        for name, start in known.items():
            result = start()
            results[name].append(result)
            speed = f"{statistics.median(result['seconds']):.4f} s" if result else "does not fit"
            print(f"round {number + 1}: {name}: {speed}", file=sys.stderr, flush=True)
    print(HEADER)
    for name in known:
        print(row(options, name, results))


if __name__ == "__main__":
    main()
