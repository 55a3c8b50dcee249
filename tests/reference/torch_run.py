"""Runs the reference on a device: chooses device and precision, and measures time and memory.

On a GPU, times are those between events of the stream, for which the program does not wait. Memory is all memory in
use on the device, including the context, and the part that PyTorch's allocator holds.
"""

import itertools
import resource
import time

import torch

AMP = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def add_arguments(parser):
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="compute float32 products in TF32")
    parser.add_argument("--compile", metavar="MODE",
                        help="torch.compile: default, reduce-overhead, max-autotune, ...")
    parser.add_argument("--threads", type=int, default=2, help="threads on a CPU")


def start(options):
    """Applies the settings of the whole process; returns the device."""
    torch.set_num_threads(options.threads)
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True  # as arcface_torch's train_v2.py
    return torch.device(options.device)


def compiled(function, options):
    return torch.compile(function, mode=options.compile) if options.compile else function


class Stopwatch:
    """Measures seconds between marks. On a GPU a mark is a point in the stream."""

    def __init__(self, device):
        self.on_gpu = device.type == "cuda"
        self.marks = []

    def mark(self):
        if self.on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        """Waits for the last mark. Returns the seconds between consecutive marks."""
        if not self.on_gpu:
            return [b - a for a, b in itertools.pairwise(self.marks)]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(self.marks)]


def peak_memory(device):
    """Returns the memory peaks of this process so far, in bytes. PyTorch's allocator does not return memory to the GPU
    by itself, so the memory in use now is also the peak."""
    memory = {"memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        memory["gpu_memory_bytes"] = total - free
        memory["gpu_allocated_bytes"] = torch.cuda.max_memory_allocated()
        memory["gpu_reserved_bytes"] = torch.cuda.max_memory_reserved()
    return memory
