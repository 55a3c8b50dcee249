"""Runs train_v2.py of a checkout of arcface_torch on CPUs, one process for each GPU that it expects.

    RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1234 arcface_torch_run.py CHECKOUT SETTINGS.json

Its trainer, networks, loss, optimizers, schedule and checkpoints run unchanged. This script replaces calls of CUDA
and NCCL, and the data by the images of a file in their order. It removes validation, logs, the packages for them, and
the compression of gradients to float16. Batch norms use statistics over all processes, so a batch gives the same
results with any number of processes. Settings: `config` for arcface_torch, `data` (a safetensors file), `batch` of
all processes, `steps` after which to stop, `losses` (the file to write).
"""

import json
import os
import pathlib
import shutil
import sys
import types

import torch
import torch.distributed.nn

import safetensors_io
from backbone_reference import normalised

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Config(dict):
    """Replaces easydict.EasyDict."""
    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


class Anything:
    def __init__(self, *args, **keys):
        pass

    def __call__(self, *args, **keys):
        pass


class Steps(Anything):
    """Replaces CallBackLogging: keeps the losses."""
    steps, settings = [], None

    def __call__(self, step, loss, epoch, fp16, rate, scaler):
        self.steps.append({"step": step, "loss": loss.val, "next_lr": rate})
        if step == self.settings["steps"]:
            if RANK == 0:
                pathlib.Path(self.settings["losses"]).write_text(json.dumps(self.steps))
            torch.distributed.barrier()
            sys.stdout.flush()
            os._exit(0)


class Images:
    """Returns this process's part of each batch, and keeps the checkpoint of each epoch in a folder of its own."""

    def __init__(self, settings):
        tensors = safetensors_io.load(settings["data"])
        self.images, self.labels = torch.from_numpy(tensors["images"]), torch.from_numpy(tensors["labels"])
        self.batch, self.output = settings["batch"], pathlib.Path(settings["config"]["output"])
        self.epoch = 0

    def __iter__(self):
        file = self.output / f"checkpoint_gpu_{RANK}.pt"
        if self.epoch > 0:
            kept = self.output / f"epoch-{self.epoch}"
            kept.mkdir(exist_ok=True)
            shutil.copy(file, kept)
        self.epoch += 1
        each = self.batch // WORLD
        for begin in range(RANK * each, len(self.labels) // self.batch * self.batch, self.batch):
            yield normalised(self.images[begin:begin + each]), self.labels[begin:begin + each].clone()


def synced(kind, dims):
    """A batch norm that uses the statistics of all processes."""
    class Synced(kind):
        def forward(self, x):
            if not self.training:
                return super().forward(x)
            count = WORLD * x.numel() // x.shape[1]
            sum_all = torch.distributed.nn.functional.all_reduce
            mean = sum_all(x.sum(dims)) / count
            shape = [1, -1] + [1] * (x.dim() - 2)
            variance = sum_all((x - mean.view(shape)).square().sum(dims)) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
            y = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
            return y * self.weight.view(shape) + self.bias.view(shape)
    return Synced


def module(name, **contents):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(contents)
    return made


def replace_cuda():
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = lambda self, *_: self
    torch.cuda.set_device = lambda *_: None
    begin, parallel = torch.distributed.init_process_group, torch.nn.parallel.DistributedDataParallel
    torch.distributed.init_process_group = lambda *_, **__: begin("gloo")
    parallel.register_comm_hook = lambda *_: None
    # In the loss that it reports, but not in the gradient, partial_fc_v2.py limits a sample's probability to 1e-30.
    torch.Tensor.clamp_min_ = lambda self, _: self
    torch.nn.parallel.DistributedDataParallel = lambda module, device_ids, **keys: parallel(module, **keys)
    torch.nn.BatchNorm2d = synced(torch.nn.BatchNorm2d, (0, 2, 3))
    torch.nn.BatchNorm1d = synced(torch.nn.BatchNorm1d, (0,))


def replace_modules(settings):
    module("easydict", EasyDict=Config)
    module("torch.utils.tensorboard", SummaryWriter=Anything)
    module("dataset", get_dataloader=lambda *_: Images(settings))
    module("utils").__path__ = [str(pathlib.Path(sys.argv[1]) / "utils")]
    module("utils.utils_callbacks", CallBackLogging=Steps, CallBackVerification=Anything)
    module("configs").__path__ = [str(pathlib.Path(sys.argv[1]) / "configs")]
    module("configs.job", config=Config(settings["config"]))


def main():
    torch.set_num_threads(1)
    settings = Steps.settings = json.loads(pathlib.Path(sys.argv[2]).read_text())
    replace_cuda()
    replace_modules(settings)
    sys.path.insert(0, sys.argv[1])
    import backbones.iresnet
    backbones.iresnet.IResNet.fc_scale = (settings["size"] // 16) ** 2
    import train_v2
    train_v2.main(types.SimpleNamespace(config="configs/job"))


main()
