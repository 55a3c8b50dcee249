"""Trains the classification layer on embeddings, alone or with a linear layer, and compares it with PyTorch in float64.

    embeddings_parity.py --bin build/cpu/bin

Every case is a job with network "none" over 24 steps, from the same centres in both programs. The script compares
losses and learning rates of all steps, and how far the weights have moved at the end. The files are those of
numpy.save() and safetensors_io.py, in float32 and in float16.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch

import head_reference
import pfc_runs
import safetensors_io
import step_parity
import step_reference

IMAGES, CLASSES, DIMENSION, STEPS = 480, 60, 48, 24

JOB = {"network": "none", "batch_size": 32, "num_epoch": STEPS / 15, "max_steps": 0, "warmup_epoch": 0.5,
       "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "optimizer": "sgd",
       "margin_list": [1.0, 0.5, 0.0], "margin_scale": 32, "margin_gradient": "straight_through",
       "interclass_filtering_threshold": 0, "sample_rate": 1, "seed": 7, "num_workers": 2,
       "device": "cpu", "shuffle": False, "verbose": 0}
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.1}
LIMITS = {"loss": 1e-5, "lr": 1e-12, "centres": 1e-4, "linear.weight": 1e-4, "linear.bias": 1e-4}
LINEAR = {"feature_size": DIMENSION, "embedding_size": 20, "clip_norm": 0}

# (name, keys of the job, workers, file)
CASES = [
    ("npy", {}, 1, "embeddings.npy"),
    ("npy, float16", {}, 1, "half.npy"),
    ("safetensors, sampled", {"sample_rate": 0.3}, 1, "x.safetensors"),
    ("safetensors, float16, adamw", {**ADAMW, "sample_rate": 0.3}, 1, "half.safetensors"),
    ("npy, two workers", {"batch_size": 16}, 2, "embeddings.npy"),
    ("npy, two workers, sampled", {"batch_size": 16, "sample_rate": 0.3}, 2, "embeddings.npy"),
    ("cosine", {"lr_schedule": "cosine"}, 1, "embeddings.npy"),
    ("cosine to a tenth", {"lr_schedule": {"name": "cosine", "final_factor": 0.1}}, 1, "embeddings.npy"),
    ("one cycle", {"lr_schedule": "one_cycle", "warmup_epoch": 0}, 1, "embeddings.npy"),
    ("one cycle with its own keys", {"lr_schedule": {"name": "one_cycle", "pct_start": 0.5, "div_factor": 5,
                                                     "final_div_factor": 20}, "warmup_epoch": 0}, 1, "embeddings.npy"),
    ("two workers, margin and sample rate by epoch, corrected",
     {"batch_size": 16, "sample_rate": [[0, 0.3], [1, 0.6], [1.4, 1]], "sample_correction": True,
      "margin_update": {"initial": [1, 0.1, 0.1], "start_epoch": 0.2, "end_epoch": 1.2}}, 2, "embeddings.npy"),
    ("two workers, sample held for 5 steps, rate by epoch",
     {"batch_size": 16, "sample_rate": [[0, 0.3], [0.8, 0.6]], "sample_hold": 5}, 2, "embeddings.npy"),
    ("linear layer", LINEAR, 1, "embeddings.npy"),
    ("linear layer, two workers, sampled, adamw", {**ADAMW, **LINEAR, "batch_size": 16, "sample_rate": 0.3}, 2,
     "embeddings.npy"),
    ("linear margin", {"margin_update": {"end_epoch": 1.5, "increase": "linear"}}, 1, "embeddings.npy"),
]


def draw(seed=3):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(CLASSES, DIMENSION))
    labels = rng.integers(0, CLASSES, IMAGES)
    labels[:2] = 0, CLASSES - 1
    rows = directions[labels] + 0.5 * rng.normal(size=(IMAGES, DIMENSION))
    return rows.astype(np.float32), labels


def draw_weights(job, seed=4):
    """Returns the initial centres, and the weights of the linear layer if the job has one."""
    rng = np.random.default_rng(seed)
    size = job.get("embedding_size", DIMENSION)
    weights = {"centres": rng.normal(scale=0.01, size=(CLASSES, size))}
    if "feature_size" in job:
        weights["linear.weight"] = rng.normal(scale=0.2, size=(size, DIMENSION))
        weights["linear.bias"] = rng.normal(scale=0.2, size=size)
    return {key: value.astype(np.float32) for key, value in weights.items()}


def write(folder, name, weights):
    """Writes the data of a case and the job's initial weights; returns the embeddings as in the file."""
    rows, labels = draw()
    if name.startswith("half"):
        rows = rows.astype(np.float16)
    if name.endswith(".npy"):
        np.save(folder / name, rows)
        np.save(folder / "labels.npy", labels.astype(np.int32) if "half" in name else labels)
    else:
        safetensors_io.save(folder / name, {"embeddings": rows, "labels": labels})
    safetensors_io.save(folder / "init.safetensors", weights)
    return rows.astype(np.float64), labels


