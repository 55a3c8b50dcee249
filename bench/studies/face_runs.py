"""Runs trainings for studies: draws faces, runs pfc-worker, and reads its results."""

import json
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"))
import pfc_runs  # noqa: E402

# All studies use small images and a small network, so a run takes minutes.
JOB = {"network": "mbf", "embedding_size": 128, "margin_list": [1.0, 0.3, 0.0], "margin_scale": 32,
       "margin_gradient": "exact",
       "batch_size": 64, "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "warmup_epoch": 0.5,
       "verbose": 0, "keep_checkpoints": 1, "num_workers": 1, "device": "cpu"}


def add_arguments(parser):
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, required=True,
                        help="folder for data and runs; complete runs there are not repeated")
    parser.add_argument("--identities", type=int, default=2000)
    parser.add_argument("--images", type=int, default=12, help="images of each identity")
    parser.add_argument("--size", type=int, default=48, help="pixels a side")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)


def run(command, threads, environment=(), timeout=None):
    """Runs a program on the first `threads` cores that the calling thread may use. Ends it after `timeout` seconds."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    pfc_runs.run(["taskset", "--cpu-list", cores, *command], timeout=timeout,
                 env={**os.environ, "OMP_WAIT_POLICY": "passive", **dict(environment)})


def make_set(options):
    """Draws train.rec, train.idx, property and val.bin once; returns the folder."""
    data = options.folder / f"faces-2d-{options.identities}x{options.images}-{options.size}"
    if not (data / "val.bin").exists():
        run([options.bin / "pfcctl", "data", "synth", "--identities", options.identities,
             "--images-per-identity", options.images, "--size", options.size,
             "--val-identities", 300, "--val-pairs", 3000, "--force", "--out", data], options.threads)
    return data


def shuffle(options, data):
    """Writes data/shuffled, which has the images in random order: sequential reading needs this."""
    if not (data / "shuffled" / "train.rec").exists():  # the file appears when it is complete
        run([options.bin / "pfcctl", "data", "shuffle", data, "--out", data / "shuffled"],
            options.threads)


def is_complete(output):
    metrics = output / "metrics.jsonl"
    return metrics.exists() and any(entry.get("reason") == "completed" for entry in records(output))


def train(options, name, job, timeout=None):
    """Runs a job, unless an earlier call has completed it. A key with the value None is left out. Returns its folder
    under options.folder."""
    output = options.folder / name
    if not is_complete(output):
        options.folder.mkdir(parents=True, exist_ok=True)
        path = options.folder / f"{name}.json"
        keys = {**JOB, **job, "output": str(output)}
        path.write_text(json.dumps({key: value for key, value in keys.items() if value is not None}, indent=2))
        run([options.bin / "pfc-worker", "--config", path], options.threads, timeout=timeout)
    return output


def records(output):
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def steps(output):
    return pfc_runs.metrics(output / "metrics.jsonl")


def accuracy(output):
    """Returns the accuracy of the last evaluation."""
    return [entry["accuracy"] for entry in records(output) if "accuracy" in entry][-1]
