"""Runs `pfcctl embed`, `pfcctl verify` and the network's forward pass alone in turn, and compares their speed. Also
measures the peak memory of `pfcctl embed` for sets of growing size.

    bench_embed.py --bin build/cpu/bin [--network mbf] [--images 2048] [--rounds 5] [--memory 1000,20000,200000]

The forward pass is that of evaluation_benchmark, which neither decodes nor loads anything. `verify` embeds each image and its
mirror image, so it is compared with two forward passes. CPU seconds are those of the whole process, from its start: other
programs on the machine disturb them less than the clock.
"""

import argparse
import json
import os
import pathlib
import pickle
import statistics
import subprocess
import tempfile
import time

import numpy as np

from bench_runs import say
import image_records  # in tests/reference, like the next
import reference_input

# Idle threads sleep, as in pfcctl embed and verify, because decoding and computing threads share the cores.
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}
SMALL = 32  # width and height in pixels of the images in the sets of growing size


def run(*command):
    """Returns the process's wall seconds, CPU seconds and peak bytes, and its stdout."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        assert process.returncode == 0, command
        return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, out.read()


def model_of(arguments, folder, network, data):
    out = folder / f"model-{network}-{data.name}"
    settings = {"rec": data, "network": network, "batch_size": 4, "max_steps": 1, "output": out, "val_targets": "[]",
                "warmup_epoch": 0, "device": "cpu"}
    run(arguments.bin / "pfc-coordinator", "--hosts", "localhost:1", "--port", 0, "--http-port", 0, "--state-dir", folder / "state",
        "--config", pathlib.Path(__file__).parents[2] / "examples/quickstart.json",
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")))
    return out / "backbone.safetensors"


def speed(arguments, folder):
    images = reference_input.smooth_images(np.random.default_rng(0), arguments.images // 16, 16)
    data = folder / "data"
    image_records.write(folder / "drawn", images, np.repeat(np.arange(arguments.images // 16), 16))
    run(arguments.bin / "pfcctl", "data", "pack", folder / "drawn", "--quality", 90, "--out", data)
    run(arguments.bin / "pfcctl", "data", "unpack", data, "--out", folder / "people")
    encoded = [path.read_bytes() for path in sorted((folder / "people").rglob("*.jpg"))]
    (folder / "pairs.bin").write_bytes(pickle.dumps((encoded, [k % 2 == 0 for k in range(len(encoded) // 2)])))
    model = model_of(arguments, folder, arguments.network, data)
    embed = (arguments.bin / "pfcctl", "embed", "--model", model, "--in", data, "--out", folder / "x.safetensors")
    verify = (arguments.bin / "pfcctl", "verify", "--model", model, "--bin", folder / "pairs.bin")
    forward = (arguments.bin.parent / "benchmarks/evaluation_benchmark", "--benchmark_format=json", "--benchmark_min_time=5",
               f"--benchmark_filter=^forward_alone/{arguments.network}/")
    rounds = []
    for number in range(arguments.rounds):
        one = json.loads(run(*forward)[3])["benchmarks"][0]
        wall, cpu = (one[key] / 1e9 / 256 for key in ("real_time", "cpu_time"))
        found = {"load": os.getloadavg()[0]}
        for name, command, passes in (("embed", embed, 1), ("verify", verify, 2)):
            seconds = run(*command)
            found[name] = [passes * alone * arguments.images / took for alone, took in zip((wall, cpu), seconds)]
        rounds.append(found)
        say(f"  round {number + 1}, load {found['load']:.1f}: forward {1 / wall:.0f} images/s, speed of embed {found['embed'][0]:.2f} "
            f"(by CPU seconds {found['embed'][1]:.2f}), verify {found['verify'][0]:.2f} ({found['verify'][1]:.2f})")
    print(f"{arguments.network}, {arguments.images} images, medians of {arguments.rounds} rounds; forward pass alone = 1")
    print("| verb | by the clock | by CPU seconds |\n|---|---|---|")
    for name in ("embed", "verify"):
        print(f"| {name} | {statistics.median(r[name][0] for r in rounds):.2f} | {statistics.median(r[name][1] for r in rounds):.2f} |")


def memory(arguments, folder):
    data = folder / "small"
    image_records.write(data, reference_input.smooth_images(np.random.default_rng(0), 64, 4, SMALL),
                        np.repeat(np.arange(64), 4))
    model = model_of(arguments, folder, "mbf", data)
    lines = (data / "train.idx").read_text().splitlines()
    offsets = [line.split("\t")[1] for line in lines[1:257]]
    print("| images | peak memory of embed |\n|---|---|")
    found = []
    for count in arguments.memory:
        # Repeats the images, in a set without record 0.
        many = folder / f"many-{count}"
        many.mkdir()
        (many / "train.rec").symlink_to(data / "train.rec")
        (many / "train.idx").write_text("".join(f"{key}\t{offsets[key % 256]}\n" for key in range(1, count + 1)))
        peak = run(arguments.bin / "pfcctl", "embed", "--model", model, "--in", many, "--out", folder / "many.npy")[2]
        found.append((count, peak))
        print(f"| {count:,} | {peak / 2**20:.0f} MiB |", flush=True)
    if len(found) > 1:
        (few, least), (most, peak) = found[-2:]
        print(f"{(peak - least) / (most - few):.0f} bytes an image; for ten million: "
              f"{(peak + (peak - least) / (most - few) * (1e7 - most)) / 2**20:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--network", default="mbf")
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5, help="0: measures only memory")
    parser.add_argument("--memory", type=lambda text: [int(word) for word in text.split(",") if word], default=[1000, 20_000, 200_000],
                        help="numbers of images; empty: measures only speed")
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.rounds:
            speed(arguments, pathlib.Path(folder))
        if arguments.memory:
            memory(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
