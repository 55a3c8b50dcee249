"""Runs many steps of pfc's head and of a dense optimizer of PyTorch, in float64, and compares them.

head_steps_parity.py --program build/cpu/tests/head_steps

PyTorch gets a gradient of zero for a class that is not active in a step, but still moves its
centre. pfc moves the centre only when the class is next active. In one case the gradients are of
the size of AdamW's eps.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import head_parity
import head_reference
import pfc_runs
import safetensors_io

STEPS, SAMPLES, CLASSES, DIMENSION = 50, 32, 701, 48
SGD = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1}
# Largest relative errors of the losses, of the gradients by rows, and of the total moves of the
# centres.
LIMITS = {"losses": 1e-5, "d_embeddings": 1e-2, "moved": 3e-4, "momentum": 1e-3, "second": 1e-3}


def cases():
    """Yields name, keys of the job, and standard deviation of the centres."""
    yield "sgd", {**SGD, "sample_rate": 0.1}, 0.01
    yield "sgd, held for 8 steps", {**SGD, "sample_rate": 0.1, "sample_hold": 8}, 0.01
    yield "sgd, all classes", SGD, 0.01
    yield "adamw", {**ADAMW, "sample_rate": 0.1}, 0.01
    yield "adamw, labels alone", {**ADAMW, "sample_rate": 0.0}, 0.01
    yield "adamw, all classes", ADAMW, 0.01
    # A gradient is divided by the length of the centre. With this length, the root of the second moment is often about
    # eps.
    yield "adamw near eps", {**ADAMW, "sample_rate": 0.1, "margin_scale": 4.0}, 1e3


def random_steps(deviation, seed):
    rng = np.random.default_rng(seed)
    return {"embeddings": rng.normal(size=(STEPS, SAMPLES, DIMENSION)).astype(np.float32),
            "labels": rng.integers(0, CLASSES, (STEPS, SAMPLES)),
            "lrs": (1 + 0.5 * np.sin(np.arange(STEPS))).astype(np.float32),
            "centres": rng.normal(scale=deviation, size=(CLASSES, DIMENSION)).astype(np.float32)}


def make_optimizer(parameter, job):
    if job["optimizer"] == "sgd":
        return torch.optim.SGD([parameter], 1.0, momentum=job["momentum"],
                               weight_decay=job["weight_decay"])
    return torch.optim.AdamW([parameter], 1.0, betas=(0.9, 0.999), eps=1e-8,
                             weight_decay=job["weight_decay"])


def dense(tensors, job):
    parameter = torch.nn.Parameter(torch.from_numpy(tensors["centres"].astype(np.float64)))
    optimizer = make_optimizer(parameter, job)
    losses, gradients = [], []
    for t in range(STEPS):
        labels = tensors["labels"][t]
        active = head_reference.active_classes(CLASSES, labels, job["sample_rate"], job["seed"],
                                               t + 1, job.get("sample_hold", 1))
        places = torch.from_numpy(np.searchsorted(active, labels))
        x = torch.from_numpy(tensors["embeddings"][t].astype(np.float64)).requires_grad_()
        optimizer.zero_grad(set_to_none=False)
        loss = head_reference.loss_of(x, parameter[active], places, job)
        loss.backward()
        optimizer.param_groups[0]["lr"] = float(tensors["lrs"][t])
        optimizer.step()
        losses.append(loss.item())
        gradients.append(x.grad.numpy())
    state = optimizer.state[parameter]
    result = {"losses": np.array(losses), "d_embeddings": np.concatenate(gradients),
              "moved": parameter.detach().numpy() - tensors["centres"]}
    if job["optimizer"] == "sgd":
        return {**result, "momentum": state["momentum_buffer"].numpy()}
    return {**result, "momentum": state["exp_avg"].numpy(), "second": state["exp_avg_sq"].numpy()}


def run(program, folder, job, tensors):
    source, target = folder / "in.safetensors", folder / "out.safetensors"
    safetensors_io.save(source, tensors)
    subprocess.run([program, json.dumps(job), source, target], check=True)
    got = {name: value.astype(np.float64) for name, value in safetensors_io.load(target).items()}
    got["moved"] = got.pop("centres") - tensors["centres"]
    got["d_embeddings"] = got["d_embeddings"].reshape(-1, DIMENSION)
    return got


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, keys, deviation in cases():
            job = {**head_parity.DEFAULTS, **keys}
            tensors = random_steps(deviation, seed=6)
            tensors["lrs"] *= job["lr"]
            want = dense(tensors, job)
            got = run(program, pathlib.Path(folder), job, tensors)
            errors = {key: head_parity.relative_error(key, got[key], want[key]) for key in want}
            failed += pfc_runs.report(name, errors, LIMITS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
