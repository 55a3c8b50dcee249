"""Measures a whole training step of pfc-worker and of the PyTorch reference, alternating in one run
on the same cores.

    bench_step.py --bin build/cpu/bin [--networks r18 r50 mbf] [--batch 32] [--rounds 3] [--steps 6]
                  [--json FILE] [--markdown FILE...]

PyTorch runs under the fastest settings that are found by trying (bench_peer.py): BLAS build and core
type once; memory layout, oneDNN's convolutions or PyTorch's own, and the allocator for each network.
Then each round starts both programs anew, one after the other. The first steps of a run are left out:
memory is touched and plans are made in them. The tables hold medians of samples a second over all
steps of all rounds, in brackets the smallest and the largest, the median of the rounds' ratios, and
peak resident memory. On two AVX-512 cores that are otherwise idle it takes ten minutes.
"""

import argparse
import dataclasses
import pathlib
import shutil
import statistics
import sys
import tempfile

import bench_peer
import bench_report
import reference_input
from bench_runs import HERE, PYTHON, Failed, Runner, say
from loss_parity import metrics

WARM_UP_STEPS = 2
TRIAL_STEPS = 3  # of a candidate, of which the first is left out
LAYOUTS = [
    bench_peer.setting("channels-last, oneDNN", arguments=["--layout", "channels_last"]),
    bench_peer.setting("NCHW, oneDNN", arguments=["--layout", "nchw"]),
    bench_peer.setting("NCHW, PyTorch's own convolutions",
                       arguments=["--layout", "nchw", "--no-mkldnn"]),
]


@dataclasses.dataclass
class Case:
    """A network's job and input, in a folder of its own."""
    runner: Runner
    folder: pathlib.Path
    network: str
    path: pathlib.Path
    blas: bench_peer.Settings
    bin: pathlib.Path

    def pfc(self, number):
        out = self.folder / f"out-{number}"
        command = [self.bin / "pfc-worker", "--config", self.path, "--set", f"output={out}"]

        def result(_):
            found = measured(out / "metrics.jsonl", WARM_UP_STEPS)
            shutil.rmtree(out)  # a disturbed attempt is made again, and a job wants an empty folder
            return found

        return self.runner.run(command, result)

    def torch_command(self, settings, *more):
        return [*PYTHON, HERE / "train_reference.py", "--job", self.path, "--threads",
                len(self.runner.cores), "--input", self.folder / "reference.safetensors",
                "--metrics", self.folder / "reference.jsonl", *settings.arguments, *more]

    def torch(self, settings):
        return self.runner.run(self.torch_command(settings), self.torch_result,
                               settings.environment)

    def torch_result(self, _):
        return measured(self.folder / "reference.jsonl", WARM_UP_STEPS)

    def trial(self, settings, limit):
        """Seconds of a sample."""
        settings = self.blas + settings
        self.runner.attempt(self.torch_command(settings, "--steps", TRIAL_STEPS),
                            settings.environment, limit)
        speeds, _ = measured(self.folder / "reference.jsonl", 1)
        return len(speeds) / sum(speeds)

    def settings(self):
        """PyTorch's, the fastest layout first and then the fastest allocator with it."""
        say(f"{self.network}: PyTorch's settings, in seconds by a sample:")
        first, *others = bench_peer.allocators()
        layout, layouts = bench_peer.fastest([first + each for each in LAYOUTS], self.trial)
        chosen = next(each for each in LAYOUTS if layout.settings == first + each)
        best, allocators = bench_peer.fastest([each + chosen for each in others], self.trial, layout)
        return best.settings, layouts + allocators


def measured(path, warm_up):
    """Samples a second of each step after the warm-up, and the peak memory in bytes."""
    steps = metrics(path)
    return [s["samples_per_second"] for s in steps[warm_up:]], steps[-1]["memory_bytes"]


