"""Measures a step of the classification layer, alternating in one run with the PyTorch reference
(head_torch.py) on the same cores.

    bench_head.py --program build/cpu/benchmarks/head_benchmark [--check 1 2 3 4 7] [--rounds 2]
                  [--json FILE] [--markdown FILE...]

PyTorch runs with the fastest settings of a few trials (bench_peer.py). BLAS build and core type are chosen once, the
allocator for each variant. The variants of head_torch.py are dense, which works like arcface_torch, and rows, which
is written for speed. Each round starts every program again, one after the other; a program's first step is left out.
The tables give the median over all steps of all rounds, with the smallest and the largest value in brackets, the
median of the rounds' ratios, and peak resident memory. A time includes the sampling of classes. GB is 10^9 bytes.
The checks are:

  1  time of a step with all classes and with a tenth of them, against PyTorch
  2  memory of the same runs, against centres and momentum; fp32 and bf16
  3  a fixed number of active classes out of more and more
  4  the limits of a step on this machine, from its memory and matrix products (head_limits), and the fraction
     of them that a step reaches
  7  two workers over Gloo with one thread each, against one worker with one and with two

1 and 2 take ten minutes on two AVX-512 cores and 17 GB of memory; 3 and 7 take ten more, 4 three. Other programs slow
down threads that wait for each other, PyTorch's most of all. So a run is repeated if other programs took more than a
twentieth of the cores, and the text above the tables gives what they took in the runs that count.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys

import bench_peer
import bench_report
from bench_runs import PYTHON, REFERENCE, Failed, Runner, say

TABLE_PART = 1.15                 # largest peak memory, relative to the size of centres and momentum
MOST_MEMORY = 0.9                 # fraction of the available memory that PyTorch may use
GROWTH_GOAL = 1.3                 # largest time of a step, relative to the time with the fewest classes
# pfc and PyTorch draw different numbers from one distribution, so the mean loss over the samples differs by about 1 %.
LOSS_TOLERANCE = 0.04
VALUE_BYTES = {"fp32": 8, "bf16_momentum": 6, "bf16": 4}  # bytes of a centre's value and its momentum
VARIANTS = ("dense", "rows")      # variants of PyTorch
RATES = (1.0, 0.1)


class Programs:
    def __init__(self, options):
        self.options = options
        self.runner = Runner(options.threads, options.attempts)
        self.threads = len(self.runner.cores)
        self.settings = {}  # PyTorch's settings, by rate and variant

    def shape(self, classes, rate):
        return ["--samples", self.options.samples, "--dimension", self.options.dimension,
                "--classes", classes, "--rate", rate]

    def pfc(self, classes, rate, workers=1, threads=None, **more):
        flags = [word for name, value in more.items() for word in (f"--{name}", value)]
        result = self.runner.run([self.options.program, *self.shape(classes, rate), "--workers",
                                  workers, "--threads", threads or self.threads, "--steps",
                                  self.options.steps, *flags], json.loads)
        whole = [sum(pair) for pair in zip(result["seconds"], result["sample_seconds"])]
        return {**result, "seconds": whole}

    def limits(self):
        """Returns the results of head_limits: of each figure, the best of several repeats."""
        program = pathlib.Path(self.options.program).with_name("head_limits")
        command = [program, "--samples", self.options.samples, "--dimension",
                   self.options.dimension, "--threads", self.threads, "--rate", min(RATES)]
        return self.runner.run(command, json.loads)

    def torch_command(self, classes, rate, variant, steps):
        return [*PYTHON, REFERENCE / "head_torch.py", *self.shape(classes, rate), "--update", variant,
                "--threads", self.threads, "--steps", steps]

    def torch(self, rate, variant):
        command = self.torch_command(self.options.classes, rate, variant, self.options.torch_steps)
        return self.runner.run(command, json.loads, self.settings[rate, variant].environment)

    def choose_settings(self, blas):
        """For each variant of PyTorch, chooses the fastest allocator of those that fit into this machine's memory, in
        trials with fewer classes. Returns what was tried."""
        tried = {}
        for rate in RATES:
            for variant in VARIANTS:
                command = self.torch_command(self.options.trial_classes, rate, variant, 3)

                def seconds(settings, limit, command=command):
                    trial = json.loads(self.runner.attempt(command, settings.environment, limit))
                    needed = trial["memory_bytes"] * self.options.classes / self.options.trial_classes
                    if needed > MOST_MEMORY * bench_report.memory_available():
                        raise Failed(f"needs {needed / 1e9:.0f} GB for {self.options.classes:,} classes")
                    return statistics.median(trial["seconds"])
                say(f"PyTorch's allocator, rate {rate:g}, {variant}:")
                best, found = bench_peer.fastest(
                    [blas + allocator for allocator in bench_peer.allocators()], seconds)
                self.settings[rate, variant] = best.settings
                tried[f"{rate:g} {variant}"] = found
        return tried


def in_rounds(programs, cases, rounds=None):
    """Runs every case once per round. Returns {name: results}; cases: {name: function}."""
    results = {name: [] for name in cases}
    for number in range(rounds or programs.options.rounds):
        for name, case in cases.items():
            results[name].append(case())
            seconds = statistics.median(results[name][-1]["seconds"])
            say(f"round {number + 1}: {name}: {seconds:.3f} s; others "
                f"{programs.runner.others[-1]:.0%}")
    return results


def all_of(results, key):
    return [value for result in results for value in result[key]]


def median(results, key="seconds"):
    return statistics.median(all_of(results, key))


def spread(results):
    return bench_report.spread(all_of(results, "seconds"), 3)


def gigabytes(results):
    return max(result["memory_bytes"] for result in results) / 1e9


def ratio(slower, faster):
    """Returns the median of the rounds' ratios."""
    return statistics.median(statistics.median(a["seconds"]) / statistics.median(b["seconds"])
                             for a, b in zip(slower, faster))


