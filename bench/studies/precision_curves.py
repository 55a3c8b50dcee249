"""Compares the loss curves of training in lower precision and in fp32.

    precision_curves.py --bin build/cpu/bin --folder build/precision-curves [--seeds 1]
                        [--variants bf16_momentum/fp32 bf16/fp32 fp32/bf16 bf16/bf16]
                        [--steps 600] [--every 50] [--report curves.md]

Trains the same job on the same drawn faces, in the same order and from the same weights, once for each variant
(centre_precision/precision, or centre_precision/precision/centre_momentum). Prints the mean loss of every --every
steps. Training is chaotic: rounding
errors grow from step to step until two runs differ visibly. The first column after fp32, "fp32 again", shows this
effect alone: it is fp32 with a learning rate that is higher by one part in a million. Differences are relative to
fp32: the largest over all windows after the first, and that of the last window.

Complete runs are not repeated.
"""

import argparse
import pathlib
import statistics

import face_runs

REFERENCE, AGAIN = "fp32/fp32", "fp32 again"


def variant_keys(variant):
    if variant == AGAIN:
        return {"lr": face_runs.JOB["lr"] * (1 + 1e-6)}
    centres, precision, *momentum = variant.split("/")
    return {"centre_precision": centres, "precision": precision, **{"centre_momentum": float(m) for m in momentum}}


def one_run(options, data, variant, seed):
    """Returns the mean loss of every window, and the accuracy."""
    name = f"{variant.replace('/', '-').replace(' ', '-')}-seed-{seed}-steps-{options.steps}"
    output = face_runs.train(options, name, {
        "rec": str(data), "val_targets": [str(data / "val.bin")], "seed": seed, "num_epoch": 100,
        "max_steps": options.steps, "warmup_epoch": 0.25, **variant_keys(variant)})
    losses = [step["loss"] for step in face_runs.steps(output)]
    windows = [statistics.fmean(losses[first:first + options.every])
               for first in range(0, len(losses), options.every)]
    return windows, face_runs.accuracy(output)


def table(options, runs):
    reference = runs[REFERENCE][0]
    lines = ["| steps | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for i in range(len(reference)):
        first, last = i * options.every + 1, min((i + 1) * options.every, options.steps)
        losses = " | ".join(f"{windows[i]:.4f}" for windows, _ in runs.values())
        lines.append(f"| {first} to {last} | {losses} |")
    apart = {variant: [abs(a - b) / b for a, b in zip(windows, reference)]
             for variant, (windows, _) in runs.items()}
    lines.append("| largest difference | " + " | ".join(f"{max(d[1:] or d):.1e}"
                                                        for d in apart.values()) + " |")
    lines.append("| last difference | " + " | ".join(f"{d[-1]:.1e}" for d in apart.values()) + " |")
    lines.append("| accuracy | " + " | ".join(f"{hit:.4f}" for _, hit in runs.values()) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    face_runs.add_arguments(parser)
    parser.set_defaults(seeds=[1])
    parser.add_argument("--variants", nargs="+", metavar="CENTRES/PRODUCTS[/MOMENTUM]",
                        default=["bf16_momentum/fp32", "bf16/fp32", "fp32/bf16", "bf16/bf16"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--report", type=pathlib.Path, help="also written to this file")
    options = parser.parse_args()
    data = face_runs.make_set(options)
    variants = [REFERENCE, AGAIN] + [v for v in options.variants if v != REFERENCE]
    parts = [f"{options.identities:,} identities of {options.images} images, {options.size} x "
             f"{options.size}; {face_runs.JOB['network']}, batch {face_runs.JOB['batch_size']}. "
             "Columns are centre_precision/precision, with centre_momentum if it differs."]
    for seed in options.seeds:
        runs = {variant: one_run(options, data, variant, seed) for variant in variants}
        parts.append(f"Seed {seed}:\n\n{table(options, runs)}")
    text = "\n\n".join(parts) + "\n"
    print(text)
    if options.report:
        options.report.write_text(text)


if __name__ == "__main__":
    main()
