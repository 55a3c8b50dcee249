"""Tests and measures the CUDA code on a machine with a GPU, and writes docs/benchmarks/GPU.md.

    scripts/gpu_acceptance.sh [--call a] [--only tests,step] [--minutes 9] [--bin FOLDER]

Parts:
  build      builds the `cuda` preset
  versions   driver, GPUs, `pfcctl check`
  tests      every GPU test
  trace      three steps, kernel by kernel
  step, head benchmarks against PyTorch: a whole step, and the classification layer
  resume     whether a stopped and resumed job computes the same bits
  train      trains on real faces (PFC_TEST_DATA/lfw112), or on generated ones, and compares with PyTorch
  sanitizer  compute-sanitizer on the tests of pfc's own kernels

--call runs some of the parts in at most ten minutes: a tests the programs, b compares their speed with PyTorch, c
tests races, resuming and training. With --out, the results are packed into that folder after each part.

Each part consists of cases, each with its own time limit. When a case fails, the others still run. The script stores
the result of each case, and the measurements of an incomplete benchmark, for this commit and these programs. With
--minutes the run ends after that time, and the same command continues it. --again repeats the requested parts. If the
sources have no git history, PFC_COMMIT names their commit.

Exit code: 0 all requested cases have passed; 1 a case failed (the last lines name it); 4 no case failed, but some
have not run; 3 there is no GPU, and no case has run; 2 wrong arguments.
"""

import argparse
import os
import pathlib
import signal
import sys
import tarfile
import time

import gpus
import report
import results
from cases import BATCHES, CALL_DEFAULTS, CALLS, CLASSES, NETWORKS, PARTS, PRECISIONS, ROOT
from plan import Plan

FAILED, NO_GPU, NOT_ALL_RUN = 1, 3, 4
BEGIN = time.monotonic()  # --minutes is counted from here
SHORTEST = 20  # seconds; if less time is left, no further case starts


def parts(text):
    named = text.split(",")
    unknown = [part for part in named if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is not one of {', '.join(PARTS)}")
    return named


def parse():
    parser = argparse.ArgumentParser(prog="gpu_acceptance.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=parts, metavar="PART,...")
    parser.add_argument("--call", choices=sorted(CALLS))
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER",
                        help="folder for results-CALL.tar.xz, written after each part")
    parser.add_argument("--bin", type=pathlib.Path, metavar="FOLDER",
                        help="programs that were built elsewhere; the script then builds nothing")
    parser.add_argument("--python", help="a Python whose torch sees a GPU (default: the first of "
                                         "python3 and /usr/bin/python3 with such a torch)")
    parser.add_argument("--minutes", type=float, help="end after this time; the next call continues")
    parser.add_argument("--again", action="store_true", help="repeat cases that have run already")
    parser.add_argument("--dry-run", action="store_true", help="print the commands; needs no GPU")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "acceptance",
                        help="folder for results and data (build/acceptance)")
    parser.add_argument("--report", type=pathlib.Path, help="default: docs/benchmarks/GPU.md")
    parser.add_argument("--train-network", default="r50", choices=("r18", "r50"))
    parser.add_argument("--networks", nargs="+", help="networks of the part step")
    parser.add_argument("--batches", nargs="+", type=int, help="batch sizes of the part step")
    parser.add_argument("--worker-tests", nargs="+", default=[], help="names of tests in tests/e2e/gpu_test.py")
    parser.add_argument("--job-network", default="r50", help="network of trace and resume")
    parser.add_argument("--job-batch", type=int, default=128, help="batch size of trace and resume")
    parser.add_argument("--job-device", default="cuda", help="device of trace and resume")
    parser.add_argument("--job-size", type=int, default=112, help="pixels a side in trace and resume")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the part step")
    parser.add_argument("--precisions", nargs="+", help="precisions of the part step")
    parser.add_argument("--classes", nargs="+", type=int, help="numbers of classes of the part head")
    parser.add_argument("--compile", default="default",
                        help="torch.compile's mode in step, or off; max-autotune takes minutes")
    return with_defaults(parser.parse_args())


