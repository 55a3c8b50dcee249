"""Measures how much watching a job slows its steps down. Alternates jobs of two workers without any watcher, and jobs
with open pages and with readers of metrics and status.

    bench_watching.py --bin build/cpu/bin [--network r18] [--batch 16] [--rounds 5] [--seconds 60]
                      [--scrape 15] [--readers 1] [--set KEY=VALUE ...]

In a watched job, each of --readers readers reads /metrics every --scrape seconds and `status --json` every two
seconds, and keeps a page open. --set changes a key only in the watched job, to measure files that a job writes
while it trains. The watchers run on the same cores. The script reads the log's times of the last warm-up step and of
the last step, and divides their difference by the number of steps. So the time of a step includes the work between
steps. The machine should be idle otherwise.
"""

import argparse
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading
import urllib.request

import bench_report
from bench_runs import Runner, say
import reference_input  # in tests/reference, like the next
from pfc_runs import metrics, seconds_between

WARM_UP_STEPS = 4
WORKERS = 2
STATUS_SECONDS = 2


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Watchers:
    """Readers of metrics, page and status that run during a `with` block."""

    def __init__(self, arguments, port, state):
        self.url = f"http://127.0.0.1:{port}"
        self.over = threading.Event()
        self.bytes = {"metrics": 0, "page": 0}
        status = [arguments.bin / "pfcctl", "status", "--json", "--state-dir", state]
        each = [lambda: self.every(arguments.scrape, self.scrape), self.page,
                lambda: self.every(STATUS_SECONDS, lambda: subprocess.run(status, capture_output=True))]
        self.threads = [threading.Thread(target=target) for target in each for _ in range(arguments.readers)]

    def every(self, seconds, call):
        while not self.over.wait(seconds):
            try:
                call()
            except OSError:
                pass  # the reader has not begun, or has ended

    def scrape(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=5) as reply:
            self.bytes["metrics"] += len(reply.read())

    def page(self):
        while not self.over.wait(0.5):
            try:
                with urllib.request.urlopen(self.url + "/events", timeout=5) as reply:
                    while piece := reply.read1(65536):
                        self.bytes["page"] += len(piece)
            except OSError:
                pass

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


class Case:
    def __init__(self, arguments, folder, path):
        self.arguments, self.folder, self.path = arguments, folder, path
        self.runner = Runner(WORKERS, 1)
        self.read = {}

    def run(self, steps, watched):
        """Returns the seconds of a step."""
        out, state, port = self.folder / "out", self.folder / "state", free_port()
        command = [self.arguments.bin / "pfc-coordinator", "--hosts", f"localhost:{WORKERS}", "--port", "0",
                   "--http-port", port, "--state-dir", state, "--config", self.path,
                   "--set", f"max_steps={steps}", "--set", f"output={out}-{watched}-{port}"]
        for key_value in self.arguments.set if watched else ():
            command += ["--set", key_value]
        if watched:
            with Watchers(self.arguments, port, state) as watchers:
                self.runner.run(command, lambda _: None)
            assert all(watchers.bytes.values()), f"a watcher has read nothing: {watchers.bytes}"
            self.read = watchers.bytes
        else:
            self.runner.run(command, lambda _: None)
        found = metrics(pathlib.Path(f"{out}-{watched}-{port}") / "metrics.jsonl")
        return seconds_between(found[WARM_UP_STEPS - 1], found[-1]) / (len(found) - WARM_UP_STEPS)


def measure(arguments, folder):
    path = reference_input.make_head_job(folder, arguments.network, arguments.batch, 50_000)
    case = Case(arguments, folder, path)
    steps = max(round(arguments.seconds / case.run(12, False)), 20) + WARM_UP_STEPS
    rounds = []
    for number in range(arguments.rounds):
        kinds = (False, True) if number % 2 == 0 else (True, False)
        rounds.append({watched: case.run(steps, watched) for watched in kinds})
        say(f"  round {number + 1}: {1000 * rounds[-1][False]:.1f} ms alone, {1000 * rounds[-1][True]:.1f} ms watched")
    return rounds, case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--network", default="r18")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--scrape", type=float, default=15)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    with tempfile.TemporaryDirectory(prefix="pfc-bench-") as folder:
        rounds, case = measure(arguments, pathlib.Path(folder))
    ratios = [each[True] / each[False] for each in rounds]
    print(f"{arguments.network}, {WORKERS} workers, batch {arguments.batch} each; {arguments.rounds} alternating "
          f"rounds. {bench_report.others(case.runner.others)}\n"
          f"a step alone: {1000 * statistics.median(each[False] for each in rounds):.1f} ms\n"
          f"watched: {statistics.median(ratios):.4f} of that ({min(ratios):.4f} to {max(ratios):.4f}); "
          f"the last round read {case.read['metrics'] / 1e3:.0f} kB of metrics and {case.read['page'] / 1e3:.0f} kB of the page")


if __name__ == "__main__":
    main()
