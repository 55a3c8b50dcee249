"""Compares pfc's backbones with PyTorch: embeddings, gradients and running statistics.

    backbone_parity.py --program build/cpu/tests/backbone_parity [--networks r18 r50 mbf] [--batch 4]

Random weights, images and upstream gradients go to both. PyTorch runs in float32 and in float64:
`pfc` and `torch` in the table are each one's relative L2 error against float64, so that it is plain
who is wrong when they differ; `limit` holds for pfc against float64.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import safetensors_io
from backbone_reference import make_backbone, normalised

EMBEDDINGS_LIMIT = 1e-4
GRADIENT_LIMIT = 1e-3


def randomise(model, generator):
    """Weights as initialised; everything that starts as a constant gets a random value."""
    def around(tensor, centre, spread):
        noise = torch.rand(tensor.shape, generator=generator) * 2 - 1
        tensor.copy_(centre + spread * noise)

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.PReLU):
                around(module.weight, 0.25, 0.2)
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                if module.weight.requires_grad:
                    around(module.weight, 1.0, 0.5)
                around(module.bias, 0.0, 0.5)
                around(module.running_mean, 0.0, 0.5)
                around(module.running_var, 1.0, 0.5)


def run_torch(model, images, d_embeddings, dtype):
    model = model.to(dtype)
    x = normalised(images).to(dtype)
    results = {}
    with torch.no_grad():
        results["eval.embeddings"] = model.eval()(x)
    embeddings = model.train()(x)
    results["train.embeddings"] = embeddings.detach()
    model.zero_grad()
    embeddings.backward(d_embeddings.to(dtype))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            results["gradient." + name] = parameter.grad
    for name, tensor in model.state_dict().items():
        results["after." + name] = tensor
    return {name: tensor.numpy().astype(np.float64) for name, tensor in results.items()}


def run_pfc(program, network, inputs):
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(pathlib.Path(folder) / name) for name in ("in", "out"))
        safetensors_io.save(source, inputs)
        subprocess.run([program, network, source, target], check=True)
        return safetensors_io.load(target)


def relative_error(value, reference):
    difference = np.linalg.norm(value.astype(np.float64) - reference)
    return difference / max(np.linalg.norm(reference), 1e-30)


def limit_of(name):
    return GRADIENT_LIMIT if name.startswith("gradient.") else EMBEDDINGS_LIMIT


def is_zero_by_nature(name):
    """A shift before a batch norm over the batch changes nothing: what remains is rounding."""
    return name == "gradient.fc.bias"


def compare(program, network, batch, size, seed):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = make_backbone(network, height=size, width=size)
    randomise(model, generator)
    images = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8, generator=generator)
    d_embeddings = torch.randn(batch, 512, generator=generator)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    inputs = {name: tensor.numpy() for name, tensor in start.items()}
    pfc = run_pfc(program, network, {**inputs, "images": images.numpy(),
                                     "d_embeddings": d_embeddings.numpy()})
    single = run_torch(model, images, d_embeddings, torch.float32)
    model.load_state_dict(start)
    double = run_torch(model, images, d_embeddings, torch.float64)
    if set(pfc) != set(double):
        raise SystemExit(f"{network}: other tensors than PyTorch's: {set(pfc) ^ set(double)}")
    rows = []
    for name, reference in double.items():
        if is_zero_by_nature(name):
            continue
        rows.append((name, relative_error(pfc[name], reference),
                     relative_error(single[name], reference)))
    return rows


def report(network, rows, verbose):
    """Prints the worst of each kind, and all that fail; the number of failures."""
    failures = [row for row in rows if not row[1] < limit_of(row[0])]
    kinds = {}
    for row in rows:
        kind = row[0].split(".")[0] if not row[0].endswith("embeddings") else row[0]
        if kind not in kinds or row[1] > kinds[kind][1]:
            kinds[kind] = row
    for name, ours, theirs in (rows if verbose else kinds.values()):
        print(f"{network:9} {name:45} {ours:9.1e} {theirs:9.1e} {limit_of(name):9.0e}")
    for name, ours, theirs in failures:
        print(f"{network:9} {name:45} {ours:9.1e} {theirs:9.1e} {limit_of(name):9.0e}  FAILED")
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="every tensor")
    options = parser.parse_args()
    torch.set_num_threads(2)
    print(f"{'network':9} {'worst of its kind':45} {'pfc':>9} {'torch':>9} {'limit':>9}")
    failures = 0
    for network in options.networks:
        rows = compare(options.program, network, options.batch, options.size, options.seed)
        failures += report(network, rows, options.verbose)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
