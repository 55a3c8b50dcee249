"""Measures a whole training step of pfc-worker on a GPU and of the PyTorch reference, alternating in
one run on the same GPU, each in bf16 and fp16.

    bench_step_gpu.py --bin build/cuda/bin --folder build/bench --network r50 --batch 128
                      [--rounds 2] [--steps 40] [--compile max-autotune]

The reference runs as its users run it (autocast fp16 with a GradScaler, NCHW) and at its best
(channels-last, torch.compile, TF32, a fused optimizer), in both precisions. Both programs take the same
drawn faces and begin with the same weights. Each round starts every program anew; the first steps of a
run are left out: in them algorithms are chosen, graphs captured, kernels compiled.

Prints a table in markdown: medians over the steps of all rounds, in brackets the smallest and the
largest; the ratio is the median of the rounds' ratios, of pfc in the same precision. Memory is what the
GPU had no longer free, contexts included. Floors are those of network_floor.py.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import reference_input
import safetensors_io
import torch
from loss_parity import metrics
from network_floor import floor

WARM_UP_STEPS = 12
EMBEDDING = 512
USERS_GOAL, BEST_GOAL = 2.0, 1.3  # times faster than PyTorch
HERE = pathlib.Path(__file__).parent
DOES_NOT_FIT = ("out of memory", "memory: a worker needs")
HEADER = ("| network | batch | program | samples/s | ms | floor: FLOPs, ms | floor: bytes, ms "
          "| GPU, GiB | waits for data | pfc is faster by | goal |\n|" + "---|" * 11)


def run(command):
    """Its output; None where memory does not suffice."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    said = done.stdout + done.stderr
    if any(words in said for words in DOES_NOT_FIT):
        return None
    sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}:\n{said[-4000:]}")


def faces(options):
    """A folder of drawn faces, made once."""
    folder = options.folder / f"faces-{options.classes}x{options.images}"
    if not (folder / "val.bin").exists():
        run([options.bin / "pfcctl", "data", "synth", "--identities", options.classes,
             "--images-per-identity", options.images, "--out", folder])
    return folder


def initial(options):
    """The weights that both programs begin with, made once."""
    path = options.folder / f"{options.network}-{options.classes}.safetensors"
    if not path.exists():
        torch.manual_seed(1)
        safetensors_io.save(path, reference_input.initial_weights(options.network, EMBEDDING,
                                                                  options.classes))
    return path


def write_job(options, precision):
    path = options.folder / f"{options.network}-{options.batch}-{precision}.json"
    path.write_text(json.dumps({
        "network": options.network, "embedding_size": EMBEDDING, "batch_size": options.batch,
        "lr": 0.01, "num_epoch": 100_000, "max_steps": WARM_UP_STEPS + options.steps,
        "num_workers": min(16, os.cpu_count()), "verbose": 0, "frequent": 10,
        "precision": precision, "device": options.device, "rec": str(faces(options)),
        "init_from": str(initial(options)), "output": str(options.folder / "out")}))
    return path


def pfc(options, precision):
    output = options.folder / "out"
    shutil.rmtree(output, ignore_errors=True)  # a checkpoint there would be gone on from
    if run([options.bin / "pfc-worker", "--config", write_job(options, precision)]) is None:
        return None
    return metrics(output / "metrics.jsonl")


def reference(options, precision, *more):
    out = options.folder / "reference.jsonl"
    if run([sys.executable, "-B", HERE / "train_reference.py", "--device", options.device, "--job",
            write_job(options, precision), "--input", initial(options), "--data", faces(options),
            "--precision", precision, "--metrics", out, *more]) is None:
        return None
    return metrics(out)


def programs(options):
    """name: (precision, run it, goal)."""
    best = ["--layout", "channels_last", "--tf32"]
    if options.compile != "off":
        best += ["--compile", options.compile]
    known = {f"pfc, {p}": (p, lambda p=p: pfc(options, p), None) for p in options.precisions}
    if "fp16" in options.precisions:
        known["PyTorch as users run it, fp16"] = (
            "fp16", lambda: reference(options, "fp16", "--layout", "nchw"), USERS_GOAL)
    for p in options.precisions:
        known[f"PyTorch at its best, {p}"] = (p, lambda p=p: reference(options, p, *best), BEST_GOAL)
    return known


def speeds(steps):
    return [step["samples_per_second"] for step in steps[WARM_UP_STEPS:]]


def measured(rounds):
    return [speed for steps in rounds for speed in speeds(steps)]


def faster(ours, theirs):
    """The median of the rounds' ratios."""
    return statistics.median(statistics.median(speeds(a)) / statistics.median(speeds(b))
                             for a, b in zip(ours, theirs))


def row(options, name, entry, results):
    precision, _, goal = entry
    rounds, ours = results[name], results[f"pfc, {precision}"]
    start = f"| {options.network} | {options.batch} | {name} | "
    if None in rounds:
        return start + "does not fit into memory" + " |" * 8
    flops, moved = floor(options.network, EMBEDDING)
    values = measured(rounds)
    speed = statistics.median(values)
    waits = sum(s.get("data_wait_seconds", 0) for r in rounds for s in r[WARM_UP_STEPS:])
    seconds = sum(s["step_seconds"] for r in rounds for s in r[WARM_UP_STEPS:])
    memory = max(s.get("gpu_memory_bytes", 0) for r in rounds for s in r) / 2**30
    ratio, verdict = "", ""
    if goal and None not in ours:
        value = faster(ours, rounds)
        ratio, verdict = f"{value:.2f}", f">= {goal:g} {'met' if value >= goal else 'MISSED'}"
    return (start + f"{speed:.0f} ({min(values):.0f} to {max(values):.0f}) | "
            f"{1e3 * options.batch / speed:.2f} | "
            f"{1e3 * options.batch * flops / options.flops_per_second:.2f} | "
            f"{1e3 * options.batch * moved / options.bytes_per_second:.2f} | {memory:.2f} | "
            f"{waits / seconds:.1%} | {ratio} | {verdict} |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for data and output")
    parser.add_argument("--network", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp16"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40, help="measured steps of a run")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--images", type=int, default=4, help="of each class")
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda",
                        help="cpu: to try this script")
    parser.add_argument("--flops-per-second", type=float, default=790e12)
    parser.add_argument("--bytes-per-second", type=float, default=3.0e12)
    return parser.parse_args()


def main():
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    known = programs(options)
    results = {name: [] for name in known}
    for number in range(options.rounds):
        for name, (_, start, _) in known.items():
            steps = start()
            results[name].append(steps)
            speed = f"{statistics.median(speeds(steps)):.1f} samples/s" if steps else "does not fit"
            print(f"round {number + 1}: {name}: {speed}", file=sys.stderr, flush=True)
    print(HEADER)
    for name, entry in known.items():
        print(row(options, name, entry, results))


if __name__ == "__main__":
    main()
