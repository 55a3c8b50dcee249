"""Runs the acceptance jobs that need only pfc, on drawn faces.

    jobs.py trace --bin build/cuda/bin --folder build/jobs --output trace.json [--network r50]
    jobs.py resume --bin build/cuda/bin --folder build/jobs [--network r18]

trace records three steps of a job that trains in bf16, and prints pfcctl's summary, with the time of
each kernel. resume trains twice without and once with a stop in the middle. It fails if the models
differ in any bit, and prints the first step with another loss, and the tensors that differ.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

PEOPLE, IMAGES = 64, 16
PATIENCE = 300  # seconds for a job's first step, in which algorithms are timed


def run(*command, **more):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nexit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def faces(options):
    folder = options.folder / "faces"
    if not (folder / "train.idx").exists():
        run(options.bin / "pfcctl", "data", "synth", "--identities", PEOPLE, "--images-per-identity",
            IMAGES, "--val-pairs", 20, "--size", options.size, "--force", "--out", folder)
    return folder


def job(options, name, **keys):
    """Writes a job file. Returns its path and the job's new output folder."""
    out = options.folder / name
    shutil.rmtree(out, ignore_errors=True)
    path = options.folder / f"{name}.json"
    path.write_text(json.dumps({
        "network": options.network, "batch_size": options.batch, "precision": "bf16", "lr": 0.02,
        "device": options.device, "num_workers": min(8, os.cpu_count()), "rec": str(faces(options)),
        "val_targets": [], "output": str(out), **keys}))
    return path, out


def steps_of(out):
    path = out / "metrics.jsonl"
    return path.read_text().count('"loss"') if path.exists() else 0


def trace(options):
    path, out = job(options, "traced", num_epoch=100000)
    state = options.folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    where = ["--state-dir", state]
    training = subprocess.Popen([options.bin / "pfc-coordinator", "--hosts", "localhost:1", "--port",
                                 "0", "--http-port", "0", *where, "--config", path],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while steps_of(out) < 2 and training.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if steps_of(out) < 2:
            training.terminate()
            sys.exit(f"the job to trace ended before its second step: {training.communicate()[1][-3000:]}")
        print(run(options.bin / "pfcctl", "trace", "--steps", 3, "--output", options.output, *where))
        run(options.bin / "pfcctl", "stop", *where)
        training.communicate(timeout=PATIENCE)
    finally:
        training.kill()
        training.wait()


def digest(out):
    return hashlib.sha256((out / "backbone.safetensors").read_bytes()).hexdigest()


def losses(out):
    records = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {record["step"]: record["loss"] for record in records if "loss" in record}


def tensors(out):
    """Returns {name: bytes} of the tensors of the model, without NumPy."""
    data = (out / "backbone.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
            for name, entry in header.items()}


def compare(whole, other, what):
    expected, found = losses(whole), losses(other)
    steps = [step for step in expected if found.get(step) != expected[step]]
    expected, found = tensors(whole), tensors(other)
    names = [name for name in expected if found[name] != expected[name]]
    if not steps and not names:
        return []
    first = f"losses differ from step {steps[0]}" if steps else "losses are equal"
    return [f"{what}: sha256 {digest(other)[:8]} instead of {digest(whole)[:8]}; {first}; "
            f"{len(names)} of {len(expected)} tensors differ: {', '.join(names[:8])}"]


def resume(options):
    worker, keys = options.bin / "pfc-worker", {"sample_rate": 0.5, "max_steps": 6}
    path, whole = job(options, "whole", **keys)
    run(worker, "--config", path)
    path, again = job(options, "again", **keys)
    run(worker, "--config", path)
    path, parts = job(options, "parts", **keys)
    run(worker, "--config", path, "--set", "max_steps=3")
    run(worker, "--config", path, "--set", "resume=true")
    found = compare(whole, again, "the same job again") + compare(whole, parts, "the resumed job")
    if found:
        sys.exit("; ".join(found))
    print(f"6 steps, 6 again, and 3 and 3: the same bits, sha256 {digest(whole)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("trace", "resume"))
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, help="the file that trace writes")
    parser.add_argument("--network", default="r50")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, default=112, help="pixels a side")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    {"trace": trace, "resume": resume}[options.what](options)


if __name__ == "__main__":
    main()
