"""Compares whole training steps of pfc's programs with step_reference.py, and two workers with one.

    step_parity.py --bin build/cpu/bin [--only TEXT]
    step_parity.py --emulated build/cpu/tests/pfc_worker_emulated

A case is a job of a few steps on small images, from the same weights in both programs: the script compares every
step's loss, learning rate and gradient norm, and at the end how far the backbone's weights and the class centres have
moved. The learning rates are low, because a fresh network in front of a margin loss is chaotic: rounding errors grow
from step to step. Biases are left out: a shift in front of a batch norm changes nothing, so the exact gradient of
many of them is zero, and AdamW turns rounding errors into steps.

Two workers with sync_bn train as one worker with twice the batch: over 20 steps, with clipping and
without. A gradient of backbone or centres that is wrong by the factor 2 fails each case of two workers, except for
the centres with AdamW, whose updates do not depend on this factor.

fp16 needs a GPU, so a worker on an emulated GPU runs jobs whose first gradients overflow. Such updates of backbone
and centres are skipped, and the scale is halved. The later updates are compared as above, within the precision of
fp16.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import torch

import pfc_runs
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
CLASSIFIER = {"network": "resnet18", "embedding_size": 512, "loss": {"name": "softmax"}, "label_smoothing": 0.1,
              "sample_rate": 1, "sync_bn": True, "weight_decay": 1e-4, "clip_norm": 0,
              "margin_list": None, "margin_scale": None, "margin_gradient": None}

TEACHER = {"teacher": "mbf", "teacher_precision": "fp32"}
LOGITS = {**TEACHER, "distill_embeddings": "none", "distill_logits": 10, "distill_temperature": 2}

# Largest relative errors. A weight's error is relative to how far it has moved.
LIMITS_OF_TWO = {"loss": 1e-3, "lr": 1e-12, "gradient_norm": 1e-2}  # two workers, compared with one worker
LIMITS = {"loss": 1e-4, "distillation_loss": 1e-4, "logits_loss": 1e-4, "lr": 1e-12, "gradient_norm": 2e-3,
          "weights": 2e-2, "centres": 1e-3}
LIMITS_OF_FP16 = {**LIMITS, "loss": 1e-2, "distillation_loss": 1e-2, "logits_loss": 1e-2, "gradient_norm": 2e-2,
                  "weights": 1e-1,
                  "centres": 3e-2, "loss_scale": 0}

# (name, keys of the job, workers)
CASES = [
    ("straight-through, sampled", {}, 1),
    ("exact, all classes, not clipped",
     {"margin_gradient": "exact", "sample_rate": 1, "clip_norm": 0, "lr": 5e-5}, 1),
    ("combined margin, exact", {"margin_gradient": "exact", "margin_list": [1.1, 0.2, 0.1]}, 1),
    ("accumulated", ACCUMULATED, 1),
    ("adamw, positives alone", {**ADAMW, "sample_rate": 0}, 1),
    ("adamw, accumulated", {**ADAMW, **ACCUMULATED}, 1),
    ("dropout", {"network": "r18", "dropout": 0.4, "num_epoch": 0.5}, 1),
    ("two workers", {"batch_size": 8}, 2),
    ("two workers, accumulated, adamw", {**ADAMW, **ACCUMULATED, "batch_size": 8}, 2),
    ("two workers, dropout", {"network": "r18", "dropout": 0.4, "num_epoch": 0.5, "batch_size": 8},
     2),
    ("two workers, sync_bn", {"batch_size": 8, "sync_bn": True}, 2),
    ("distillation, cosine", {**TEACHER, "distill_weight": 50}, 1),
    ("two workers, accumulated, distillation, mse",
     {**ACCUMULATED, **TEACHER, "batch_size": 8, "distill_embeddings": "mse", "distill_weight": 50}, 2),
    ("logits, embeddings too", {**TEACHER, "distill_weight": 50, "distill_logits": 3}, 1),
    ("logits, all classes, a larger teacher",
     {**LOGITS, "teacher_size": 48, "sample_rate": 1, "distill_temperature": 1}, 1),
    ("two workers, logits, sampled", {**LOGITS, "batch_size": 8, "teacher_files": 2}, 2),
    ("two workers, logits, all classes, adamw, accumulated",
     {**LOGITS, **ADAMW, **ACCUMULATED, "batch_size": 8, "sample_rate": 1}, 2),
    ("three workers, logits, accumulated",
     {**LOGITS, **ACCUMULATED, "batch_size": 4, "sync_bn": True, "teacher_files": 2, "teacher_size": 16}, 3),
    ("three workers, an image classifier", {**CLASSIFIER, "batch_size": 8}, 3),
    ("three workers, its first gradient",
     {**CLASSIFIER, "batch_size": 8, "warmup_epoch": 0, "max_steps": 1}, 3),
]
FP16 = {"precision": "fp16", "device": "cuda"}
CASES_OF_FP16 = [
    ("fp16", {**FP16, "num_epoch": 1}, LIMITS_OF_FP16),
    ("fp16, accumulated, adamw", {**FP16, **ADAMW, "gradient_acc": 2, "num_epoch": 2},
     # The first updates of this job are little more than the signs of gradients, and rounding changes the sign of a
     # gradient near zero. With other seeds, the errors of centres were between 0.006 and 0.07.
     {**LIMITS_OF_FP16, "weights": 0.4, "centres": 0.1}),
]


def pfc(programs, folder, job, workers):
    """Trains the job; returns the objects of its steps. `programs`: their folder, or a worker's program."""
    if workers == 1:
        pfc_runs.run([programs / "pfc-worker" if programs.is_dir() else programs, "--config", job])
    else:
        pfc_runs.run([programs / "pfc-coordinator", "--hosts", f"localhost:{workers}", "--config", job,
                      "--port", 0, "--http-port", 0, "--state-dir", folder / "state"])
    return pfc_runs.metrics(folder / "out" / "metrics.jsonl")


