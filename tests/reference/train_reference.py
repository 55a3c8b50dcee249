"""The reference trainer: one process of PyTorch that does what pfc-worker does alone, step by step.

    train_reference.py --job job.json --input input.safetensors [--metrics metrics.jsonl]

The input file holds `images` U8 [n, 112, 112, 3], `labels` I64 [n], `centres` F32 [C, D] and the
backbone's state dict under its own names. Images are taken in the order of the file, without
shuffling or flipping. The job file is pfc's; a key that this trainer does not follow is refused.
Every step gives one JSON object with pfc's names: step, loss, lr, step_seconds, samples_per_second,
memory_bytes (the process's peak).

Semantics: ArcFace, CosFace and combined margins with the exact gradient; every class takes part; the
loss is the mean over the batch; the backbone's gradient is clipped, the centres' is not; SGD with
momentum and weight decay on everything trainable; polynomial learning rate after linear warm-up.
"""

import argparse
import json
import math
import resource
import sys
import time

import torch
from torch.nn import functional

import safetensors_io
from backbone_reference import make_backbone, normalised

# What pfc takes for a key that the job leaves out (docs/configuration.md).
DEFAULTS = {
    "network": "r50", "embedding_size": 512, "margin_list": [1.0, 0.5, 0.0], "margin_scale": 64.0,
    "batch_size": 128, "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "clip_norm": 5.0,
    "num_epoch": 20, "max_steps": 0, "warmup_epoch": 0,
}
# Keys that this trainer can do in one way only, and keys that do not change the arithmetic.
FIXED = {
    "margin_gradient": "exact", "interclass_filtering_threshold": 0, "sample_rate": 1,
    "precision": "fp32", "optimizer": "sgd", "lr_schedule": "polynomial", "dropout": 0,
    "shuffle": False, "augment": False, "gradient_acc": 1, "resume": False, "device": "cpu",
}
IGNORED = {"rec", "output", "init_from", "frequent", "verbose", "val_targets", "num_workers",
           "save_every_steps", "save_every_seconds", "keep_checkpoints", "seed", "sync_bn",
           "num_classes", "num_image"}


def read_job(path):
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    for key, value in given.items():
        if key in FIXED and value != FIXED[key]:
            sys.exit(f"{path}: {key}: the reference knows {FIXED[key]!r} only, found {value!r}")
        if key not in FIXED and key not in DEFAULTS and key not in IGNORED:
            sys.exit(f"{path}: {key}: the reference does not follow this key")
    return {**DEFAULTS, **given}


def learning_rate(job, step, steps_per_epoch, total):
    """Steps count from 1."""
    warm = math.floor(steps_per_epoch * job["warmup_epoch"])
    if step <= warm:
        return job["lr"] * step / warm
    return job["lr"] * (1 - (step - warm) / (total - warm))


def margin_loss(embeddings, labels, centres, job):
    m1, m2, m3 = job["margin_list"]
    cosine = functional.linear(functional.normalize(embeddings), functional.normalize(centres))
    cosine = cosine.clamp(-1, 1)
    target = cosine.gather(1, labels[:, None])
    # Inside (-1, 1) this is the exact gradient; at the ends acos has none, and tests stay away.
    with_margin = torch.cos(m1 * torch.acos(target) + m2) - m3
    logits = job["margin_scale"] * cosine.scatter(1, labels[:, None], with_margin)
    return functional.cross_entropy(logits, labels)


class Trainer:
    def __init__(self, job, tensors, dtype):
        self.job = job
        self.dtype = dtype
        self.images = torch.from_numpy(tensors.pop("images"))
        self.labels = torch.from_numpy(tensors.pop("labels"))
        self.centres = torch.nn.Parameter(torch.from_numpy(tensors.pop("centres")).to(dtype))
        self.backbone = make_backbone(job["network"], job["embedding_size"])
        self.backbone.load_state_dict(
            {name: torch.from_numpy(value) for name, value in tensors.items()})
        self.backbone = self.backbone.to(dtype).to(memory_format=torch.channels_last).train()
        self.trainable = [p for p in self.backbone.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(self.trainable + [self.centres], lr=job["lr"],
                                         momentum=job["momentum"],
                                         weight_decay=job["weight_decay"])
        self.steps_per_epoch = len(self.images) // job["batch_size"]
        self.total = math.floor(self.steps_per_epoch * job["num_epoch"])
        self.last = min(self.total, job["max_steps"] or self.total)

    def step(self, step):
        """One optimizer step, counted from 1; returns (loss, learning rate)."""
        batch = self.job["batch_size"]
        first = (step - 1) % self.steps_per_epoch * batch
        x = normalised(self.images[first:first + batch])
        x = x.to(self.dtype).contiguous(memory_format=torch.channels_last)
        rate = learning_rate(self.job, step, self.steps_per_epoch, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = margin_loss(self.backbone(x), self.labels[first:first + batch], self.centres,
                           self.job)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.job["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.trainable, self.job["clip_norm"])
        self.optimizer.step()
        return loss.item(), rate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--metrics", default="-", help="JSON lines; - for stdout")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--double", action="store_true", help="float64: who is right?")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    trainer = Trainer(read_job(arguments.job), safetensors_io.load(arguments.input),
                      torch.float64 if arguments.double else torch.float32)
    out = sys.stdout if arguments.metrics == "-" else open(arguments.metrics, "w", encoding="utf-8")
    for step in range(1, trainer.last + 1):
        start = time.perf_counter()
        loss, rate = trainer.step(step)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step": step, "loss": loss, "lr": rate, "step_seconds": seconds,
                          "samples_per_second": trainer.job["batch_size"] / seconds,
                          "memory_bytes": peak}), file=out, flush=True)


if __name__ == "__main__":
    main()
