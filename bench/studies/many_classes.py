"""Trains two workers over ten million classes on one machine, and watches their memory.

    many_classes.py --bin build/cpu/bin --folder build/many-classes [--classes 10000000] [--rate 0.01]
                    [--centre-precision bf16] [--workers 2] [--steps 5] [--checkpoint]
                    [--device cuda --precision bf16]

The images are a few drawn faces; each of their identities becomes one of the classes, spread evenly
over all, so that every worker owns some. The other classes have no images, so they are always negatives. Prints the
peak resident memory of every worker and of the machine, and for every step of rank 0 the loss, the time, and the
head's share of it.

A checkpoint of so many classes takes 20 GB of disk and minutes. So the job is killed after its last
measured step, unless --checkpoint asks for the checkpoint at its end.
"""

import argparse
import json
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import time

from face_runs import JOB
from image_records import record
from pfc_runs import metrics as read_metrics

HEADER = struct.Struct("<IfQQ")  # flag, label, id, id2


def payloads(path):
    """Yields the payloads of a RecordIO file without split records."""
    data = path.read_bytes()
    offset = 0
    while offset < len(data):
        _, length = struct.unpack_from("<II", data, offset)
        if length >> 29:
            sys.exit(f"{path}: the record at {offset} is split")
        yield data[offset + 8:offset + 8 + length]
        offset += 8 + (length + 3) // 4 * 4


def spread_labels(source, target, classes):
    """Writes the images of a set with labels 0, 1, 2, ... to a new set whose labels are spread over 0 .. classes - 1.
    The new set has no record 0, so every record is an image. Labels are float32, which has every integer up to 2^24;
    pfc rejects a RecordIO set with more classes."""
    assert classes <= 2**24
    known, height, width = map(int, (source / "property").read_text().split(","))
    target.mkdir(parents=True, exist_ok=True)
    offset, key = 0, 0
    with open(target / "train.rec", "wb") as rec, open(target / "train.idx", "w") as idx:
        for payload in payloads(source / "train.rec"):
            flag, label, _, _ = HEADER.unpack_from(payload)
            if flag != 0:  # not an image
                continue
            spread = int(label) * (classes - 1) // max(1, known - 1)
            idx.write(f"{key}\t{offset}\n")
            offset += rec.write(record(HEADER.pack(0, spread, key, 0) + payload[HEADER.size:]))
            key += 1
    (target / "property").write_text(f"{classes},{height},{width}\n")


def make_set(options):
    faces, data = options.folder / "faces", options.folder / f"data-{options.classes}"
    subprocess.run([options.bin / "pfcctl", "data", "synth", "--identities", "40",
                    "--images-per-identity", "8", "--size", "48", "--val-pairs", "10",
                    "--force", "--out", faces], check=True)
    spread_labels(faces, data, options.classes)
    return data


def children(parent):
    """Returns {pid: name} of all descendants of a process."""
    parents, names = {}, {}
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines()
                          if ":\t" in line)
        except OSError:  # the process has ended meanwhile
            continue
        pid = int(status.parent.name)
        parents[pid], names[pid] = int(fields["PPid"]), fields["Name"].strip()
    found, queue = {}, [parent]
    while queue:
        above = queue.pop()
        for pid, ppid in parents.items():
            if ppid == above:
                found[pid] = names[pid]
                queue.append(pid)
    return found


def kilobytes(path, name):
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def records(path):
    return read_metrics(path) if path.exists() else []


class Watch:
    """Records memory peaks, in GB, while the job runs."""

    def __init__(self):
        self.workers = {}  # pid: peak resident memory
        self.machine = 0.0

    def look(self, coordinator):
        for pid, name in children(coordinator.pid).items():
            if name == "pfc-worker":
                peak = kilobytes(f"/proc/{pid}/status", "VmHWM") * 1024 / 1e9
                self.workers[pid] = max(peak, self.workers.get(pid, 0))
        used = (kilobytes("/proc/meminfo", "MemTotal") -
                kilobytes("/proc/meminfo", "MemAvailable")) * 1024 / 1e9
        self.machine = max(self.machine, used)


def end(coordinator):
    """Kills the job and its workers, so that none writes a checkpoint."""
    for pid in [coordinator.pid, *children(coordinator.pid)]:
        subprocess.run(["kill", "-KILL", str(pid)], check=False, stderr=subprocess.DEVNULL)
    coordinator.wait()


def train(options, data):
    """Runs the job. Returns its watch and the records of its steps."""
    output = options.folder / "out"
    metrics = output / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    job = {**JOB, "rec": str(data), "output": str(output), "embedding_size": 512,
           "batch_size": options.batch, "sample_rate": options.rate, "lr": 0.01, "frequent": 1,
           "device": options.device, "precision": options.precision,
           "centre_precision": options.centre_precision, "num_epoch": 1000,
           "max_steps": options.steps if options.checkpoint else 1_000_000}
    path = options.folder / "job.json"
    path.write_text(json.dumps(job, indent=2))
    log = open(options.folder / "log.txt", "w", encoding="utf-8")
    coordinator = subprocess.Popen(
        [options.bin / "pfc-coordinator", "--hosts", f"localhost:{options.workers}", "--port", "0",
         "--http-port", "0", "--config", path], stdout=log, stderr=subprocess.STDOUT)
    watch = Watch()
    try:
        while coordinator.poll() is None:
            watch.look(coordinator)
            if not options.checkpoint and len(records(metrics)) >= options.steps:
                break
            time.sleep(0.2)
    finally:
        end(coordinator)
    steps = records(metrics)
    if len(steps) < options.steps or coordinator.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"the job ended after {len(steps)} steps:\n"
                 f"{(options.folder / 'log.txt').read_text()}")
    return watch, steps[:options.steps]


def report(options, watch, steps):
    print(f"{options.classes:,} classes, D = 512, centre_precision {options.centre_precision}, "
          f"sample rate {options.rate:g}, {options.workers} workers of batch {options.batch}\n")
    print("| step | loss | seconds | head, seconds | head's share |\n|---|---|---|---|---|")
    for step in steps:
        head = step["phases"]["head"]
        print(f"| {step['step']} | {step['loss']:.3f} | {step['step_seconds']:.3f} | {head:.3f} | "
              f"{head / step['step_seconds']:.0%} |")
    each = ", ".join(f"{peak:.2f}" for peak in watch.workers.values())
    print(f"\nPeak resident memory of the workers: {each} GB, {sum(watch.workers.values()):.2f} GB "
          f"together; most in use on the machine: {watch.machine:.2f} GB. Median of the steps after "
          f"the first: {statistics.median(s['step_seconds'] for s in steps[1:]):.3f} s.")
    if options.device == "cuda":
        print(f"\nIn use of rank 0's GPU: {steps[-1]['gpu_memory_bytes'] / 2**30:.2f} GiB.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder for data and output")
    parser.add_argument("--classes", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--centre-precision", default="bf16")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="of each worker")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends the job too
    report(options, *train(options, make_set(options)))


if __name__ == "__main__":
    main()
