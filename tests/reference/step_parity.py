"""Compares whole training steps of pfc's programs with step_reference.py, and two workers with one.

    step_parity.py --bin build/cpu/bin [--only TEXT]

A case is a job of a few steps on small images, from the same weights in both programs: every step's
loss, learning rate and gradient norm are compared, and at the end how far the backbone's weights and
the class centres have come. The learning rates are low, because a fresh network in front of a margin
loss is chaotic: rounding grows from step to step in any two programs. Biases are left out: a shift in front of a batch norm changes nothing, so
the exact gradient of many of them is zero, and AdamW makes steps of rounding errors.

Two workers with sync_bn train as one worker with twice the batch: over 20 steps, with clipping and
without.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import reference_input
import safetensors_io
import step_reference

SIZE = 32  # pixels a side
CLASSES, PER_CLASS = 24, 4

JOB = {"network": "mbf", "embedding_size": 32, "batch_size": 16, "num_epoch": 0.75,
       "warmup_epoch": 0.2, "max_steps": 0, "lr": 1e-3, "momentum": 0.9, "weight_decay": 0.1,
       "clip_norm": 5, "optimizer": "sgd", "margin_list": [1.0, 0.3, 0.0], "margin_scale": 16,
       "margin_gradient": "straight_through", "interclass_filtering_threshold": 0,
       "sample_rate": 0.3, "gradient_acc": 1, "dropout": 0, "sync_bn": False, "seed": 7,
       "num_workers": 1}
ADAMW = {"optimizer": "adamw", "lr": 3e-5, "weight_decay": 0.5}
ACCUMULATED = {"gradient_acc": 3, "num_epoch": 2}

# (name, keys of the job, workers)
CASES = [
    ("straight-through, sampled", {}, 1),
    ("exact, all classes", {"margin_gradient": "exact", "sample_rate": 1}, 1),
    ("combined margin, exact", {"margin_gradient": "exact", "margin_list": [1.1, 0.2, 0.1]}, 1),
    ("positives alone", {"sample_rate": 0}, 1),
    ("not clipped", {"clip_norm": 0, "lr": 5e-5}, 1),
    ("accumulated", ACCUMULATED, 1),
    ("adamw", ADAMW, 1),
    ("adamw, accumulated", {**ADAMW, **ACCUMULATED}, 1),
    ("dropout", {"network": "r18", "dropout": 0.4, "num_epoch": 0.5}, 1),
    ("two workers", {"batch_size": 8}, 2),
    ("two workers, accumulated, adamw", {**ADAMW, **ACCUMULATED, "batch_size": 8}, 2),
    ("two workers, dropout", {"network": "r18", "dropout": 0.4, "num_epoch": 0.5, "batch_size": 8},
     2),
    ("two workers, sync_bn", {"batch_size": 8, "sync_bn": True}, 2),
]

# Relative errors. A weight's is that of the way it has come.
LIMITS_OF_TWO = {"loss": 1e-3, "lr": 1e-12, "gradient_norm": 1e-2}  # workers, against one
LIMITS = {"loss": 1e-4, "lr": 1e-12, "gradient_norm": 2e-3, "weights": 2e-2, "centres": 1e-3}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


def pfc(programs, folder, job, workers):
    """Trains the job; the objects of its steps."""
    if workers == 1:
        run([programs / "pfc-worker", "--config", job])
    else:
        run([programs / "pfc-coordinator", "--hosts", f"localhost:{workers}", "--config", job,
             "--port", 0, "--http-port", 0, "--state-dir", folder / "state"])
    lines = (folder / "out" / "metrics.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if "loss" in entry]


def pfc_state(folder):
    """Of the last checkpoint: weights, running statistics and centres."""
    last = max((folder / "out").glob("step-*"))
    parts = [safetensors_io.load(path) for path in sorted(last.glob("centres-*"))]
    return {**safetensors_io.load(last / "backbone.safetensors"),
            "centres": np.concatenate([part["weight"] for part in parts])}


def relative(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def series(steps, key):
    return np.array([step[key] for step in steps])


def come(state, start, names):
    """How far these tensors have come, as one vector."""
    return np.concatenate([(state[name].astype(np.float64) - start[name]).ravel()
                           for name in names])


def compare_steps(got, want):
    if len(got) != len(want):
        sys.exit(f"{len(got)} steps instead of {len(want)}")
    return {key: np.max(np.abs(series(got, key) / series(want, key) - 1))
            for key in ("loss", "lr", "gradient_norm")}


def compare_states(got, want, start):
    weights = [name for name, tensor in want.items() if tensor.ndim > 1 and name != "centres"]
    return {kind: relative(come(got, start, names), come(want, start, names))
            for kind, names in (("weights", weights), ("centres", ["centres"]))}


def with_reference(programs, folder, keys, workers):
    job = {**JOB, **keys}
    path = reference_input.make(folder, job, CLASSES, PER_CLASS, size=SIZE)
    got = pfc(programs, folder, path, workers)
    start = safetensors_io.load(folder / "reference.safetensors")
    trainer = step_reference.Trainer(job, start, workers)
    want = trainer.train()
    return {**compare_steps(got, want), **compare_states(pfc_state(folder), trainer.state(), start)}


def two_with_one(programs, folder, keys):
    """Losses over 20 steps of two workers and of one with the same global batch."""
    job = {**JOB, "sync_bn": True, "num_epoch": 10, "max_steps": 20, **keys}
    steps = []
    for workers in (1, 2):
        there = folder / str(workers)
        path = reference_input.make(there, {**job, "batch_size": 16 // workers}, CLASSES, PER_CLASS,
                                    size=SIZE)
        steps.append(pfc(programs, there, path, workers))
    return compare_steps(steps[1], steps[0])


def cases():
    """(name, limits, function, its arguments after programs and folder)"""
    for name, keys, workers in CASES:
        yield name, LIMITS, with_reference, (keys, workers)
    for name, keys in (("clipped", {"lr": 5e-5}), ("not clipped", {"lr": 5e-6, "clip_norm": 0})):
        yield f"two workers as one, {name}", LIMITS_OF_TWO, two_with_one, (keys,)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    failed = 0
    for name, limits, compare, more in cases():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="pfc-step-parity-") as folder:
            errors = compare(arguments.bin, pathlib.Path(folder), *more)
        bad = [key for key, error in errors.items() if not error <= limits[key]]
        failed += bool(bad)
        print(f"{'FAILED' if bad else 'ok':7}{name:36}",
              "  ".join(f"{key} {error:.1e}" for key, error in errors.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
