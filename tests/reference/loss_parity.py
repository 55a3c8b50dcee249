"""Compares 20 SGD steps of pfc-worker with the PyTorch reference: the loss of every step.

    loss_parity.py --bin build/cpu/bin [--networks r18 r50 mbf] [--steps 20] [--batch 16] [--size 112] [--judge]

Both start from the same weights and use the same images in the same order, with warm-up, momentum, weight decay,
clipping and the margin. The limit applies to the largest relative difference of the loss over all steps.

A freshly initialised network in front of a margin loss is chaotic: rounding errors grow from step to step, and faster
with a higher learning rate. --judge also runs the reference in float64 and prints how far each program is from it:
the distance of PyTorch's float32 comes from rounding alone. With the default learning rate, 20 steps stay well below
the limit.
"""

import argparse
import pathlib
import sys
import tempfile

import reference_input
from pfc_runs import metrics, run

LIMIT = 1e-3


def compare(network, arguments, folder):
    # With so much weight decay, a program without it would differ after a few steps, even with a low learning rate.
    job = {"network": network, "embedding_size": 128, "batch_size": arguments.batch,
           "lr": arguments.lr, "margin_list": [1.0, 0.3, 0.0], "margin_scale": 16,
           "weight_decay": 2, "warmup_epoch": 0.5, "num_epoch": 100,
           "max_steps": arguments.steps, "num_workers": 1}
    path = reference_input.make(folder, job, classes=20, per_class=8, size=arguments.size)
    run([arguments.bin / "pfc-worker", "--config", path])
    ours = metrics(folder / "out" / "metrics.jsonl")
    theirs = reference(path, folder, arguments.threads)
    if len(ours) != arguments.steps or len(theirs) != arguments.steps:
        sys.exit(f"{network}: {len(ours)} and {len(theirs)} steps instead of {arguments.steps}")
    if any(abs(a["lr"] - b["lr"]) > 1e-12 for a, b in zip(ours, theirs)):
        sys.exit(f"{network}: the learning rates differ")
    judge = reference(path, folder, arguments.threads, "--double") if arguments.judge else None
    return losses(ours), losses(theirs), judge and losses(judge)


def reference(job, folder, threads, *more):
    here = pathlib.Path(__file__).parent
    run(["/usr/bin/python3", "-B", here / "train_reference.py", "--job", job, "--threads", threads,
         "--input", folder / "reference.safetensors", "--metrics", folder / "reference.jsonl", *more])
    return metrics(folder / "reference.jsonl")


def losses(steps):
    return [step["loss"] for step in steps]


def largest_difference(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=112, help="pixels a side")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--judge", action="store_true", help="compare with float64 too")
    arguments = parser.parse_args()
    failed = False
    print("| network | first loss | last loss | pfc - PyTorch | pfc - float64 | PyTorch - float64 |")
    print("|---|---|---|---|---|---|")
    for network in arguments.networks:
        with tempfile.TemporaryDirectory(prefix="pfc-loss-parity-") as folder:
            ours, theirs, judge = compare(network, arguments, pathlib.Path(folder))
        difference = largest_difference(ours, theirs)
        failed |= not difference < LIMIT
        judged = ([f"{largest_difference(a, judge):.1e}" for a in (ours, theirs)] if judge
                  else ["", ""])
        print(f"| {network} | {ours[0]:.4f} | {ours[-1]:.4f} | {difference:.1e} | "
              f"{judged[0]} | {judged[1]} |", flush=True)
    if failed:
        sys.exit(f"a loss differs by {LIMIT:g} or more")


if __name__ == "__main__":
    main()
