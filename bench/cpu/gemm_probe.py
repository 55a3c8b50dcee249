"""Measures the matrix products of PyTorch's BLAS, in the shapes of the benchmarks.

    gemm_probe.py [--threads 2] [--samples 128] [--dimension 512] [--classes 100000] [--repeats 5]

Prints one JSON object: the loaded BLAS library, its description of itself, the rate in GFLOP/s and the largest
relative error against float64. The products are those of a head (logits and the gradients of embeddings and centres)
and of a backbone's last layer at batch 32.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import time

import torch


def products(options):
    """Returns the pairs of matrices to multiply."""
    n, d, c = options.samples, options.dimension, options.classes
    embeddings, centres, gradients = torch.randn(n, d), torch.randn(c, d), torch.randn(n, c)
    return [(embeddings, centres.T), (gradients, centres), (gradients.T, embeddings),
            (torch.randn(32, 25088), torch.randn(512, 25088).T)]


def seconds(a, b, repeats):
    times = []
    for _ in range(1 + repeats):
        begin = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def relative_error(a, b):
    """Returns the relative error of some rows and columns of the product, compared with float64."""
    a, b = a[::17], b[:, ::101]
    right = a.double() @ b.double()
    return ((torch.mm(a, b).double() - right).norm() / right.norm()).item()


def library():
    """Returns the path of the OpenBLAS that this process has loaded, or if it has none, of another BLAS."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    mapped = sorted({line.split()[-1] for line in lines if "blas" in line.rsplit("/", 1)[-1]})
    return next((path for path in mapped if "openblas" in pathlib.Path(path).name),
                mapped[0] if mapped else "")


def says(path, function):
    try:
        call = getattr(ctypes.CDLL(path), function)
    except (OSError, AttributeError):
        return ""
    call.restype = ctypes.c_char_p
    return call().decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    pairs = products(options)
    flops = sum(2 * len(a) * a.shape[1] * b.shape[1] for a, b in pairs)
    rate = flops / sum(seconds(a, b, options.repeats) for a, b in pairs)
    print(json.dumps({"library": library(), "config": says(library(), "openblas_get_config"),
                      "core": says(library(), "openblas_get_corename"), "gflops": rate / 1e9,
                      "error": max(relative_error(a, b) for a, b in pairs),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
