"""The reference trainer: one process of PyTorch with the same steps as a single pfc-worker.

    train_reference.py --job job.json --input input.safetensors [--metrics metrics.jsonl]
                       [--data FOLDER] [--val NAME.bin ...]
                       [--device cuda] [--precision fp16] [--layout nchw] [--no-mkldnn]
                       [--compile MODE] [--fast-transformer] [--steps N]

The input file holds `images` U8 [n, H, H, 3], `labels` I64 [n], `centres` F32 [C, D] and the
backbone's state dict under its own names; with --data, images and labels are those of a folder in
RecordIO layout. This trainer shuffles and flips images in its own way, from the job's seed. It reads pfc's job file,
and refuses keys that it does not support. Every step writes one JSON object with pfc's names: step, loss, lr,
step_seconds, samples_per_second, memory_bytes (the process's peak), on a GPU gpu_memory_bytes, and a note if an
option could not be used. Then every verification set writes one: val_target, accuracy.

On a GPU the images are there as bytes from the start, and no step waits for its loss. Both favour the reference.
`--precision` is that of autocast (bf16, fp16 with a GradScaler); weights, loss and optimizer are float32.

The trainer has ArcFace, CosFace and combined margins with either gradient, and all classes are active. The loss is
the mean over the batch. The backbone's gradient is clipped, the centres' gradient is not. SGD has momentum and weight
decay on all trained parameters. The learning rate is polynomial after a linear warm-up.
"""

import argparse
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional

import image_records
import safetensors_io
import torch_run
import verification
from backbone_reference import Fast, make_backbone, normalised

# pfc's defaults for keys that the job leaves out (docs/configuration.md).
DEFAULTS = {
    "network": "r50", "embedding_size": 512, "margin_list": [1.0, 0.5, 0.0], "margin_scale": 64.0,
    "margin_gradient": "straight_through",
    "batch_size": 128, "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "clip_norm": 5.0,
    "num_epoch": 20, "max_steps": 0, "warmup_epoch": 0, "shuffle": True, "augment": True,
    "seed": 2048,
}
# Keys for which only one value is supported here, and keys that do not change the arithmetic.
FIXED = {
    "interclass_filtering_threshold": 0, "sample_rate": 1,
    "optimizer": "sgd", "lr_schedule": "polynomial", "dropout": 0, "gradient_acc": 1,
    "resume": False,
}
IGNORED = {"rec", "output", "init_from", "frequent", "verbose", "val_targets", "num_workers",
           "save_every_steps", "save_every_seconds", "keep_checkpoints", "sync_bn", "num_classes",
           "num_image", "cuda_graphs", "recompute", "tensorboard", "export", "histograms_every_steps"}
# Keys whose values this trainer takes from its command line, and not from the job.
HERE = {"precision": "fp32", "device": "cpu", "tf32": False}


