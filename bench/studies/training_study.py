"""Compares the results of training in different ways.

    training_study.py --bin build/cpu/bin --folder build/training-study
                      [--variants sample_rate=1 sample_rate=0.3 sample_rate=0.1]
                      [--seeds 1 2 3] [--epochs 5] [--report table.md]

A variant is one or more keys of the job with their values, KEY=VALUE[,KEY=VALUE...], for example
precision=bf16 or read=sequential,read_buffer_mib=1; the others are compared with the first one. Trains one job for
each variant and seed on the same drawn faces, shuffled once on the disk. The seed changes initial weights, the order
of the images, flips and sampling. These are compared:

  training loss      of the last epoch, as the run logs it: over the classes that take part, and so
                     over fewer negatives the lower sample_rate is.
  full softmax loss  of the finished model, over the same batches of the training set for every
                     model, with all classes: the training program again, from the final backbone and
                     centres, at sample_rate 1, in fp32 and at learning rate 0.
  accuracy           of the last evaluation: pairs of identities that are not in the training set.

The noise is the effect of seeds: with s the standard deviation of a run around the mean of its variant,
pooled over the variants, two means of n runs each of the same distribution differ by more than
t s sqrt(2 / n) once in twenty times (Student's t for the pooled degrees of freedom).

Complete runs are not repeated, so an interrupted study continues where it ended.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import face_runs
import safetensors_io

# Two-sided 95 % of Student's t by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26,
           10: 2.23, 11: 2.20, 12: 2.18}


def full_softmax_loss(options, data, name, trained):
    """Returns the full softmax loss of the model in the folder `trained`; see above."""
    (checkpoint,) = trained.glob("step-*")
    weights = safetensors_io.load(trained / "backbone.safetensors")
    centres = safetensors_io.load(checkpoint / "centres-00000-of-00001.safetensors")
    assert (centres["updated"] == len(centres["updates"])).all(), "the job has not run to its end"
    weights["centres"] = centres["weight"]
    start = options.folder / f"{name}.safetensors"
    safetensors_io.save(start, weights)
    judged = face_runs.train(options, f"{name}-judged", {
        "rec": str(data / "shuffled"), "init_from": str(start), "sample_rate": 1,
        "precision": "fp32", "lr": 0, "warmup_epoch": 0, "augment": False, "seed": 1,
        "num_epoch": 100, "max_steps": options.judge_steps})
    return statistics.fmean(step["loss"] for step in face_runs.steps(judged))


def variant(text):
    """Returns, for example, ("read=sequential,read_buffer_mib=1", {"read": "sequential", "read_buffer_mib": 1})."""
    keys = {}
    for pair in text.split(","):
        key, separator, value = pair.partition("=")
        if not separator:
            raise argparse.ArgumentTypeError(f"found '{pair}', expected KEY=VALUE")
        try:
            keys[key] = json.loads(value)
        except json.JSONDecodeError:
            keys[key] = value
    return text, keys


def one_run(options, data, name_of_variant, keys, seed):
    name = f"{name_of_variant.replace(',', '-')}-seed-{seed}-epochs-{options.epochs:g}"
    output = face_runs.train(options, name, {
        "rec": str(data / "shuffled"), "val_targets": [str(data / "val.bin")], "seed": seed,
        "num_epoch": options.epochs, **keys})
    steps = face_runs.steps(output)
    last_epoch = [step["loss"] for step in steps if step["epoch"] == steps[-1]["epoch"]]
    result = {"training": statistics.fmean(last_epoch), "accuracy": face_runs.accuracy(output),
              "full": full_softmax_loss(options, data, name, output)}
    print(f"{name_of_variant}, seed {seed}: {result}", file=sys.stderr, flush=True)
    return result


def pooled_deviation(groups):
    """Returns the standard deviation around each group's mean, and the degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((x - statistics.fmean(group)) ** 2 for group in groups for x in group)
    return math.sqrt(squares / freedom), freedom


def comparison(results, key, digits):
    """Returns a table of one quantity, and a sentence about its noise."""
    groups = {name: [run[key] for run in runs] for name, runs in results.items()}
    first = next(iter(groups))
    reference = statistics.fmean(groups[first])
    lines = ["| variant | mean | standard deviation | runs | mean - mean of the first | |",
             "|---|---|---|---|---|---|"]
    bound = None
    if all(len(group) > 1 for group in groups.values()):
        deviation, freedom = pooled_deviation(list(groups.values()))
        runs = min(len(group) for group in groups.values())
        bound = STUDENT[min(freedom, max(STUDENT))] * deviation * math.sqrt(2 / runs)
    for name, group in groups.items():
        difference = statistics.fmean(group) - reference
        spread = f"{statistics.stdev(group):.{digits}f}" if len(group) > 1 else "-"
        verdict = ""
        if bound is not None and name != first:
            verdict = "within noise" if abs(difference) <= bound else "BEYOND NOISE"
        lines.append(f"| {name} | {statistics.fmean(group):.{digits}f} | {spread} | "
                     f"{', '.join(f'{x:.{digits}f}' for x in group)} | {difference:+.{digits}f} | "
                     f"{verdict} |")
    if bound is not None:
        lines.append(f"\nNoise: a run deviates by {deviation:.{digits}f}; two means of {runs} runs "
                     f"differ by up to {bound:.{digits}f} by chance.")
    return "\n".join(lines)


def report(options, results):
    return "\n\n".join([
        f"{options.identities:,} identities of {options.images} images, {options.size} x "
        f"{options.size}; {face_runs.JOB['network']}, {options.epochs:g} epochs.",
        "## Training loss of the last epoch", comparison(results, "training", 3),
        "## Full softmax loss of the trained model", comparison(results, "full", 3),
        "## Verification accuracy", comparison(results, "accuracy", 4)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    face_runs.add_arguments(parser)
    parser.add_argument("--variants", nargs="+", type=variant, metavar="KEY=VALUE",
                        default=[variant(f"sample_rate={rate}") for rate in ("1", "0.3", "0.1")])
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--judge-steps", type=int, default=100)
    parser.add_argument("--report", type=pathlib.Path, help="file that also gets the report")
    options = parser.parse_args()
    data = face_runs.make_set(options)
    face_runs.shuffle(options, data)
    results = {name: [] for name, _ in options.variants}
    for seed in options.seeds:
        for name, keys in options.variants:
            results[name].append(one_run(options, data, name, keys, seed))
    text = report(options, results)
    print(text)
    if options.report:
        options.report.write_text(text)


if __name__ == "__main__":
    main()