def pfc_state(folder):
    """Returns weights, running statistics and centres of the last checkpoint."""
    last = max((folder / "out").glob("step-*"))
    parts = [safetensors_io.load(path) for path in sorted(last.glob("centres-*"))]
    return {**safetensors_io.load(last / "backbone.safetensors"),
            "centres": np.concatenate([part["weight"] for part in parts])}


def relative(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def series(steps, key):
    return np.array([step[key] for step in steps], float)  # NaN stands for null


def come(state, start, names):
    """Returns the change of these tensors since the start, as one vector."""
    return np.concatenate([(state[name].astype(np.float64) - start[name]).ravel()
                           for name in names])


def compare_steps(got, want):
    if len(got) != len(want):
        sys.exit(f"{len(got)} steps instead of {len(want)}")
    errors = {}
    for key in ("loss", "distillation_loss", "logits_loss", "lr", "gradient_norm", "loss_scale"):
        if key in want[0]:
            ours, theirs = series(got, key), series(want, key)
            error = np.where(np.isnan(ours) & np.isnan(theirs), 0, np.abs(ours / theirs - 1))
            errors[key] = np.max(error)
    return errors


def compare_states(got, want, start):
    weights = [name for name, tensor in want.items() if tensor.ndim > 1 and name != "centres"]
    return {kind: relative(come(got, start, names), come(want, start, names))
            for kind, names in (("weights", weights), ("centres", ["centres"]))}


def with_reference(folder, programs, keys, workers):
    job = {key: value for key, value in {**JOB, **keys}.items() if value is not None}
    path = reference_input.make(folder, job, CLASSES, PER_CLASS, size=SIZE)
    got = pfc(programs, folder, path, workers)
    start = safetensors_io.load(folder / "reference.safetensors")
    teacher = safetensors_io.load(folder / "teacher.safetensors") if "teacher" in job else None
    trainer = step_reference.Trainer(job, start, workers, teacher)
    overflowed = [step["step"] for step in got if step["gradient_norm"] is None]
    if (job.get("precision") == "fp16") != (0 < len(overflowed) < len(got)):
        sys.exit(f"updates {overflowed} of {len(got)} were left out")
    want = trainer.train(overflowed)
    return {**compare_steps(got, want), **compare_states(pfc_state(folder), trainer.state(), start)}


def two_with_one(folder, programs, keys):
    """Compares losses over 20 steps of two workers and of one with the same global batch."""
    job = {**JOB, "sync_bn": True, "num_epoch": 10, "max_steps": 20, **keys}
    steps = []
    for workers in (1, 2):
        there = folder / str(workers)
        path = reference_input.make(there, {**job, "batch_size": 16 // workers}, CLASSES, PER_CLASS,
                                    size=SIZE)
        steps.append(pfc(programs, there, path, workers))
    return compare_steps(steps[1], steps[0])


def cases(arguments):
    """Yields (name, limits, function, its arguments after the folder) for the given programs."""
    if arguments.bin:
        for name, keys, workers in CASES:
            yield name, LIMITS, with_reference, (arguments.bin, keys, workers)
        for name, keys in (("clipped", {"lr": 5e-5}), ("not clipped", {"lr": 5e-6, "clip_norm": 0})):
            yield f"two workers as one, {name}", LIMITS_OF_TWO, two_with_one, (arguments.bin, keys)
    if arguments.emulated:
        for name, keys, limits in CASES_OF_FP16:
            yield name, limits, with_reference, (arguments.emulated, keys, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--emulated", type=pathlib.Path, help="worker with an emulated GPU, for fp16")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    arguments = parser.parse_args()
    if not arguments.bin and not arguments.emulated:
        parser.error("--bin or --emulated is needed")
    torch.set_num_threads(1)
    failed = 0
    for name, limits, compare, more in cases(arguments):
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="pfc-step-parity-") as folder:
            errors = compare(pathlib.Path(folder), *more)
        failed += pfc_runs.report(name, errors, limits)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