def same_loss(ours, theirs, tolerance):
    """Returns whether the losses are about equal. None stands for a loss that is not finite."""
    return None not in (ours, theirs) and abs(ours - theirs) <= tolerance * abs(theirs)


def expect_same_loss(name, ours, theirs):
    if not same_loss(ours[0]["loss"], theirs[0]["loss"], LOSS_TOLERANCE):
        raise Failed(f"{name}: the first losses are {ours[0]['loss']} and {theirs[0]['loss']}: "
                     "the two programs do not compute the same thing")


def verdict(value, goal, good):
    return f"{goal} {'met' if good(value) else 'MISSED'}"


def table(header, rows):
    return "\n".join([header, "|" + "---|" * (header.count("|") - 1), *rows])


def against_torch(programs, options):
    """Runs checks 1 and 2; returns {name: results}."""
    cases = {}
    for rate in RATES:
        for centres, precision in options.variants:
            cases[f"pfc {rate:g} {centres} {precision}"] = functools.partial(
                programs.pfc, options.classes, rate,
                **{"centre-precision": centres, "precision": precision})
        for variant in VARIANTS:
            cases[f"torch {rate:g} {variant}"] = functools.partial(programs.torch, rate, variant)
    results = in_rounds(programs, cases)
    for rate in RATES:
        ours = results.get(f"pfc {rate:g} fp32 fp32")
        for variant in VARIANTS if ours else ():
            expect_same_loss(f"rate {rate:g}, {variant}", ours, results[f"torch {rate:g} {variant}"])
    return results


def pfc_row(options, rate, centres, precision, results):
    ours = results[f"pfc {rate:g} {centres} {precision}"]
    limit = options.classes * options.dimension * VALUE_BYTES[centres] * TABLE_PART / 1e9
    kept = "kept" if gigabytes(ours) <= limit else "EXCEEDED"
    ratios = [f"{ratio(results[f'torch {rate:g} {variant}'], ours):.1f}" for variant in VARIANTS]
    return (f"| {rate:g} | pfc, {centres} centres, {precision} products | {spread(ours)} | "
            f"{1e3 * median(ours, 'sample_seconds'):.2f} | {' | '.join(ratios)} | "
            f"{gigabytes(ours):.2f} | {limit:.2f} {kept} | |")


def torch_row(rate, variant, results, settings):
    theirs = results[f"torch {rate:g} {variant}"]
    sampling = all_of(theirs, "sample_seconds")
    drawn = f"{1e3 * statistics.median(sampling):.2f}" if sampling else "-"
    allocator = settings[rate, variant].name.split(", ", 1)[-1]
    return (f"| {rate:g} | PyTorch, {variant} | {spread(theirs)} | {drawn} | | | "
            f"{gigabytes(theirs):.2f} | | {allocator} |")