def read_job(path, here):
    """`here`: values of the keys of HERE from the command line."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    for key, value in given.items():
        if key in HERE and here["device"] == "cpu" and value != HERE[key]:
            sys.exit(f"{path}: {key}: on a CPU the reference knows {HERE[key]!r} only, "
                     f"found {value!r}")
        if key in FIXED and value != FIXED[key]:
            sys.exit(f"{path}: {key}: the reference knows {FIXED[key]!r} only, found {value!r}")
        if not any(key in known for known in (FIXED, DEFAULTS, IGNORED, HERE)):
            sys.exit(f"{path}: {key}: the reference does not follow this key")
    return {**DEFAULTS, **given}


def learning_rate(job, step, steps_per_epoch, total):
    """Returns the learning rate of a step, counted from 1."""
    warm = math.floor(steps_per_epoch * job["warmup_epoch"])
    if step <= warm:
        return job["lr"] * step / warm
    return job["lr"] * (1 - (step - 1 - warm) / (total - warm))


def margin_loss(embeddings, labels, centres, job):
    m1, m2, m3 = job["margin_list"]
    cosine = functional.linear(functional.normalize(embeddings), functional.normalize(centres))
    cosine = cosine.to(centres.dtype).clamp(-1, 1)  # autocast has rounded it
    target = cosine.gather(1, labels[:, None])
    if job["margin_gradient"] == "straight_through":
        with_margin = target + (torch.cos(m1 * torch.acos(target) + m2) - m3 - target).detach()
    else:
        # Inside (-1, 1), this is the exact gradient. At the ends acos has no gradient, and tests avoid them.
        angle = m1 * torch.acos(target) + m2
        turns = torch.floor(angle.detach() / math.pi)  # makes the target fall further beyond pi
        with_margin = torch.cos(angle - turns * math.pi) - 2 * turns - m3
    logits = job["margin_scale"] * cosine.scatter(1, labels[:, None], with_margin)
    return functional.cross_entropy(logits, labels)


class Model(torch.nn.Module):
    """Backbone and class centres. Computes the loss of a batch."""

    def __init__(self, job, tensors, arguments, size):
        super().__init__()
        self.job = job
        self.dtype = torch.float64 if arguments.double else torch.float32
        self.layout = (torch.contiguous_format if arguments.layout == "nchw"
                       else torch.channels_last)
        centres = torch.from_numpy(tensors.pop("centres"))
        self.centres = torch.nn.Parameter(centres.to(arguments.device, self.dtype))
        self.backbone = make_backbone(job["network"], job["embedding_size"], height=size, width=size)
        self.backbone.load_state_dict(
            {name: torch.from_numpy(value) for name, value in tensors.items()})
        self.backbone = self.backbone.to(arguments.device, self.dtype)
        self.backbone = self.backbone.to(memory_format=self.layout).train()

    def input(self, images):
        """Converts uint8 [B, H, W, 3] to the backbone's input."""
        return normalised(images).to(self.dtype).contiguous(memory_format=self.layout)

    def forward(self, images, labels):
        return margin_loss(self.backbone(self.input(images)), labels, self.centres, self.job)