def with_defaults(options):
    usual = {"networks": NETWORKS, "batches": BATCHES, "precisions": PRECISIONS, "classes": CLASSES}
    for name, value in (CALL_DEFAULTS if options.call else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.only is None:
        options.only = [part for part, _ in CALLS[options.call]] if options.call else list(PARTS)
    return options


def dry_run(options):
    try:
        found = gpus.find_gpus()
    except gpus.NoGpu:
        found = [gpus.Gpu("none", 0, "9.0")]
    plan = Plan(found, options.work, options)
    for part in options.only:
        for case in plan.cases(part):
            note = f"   # not now: {case.missing}" if case.missing else ""
            print(f"{case.part} {case.name}: {results.shown(case.command)}{note}")


def keep_algorithms(work):
    """Sets a folder for the choice of convolution algorithms (docs/cuda.md): without it, runs would
    choose different ones."""
    if not any(os.environ.get(name, "").startswith("/") for name in ("XDG_CACHE_HOME", "HOME")):
        os.environ["XDG_CACHE_HOME"] = str(work / "cache")


def deadline(minutes):
    return BEGIN + 60 * (minutes or 1e6)


def run_all(options, plan, store, after_each=lambda: None, after_part=lambda: None):
    """Returns the results of all cases of the chosen parts, also those of earlier calls."""
    done = []
    for part in options.only:
        for case in plan.cases(part):
            known = None if options.again or part == "build" else store.load(case)
            done.append(known or run_one(case, options))
            store.save(done[-1])
            after_each()
        after_part()
    return done


def pack(options, page):
    """Packs all results so far, because a rented machine can be taken away at any time."""
    out, work = options.out, options.work
    out.mkdir(parents=True, exist_ok=True)
    packed = out / f"results-{options.call or 'all'}.tar.xz"
    with tarfile.open(packed.with_suffix(".new"), "w:xz") as archive:
        for path in (work / "results", work / "kept", work / "trace.json", page):
            if path.exists():
                archive.add(path, path.name)
    packed.with_suffix(".new").replace(packed)


def run_one(case, options):
    left = deadline(options.minutes) - time.monotonic()
    if left < SHORTEST:
        return results.Result(case.part, case.name, "not run: no time was left")
    if options.again and case.kept:
        case.kept.unlink(missing_ok=True)
    print(f"{case.part} {case.name} ...", flush=True)
    result = results.run(case, left)
    missed = f"; {result.goals_missed} goals MISSED" if result.goals_missed else ""
    print(f"{case.part} {case.name}: {result.verdict}{missed} ({result.seconds:.0f} s)", flush=True)
    return result


def verdict(done):
    for result in done:
        if result.kind != "passed":
            print(f"gpu_acceptance: {result.part} {result.name}: {result.verdict}", file=sys.stderr)
    kinds = {result.kind for result in done}
    return FAILED if "failed" in kinds else NOT_ALL_RUN if "not run" in kinds else 0


def main():
    options = parse()
    if options.dry_run:
        return dry_run(options)
    try:
        found = gpus.find_gpus()
    except gpus.NoGpu as problem:
        print(f"gpu_acceptance: no GPU: {problem}. Not run: {', '.join(options.only)}",
              file=sys.stderr)
        return NO_GPU
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("gpu_acceptance: ended"))  # ends the running case too
    options.work = options.work.resolve() / found[0].slug
    keep_algorithms(options.work)
    plan = Plan(found, options.work, options)
    store = results.Store(options.work / "results", plan.version)
    page = options.report or ROOT / "docs" / "benchmarks" / f"{found[0].slug}.md"
    done = run_all(options, plan, store, lambda: report.write(page, plan, store.all()),
                   lambda: pack(options, page) if options.out else None)
    print(f"written: {page}")
    return verdict(done)


if __name__ == "__main__":
    sys.exit(main())
