"""Trains pfc-worker and the PyTorch reference on the same images from the same initial weights, and
prints the accuracy and loss of both as a table in markdown.

    train_gpu.py --bin build/cuda/bin --folder build/train --data FOLDER --val NAME.bin
                 [--network r50] [--epochs 20] [--precision bf16]

FOLDER holds train.rec, train.idx and property; without --data both train on drawn faces. Each
program has its own order and flips, and its own code for the accuracy of the verification set by
LFW's protocol. The loss is the mean of the steps of the last epoch. The script prints the table,
and then fails if a program has failed, or if pfc's accuracy is lower than PyTorch's by more than
0.02.
"""

import argparse
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
from gpu_runs import REFERENCE

PEOPLE, IMAGES = 1000, 20  # number of drawn people and images without --data
TOLERANCE = 0.02  # how much lower pfc's accuracy may be than PyTorch's
HEADER = ("| program | network | precision | data | epochs | steps | last epoch's loss "
          "| accuracy | samples/s |\n|" + "---|" * 9)


def drawn(options):
    folder = options.folder / "faces"
    if not (folder / "val.bin").exists():
        gpu_runs.run([options.bin / "pfcctl", "data", "synth", "--identities", PEOPLE,
                      "--images-per-identity", IMAGES, "--force", "--out", folder], options.limit)
    return folder, folder / "val.bin"


def write_job(options, classes):
    init = options.folder / "init.safetensors"
    torch.manual_seed(1)
    safetensors_io.save(init, reference_input.initial_weights(options.network, 512, classes))
    job = {"network": options.network, "embedding_size": 512, "batch_size": options.batch,
           "lr": options.lr, "num_epoch": options.epochs, "max_steps": options.max_steps,
           "warmup_epoch": min(1, options.epochs / 2), "num_workers": min(16, os.cpu_count()),
           "verbose": 0, "precision": options.precision, "device": options.device,
           "rec": str(options.data), "val_targets": [str(options.val)], "init_from": str(init),
           "output": str(options.folder / "out")}
    path = options.folder / "job.json"
    path.write_text(json.dumps(job, indent=2))
    return path, init


def learnt(options, command, path):
    """Runs a program that writes its records to `path`. Returns its accuracy and loss."""
    gpu_runs.run(command, options.limit)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [entry for entry in entries if "loss" in entry]
    epoch = max(1, round(len(steps) / options.epochs))
    return {"steps": len(steps), "loss": statistics.mean(step["loss"] for step in steps[-epoch:]),
            "accuracy": [entry["accuracy"] for entry in entries if "accuracy" in entry][-1],
            "speed": statistics.median(step["samples_per_second"] for step in steps)}


def pfc(options, job):
    out = options.folder / "out"
    shutil.rmtree(out, ignore_errors=True)  # otherwise the job would resume from a checkpoint there
    return learnt(options, [options.bin / "pfc-worker", "--config", job], out / "metrics.jsonl")


def reference(options, job, init):
    path = options.folder / "reference.jsonl"
    command = [sys.executable, "-B", REFERENCE / "train_reference.py", "--job", job, "--input", init,
               "--data", options.data, "--val", options.val, "--device", options.device,
               "--precision", options.precision, "--metrics", path]
    return learnt(options, command, path)


def row(options, name, runs, classes):
    start = f"| {name} | {options.network} | {options.precision} | {classes:,} classes | "
    if not runs.measured(name):
        return start + (runs.why_not(name) or "not measured yet") + " |" * 5
    found = runs.measured(name)[0]
    return (start + f"{options.epochs:g} | {found['steps']} | {found['loss']:.3f} | "
            f"{found['accuracy']:.4f} | {found['speed']:.0f} |")


def print_table(options, known, runs, where, classes):
    print(HEADER)
    for name in known:
        print(row(options, name, runs, classes))
    print(f"\nLearnt from {where}.")


def problems(runs):
    found = [f"{name}: {runs.why_not(name)}" for name in ("pfc", "PyTorch") if runs.why_not(name)]
    if not found:
        ours, theirs = (runs.measured(name)[0]["accuracy"] for name in ("pfc", "PyTorch"))
        if not ours >= theirs - TOLERANCE:
            found.append(f"pfc's accuracy is {ours:.4f}, PyTorch's {theirs:.4f}")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for output")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--val", type=pathlib.Path, help="verification set of --data")
    parser.add_argument("--network", default="r50")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda",
                        help="cpu: to try this script")
    gpu_runs.add_arguments(parser, limit=900)
    return parser.parse_args()


def main():
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    where = f"real faces: {options.data}"
    if options.data is None:
        where = f"drawn faces, {IMAGES} of each person: no real ones were given (PFC_TEST_DATA)"
        options.data, options.val = drawn(options)
    classes = int((options.data / "property").read_text().split(",")[0])
    job, init = write_job(options, classes)
    known = {"pfc": lambda: pfc(options, job), "PyTorch": lambda: reference(options, job, init)}
    runs = gpu_runs.Runs(options.kept, options)
    gpu_runs.table_even_if_ended(
        lambda: runs.alternate(known, 1, lambda found: f"accuracy {found['accuracy']:.4f}"),
        lambda: print_table(options, known, runs, where, classes))
    if found := problems(runs):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