def against_torch_sections(options, results, settings):
    header = ("| sample rate | program | step, s | sampling, ms | PyTorch dense / pfc | PyTorch rows / "
              "pfc | GB | limit on memory, GB: "
              f"{TABLE_PART} x centres and momentum | PyTorch's allocator |")
    rows, short = [], []
    for rate in RATES:
        rows += [torch_row(rate, variant, results, settings) for variant in VARIANTS]
        rows += [pfc_row(options, rate, *pair, results) for pair in options.variants]
        theirs = [results[f"torch {rate:g} {variant}"] for variant in VARIANTS]
        for precision in ("fp32", "bf16"):
            ours = results.get(f"pfc {rate:g} fp32 {precision}")
            if not ours:
                continue
            times = [f"{median(each):.3g} | {ratio(each, ours):.1f}" for each in theirs]
            memory = " / ".join(f"{gigabytes(each):.1f}" for each in (ours, *theirs))
            short.append(f"| {rate:g} | {precision} | {median(ours):.3g} | {' | '.join(times)} | "
                         f"{memory} GB |")
    short_header = ("| sample rate | pfc's products | pfc, s | PyTorch dense, s | ratio | PyTorch rows, "
                    "s | ratio | peak memory, pfc / dense / rows |")
    return {"head": f"A step over {options.classes:,} classes.\n\n{table(header, rows)}",
            "head-short": table(short_header, short)}


def growing_classes(programs, options):
    """Check 3."""
    active = options.active
    cases = {classes: functools.partial(programs.pfc, classes, active / classes)
             for classes in options.growing}
    results = in_rounds(programs, cases)
    rows = []
    for classes, ours in results.items():
        growth = ratio(ours, results[options.growing[0]])
        rows.append(f"| {classes:,} | {ours[-1]['active_classes']:,} | {spread(ours)} | "
                    f"{1e3 * median(ours, 'sample_seconds'):.2f} | {growth:.2f} | "
                    f"{verdict(growth, f'<= {GROWTH_GOAL}', lambda x: x <= GROWTH_GOAL)} | "
                    f"{gigabytes(ours):.2f} |")
    header = ("| classes | active | pfc, s | sampling, ms | ratio to the fewest classes | goal | "
              "pfc, GB |")
    return {"head-growing": f"{active:,} active classes out of more and more.\n\n"
                            f"{table(header, rows)}"}, results


def step_limits(options, rate, centres, precision, found):
    """Returns the seconds of a step's memory traffic and arithmetic at the machine's best rates. Forward reads the
    centres, and below rate 1 their momentum; backward reads and writes both. Logits that fit into a tenth of the memory
    of centres and momentum are written and read once; the others are computed twice."""
    classes, width, samples = options.classes * rate, options.dimension, options.samples
    weight = width * (2 if centres == "bf16" else 4)
    momentum = width * (4 if centres == "fp32" else 2)
    kept = min(1, 0.1 * options.classes * (weight + momentum) / (4 * samples * classes))
    logits = 2 * kept * classes * 4 * samples
    read = classes * (weight + (momentum if rate < 1 else 0))
    updated = classes * 2 * (weight + momentum)
    memory = found["stream"] if rate == 1 else found["gathered"][str(weight)]
    flops = (4 - kept) * 2 * samples * width * classes
    rates = [1 / statistics.mean(1 / value for value in by.values())
             for by in found[precision].values()]
    return {"bytes": read + updated + logits, "flops": flops,
            "memory": (read / memory["read"] + updated / memory["update"]
                       + logits / found["stream"]["update"]) / 1e9,
            "arithmetic": flops / max(rates) / 1e9}


def best_of(found):
    """Returns the best value of each figure over a list of results of head_limits."""
    if isinstance(found[0], dict):
        return {key: best_of([each[key] for each in found]) for key in found[0]}
    return max(found)


def limits_table(found):
    memory = {"copy": found["stream"]["copy"], "triad": found["stream"]["triad"],
              "read": found["stream"]["read"], "updated in place": found["stream"]["update"]}
    for row, rates in found["gathered"].items():
        memory[f"gathered rows of {int(row):,} bytes, read"] = rates["read"]
        memory[f"gathered rows of {int(row):,} bytes, updated"] = rates["update"]
    rows = [f"| memory: {name}, GB/s | {rate:.1f} |" for name, rate in memory.items()]
    for precision, programs in found.items():
        if precision not in ("fp32", "bf16"):
            continue
        for program, products in programs.items():
            each = " / ".join(f"{rate:.0f}" for rate in products.values())
            rows.append(f"| {precision} products by {program}: {' / '.join(products)}, GFLOP/s | "
                        f"{each} |")
    return table("| the best of the machine, all threads together | |", rows)


