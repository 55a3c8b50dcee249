"""Compares the results of training in different ways.

    training_study.py --bin build/cpu/bin --folder build/training-study
                      [--variants sample_rate=1 sample_rate=0.3 sample_rate=0.1]
                      [--seeds 1 2 3] [--epochs 5] [--job KEY=VALUE...] [--report table.md]
                      [--data SET [--val PAIRS.bin] [--test TEST_SET]] [--jobs 1] [--seconds 500]

A variant is one or more keys of the job with their values, KEY=VALUE[,KEY=VALUE...], for example
precision=bf16 or read=sequential,read_buffer_mib=1. All variants are compared with the first one. KEY=null leaves a key
out: a loss with its own margin needs loss=adaface,margin_list=null. Trains one job for each variant and seed on the
same images: drawn faces, shuffled once on the disk, or the set of --data. The seed changes initial weights, the order
of the images, flips and sampling. These are compared:

  training loss      of the last epoch, as the run logs it: over the classes that take part, and so
                     over fewer negatives the lower sample_rate is.
  full softmax loss  of the finished model, over the same batches of the training set for every
                     model, with all classes. The training program computes it: it starts from the
                     final backbone and centres, at sample_rate 1, in fp32 and at learning rate 0.
  accuracy           of the last evaluation: pairs of identities that are not in the training set (--val).
  TAR at FAR 1e-4    of the finished model over all pairs of images of --test, a set of other classes.

The noise is the effect of seeds: with s the standard deviation of a run around the mean of its variant,
pooled over the variants, the means of n and m runs of the same distribution differ by more
than t s sqrt(1 / n + 1 / m) in 5 % of the cases (Student's t for the pooled degrees of freedom).

A small network does not fill a GPU (--job device=cuda): --jobs trains several models at the same time, each on
--threads cores (shared if there are too few). --seconds limits the time of the whole study; runs that fail or are not
complete then are left out of the tables. The embeddings for --test are computed on the CPU. Complete runs are not
repeated, so an interrupted study continues where it ended.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import statistics
import sys
import time

import numpy as np

import face_runs
import safetensors_io

# Two-sided 95 % of Student's t by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26,
           10: 2.23, 11: 2.20, 12: 2.18}


def base_job(options):
    """Returns the keys that all variants share."""
    keys = {"rec": str(options.data), "num_epoch": options.epochs, **options.job}
    if options.val:
        keys["val_targets"] = [str(options.val)]
    return keys


def seconds_left(options):
    return options.end - time.monotonic()


def full_softmax_loss(options, name, keys, trained):
    """Returns the full softmax loss of the model in the folder `trained` (defined above)."""
    (checkpoint,) = trained.glob("step-*")
    weights = safetensors_io.load(trained / "backbone.safetensors")
    centres = safetensors_io.load(checkpoint / "centres-00000-of-00001.safetensors")
    assert (centres["updated"] == len(centres["updates"])).all(), "the job has not run to its end"
    weights["centres"] = centres["weight"]
    start = options.folder / f"{name}.safetensors"
    safetensors_io.save(start, weights)
    judged = face_runs.train(options, f"{name}-judged", {
        **keys, "val_targets": [], "init_from": str(start), "sample_rate": 1, "sampler": "random",
        "sample_correction": False, "precision": "fp32", "lr": 0, "lr_schedule": "polynomial",
        "warmup_epoch": 0, "augment": False, "seed": 1, "num_epoch": 100,
        "max_steps": options.judge_steps}, seconds_left(options))
    return statistics.fmean(step["loss"] for step in face_runs.steps(judged))


def variant(text):
    """Returns, for example, ("read=sequential,read_buffer_mib=1", {"read": "sequential", "read_buffer_mib": 1})."""
    keys = {}
    for pair in re.split(r",(?=[a-z_]+=)", text):  # values may hold commas
        key, separator, value = pair.partition("=")
        if not separator:
            raise argparse.ArgumentTypeError(f"found '{pair}', expected KEY=VALUE")
        try:
            keys[key] = json.loads(value)
        except json.JSONDecodeError:
            keys[key] = value
    return text, keys


def true_accepts(options, name, trained, false_accept_rate=1e-4):
    """Returns the fraction of the genuine pairs of --test whose cosine is above a threshold. The threshold is chosen so
    that only the fraction `false_accept_rate` of the impostor pairs is above it."""
    path = options.folder / f"{name}-test.safetensors"
    face_runs.run([options.bin / "pfcctl", "embed", "--model", trained / "backbone.safetensors", "--in", options.test,
                   "--out", path, "--threads", options.threads], options.threads, timeout=seconds_left(options))
    embedded = safetensors_io.load(path)
    rows, labels = embedded["embeddings"], embedded["labels"]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = np.tri(len(rows), k=-1, dtype=bool)
    same = (labels[:, None] == labels)[pairs]
    cosines = (rows @ rows.T)[pairs]
    impostors = cosines[~same]
    rank = len(impostors) - int(len(impostors) * false_accept_rate)
    return float((cosines[same] > np.partition(impostors, rank - 1)[rank - 1]).mean())


def one_run(options, name_of_variant, keys, seed):
    name = f"{re.sub(r'[^a-z0-9_.=-]+', '-', name_of_variant)}-seed-{seed}-epochs-{options.epochs:g}"
    keys = {**base_job(options), "seed": seed, **keys}
    output = face_runs.train(options, name, keys, seconds_left(options))
    steps = face_runs.steps(output)
    last_epoch = [step["loss"] for step in steps if step["epoch"] == steps[-1]["epoch"]]
    result = {"seed": seed, "training": statistics.fmean(last_epoch)}
    if options.judge_steps:
        result["full"] = full_softmax_loss(options, name, keys, output)
    if options.val:
        result["accuracy"] = face_runs.accuracy(output)
    if options.test:
        result["tar"] = true_accepts(options, name, output)
    print(f"{name_of_variant}, seed {seed}: {result}", file=sys.stderr, flush=True)
    return result


def all_runs(options):
    """Returns the results of each variant, without runs that failed."""
    cores = sorted(os.sched_getaffinity(0))
    shares = [{cores[(job * options.threads + i) % len(cores)] for i in range(options.threads)}
              for job in range(options.jobs)]
    pool = concurrent.futures.ThreadPoolExecutor(
        options.jobs, initializer=lambda: os.sched_setaffinity(0, shares.pop(0)))
    runs = {(name, seed): pool.submit(one_run, options, name, keys, seed)
            for seed in options.seeds for name, keys in options.variants}
    results = {name: [] for name, _ in options.variants}
    try:
        for (name, seed), run in runs.items():
            try:
                results[name].append(run.result())
            except (Exception, SystemExit) as error:  # keep the results of the other runs
                print(f"{name}, seed {seed}: LEFT OUT, {str(error)[-2000:]}", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return {name: complete for name, complete in results.items() if complete}


def pooled_deviation(groups):
    """Returns the standard deviation around each group's mean, and the degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((x - statistics.fmean(group)) ** 2 for group in groups for x in group)
    return math.sqrt(squares / max(freedom, 1)), freedom


