"""Trains pfc-worker and the PyTorch reference on the same images from the same initial weights, and
prints what both have learnt, as a table in markdown.

    train_gpu.py --bin build/cuda/bin --folder build/train --data FOLDER --val NAME.bin
                 [--network r50] [--epochs 20] [--precision bf16]

FOLDER holds train.rec, train.idx and property; without --data both learn faces that are drawn. Order
and flips are each program's own. Accuracy is LFW's protocol over the verification set, each program's
own code; the loss is the mean of the steps of the last epoch.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys

import reference_input
import safetensors_io
import torch
from bench_step_gpu import HERE, run

PEOPLE, IMAGES = 1000, 20  # drawn, where there is no --data
HEADER = ("| program | network | precision | data | epochs | steps | last epoch's loss "
          "| accuracy | samples/s |\n|" + "---|" * 9)


def drawn(options):
    folder = options.folder / "faces"
    if not (folder / "val.bin").exists():
        run([options.bin / "pfcctl", "data", "synth", "--identities", PEOPLE,
             "--images-per-identity", IMAGES, "--out", folder])
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


def records(path):
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [entry for entry in entries if "loss" in entry]
    return steps, [entry["accuracy"] for entry in entries if "accuracy" in entry][-1]


def train(options, job, init):
    """{program: (steps, accuracy)}"""
    shutil.rmtree(options.folder / "out", ignore_errors=True)
    theirs = options.folder / "reference.jsonl"
    commands = {
        "pfc": ([options.bin / "pfc-worker", "--config", job],
                options.folder / "out" / "metrics.jsonl"),
        "PyTorch": ([sys.executable, "-B", HERE / "train_reference.py", "--job", job, "--input", init,
                     "--data", options.data, "--val", options.val, "--device", options.device,
                     "--precision", options.precision, "--metrics", theirs], theirs)}
    results = {}
    for name, (command, path) in commands.items():
        if run(command) is None:
            sys.exit(f"{name}: the job does not fit into memory")
        results[name] = records(path)
        print(f"{name}: accuracy {results[name][1]:.4f}", file=sys.stderr, flush=True)
    return results


def row(options, name, steps, accuracy, data):
    epoch = max(1, round(len(steps) / options.epochs))
    losses = [step["loss"] for step in steps[-epoch:]]
    speed = statistics.median(step["samples_per_second"] for step in steps)
    return (f"| {name} | {options.network} | {options.precision} | {data} | {options.epochs:g} | "
            f"{len(steps)} | {statistics.mean(losses):.3f} | {accuracy:.4f} | {speed:.0f} |")


def main():
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
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    where = "drawn faces" if options.data is None else options.data.name
    if options.data is None:
        options.data, options.val = drawn(options)
    classes = int((options.data / "property").read_text().split(",")[0])
    job, init = write_job(options, classes)
    results = train(options, job, init)
    print(HEADER)
    for name, (steps, accuracy) in results.items():
        print(row(options, name, steps, accuracy, f"{where}, {classes:,} classes"))


if __name__ == "__main__":
    main()
