"""Compares pfc's backbones with PyTorch: embeddings, gradients and running statistics.

    backbone_parity.py --program build/cpu/tests/backbone_parity [--networks r18 r50 mbf] [--batch 4]

Both programs get the same random weights, images and upstream gradients. PyTorch runs in float32 and in float64. The
columns are relative L2 errors. The first two are the errors of pfc and of PyTorch's float32 against float64, which
show which program is wrong. The third is the error of pfc against PyTorch's float32, to which the limit applies.

A shift in front of a batch norm changes nothing, so the exact gradient of many biases is zero, and each program
computes only rounding errors. The errors of these biases are relative to the length of the whole gradient.

The derivatives of PReLU and ReLU jump at 0, ReLU6's also at 6. A few activations in a million are so near to these
values that rounding puts them on different sides in the two programs. One such activation changes a gradient by more
than the limit. So the script first moves the biases in front of each of them a little, until no activation is near a
jump (--kinks leaves the biases unchanged). Then only a mistake exceeds the limit.

With --precision bf16 pfc computes in bf16, and PyTorch uses autocast to bfloat16 instead of float32. The two programs
round differently, so each is compared with float64. The error of pfc may be 1.5 times that of PyTorch, in the
embeddings, in the whole gradient and in the gradients of all layers of one type. The processor must have avx512_bf16;
otherwise the script compares nothing.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import safetensors_io
from backbone_reference import embedding_size_of, make_backbone, normalised

EMBEDDINGS_LIMIT = 1e-4
GRADIENT_LIMIT = 1e-3
NOTHING = 1e-9  # fraction of the length of the whole gradient; a shorter gradient is only rounding errors
ROUNDING_LIMIT = 1.5  # largest error in bf16, divided by PyTorch's error


def randomise(model, generator):
    """Keeps the initialised weights. All other tensors start as constants, so it gives them random values."""
    def around(tensor, centre, spread):
        noise = torch.rand(tensor.shape, generator=generator) * 2 - 1
        tensor.copy_(centre + spread * noise)

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.PReLU):
                around(module.weight, 0.25, 0.2)
            if isinstance(module, torch.nn.LayerNorm):
                around(module.weight, 1.0, 0.5)
                around(module.bias, 0.0, 0.5)
            if type(module).__name__ == "Attention":  # makes the weights differ from token to token
                module.qkv.weight *= 4
                around(module.proj.bias, 0.0, 0.1)
            if type(module).__name__ == "Mlp":  # makes some results smaller than 0 and some larger than 6
                module.fc1.weight *= 8
                around(module.fc1.bias, 2.0, 2.0)
                around(module.fc2.bias, 0.0, 0.1)
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine:
                if module.weight.requires_grad:
                    around(module.weight, 1.0, 0.5)
                around(module.bias, 0.0, 0.5)


def widest_gap(values, window=0.02):
    """Returns the middle of the widest gap between values in [-window, window]."""
    inside = np.sort(values[np.abs(values) < window])
    edges = np.concatenate([[-window], inside, [window]])
    widest = np.argmax(np.diff(edges))
    return (edges[widest] + edges[widest + 1]) / 2


def keep_away_from_kinks(model, x):
    """Runs a forward pass in float64. Gives each batch norm before a PReLU or ReLU a bias with which no activation is
    near 0, and each linear layer before a ReLU6 a bias with which none is near 0 or 6.
    """
    last = []

    def remember(module, inputs, output):
        last[:] = [module]

    def move(module, inputs):
        (z,) = inputs
        channels = z.transpose(0, 1).flatten(1).numpy()
        shift = torch.tensor([widest_gap(channel) for channel in channels])
        last[0].bias -= shift
        return z - shift[:, None, None]

    def move_from_both(module, inputs):
        (z,) = inputs
        features = z.flatten(0, 1).transpose(0, 1).numpy()
        shift = torch.tensor([widest_gap(np.concatenate([each, each - 6])) for each in features])
        last[0].bias -= shift
        return z - shift

    hooks = [m.register_forward_hook(remember) for m in model.modules()
             if isinstance(m, (torch.nn.BatchNorm2d, torch.nn.Linear))]
    hooks += [m.register_forward_pre_hook(move) for m in model.modules()
              if isinstance(m, (torch.nn.PReLU, torch.nn.ReLU))]
    hooks += [m.register_forward_pre_hook(move_from_both) for m in model.modules()
              if isinstance(m, torch.nn.ReLU6)]
    statistics = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.double().train()
    with torch.no_grad():
        model(x.double())
        for hook in hooks:
            hook.remove()
        model.float()
        for name, buffer in model.named_buffers():
            buffer.copy_(statistics[name])


def fit_running_statistics(model, x, generator):
    """Sets running statistics near those of this batch: otherwise the activations of a hundred layers would
    overflow."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(x)
        for norm in norms:
            norm.momentum = 0.1
            norm.num_batches_tracked.zero_()
            noise = torch.rand(2, len(norm.running_var), generator=generator) * 2 - 1
            norm.running_mean += 0.3 * noise[0] * norm.running_var.sqrt()
            norm.running_var *= 1 + 0.3 * noise[1]


def run_torch(model, images, d_embeddings, dtype, autocast=False):
    model = model.to(dtype)
    x = normalised(images).to(dtype)
    results = {}
    # Runs twice, because the network keeps the weights that it has rounded, here without their gradients.
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        results["eval.embeddings"] = model.eval()(x)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        embeddings = model.train()(x)
    results["train.embeddings"] = embeddings.detach()
    model.zero_grad()
    embeddings = embeddings.to(dtype)
    embeddings.backward(d_embeddings.to(dtype))
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            results["gradient." + name] = parameter.grad
    for name, tensor in model.state_dict().items():
        results["after." + name] = tensor
    return {name: tensor.double().numpy() for name, tensor in results.items()}


