"""The PyTorch reference of the classification layer: one worker's margin softmax as arcface_torch
does it, to be measured beside pfc's head (bench_head.py).

    head_torch.py --classes 1000000 [--rate 0.1] [--update dense] [--samples 128] [--dimension 512]
                  [--threads 2] [--warm-up 1] [--steps 2]

Modelled on PartialFC_V2, CombinedMarginLoss and train_v2.py of arcface_torch (ArcFace, float32, SGD),
with the same tensors and the same passes over them: the centres are one parameter; a step with
sample_rate < 1 draws a uniform number for every class, puts the batch's classes first, takes the
largest by topk, sorts them and selects those rows by index; then normalise, linear, clamp, margin,
cross entropy, backward, SGD step. Left out, in the reference's favour: the collectives of a group of
one worker, copies to a device, and the backbone. What --update chooses for sample_rate < 1:

  dense  as PartialFC_V2: autograd scatters the rows' gradient into one of the whole table, and SGD
         goes over the whole table.
  rows   as the first PartialFC: the selected rows and their momentum become the optimizer's parameter
         for the step, and are written back after it. Less work and memory, what arcface_torch gave up.

Prints one JSON object: seconds of every measured step, seconds of sampling (part of the step), first
loss, peak resident memory in bytes.
"""

import argparse
import json
import math
import resource
import time

import torch
from torch.nn import functional

SCALE, MARGIN = 64.0, 0.5


def arcface_logits(cosine, labels):
    """[N, S] scaled logits, the margin put in place and outside autograd: straight through."""
    each = torch.arange(len(labels))
    with torch.no_grad():
        cosine.arccos_()
        cosine[each, labels] += MARGIN
        cosine.cos_()
    return cosine * SCALE


class PartialFc(torch.nn.Module):
    def __init__(self, classes, dimension, rate):
        super().__init__()
        self.sampled = int(rate * classes)
        self.weight = torch.nn.Parameter(torch.normal(0, 0.01, (classes, dimension)))

    def sample(self, labels):
        """The step's classes, sorted, and the labels as positions among them."""
        with torch.no_grad():
            positive = torch.unique(labels)
            if self.sampled < len(positive):
                return positive, torch.searchsorted(positive, labels)
            order = torch.rand(len(self.weight))
            order[positive] = 2.0
            index = torch.topk(order, self.sampled)[1].sort()[0]
            return index, torch.searchsorted(index, labels)

    @staticmethod
    def loss(embeddings, weight, labels):
        cosine = functional.linear(functional.normalize(embeddings), functional.normalize(weight))
        return functional.cross_entropy(arcface_logits(cosine.clamp(-1, 1), labels), labels)


def sgd(parameter):
    return torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=5e-4)


class FullStep:
    """Every class takes part."""

    def __init__(self, module):
        self.module, self.optimizer, self.sample_seconds = module, sgd(module.weight), []

    def __call__(self, embeddings, labels):
        weight, labels = self.active(labels)
        loss = self.module.loss(embeddings, weight, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def active(self, labels):
        return self.module.weight, labels


class DenseStep(FullStep):
    """Rows are selected under autograd; gradient and optimizer are those of the whole table."""

    def active(self, labels):
        begin = time.perf_counter()
        index, labels = self.module.sample(labels)
        self.sample_seconds.append(time.perf_counter() - begin)
        return self.module.weight[index], labels


class RowsStep(FullStep):
    """The selected rows are the optimizer's parameter for the length of a step."""

    def __init__(self, module):
        super().__init__(module)
        self.momentum = torch.zeros_like(module.weight)

    def __call__(self, embeddings, labels):
        begin = time.perf_counter()
        index, labels = self.module.sample(labels)
        self.sample_seconds.append(time.perf_counter() - begin)
        table = self.module.weight.data
        rows = torch.nn.Parameter(table[index])
        optimizer = sgd(rows)
        optimizer.state[rows]["momentum_buffer"] = self.momentum[index]
        loss = self.module.loss(embeddings, rows, labels)
        loss.backward()
        optimizer.step()
        table[index] = rows.data
        self.momentum[index] = optimizer.state[rows]["momentum_buffer"]
        return loss.item()


def make_step(options):
    module = PartialFc(options.classes, options.dimension, options.rate)
    if options.rate >= 1:
        return FullStep(module)
    return {"dense": DenseStep, "rows": RowsStep}[options.update](module)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--update", choices=("dense", "rows"), default="dense")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    step = make_step(options)
    seconds, losses = [], []
    for _ in range(options.warm_up + options.steps):
        embeddings = torch.randn(options.samples, options.dimension, requires_grad=True)
        labels = torch.randint(options.classes, (options.samples,))
        begin = time.perf_counter()
        losses.append(step(embeddings, labels))
        seconds.append(time.perf_counter() - begin)
        assert math.isfinite(losses[-1]) and embeddings.grad is not None
    print(json.dumps({
        "seconds": seconds[options.warm_up:],
        "sample_seconds": step.sample_seconds[options.warm_up:],
        "loss": losses[0],
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


if __name__ == "__main__":
    main()
