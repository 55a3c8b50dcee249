"""The PyTorch reference of the classification layer: one worker's margin softmax, as in arcface_torch. bench_head.py
compares it with pfc's head.

    head_torch.py --classes 1000000 [--rate 0.1] [--update dense] [--samples 128] [--dimension 512]
                  [--threads 2] [--warm-up 1] [--steps 2] [--device cuda --precision fp16]

Modelled on PartialFC_V2, CombinedMarginLoss and train_v2.py of arcface_torch (ArcFace, float32, SGD), with the same
tensors and the same passes over them. The centres are one parameter. A step with sample_rate < 1 draws a uniform number
for every class, puts the batch's classes first, takes the largest by topk, sorts them and selects those rows by index.
Then follow normalise, linear, clamp, margin, cross entropy, backward and the SGD step.

The script leaves out the collectives of a group of one worker, copies to a device, the backbone, and the zeroing of
gradients (set_to_none, the default of newer versions of PyTorch). This favours the reference. Values of --update:

  dense  as PartialFC_V2 and CombinedMarginLoss: below rate 1 autograd scatters the rows' gradient into a
         gradient of the whole table, and torch.optim's SGD goes over the whole table. The margin's arc
         cosine and cosine are computed for all logits.
  rows   a faster way to write it in PyTorch: below rate 1 the selected rows and their momentum are copied,
         updated and written back, as in the first PartialFC. Other rows do not change. SGD works in place,
         and the margin is computed for the targets only.

Prints one JSON object: seconds of every measured step, seconds of sampling (part of the step), first loss, peak
resident memory in bytes; on a GPU also the memory in use, and the peaks of PyTorch's allocator. `--precision` fp16 or
bf16 applies to the product of centres and embeddings, as PartialFC_V2's autocast does; logits and centres stay in
float32. If the GPU has too little memory, the object is {"out_of_memory": true}.
"""

import argparse
import json
import math

import torch
from torch.nn import functional

import torch_run

SCALE, MARGIN = 64.0, 0.5
RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-4


def arcface_logits(cosine, labels):
    """Returns the scaled logits [N, S]. The margin is added in place and outside autograd, so the gradient is
    straight-through."""
    each = torch.arange(len(labels), device=labels.device)
    with torch.no_grad():
        cosine.arccos_()
        cosine[each, labels] += MARGIN
        cosine.cos_()
    return cosine * SCALE


def arcface_logits_of_targets(cosine, labels):
    """Returns the same numbers except for rounding, but changes only the targets' logits."""
    each = torch.arange(len(labels), device=labels.device)
    with torch.no_grad():
        cosine[each, labels] = torch.cos(torch.arccos(cosine[each, labels]) + MARGIN)
    return cosine * SCALE


class PartialFc(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.amp = torch_run.AMP[options.precision]
        self.sampled = int(options.rate * options.classes)
        weight = torch.empty(options.classes, options.dimension, device=options.device)
        self.weight = torch.nn.Parameter(weight.normal_(0, 0.01))
        self.logits = arcface_logits_of_targets if options.update == "rows" else arcface_logits

    def sample(self, labels):
        """Returns the step's classes, sorted, and the labels as positions among them."""
        with torch.no_grad():
            positive = torch.unique(labels)
            if self.sampled < len(positive):
                return positive, torch.searchsorted(positive, labels)
            order = torch.rand(len(self.weight), device=self.weight.device)
            order[positive] = 2.0
            index = torch.topk(order, self.sampled)[1].sort()[0]
            return index, torch.searchsorted(index, labels)

    def loss(self, embeddings, weight, labels):
        with torch.autocast(weight.device.type, dtype=self.amp or torch.bfloat16,
                            enabled=self.amp is not None):
            cosine = functional.linear(functional.normalize(embeddings),
                                       functional.normalize(weight))
        cosine = cosine.float().clamp(-1, 1)
        return functional.cross_entropy(self.logits(cosine, labels), labels)


class DenseStep:
    """Computes the gradient of the whole table, and updates the whole table."""

    def __init__(self, module):
        self.module = module
        self.optimizer = torch.optim.SGD([module.weight], lr=RATE, momentum=MOMENTUM,
                                         weight_decay=DECAY)
        # Its marks are the begin and the end of each step's sampling, in turn.
        self.sampling = torch_run.Stopwatch(module.weight.device)

    def __call__(self, embeddings, labels):
        weight, labels = self.active(labels)
        loss = self.module.loss(embeddings, weight, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def active(self, labels):
        """Every class takes part."""
        return self.module.weight, labels


class SampledDenseStep(DenseStep):
    """Rows are selected under autograd."""

    def active(self, labels):
        self.sampling.mark()
        index, labels = self.module.sample(labels)
        self.sampling.mark()
        return self.module.weight[index], labels


def sgd(rows, momentum, gradient):
    """Does torch.optim's arithmetic in place; momentum begins with zeros."""
    gradient.add_(rows, alpha=DECAY)
    momentum.mul_(MOMENTUM).add_(gradient)
    rows.add_(momentum, alpha=-RATE)


class RowsStep(DenseStep):
    """A fast way to write the head in PyTorch. Every class takes part."""

    def __init__(self, module):
        super().__init__(module)
        self.momentum = torch.zeros_like(module.weight)

    def __call__(self, embeddings, labels):
        loss = self.module.loss(embeddings, self.module.weight, labels)
        loss.backward()
        sgd(self.module.weight.data, self.momentum, self.module.weight.grad)
        self.module.weight.grad = None
        return loss.item()


class SampledRowsStep(RowsStep):
    """A fast way to write the head in PyTorch. During a step, the selected rows are the parameter."""

    def __call__(self, embeddings, labels):
        self.sampling.mark()
        index, labels = self.module.sample(labels)
        self.sampling.mark()
        table = self.module.weight.data
        rows, momentum = table[index].requires_grad_(), self.momentum[index]
        loss = self.module.loss(embeddings, rows, labels)
        loss.backward()
        sgd(rows.data, momentum, rows.grad)
        table[index] = rows.data
        self.momentum[index] = momentum
        return loss.item()


def make_step(options):
    module = PartialFc(options)
    module.loss = torch_run.compiled(module.loss, options)
    steps = {"dense": (DenseStep, SampledDenseStep), "rows": (RowsStep, SampledRowsStep)}
    return steps[options.update][options.rate < 1](module)


def measure(options, device):
    step, watch, losses = make_step(options), torch_run.Stopwatch(device), []
    for _ in range(options.warm_up + options.steps):
        embeddings = torch.randn(options.samples, options.dimension, device=device,
                                 requires_grad=True)
        labels = torch.randint(options.classes, (options.samples,), device=device)
        watch.mark()
        losses.append(step(embeddings, labels))
        watch.mark()
        assert math.isfinite(losses[-1]) and embeddings.grad is not None
    return {
        "seconds": watch.seconds()[::2][options.warm_up:],
        "sample_seconds": step.sampling.seconds()[::2][options.warm_up:],
        "loss": losses[0],
        **torch_run.peak_memory(device),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--update", choices=("dense", "rows"), default="dense")
    parser.add_argument("--precision", choices=torch_run.AMP, default="fp32")
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    torch_run.add_arguments(parser)
    options = parser.parse_args()
    device = torch_run.start(options)
    torch.manual_seed(1)
    try:
        result = measure(options, device)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        result = {"out_of_memory": True}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