def measure(network, arguments, runner, blas, folder):
    job = {"network": network, "embedding_size": 512, "batch_size": arguments.batch, "lr": 0.02,
           "num_epoch": 100, "max_steps": WARM_UP_STEPS + arguments.steps, "num_workers": 1}
    path = reference_input.make(folder, job, classes=arguments.classes,
                                per_class=-(-4 * arguments.batch // arguments.classes))
    case = Case(runner, folder, network, path, blas, arguments.bin)
    settings, tried = case.settings()
    rounds = []
    for number in range(arguments.rounds):
        rounds.append((case.pfc(number), case.torch(blas + settings)))
        ours, theirs = (statistics.median(result[0]) for result in rounds[-1])
        say(f"  round {number + 1}: {ours:.1f} and {theirs:.1f} samples/s")
    return {"network": network, "settings": settings.name, "tried": tried,
            "pfc": [{"samples_per_second": r[0][0], "memory_bytes": r[0][1]} for r in rounds],
            "torch": [{"samples_per_second": r[1][0], "memory_bytes": r[1][1]} for r in rounds]}


def speeds(rounds):
    return [speed for entry in rounds for speed in entry["samples_per_second"]]


def ratio(result):
    """The median of the rounds' ratios."""
    return statistics.median(
        statistics.median(ours["samples_per_second"]) / statistics.median(theirs["samples_per_second"])
        for ours, theirs in zip(result["pfc"], result["torch"]))


def peak(rounds, unit):
    return max(entry["memory_bytes"] for entry in rounds) / unit


def row(result):
    return (f"| {result['network']} | {bench_report.spread(speeds(result['pfc']), 1)} | "
            f"{bench_report.spread(speeds(result['torch']), 1)} | {ratio(result):.2f} | "
            f"{peak(result['pfc'], 2**20):.0f} | {peak(result['torch'], 2**20):.0f} | "
            f"{result['settings']} |")


def short_row(result):
    ours, theirs = (statistics.median(speeds(result[program])) for program in ("pfc", "torch"))
    return (f"| {result['network']} | {ours:.1f} | {theirs:.1f} | {ratio(result):.2f} | "
            f"{peak(result['pfc'], 2**30):.1f} / {peak(result['torch'], 2**30):.1f} GiB |")


def sections(data):
    about = (f"{bench_report.described(data['machine'])}\n{data['blas_described']}\n"
             f"{bench_report.blas_tried(data['blas_tried'])}\n"
             f"Batch {data['batch']}, {data['rounds']} alternating rounds of {data['steps']} steps. "
             f"{bench_report.others(data['others'])}")
    full = ["| network | pfc, samples/s | PyTorch, samples/s | ratio | pfc, MiB | PyTorch, MiB | "
            "PyTorch's settings |", "|---|---|---|---|---|---|---|"]
    short = ["| network | pfc, samples/s | PyTorch, samples/s | ratio | peak memory, pfc / PyTorch |",
             "|---|---|---|---|---|"]
    full += [row(result) for result in data["results"]]
    short += [short_row(result) for result in data["results"]]
    return {"step": f"{about}\n\n" + "\n".join(full), "step-short": "\n".join(short)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a run")
    parser.add_argument("--classes", type=int, default=64)
    bench_report.add_arguments(parser)
    arguments = parser.parse_args()
    runner = Runner(arguments.threads, arguments.attempts)
    try:
        blas, found, tried = bench_peer.choose_blas(runner)
        results = []
        for network in arguments.networks:
            with tempfile.TemporaryDirectory(prefix="pfc-bench-") as folder:
                results.append(measure(network, arguments, runner, blas, pathlib.Path(folder)))
    except Failed as why:
        sys.exit(str(why))
    data = {"machine": bench_report.machine(len(runner.cores)), "blas": found, "blas_tried": tried,
            "blas_described": bench_report.blas_described(blas, found), "batch": arguments.batch,
            "rounds": arguments.rounds, "steps": arguments.steps, "others": runner.others,
            "results": results}
    bench_report.write(arguments, sections(data), data)


if __name__ == "__main__":
    main()
