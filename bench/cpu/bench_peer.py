"""Chooses the settings for measurements of PyTorch on a CPU: the fastest of a few trials.

The BLAS build and OpenBLAS's core type are chosen by matrix products of the benchmarks' shapes, each
in a process of its own. A candidate that crashes, or whose products are wrong, is left out. The
allocator and PyTorch's own options are chosen by short runs of the program that is to be measured.
"""

import dataclasses
import json
import math
import pathlib
import time

from bench_runs import HERE, PYTHON, Failed, say

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
BLAS_BUILDS = ("openblas-pthread", "openblas-openmp")  # folders of Debian's packages
CORE_TYPES = ("", "SAPPHIRERAPIDS", "COOPERLAKE", "SKYLAKEX", "ZEN", "HASWELL")
RIGHT = 1e-5  # largest relative error of a product in float32

KEEPS_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40),
                "MALLOC_TOP_PAD_": str(2**26)}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
PRELOADED = {
    "jemalloc": ("libjemalloc.so.2", {"MALLOC_CONF": "thp:always,oversize_threshold:0,"
                                      "dirty_decay_ms:-1,muzzy_decay_ms:-1"}),
    "tcmalloc": ("libtcmalloc_minimal.so.4", {"TCMALLOC_RELEASE_RATE": "0"}),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    name: str
    environment: tuple = ()  # pairs (name, value)
    arguments: tuple = ()    # arguments of the measured program

    def __add__(self, other):
        name = ", ".join(part for part in (self.name, other.name) if part)
        return Settings(name, self.environment + other.environment,
                        self.arguments + other.arguments)


def setting(name, environment=(), arguments=()):
    return Settings(name, tuple(dict(environment).items()), tuple(arguments))


@dataclasses.dataclass(frozen=True)
class Trial:
    settings: Settings
    seconds: float  # seconds of the compared work
    wall: float     # seconds of the whole run


def fastest(candidates, seconds, best=None):
    """Returns the fastest Trial and a list of {name, seconds or why_not}.

    seconds(settings, limit) measures one candidate within `limit` seconds, or raises Failed. The limit is three
    times the whole run of the best candidate so far, plus 20 s. `best`: an earlier Trial, which is not repeated."""
    tried = []
    for candidate in candidates:
        begin = time.perf_counter()
        try:
            took = seconds(candidate, 20 + 3 * best.wall if best else None)
        except Failed as why:
            tried.append({"name": candidate.name, "why_not": str(why).splitlines()[-1]})
            continue
        tried.append({"name": candidate.name, "seconds": took})
        say(f"  {candidate.name}: {took:.3f} s")
        if best is None or took < best.seconds:
            best = Trial(candidate, took, time.perf_counter() - begin)
    if best is None:
        raise Failed("; ".join(f"{entry['name']}: {entry['why_not']}" for entry in tried))
    return best, tried


def blas_candidates():
    """Returns the settings to try: every installed OpenBLAS of Debian with every core type, and the BLAS of the
    machine."""
    found = [setting("BLAS as installed")]
    for build in BLAS_BUILDS:
        folder = LIBRARIES / build
        if not (folder / "libblas.so.3").exists():
            continue
        for core in CORE_TYPES:
            chosen = {"LD_LIBRARY_PATH": str(folder)}
            if core:
                chosen["OPENBLAS_CORETYPE"] = core
            found.append(setting(f"{build} {core or 'core type unset'}", chosen))
    return found


def probe(runner, settings, shape):
    """Returns the result of gemm_probe.py. Raises Failed if it crashes or is wrong."""
    output = runner.attempt([*PYTHON, HERE / "gemm_probe.py", "--threads", len(runner.cores), *shape],
                            settings.environment, 120)
    found = json.loads(output)
    if not (math.isfinite(found["error"]) and found["error"] < RIGHT):
        raise Failed(f"wrong products: relative error {found['error']:.1e}")
    return found


def choose_blas(runner, shape=()):
    """Returns the settings, the result of gemm_probe.py, and the candidates: name, GFLOP/s, or why not."""
    say("matrix products of PyTorch:")
    best, tried = None, []
    for candidate in blas_candidates():
        try:
            found = probe(runner, candidate, shape)
        except Failed as why:
            tried.append({"name": candidate.name, "why_not": str(why).splitlines()[-1]})
            continue
        tried.append({"name": candidate.name, "gflops": round(found["gflops"], 1),
                      "core": found["core"]})
        say(f"  {candidate.name}: {found['gflops']:.0f} GFLOP/s")
        if best is None or found["gflops"] > best[1]["gflops"]:
            best = (candidate, found)
    if best is None:
        raise Failed("; ".join(f"{entry['name']}: {entry['why_not']}" for entry in tried))
    return (*best, tried)


def allocators():
    """Returns the installed allocators. The first is glibc's default."""
    found = [setting("glibc malloc"),
             setting("glibc malloc with huge pages", HUGE_PAGES),
             setting("glibc malloc that keeps memory", KEEPS_MEMORY),
             setting("glibc malloc that keeps memory, with huge pages",
                     {**KEEPS_MEMORY, **HUGE_PAGES})]
    for name, (library, more) in PRELOADED.items():
        if (LIBRARIES / library).exists():
            found.append(setting(name, {"LD_PRELOAD": str(LIBRARIES / library), **more}))
    return found