def against_limits(programs, options):
    """Check 4."""
    cases = {}
    for rate in RATES:
        for centres, precision in options.variants:
            cases[f"{rate:g} | {centres} | {precision}"] = functools.partial(
                programs.pfc, options.classes, rate,
                **{"centre-precision": centres, "precision": precision})
    found, results = [], {name: [] for name in cases}
    for _ in range(options.rounds):
        found.append(programs.limits())
        for name, each in in_rounds(programs, cases, rounds=1).items():
            results[name] += each
    found = best_of(found)
    rows = []
    for name, ours in results.items():
        rate, centres, precision = name.split(" | ")
        limit = step_limits(options, float(rate), centres, precision, found)
        seconds = median(ours)
        most, both = max(limit["memory"], limit["arithmetic"]), limit["memory"] + limit["arithmetic"]
        rows.append(f"| {name} | {spread(ours)} | {limit['bytes'] / seconds / 1e9:.1f} | "
                    f"{limit['flops'] / seconds / 1e9:.0f} | {limit['memory']:.3f} | "
                    f"{limit['arithmetic']:.3f} | {most / seconds:.0%} | {both / seconds:.0%} |")
    header = ("| sample rate | centres | products | step, s | GB/s | GFLOP/s | memory alone, s | "
              "arithmetic alone, s | longer of them, part of the step | sum of both, part of the step |")
    section = (f"{options.classes:,} classes.\n\n{limits_table(found)}\n\n{table(header, rows)}")
    return {"head-limit": section}, {"limits": found, "steps": results}


def two_workers(programs, options):
    """Check 7. Each worker has half of the classes and all embeddings. Two workers of one thread each should take half
    the time of one worker with one thread, and as long as one worker with two threads."""
    shapes = {"1 worker, 1 thread": (1, 1), "1 worker, 2 threads": (1, 2),
              "2 workers, 1 thread each": (2, 1)}
    cases = {f"{rate:g} | {name}": functools.partial(programs.pfc, options.classes, rate, *shape)
             for rate in RATES for name, shape in shapes.items()}
    results = in_rounds(programs, cases)
    rows = []
    for name, ours in results.items():
        alone = results[name.split(" | ")[0] + " | " + next(iter(shapes))]
        rows.append(f"| {name} | {spread(ours)} | {ratio(alone, ours):.2f} | "
                    f"{ours[-1]['comm_calls']} | {ours[-1]['comm_bytes']:,} | "
                    f"{gigabytes(ours):.2f} |")
    header = ("| sample rate | | pfc, s | speed-up over 1 worker, 1 thread | collectives of a step | "
              "bytes of one worker's input | GB, all workers |")
    return {"head-workers": f"Two workers over Gloo, {options.classes:,} classes.\n\n"
                            f"{table(header, rows)}"}, results


def measure(programs, options):
    """Returns (sections, data)."""
    sections, data = {}, {"machine": bench_report.machine(programs.threads), "results": {}}
    about = [bench_report.described(data["machine"])]
    if {1, 2} & set(options.check):
        blas, found, tried = bench_peer.choose_blas(programs.runner)
        about += [bench_report.blas_described(blas, found), bench_report.blas_tried(tried)]
        data.update({"blas": found, "blas_tried": tried,
                     "allocators_tried": programs.choose_settings(blas)})
        data["results"]["against_torch"] = against_torch(programs, options)
        sections.update(against_torch_sections(options, data["results"]["against_torch"],
                                               programs.settings))
    for check, measured in ((3, growing_classes), (4, against_limits), (7, two_workers)):
        if check in options.check:
            more, data["results"][measured.__name__] = measured(programs, options)
            sections.update(more)
    about.append(f"N = {options.samples}, D = {options.dimension}, {options.rounds} alternating "
                 f"rounds. {bench_report.others(programs.runner.others)}")
    for name in sections:
        if not name.endswith("-short"):
            sections[name] = "\n".join(about) + "\n\n" + sections[name]
    return sections, data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--check", type=int, nargs="+", choices=(1, 2, 3, 4, 7), default=[1, 2])
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--classes", type=int, default=1_000_000, help="number of classes of checks 1, 2, 4 and 7")
    parser.add_argument("--trial-classes", type=int, default=200_000,
                        help="number of classes for the choice of PyTorch's allocator")
    parser.add_argument("--active", type=int, default=100_000, help="number of active classes of check 3")
    parser.add_argument("--growing", type=int, nargs="+", help="numbers of classes of check 3",
                        default=[200_000, 500_000, 1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--variants", nargs="+", metavar="CENTRES/PRODUCTS",
                        default=["fp32/fp32", "fp32/bf16", "bf16_momentum/fp32", "bf16/fp32",
                                 "bf16/bf16"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="measured steps of pfc in a round")
    parser.add_argument("--torch-steps", type=int, default=3, help="measured steps of PyTorch in a round")
    bench_report.add_arguments(parser)
    options = parser.parse_args()
    options.variants = [tuple(variant.split("/")) for variant in options.variants]
    try:
        sections, data = measure(Programs(options), options)
    except Failed as why:
        sys.exit(str(why))
    bench_report.write(options, sections, data)


if __name__ == "__main__":
    main()
