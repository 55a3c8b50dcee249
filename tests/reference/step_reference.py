"""Runs whole training steps in PyTorch, float64: the job of all workers, in one process. It is written from the
description in README.md and docs/training-step.md. step_parity.py compares pfc with it.

Each worker's images pass through the backbone with their own batch statistics (with sync_bn, all together). The head
gets all embeddings and the centres of the active classes. Autograd computes the gradients, which are summed over
micro-batches. torch.optim moves every weight and every centre, active or not.

Supported jobs: iresnet with dropout and mobilefacenet, any margin and its two gradients, sampling,
accumulation, distillation, SGD and AdamW, clipping, the polynomial schedule of power 1, the loss scale of fp16.
Images come in the order of the data, not mirrored.
"""

import fractions
import math

import numpy as np
import torch

import head_reference
from backbone_reference import make_backbone, normalised

DROPOUT_STREAM = 6
LARGEST_FP16 = 65504


def learning_rate(base, step, total, warm):
    """Returns the learning rates of steps 1 .. total. The rate rises linearly to `base` at step `warm`, and then falls
    linearly: it would be 0 one step after the last."""
    if step <= warm:
        return base * step / warm
    return base * (total - step + 1) / (total - warm)


class Dropout(torch.nn.Module):
    """Drops the elements that pfc drops: element e of micro-batch i if u(seed, i, e) < probability. Elements are
    counted over the activations of all workers, with the channels last."""

    def __init__(self, probability, seed, channels):
        super().__init__()
        self.probability, self.seed, self.channels = np.float32(probability), seed, channels
        self.micro_batch, self.worker = 0, 0

    def forward(self, x):  # [B, C * H * W]
        count = x.numel()
        u = head_reference.uniform(self.seed, DROPOUT_STREAM, self.micro_batch,
                                   (self.worker + 1) * count)[self.worker * count:]
        kept = torch.from_numpy(u >= self.probability).view(len(x), -1, self.channels)  # [B, HW, C]
        return x * kept.transpose(1, 2).reshape(x.shape) / (1 - float(self.probability))


def by_cudnn(module):
    """Returns whether this is a convolution for which pfc uses cuDNN: for depthwise convolutions it has its own
    kernels, and for matrix products it uses cuBLASLt."""
    return isinstance(module, torch.nn.Conv2d) and module.groups == 1 and (
        module.kernel_size != (1, 1) or module.stride != (1, 1))


class GradScaler:
    """Replaces torch.cuda.amp.GradScaler, which this PyTorch has only on GPUs, as arcface_torch uses it: one scale
    for one optimizer of backbone and centres. The scale does not grow, so this is for short jobs.

    Gradients are float64 here, so pfc reports which updates have overflowed. The class rejects a wrong report, unless
    the largest gradient that pfc stores in fp16, times the scale, is within a factor of 2 of the largest fp16 number.
    pfc stores the gradients of activations and of the weights of cuDNN's convolutions in fp16."""

    def __init__(self, backbone):
        self.scale, self.largest = 65536.0, 0.0
        self.convolutions = [module for module in backbone.modules() if by_cudnn(module)]
        for module in backbone.modules():
            if not list(module.children()):
                module.register_forward_hook(self.watch)

    def watch(self, module, inputs, output):
        output.register_hook(self.see)

    def see(self, gradient):
        self.largest = max(self.largest, gradient.abs().max().item())

    def see_weights(self):
        """Must be called before gradients are clipped."""
        for module in self.convolutions:
            self.see(module.weight.grad)

    def step(self, optimizer, overflowed):
        largest, self.largest = self.largest * self.scale, 0.0
        if (largest < LARGEST_FP16 / 2) if overflowed else (largest > LARGEST_FP16 * 2):
            raise SystemExit(f"the largest gradient times {self.scale} is about {largest:.3g}, and pfc "
                             f"{'left out' if overflowed else 'made'} the update")
        if overflowed:
            self.scale /= 2
        else:
            optimizer.step()