def run_pfc(program, network, inputs, precision):
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(pathlib.Path(folder) / name) for name in ("in", "out"))
        safetensors_io.save(source, inputs)
        more = [] if precision == "fp32" else [precision]
        subprocess.run([program, network, source, target, *more], check=True)
        return safetensors_io.load(target)


def norm(tensor):
    return np.linalg.norm(tensor.astype(np.float64))


def limit_of(name):
    return GRADIENT_LIMIT if name.startswith("gradient.") else EMBEDDINGS_LIMIT


def compare(network, options):
    size, batch, seed = options.size, options.batch, options.seed
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = make_backbone(network, height=size, width=size)
    randomise(model, generator)
    images = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8, generator=generator)
    d_embeddings = torch.randn(batch, embedding_size_of(network), generator=generator)
    if not options.kinks:
        keep_away_from_kinks(model, normalised(images))
    fit_running_statistics(model, normalised(images), generator)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    inputs = {name: tensor.numpy() for name, tensor in start.items()}
    pfc = run_pfc(options.program, network, {**inputs, "images": images.numpy(),
                                     "d_embeddings": d_embeddings.numpy()}, options.precision)
    single = run_torch(model, images, d_embeddings, torch.float32, options.precision == "bf16")
    model.load_state_dict(start)
    double = run_torch(model, images, d_embeddings, torch.float64)
    if set(pfc) != set(double):
        raise SystemExit(f"{network}: other tensors than PyTorch's: {set(pfc) ^ set(double)}")
    if options.precision == "bf16":
        return rounding_rows(pfc, single, double, layer_types(model))
    gradient_length = np.sqrt(sum(norm(t) ** 2 for n, t in double.items() if "gradient." in n))
    rows = []
    for name, exact in double.items():
        scale = norm(exact)
        if scale < NOTHING * gradient_length:
            scale = gradient_length
        rows.append((name, norm(pfc[name] - exact) / scale, norm(single[name] - exact) / scale,
                     norm(pfc[name] - single[name]) / scale))
    return rows


def layer_types(model):
    """Returns {name of a gradient: the type of its layer, and the parameter}."""
    def type_of(module):
        if not isinstance(module, torch.nn.Conv2d):
            return type(module).__name__
        if module.in_channels == 3:
            return "first convolution"
        side = "x".join(map(str, module.kernel_size))
        return f"{'depthwise' if module.groups > 1 else 'convolution'} {side}"

    return {f"gradient.{path}.{name}".replace("..", "."): f"gradient: {type_of(module)} {name}"
            for path, module in model.named_modules()
            for name, parameter in module.named_parameters(recurse=False)
            if parameter.grad is not None}


def rounding_rows(pfc, single, double, types):
    """Returns the errors of the embeddings, of the whole gradient, and of its parts by type of layer."""
    members = {"eval.embeddings": ["eval.embeddings"], "train.embeddings": ["train.embeddings"],
               "gradient": sorted(types)}
    for name in sorted(types):
        members.setdefault(types[name], []).append(name)

    rows = []
    gradient_length = np.sqrt(sum(norm(double[n]) ** 2 for n in types))
    for kind, names in members.items():
        ours, theirs, exact = (np.concatenate([results[n].ravel() for n in names])
                               for results in (pfc, single, double))
        scale = norm(exact)
        if scale < NOTHING * gradient_length:
            scale = gradient_length
        rows.append((kind, *(norm(a - b) / scale
                             for a, b in ((ours, exact), (theirs, exact), (ours, theirs)))))
    return rows


def report_rounding(network, rows):
    """Prints the errors; returns the number of failures."""
    failures = 0
    for kind, ours, theirs, between in rows:
        limit = ROUNDING_LIMIT * theirs
        failures += not ours < limit
        print(f"{network:9} {kind:48} {ours:9.1e} {theirs:9.1e} {between:9.1e} {limit:9.0e}"
              + ("" if ours < limit else "  FAILED"))
    return failures


def line(network, row, note=""):
    name, ours, theirs, between = row
    print(f"{network:9} {name:48} {ours:9.1e} {theirs:9.1e} {between:9.1e} "
          f"{limit_of(name):9.0e}{note}")


def report(network, rows, verbose):
    """Prints the worst of each kind and all that fail; returns the number of failures."""
    failures = [row for row in rows if not row[3] < limit_of(row[0])]
    worst = {}
    for row in rows:
        kind = row[0] if row[0].endswith("embeddings") else row[0].split(".")[0]
        if kind not in worst or row[3] > worst[kind][3]:
            worst[kind] = row
    for row in rows if verbose else worst.values():
        line(network, row)
    for row in failures:
        line(network, row, "  FAILED")
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--kinks", action="store_true", help="leave activations near 0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="every tensor")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    if options.precision == "bf16" and "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text():
        print("skipped: this processor has no avx512_bf16")
        return 0
    torch.set_num_threads(1)
    print(f"{'network':9} {'worst of its kind':48} {'pfc-f64':>9} {'torch-f64':>9} "
          f"{'pfc-torch':>9} {'limit':>9}")
    failures = 0
    for network in options.networks:
        rows = compare(network, options)
        if options.precision == "bf16":
            failures += report_rounding(network, rows)
        else:
            failures += report(network, rows, options.verbose)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