def rates_of(job, total, warm):
    """Returns the learning rates of all steps: a linear warm-up, and then the rates of PyTorch's schedulers."""
    schedule = job.get("lr_schedule", "polynomial")
    keys = {} if isinstance(schedule, str) else schedule
    name = keys.get("name", schedule)
    if name == "polynomial":
        return [step_reference.learning_rate(job["lr"], step, total, warm) for step in range(1, STEPS + 1)]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], job["lr"])
    if name == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, total - warm, eta_min=job["lr"] * keys.get("final_factor", 0))
    else:
        options = {key: value for key, value in keys.items() if key != "name"}
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, job["lr"], total_steps=total, cycle_momentum=False,
                                                        **options)
    rates = [job["lr"] * step / warm for step in range(1, warm + 1)]
    while len(rates) < STEPS:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def keys_at(job, epochs):
    """Returns the job with the margin and the sample rate that it has after these epochs."""
    rate, margin, update = job["sample_rate"], job["margin_list"], job.get("margin_update")
    if isinstance(rate, list):
        rate = [value for epoch, value in rate if epoch <= epochs + 1e-9][-1]
    if update:  # as WeSpeaker's MarginScheduler
        part = (epochs - update.get("start_epoch", 0)) / (update["end_epoch"] - update.get("start_epoch", 0))
        exponential = update.get("increase", "exp") == "exp"
        way = 1 - np.exp(part * np.log(1e-3 / (1 + 1e-6))) if exponential else part
        way = 0 if part <= 0 else 1 if part >= 1 else way
        margin = [a + (b - a) * way for a, b in zip(update.get("initial", [1, 0, 0]), margin)]
    return {**job, "sample_rate": rate, "margin_list": margin}


def with_torch(job, workers, rows, labels, start):
    """Returns the steps of the job, and the final weights."""
    batch = job["batch_size"] * workers
    per_epoch = len(rows) // batch
    total, warm = round(per_epoch * job["num_epoch"]), int(per_epoch * job["warmup_epoch"])
    weights = {name: torch.nn.Parameter(torch.from_numpy(value.astype(np.float64))) for name, value in start.items()}
    parameter = weights["centres"]
    if job["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(weights.values(), job["lr"], momentum=job["momentum"],
                                    weight_decay=job["weight_decay"])
    else:
        optimizer = torch.optim.AdamW(weights.values(), job["lr"], betas=(0.9, 0.999), eps=1e-8,
                                      weight_decay=job["weight_decay"])
    steps = []
    rates = rates_of(job, total, warm)
    for step, rate in enumerate(rates, 1):
        now = keys_at(job, (step - 1) / per_epoch)
        first = (step - 1) % per_epoch * batch
        x = torch.from_numpy(rows[first:first + batch])
        if "linear.weight" in weights:
            x = torch.nn.functional.linear(x, weights["linear.weight"], weights["linear.bias"])
        label = labels[first:first + batch]
        active = head_reference.active_classes(CLASSES, label, now["sample_rate"], job["seed"], step,
                                               job.get("sample_hold", 1))
        places = torch.from_numpy(np.searchsorted(active, label))
        optimizer.zero_grad(set_to_none=False)
        drawn = torch.from_numpy(~np.isin(active, label))
        offsets = drawn * -np.log(now["sample_rate"]) if job.get("sample_correction") else 0
        loss = head_reference.loss_of(x, parameter[active], places, now, offsets=offsets)
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        steps.append({"step": step, "loss": loss.item(), "lr": rate})
    return steps, {name: value.detach().numpy() for name, value in weights.items()}


def compare(folder, programs, keys, workers, name):
    job = {**JOB, **keys, "rec": str(folder / name), "output": str(folder / "out"),
           "init_from": str(folder / "init.safetensors")}
    start = draw_weights(job)
    rows, labels = write(folder, name, start)
    (folder / "job.json").write_text(json.dumps(job))
    got = step_parity.pfc(programs, folder, folder / "job.json", workers)
    want, end = with_torch(job, workers, rows, labels, start)
    last = max((folder / "out").glob("step-*"))
    mine = {"centres": np.concatenate([safetensors_io.load(path)["weight"]
                                       for path in sorted(last.glob("centres-*"))])}
    backbone = folder / "out" / "backbone.safetensors"
    if backbone.exists():
        mine |= safetensors_io.load(backbone)
    if set(mine) != set(start):
        sys.exit(f"found the weights {sorted(mine)}, expected {sorted(start)}")
    return {**step_parity.compare_steps(got, want),
            **{key: step_parity.relative(mine[key] - start[key], end[key] - start[key]) for key in start}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for name, keys, workers, file in CASES:
        with tempfile.TemporaryDirectory(prefix="pfc-embeddings-parity-") as folder:
            errors = compare(pathlib.Path(folder), arguments.bin, keys, workers, file)
        failed += pfc_runs.report(name, errors, LIMITS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