class Trainer:
    """`tensors`: images, labels, centres and the backbone's state dict (reference_input.py). `teacher`: the state dict
    of the network that `job["teacher"]` names."""

    def __init__(self, job, tensors, workers, teacher=None):
        self.job, self.workers = job, workers
        tensors = dict(tensors)
        self.images = torch.from_numpy(tensors.pop("images"))
        self.labels = tensors.pop("labels")
        centres = torch.from_numpy(tensors.pop("centres")).double()
        self.centres = torch.nn.Parameter(centres)
        _, height, width, _ = self.images.shape
        self.backbone = make_backbone(job["network"], job["embedding_size"], 0.0, height, width)
        self.backbone.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()})
        self.backbone.double().train()
        if job["dropout"] > 0:
            self.backbone.dropout = Dropout(job["dropout"], job["seed"], channels=512)
        self.teacher = None
        if teacher:
            teacher = dict(teacher)
            self.teacher_centres = torch.from_numpy(teacher.pop("centres", np.zeros((0, 0)))).double()
            self.teacher = make_backbone(job["teacher"], job.get("teacher_size", job["embedding_size"]), 0.0, height, width)
            self.teacher.load_state_dict({name: torch.from_numpy(t) for name, t in teacher.items()})
            self.teacher.double().eval()
        self.scaler = GradScaler(self.backbone) if job.get("precision") == "fp16" else None
        self.trainable = [p for p in self.backbone.parameters() if p.requires_grad]
        self.optimizer = self.make_optimizer()
        self.per_epoch = len(self.images) // (workers * job["batch_size"])  # micro-batches
        steps_per_epoch = fractions.Fraction(self.per_epoch, job["gradient_acc"])
        self.total = math.floor(steps_per_epoch * fractions.Fraction(str(job["num_epoch"])))
        self.warm = math.floor(steps_per_epoch * fractions.Fraction(str(job["warmup_epoch"])))
        self.last = min(self.total, job["max_steps"] or self.total)

    def make_optimizer(self):
        job, parameters = self.job, self.trainable + [self.centres]
        if job["optimizer"] == "adamw":
            return torch.optim.AdamW(parameters, job["lr"], betas=(0.9, 0.999), eps=1e-8,
                                     weight_decay=job["weight_decay"])
        return torch.optim.SGD(parameters, job["lr"], momentum=job["momentum"],
                               weight_decay=job["weight_decay"])

    def embed(self, images, micro_batch, worker):
        """Returns the embeddings [B, D] of a worker's images. Keeps the running statistics of worker 0 only."""
        if self.job["dropout"] > 0:
            self.backbone.dropout.micro_batch = micro_batch
            self.backbone.dropout.worker = worker
        kept = [(m, m.running_mean, m.running_var) for m in self.backbone.modules()
                if worker > 0 and hasattr(m, "running_mean")]
        for module, mean, variance in kept:  # not in place, because autograd needs the statistics of worker 0
            module.running_mean, module.running_var = mean.clone(), variance.clone()
        embeddings = self.backbone(normalised(images).double())
        for module, mean, variance in kept:
            module.running_mean, module.running_var = mean, variance
        return embeddings

    def distillation_losses(self, embeddings, images, active):
        """Returns the losses of embeddings and of logits, means over the samples. A loss is 0 if it is off."""
        none = torch.zeros(())
        if not self.teacher:
            return none, none
        with torch.no_grad():
            theirs = self.teacher(normalised(images).double())
        kind = self.job.get("distill_embeddings", "cosine")
        if kind == "mse":
            of_embeddings = torch.nn.functional.mse_loss(embeddings, theirs)
        elif kind == "cosine":
            of_embeddings = torch.nn.functional.cosine_embedding_loss(embeddings, theirs, torch.ones(len(images)))
        else:
            of_embeddings = none
        if "distill_logits" not in self.job:
            return of_embeddings, none
        temperature = self.job.get("distill_temperature", 4)
        ours, wanted = (torch.log_softmax(
            self.job["margin_scale"] / temperature * torch.nn.functional.linear(
                torch.nn.functional.normalize(x), torch.nn.functional.normalize(centres[active])), dim=1)
            for x, centres in ((embeddings, self.centres), (theirs, self.teacher_centres)))
        return of_embeddings, temperature ** 2 * torch.nn.functional.kl_div(
            ours, wanted, reduction="batchmean", log_target=True)

    def micro_batch(self, number, step):
        """Returns the shares of the step's loss and distillation losses; adds to the gradients."""
        size = self.workers * self.job["batch_size"]
        first = number % self.per_epoch * size
        images, labels = self.images[first:first + size], self.labels[first:first + size]
        parts = 1 if self.job["sync_bn"] else self.workers
        embeddings = torch.cat([self.embed(part, number, worker)
                                for worker, part in enumerate(images.chunk(parts))])
        active = head_reference.active_classes(len(self.centres), labels, self.job["sample_rate"],
                                               self.job["seed"], step)
        places = torch.from_numpy(np.searchsorted(active, labels))
        loss = head_reference.loss_of(embeddings, self.centres[active], places, self.job)
        distillation, logits = self.distillation_losses(embeddings, images, active)
        total = (loss + self.job.get("distill_weight", 1) * distillation + self.job.get("distill_logits", 0) * logits)
        (total / self.job["gradient_acc"]).backward()
        return np.array([loss.item(), distillation.item(), logits.item()]) / self.job["gradient_acc"]

    def step(self, step, overflowed):
        """Runs step number `step`, from 1. Returns the losses, the learning rate and the norm of the backbone's
        gradient, and with fp16 the scale. `overflowed`: with fp16, the steps whose gradients overflow; they return no
        norm."""
        self.optimizer.zero_grad()
        accumulated = self.job["gradient_acc"]
        loss, distillation, logits = sum(self.micro_batch((step - 1) * accumulated + i, step)
                                 for i in range(accumulated))
        rate = learning_rate(self.job["lr"], step, self.total, self.warm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.scaler:
            self.scaler.see_weights()
        norm = torch.nn.utils.clip_grad_norm_(self.trainable, self.job["clip_norm"] or math.inf)
        found = {"step": step, "loss": loss, "lr": rate, "gradient_norm": norm.item()}
        if self.teacher and self.job.get("distill_embeddings") != "none":
            found["distillation_loss"] = distillation
        if "distill_logits" in self.job:
            found["logits_loss"] = logits
        if self.scaler is None:
            self.optimizer.step()
            return found
        found["loss_scale"] = self.scaler.scale
        if step in overflowed:
            found["gradient_norm"] = None
        self.scaler.step(self.optimizer, step in overflowed)
        return found

    def train(self, overflowed=()):
        return [self.step(step, overflowed) for step in range(1, self.last + 1)]

    def state(self):
        """Returns weights, running statistics and centres in float64, under the names of the input."""
        state = {name: t.detach().numpy() for name, t in self.backbone.state_dict().items()}
        return {**state, "centres": self.centres.detach().numpy()}