def comparison(results, key, digits):
    """Returns a table of one quantity, and a sentence about the noise of its means."""
    groups = {name: [run[key] for run in runs] for name, runs in results.items()}
    first = next(iter(groups))
    reference = statistics.fmean(groups[first])
    lines = ["| variant | mean | standard deviation | standard error | runs | difference from the first | |",
             "|---|---|---|---|---|---|---|"]
    deviation, freedom = pooled_deviation(list(groups.values()))

    def bound(runs, others):
        return STUDENT[min(freedom, max(STUDENT))] * deviation * math.sqrt(1 / runs + 1 / others)

    for name, group in groups.items():
        difference = statistics.fmean(group) - reference
        spread = error = "-"
        if len(group) > 1:
            spread = f"{statistics.stdev(group):.{digits}f}"
            error = f"{statistics.stdev(group) / math.sqrt(len(group)):.{digits}f}"
        verdict = ""
        if freedom and name != first:
            within = abs(difference) <= bound(len(group), len(groups[first]))
            verdict = "within noise" if within else "BEYOND NOISE"
        lines.append(f"| {name} | {statistics.fmean(group):.{digits}f} | {spread} | {error} | "
                     f"{', '.join(f'{x:.{digits}f}' for x in group)} | {difference:+.{digits}f} | "
                     f"{verdict} |")
    if freedom:
        runs = max(map(len, groups.values()))
        lines.append(f"\nNoise: a run deviates by {deviation:.{digits}f}; two means of {runs} runs "
                     f"differ by up to {bound(runs, runs):.{digits}f} by chance.")
    return "\n".join(lines)


QUANTITIES = {"training": ("Training loss of the last epoch", 3),
              "full": ("Full softmax loss of the trained model", 3),
              "accuracy": ("Verification accuracy", 4), "tar": ("TAR at FAR 1e-4", 4)}


def report(options, results):
    measured = next(iter(results.values()))[0]
    job = {**face_runs.JOB, **base_job(options)}
    return "\n\n".join([
        f"{options.data.name}; {job['network']}, {options.epochs:g} epochs.",
        *(f"## {title}\n\n{comparison(results, key, digits)}"
          for key, (title, digits) in QUANTITIES.items() if key in measured)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    face_runs.add_arguments(parser)
    parser.add_argument("--variants", nargs="+", type=variant, metavar="KEY=VALUE",
                        default=[variant(f"sample_rate={rate}") for rate in ("1", "0.3", "0.1")])
    parser.add_argument("--job", nargs="+", type=variant, default=[], metavar="KEY=VALUE",
                        help="keys of every job")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--judge-steps", type=int, default=100,
                        help="steps that measure the full softmax loss; 0: not measured")
    parser.add_argument("--data", type=pathlib.Path, help="training set; without it, faces are drawn")
    parser.add_argument("--val", type=pathlib.Path, help="verification set with --data")
    parser.add_argument("--test", type=pathlib.Path, help="set of other classes for TAR at FAR 1e-4")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at the same time")
    parser.add_argument("--seconds", type=float, default=7 * 86400, help="limit of the whole study")
    parser.add_argument("--report", type=pathlib.Path,
                        help="file.md that also gets the report; file.json gets the results of each run")
    options = parser.parse_args()
    options.end = time.monotonic() + options.seconds
    options.job = {key: value for _, keys in options.job for key, value in keys.items()}
    if options.data is None:
        drawn = face_runs.make_set(options)
        face_runs.shuffle(options, drawn)
        options.data, options.val = drawn / "shuffled", drawn / "val.bin"
    results = all_runs(options)
    if not results:
        sys.exit("no run was completed; see the errors above")
    text = report(options, results)
    print(text)
    if options.report:
        options.report.write_text(text)
        options.report.with_suffix(".json").write_text(json.dumps(results, indent=1))
    if sum(map(len, results.values())) < len(options.variants) * len(options.seeds):
        sys.exit("some runs failed or were not done in time; see LEFT OUT above")


if __name__ == "__main__":
    main()
