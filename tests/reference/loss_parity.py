"""Compares 20 SGD steps of pfc-worker with the PyTorch reference: the loss of every step.

    loss_parity.py --bin build/cpu/bin [--networks r18 r50 mbf] [--steps 20] [--batch 16]

Both start from the same weights and take the same images in the same order. A small difference of
rounding grows from step to step, in any two programs; the limit is the largest relative difference of
the loss over all steps.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import reference_input

LIMIT = 1e-3


def metrics(path):
    """The objects of steps, in order; evaluations have no loss."""
    objects = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [entry for entry in objects if "loss" in entry]


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


def compare(network, arguments, folder):
    job = {"network": network, "embedding_size": 128, "batch_size": arguments.batch, "lr": 0.02,
           "margin_list": [1.0, 0.3, 0.0], "margin_scale": 32, "num_epoch": 100,
           "max_steps": arguments.steps, "num_workers": 1}
    path = reference_input.make(folder, job, classes=20, per_class=8)
    run([arguments.bin / "pfc-worker", "--config", path])
    here = pathlib.Path(__file__).parent
    run(["/usr/bin/python3", here / "train_reference.py", "--job", path,
         "--input", folder / "reference.safetensors", "--metrics", folder / "reference.jsonl"])
    ours, theirs = metrics(folder / "out" / "metrics.jsonl"), metrics(folder / "reference.jsonl")
    if len(ours) != arguments.steps or len(theirs) != arguments.steps:
        sys.exit(f"{network}: {len(ours)} and {len(theirs)} steps instead of {arguments.steps}")
    return [(a["loss"], b["loss"], a["lr"], b["lr"]) for a, b in zip(ours, theirs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    arguments = parser.parse_args()
    failed = False
    print("| network | first loss | last loss | largest relative difference | at step |")
    print("|---|---|---|---|---|")
    for network in arguments.networks:
        with tempfile.TemporaryDirectory(prefix="pfc-loss-parity-") as folder:
            steps = compare(network, arguments, pathlib.Path(folder))
        differences = [abs(a - b) / abs(b) for a, b, _, _ in steps]
        worst = max(differences)
        failed |= not worst < LIMIT
        failed |= any(abs(ours - theirs) > 1e-9 for _, _, ours, theirs in steps)
        print(f"| {network} | {steps[0][0]:.4f} | {steps[-1][0]:.4f} | {worst:.2e} | "
              f"{differences.index(worst) + 1} |", flush=True)
    if failed:
        sys.exit(f"a loss differs by {LIMIT:g} or more, or a learning rate differs")


if __name__ == "__main__":
    main()
