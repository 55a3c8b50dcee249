"""Measures a whole training step of pfc-worker, in fp32 and in bf16, and of the PyTorch reference,
alternating in one run on the same cores.

    bench_step.py --bin build/cpu/bin [--networks r18 r50 mbf] [--size 112] [--batch 32] [--rounds 3] [--steps 6]
                  [--precisions fp32 bf16] [--json FILE] [--markdown FILE...]

PyTorch runs with the fastest settings of a few trials (bench_peer.py). BLAS build and core type are chosen once.
The memory layout, the convolutions (oneDNN's or PyTorch's own), fp32 or autocast to bf16, and the allocator are chosen
for each network. If only fp32 is measured, bf16 is not tried. Transformers use PyTorch's attention. Then each round
starts all programs again, one after the other. The first steps of a run are left out, because they touch memory and
make plans. The tables give the median samples per second over all steps of all rounds, with the smallest and the
largest value in brackets, the median of the rounds' ratios, and peak resident memory. On two AVX-512 cores that are
otherwise idle the script takes a quarter of an hour. It leaves out bf16 if the processor lacks avx512_bf16.
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
from bench_runs import PYTHON, REFERENCE, Failed, Runner, say
import reference_input  # in tests/reference, like the next
from backbone_reference import embedding_size_of
from pfc_runs import metrics

WARM_UP_STEPS = 2
TRIAL_STEPS = 3  # steps of a candidate; the first one does not count
LAYOUTS = [
    bench_peer.setting("channels-last, oneDNN", arguments=["--layout", "channels_last"]),
    bench_peer.setting("NCHW, oneDNN", arguments=["--layout", "nchw"]),
    bench_peer.setting("NCHW, PyTorch's own convolutions",
                       arguments=["--layout", "nchw", "--no-mkldnn"]),
]
BF16 = bench_peer.setting("channels-last, oneDNN, autocast to bf16",
                          arguments=["--layout", "channels_last", "--precision", "bf16"])


def has_bf16():
    return "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


@dataclasses.dataclass
class Case:
    """The job and the input of one network, in a folder of their own."""
    runner: Runner
    folder: pathlib.Path
    network: str
    path: pathlib.Path
    blas: bench_peer.Settings
    bin: pathlib.Path
    precisions: list

    def pfc(self, number, precision):
        out = self.folder / f"out-{number}"
        command = [self.bin / "pfc-worker", "--config", self.path, "--set", f"output={out}",
                   "--set", f"precision={precision}"]

        def result(_):
            found = measured(out / "metrics.jsonl", WARM_UP_STEPS)
            shutil.rmtree(out)  # a disturbed run is repeated, and a job needs an empty folder
            return found

        return self.runner.run(command, result)

    def torch_command(self, settings, *more):
        return [*PYTHON, REFERENCE / "train_reference.py", "--job", self.path, "--threads",
                len(self.runner.cores), "--fast-transformer", "--input", self.folder / "reference.safetensors",
                "--metrics", self.folder / "reference.jsonl", *settings.arguments, *more]

    def torch(self, settings):
        return self.runner.run(self.torch_command(settings), self.torch_result,
                               settings.environment)

    def torch_result(self, _):
        return measured(self.folder / "reference.jsonl", WARM_UP_STEPS)

    def trial(self, settings, limit):
        """Returns the seconds per sample."""
        settings = self.blas + settings
        self.runner.attempt(self.torch_command(settings, "--steps", TRIAL_STEPS),
                            settings.environment, limit)
        speeds, _ = measured(self.folder / "reference.jsonl", 1)
        return len(speeds) / sum(speeds)

    def settings(self):
        """Chooses PyTorch's fastest layout, and then the allocator that is fastest with this layout."""
        say(f"{self.network}: PyTorch's settings, in seconds per sample:")
        first, *others = bench_peer.allocators()
        candidates = LAYOUTS + ([BF16] if self.precisions != ["fp32"] and has_bf16() else [])
        layout, layouts = bench_peer.fastest([first + each for each in candidates], self.trial)
        chosen = next(each for each in candidates if layout.settings == first + each)
        best, allocators = bench_peer.fastest([each + chosen for each in others], self.trial, layout)
        return best.settings, layouts + allocators


def measured(path, warm_up):
    """Returns the samples per second of each step after the warm-up, and the peak memory in bytes."""
    steps = metrics(path)
    return [s["samples_per_second"] for s in steps[warm_up:]], steps[-1]["memory_bytes"]