class Trainer:
    def __init__(self, job, tensors, arguments):
        self.job = job
        self.device = torch_run.start(arguments)
        self.images = torch.from_numpy(tensors.pop("images")).to(self.device)
        self.labels = torch.from_numpy(tensors.pop("labels")).to(self.device)
        self.amp = torch_run.AMP[arguments.precision]
        self.scaler = torch.cuda.amp.GradScaler() if arguments.precision == "fp16" else None
        self.model = Model(job, tensors, arguments, self.images.shape[1])
        self.loss = torch_run.compiled(self.model, arguments)
        self.trainable = [p for p in self.model.backbone.parameters() if p.requires_grad]
        self.fused = bool(arguments.compile) and arguments.device == "cuda"
        self.note = ""
        self.optimizer = self.make_optimizer()
        self.steps_per_epoch = len(self.images) // job["batch_size"]
        self.total = math.floor(self.steps_per_epoch * job["num_epoch"])
        self.last = min(self.total, job["max_steps"] or self.total, arguments.steps or self.total)
        self.random = torch.Generator().manual_seed(job["seed"])
        self.order = torch.arange(len(self.images), device=self.device)

    def make_optimizer(self):
        fused = {"fused": True} if self.fused else {}  # older versions of PyTorch lack this key
        return torch.optim.SGD(self.trainable + [self.model.centres], lr=self.job["lr"],
                               momentum=self.job["momentum"],
                               weight_decay=self.job["weight_decay"], **fused)

    def begin_epoch(self):
        """Draws the order and the flips of a whole epoch at once. A copy to a GPU in every step would wait for the
        GPU."""
        if self.job["shuffle"]:
            order = torch.randperm(len(self.images), generator=self.random)
            self.order = order.to(self.device)
        if self.job["augment"]:
            flips = [torch.rand(self.job["batch_size"], generator=self.random) < 0.5
                     for _ in range(self.steps_per_epoch)]
            self.flips = torch.stack(flips).to(self.device)  # [steps, B]

    def batch(self, step):
        """Returns images, uint8 [B, H, W, 3], and labels, int64 [B]."""
        number = (step - 1) % self.steps_per_epoch
        if number == 0:
            self.begin_epoch()
        size = self.job["batch_size"]
        chosen = self.order[number * size:(number + 1) * size]
        images = self.images[chosen]
        if self.job["augment"]:
            flip = self.flips[number]
            images = torch.where(flip[:, None, None, None], images.flip(2), images)
        return images, self.labels[chosen]

    def step(self, step):
        """Runs an optimizer step, counted from 1; returns (loss, on the device, and learning rate)."""
        images, labels = self.batch(step)
        rate = learning_rate(self.job, step, self.steps_per_epoch, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.autocast():
            loss = self.loss(images, labels)
        self.optimizer.zero_grad(set_to_none=True)
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        if self.job["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.trainable, self.job["clip_norm"])
        try:
            self.update()
        except RuntimeError as error:
            self.go_on_unfused(step, error)
        if self.scaler:
            self.scaler.update()
        return loss.detach(), rate

    def update(self):
        if self.scaler:
            self.scaler.step(self.optimizer)
        else:
            self.optimizer.step()

    def go_on_unfused(self, step, error):
        """Continues without the fused optimizer if it refuses the layout that a compiled step gives the gradient of a 1
        x 1 convolution. Skips that step's update."""
        if not self.fused or step > 1 or isinstance(error, torch.cuda.OutOfMemoryError):
            raise error
        print(f"no fused SGD: {error}", file=sys.stderr)
        self.fused, self.note = False, "SGD not fused"
        self.optimizer = self.make_optimizer()

    def autocast(self):
        return torch.autocast(self.device.type, dtype=self.amp or torch.bfloat16,
                              enabled=self.amp is not None)

    def embed(self, images):
        """Returns numpy float32 [n, D] of numpy uint8 [n, H, W, 3] and their mirror images."""
        self.model.backbone.eval()
        parts = []
        with torch.no_grad(), self.autocast():
            for part in torch.from_numpy(images).split(256):
                part = part.to(self.device)
                parts.append(sum(self.model.backbone(self.model.input(x)).float()
                                 for x in (part, part.flip(2))).cpu())
        self.model.backbone.train()
        return torch.cat(parts).numpy()


def train(trainer):
    """Writes all steps at the end, in pfc's format, so that no step waits for the loss of another step."""
    watch, done = torch_run.Stopwatch(trainer.device), []
    watch.mark()
    for step in range(1, trainer.last + 1):
        loss, rate = trainer.step(step)
        done.append((loss.clone(), rate))  # copied, because a compiled step may reuse the memory of the loss
        watch.mark()
    memory = torch_run.peak_memory(trainer.device)
    for step, (seconds, (loss, rate)) in enumerate(zip(watch.seconds(), done), start=1):
        yield {"step": step, "loss": loss.item(), "lr": rate, "step_seconds": seconds,
               "samples_per_second": trainer.job["batch_size"] / seconds, "note": trainer.note,
               **memory}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--data", type=pathlib.Path, help="folder with train.rec and train.idx")
    parser.add_argument("--val", type=pathlib.Path, nargs="*", default=[], metavar="NAME.bin",
                        help="verification sets, evaluated at the end")
    parser.add_argument("--metrics", default="-", help="JSON lines; - for stdout")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--precision", choices=torch_run.AMP, default="fp32")
    parser.add_argument("--layout", choices=("channels_last", "nchw"), default="channels_last")
    parser.add_argument("--no-mkldnn", action="store_true",
                        help="use PyTorch's own convolutions on a CPU, not oneDNN's")
    parser.add_argument("--fast-transformer", action="store_true",
                        help="use PyTorch's attention and random numbers, not arcface_torch's float32 attention "
                             "and pfc's numbers")
    parser.add_argument("--steps", type=int, help="number of steps, if fewer than the job's")
    torch_run.add_arguments(parser)
    return parser.parse_args()


def main():
    arguments = parse()
    job = read_job(arguments.job, vars(arguments))
    tensors = safetensors_io.load(arguments.input)
    if arguments.data:
        tensors["images"], tensors["labels"] = image_records.read(arguments.data)
    torch.backends.mkldnn.set_flags(not arguments.no_mkldnn)
    Fast.on = arguments.fast_transformer
    trainer = Trainer(job, tensors, arguments)
    out = sys.stdout if arguments.metrics == "-" else open(arguments.metrics, "w", encoding="utf-8")
    for entry in train(trainer):
        print(json.dumps(entry), file=out)
    for path in arguments.val:
        images, same = verification.read(path)
        right = verification.accuracy(trainer.embed(images), same)
        print(json.dumps({"val_target": path.stem, "accuracy": right}), file=out, flush=True)


if __name__ == "__main__":
    main()
