"""Runs the programs that a benchmark compares, on the same cores and without speed settings of the caller's
environment. Measures the processor time that other programs take meanwhile."""

import os
import pathlib
import resource
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"
sys.path.append(str(REFERENCE))
PYTHON = ["/usr/bin/python3", "-B"]  # Debian's, which has Debian's PyTorch
DISTURBED = 0.05  # fraction of the cores that other programs may take during a run
# Variables that set the speed of OpenMP, BLAS, oneDNN, PyTorch or malloc.
SPEED_SETTINGS = ("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "NVPL_", "DNNL_",
                  "ONEDNN_", "ATEN_", "MALLOC_", "TCMALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD",
                  "LD_BIND_NOW")


class Failed(Exception):
    """A program failed. The text has its name and output."""


def environment(threads, settings=()):
    """Returns the caller's environment without speed settings, and with `settings`."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(SPEED_SETTINGS)}
    return {**kept, "OMP_NUM_THREADS": str(threads), **dict(settings)}


def busy_seconds():
    """Returns the CPU seconds that the whole machine has used, and those of the finished children of this process."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[1:4])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return user + nice + system, children.ru_utime + children.ru_stime


class Runner:
    def __init__(self, threads, attempts):
        self.cores = sorted(os.sched_getaffinity(0))[:threads]
        self.attempts = attempts
        self.others = []  # for each run, the fraction of the cores that other programs took

    def run(self, command, result, settings=(), limit=None):
        """Runs the program a few times. Returns result(output) of the run that other programs disturbed least."""
        attempts = []
        while len(attempts) < self.attempts:
            begin, (machine, own) = time.perf_counter(), busy_seconds()
            output = self.attempt(command, settings, limit)
            elapsed, (machine_after, own_after) = time.perf_counter() - begin, busy_seconds()
            others = (machine_after - machine) - (own_after - own)
            attempts.append((max(0, others) / elapsed / os.cpu_count(), result(output)))
            if attempts[-1][0] < DISTURBED:
                break
        others, best = min(attempts, key=lambda attempt: attempt[0])
        self.others.append(others)
        return best

    def attempt(self, command, settings=(), limit=None):
        """Returns the program's stdout. Raises Failed if it fails or needs more than `limit` seconds."""
        words = [str(word) for word in command]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit,
                                  env=environment(len(self.cores), settings),
                                  preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        except subprocess.TimeoutExpired:
            raise Failed(f"slower than {limit:.0f} s") from None
        if done.returncode != 0:
            said = f"{done.stdout}{done.stderr}".strip()
            raise Failed(f"{' '.join(words)}\nfailed with {done.returncode}:\n{said}")
        return done.stdout


def say(line):
    """Prints progress, which is not part of the tables."""
    print(line, file=sys.stderr, flush=True)