def measure(network, arguments, runner, blas, folder):
    job = {"network": network, "embedding_size": embedding_size_of(network), "batch_size": arguments.batch, "lr": 0.02,
           "num_epoch": 100, "max_steps": WARM_UP_STEPS + arguments.steps, "num_workers": 1}
    path = reference_input.make(folder, job, classes=arguments.classes,
                                per_class=-(-4 * arguments.batch // arguments.classes), size=arguments.size)
    case = Case(runner, folder, network, path, blas, arguments.bin, arguments.precisions)
    settings, tried = case.settings()
    rounds = []
    for number in range(arguments.rounds):
        found = {each: case.pfc(number, each) for each in arguments.precisions}
        found["torch"] = case.torch(blas + settings)
        rounds.append(found)
        say(f"  round {number + 1}, samples/s: " + ", ".join(
            f"{name} {statistics.median(result[0]):.1f}" for name, result in found.items()))
    return {"network": network, "settings": settings.name, "tried": tried,
            "runs": {name: [{"samples_per_second": found[name][0], "memory_bytes": found[name][1]}
                            for found in rounds] for name in rounds[0]}}


def speeds(rounds):
    return [speed for entry in rounds for speed in entry["samples_per_second"]]


def ratio(result, ours, theirs):
    """Returns the median of the rounds' ratios. For a ratio to itself, returns a dash."""
    if ours == theirs or theirs not in result["runs"]:
        return "-"
    found = statistics.median(
        statistics.median(a["samples_per_second"]) / statistics.median(b["samples_per_second"])
        for a, b in zip(result["runs"][ours], result["runs"][theirs]))
    return f"{found:.2f}"


def peak(rounds, unit):
    return max(entry["memory_bytes"] for entry in rounds) / unit


def precisions_of(result):
    return [name for name in result["runs"] if name != "torch"]


def rows(result):
    """Yields a row for each precision of pfc."""
    theirs = result["runs"]["torch"]
    for name in precisions_of(result):
        ours = result["runs"][name]
        yield (f"| {result['network']} | {name} | {bench_report.spread(speeds(ours), 1)} | "
               f"{bench_report.spread(speeds(theirs), 1)} | {ratio(result, name, 'torch')} | "
               f"{ratio(result, name, 'fp32')} | {peak(ours, 2**20):.0f} | {peak(theirs, 2**20):.0f} | "
               f"{result['settings']} |")


def short_rows(result):
    for name in precisions_of(result):
        ours, theirs = result["runs"][name], result["runs"]["torch"]
        yield (f"| {result['network']} | {name} | {statistics.median(speeds(ours)):.1f} | "
               f"{statistics.median(speeds(theirs)):.1f} | {ratio(result, name, 'torch')} | "
               f"{peak(ours, 2**30):.1f} / {peak(theirs, 2**30):.1f} GiB |")


def sections(data):
    about = (f"{bench_report.described(data['machine'])}\n{data['blas_described']}\n"
             f"{bench_report.blas_tried(data['blas_tried'])}\n"
             f"Batch {data['batch']}, images of {data['size']} x {data['size']}, {data['rounds']} alternating rounds "
             f"of {data['steps']} steps. "
             f"{bench_report.others(data['others'])}")
    full = ["| network | precision | pfc, samples/s | PyTorch, samples/s | ratio | ratio to pfc's fp32 | "
            "pfc, MiB | PyTorch, MiB | PyTorch's settings |", "|---|---|---|---|---|---|---|---|---|"]
    short = ["| network | precision | pfc, samples/s | PyTorch, samples/s | ratio | "
             "peak memory, pfc / PyTorch |", "|---|---|---|---|---|---|"]
    full += [row for result in data["results"] for row in rows(result)]
    short += [row for result in data["results"] for row in short_rows(result)]
    return {"step": f"{about}\n\n" + "\n".join(full), "step-short": "\n".join(short)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=["r18", "r50", "mbf"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"] if has_bf16() else ["fp32"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=112, help="height and width of an image in pixels")
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
            "size": arguments.size,
            "rounds": arguments.rounds, "steps": arguments.steps, "others": runner.others,
            "results": results}
    bench_report.write(arguments, sections(data), data)


if __name__ == "__main__":
    main()
