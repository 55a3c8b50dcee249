#!/usr/bin/env python3
"""Breaks a job repeatedly, at random times, and checks that it recovers. See --help, and scripts/soak.sh."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cluster as clusters  # noqa: E402
import curves  # noqa: E402
from breaking import KINDS, Faults, clock  # noqa: E402
from images import Record, newest_checkpoint  # noqa: E402

# Largest distance of the broken run's loss curve from an unbroken one, relative to that between two seeds.
MOST_RATIO = 1.5
MOST_GROWTH = 1.3       # largest growth of resident memory, as a factor, plus the bytes below
MOST_GROWTH_BYTES = 32 << 20
MOST_FILES = 16         # largest growth of the number of open files
BATCH = 4               # images of each worker
SETTLE = 15             # seconds until a process is first measured


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=300, help="number of faults (300)")
    parser.add_argument("--interval", type=float, default=6, help="mean seconds between two faults; a quarter come within a second (6)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random faults (1)")
    parser.add_argument("--hosts", type=int, default=3, help="network namespaces with an agent (3)")
    parser.add_argument("--workers", type=int, default=2, help="workers of each host (2)")
    parser.add_argument("--kinds", default="", help=f"some of {','.join(KINDS)}. Default: all, but "
                        "no coordinator if it cannot be restarted, and no absence without --min-workers")
    parser.add_argument("--hang", type=float, default=120, help="seconds without a new step, while no fault "
                        "lasts, that count as a hang (120)")
    parser.add_argument("--job-steps", type=int, default=0, help="planned steps of each job; jobs run one after another "
        "to their end, and their images are counted; 0: one job, which is stopped after the last fault (0)")
    parser.add_argument("--unshared", action="store_true", help="each host has its own output folder; needs --job-steps")
    parser.add_argument("--min-workers", type=int, default=0, help="option of the coordinator; 0: not given (0)")
    parser.add_argument("--goodput", action="store_true",
                        help="measure only the images a second that count, without and with a fault every 60 s and 15 s")
    parser.add_argument("--minutes", type=float, default=5, help="minutes of each part of --goodput (5)")
    parser.add_argument("--folder", default="", help="folder for data, logs and results. It is kept. Default: a temporary folder")
    parser.add_argument("--least-steps", type=int, default=100, help="the run with faults continues after its last "
                        "fault until it has this number of steps (100)")
    parser.add_argument("--without-curves", action="store_true", help="make no runs without faults, so losses are not checked")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the job")
    parser.add_argument("--coordinator-option", action="append", default=[], metavar="OPTION",
                        help="a further word of the coordinator's command line")
    options = parser.parse_args()
    if options.unshared and not options.job_steps:
        parser.error("--unshared needs --job-steps: it compares only images")
    return options


def can_be_started_again():
    """Returns whether a restarted coordinator can take over its job."""
    told = subprocess.run([clusters.BIN / "pfc-coordinator", "--help"], capture_output=True, text=True).stdout
    return "--coordinator-grace" in told


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder, self.failures, self.table = options, folder, [], []
        self.saved_lost = 0
        self.data = folder / "data"
        self.kinds = options.kinds.split(",") if options.kinds else [
            kind for kind in KINDS if (kind != "coordinator" or can_be_started_again())
            and (kind != "absence" or options.min_workers)]
        unknown = set(self.kinds) - set(KINDS)
        if unknown:
            sys.exit(f"soak: --kinds: found {', '.join(sorted(unknown))}, expected some of {', '.join(KINDS)}")

    def draw(self):
        if not self.data.exists():
            subprocess.run([clusters.BIN / "pfcctl", "data", "synth", "--identities", "64", "--images-per-identity", "20",
                            "--size", "64", "--out", self.data], check=True, stdout=subprocess.DEVNULL)

    def job(self, name, seed):
        path = self.folder / f"{name}.json"
        job = {"network": "mbf", "embedding_size": 64, "batch_size": BATCH, "max_steps": self.options.job_steps or 1_000_000,
               "num_epoch": 1_000_000,
               "lr": 0.02, "margin_scale": 16, "rec": str(self.data), "output": str(self.folder / name),
               "num_workers": 1, "frequent": 100, "verbose": 0, "seed": seed, "replicate": True, "snapshot_seconds": 2,
               "save_every_steps": 5 if self.options.job_steps else 500,
               "save_every_seconds": 10 if self.options.goodput else 0}
        for each in self.options.set:
            key, _, value = each.partition("=")
            job[key] = json.loads(value)
        path.write_text(json.dumps(job))
        return path

    def begin(self, name, seed):
        """Starts a cluster; returns when its job trains."""
        folder = self.folder / f"{name}-hosts"
        folder.mkdir()
        elastic = ["--min-workers", str(self.options.min_workers)] if self.options.min_workers else []
        cluster = clusters.Cluster(folder, self.options.hosts, self.options.workers, [
            "--max-restarts", "1000000", "--progress-floor", "5s", "--collective-timeout", "60s", *elastic,
            *self.options.coordinator_option], self.folder / name if self.options.unshared else None)
        self.broken_job = self.job(name, seed)
        cluster.start_coordinator(self.broken_job)
        for key in cluster.keys:
            cluster.start_agent(key)
        watch = clusters.Watch(cluster)
        watch.wait_for(lambda status: status["step"] > 2, 240, f"the first steps of run {name}")
        return cluster, watch

    # The run with faults.

    def break_it(self):
        cluster, watch = self.begin("broken", 1)
        faults = Faults(self.kinds, self.options.seed)
        faults.turn_to(cluster, watch, self.broken_job)
        lives = Lives(cluster)
        try:
            start = time.monotonic()
            self.go(cluster, watch, faults, lives)
            self.broken_rate = watch.status["images_seen"] / (time.monotonic() - start)
            # Runs long enough to look at every process, and to get curves that can be compared.
            wait(2 + SETTLE, lives.look)
            least = self.options.least_steps * watch.status["images_seen"] / max(watch.status["step"], 1)
            if not self.failures:
                watch.wait_for(lambda status: status["images_seen"] >= least, 3600, "enough steps")
            self.last_images = watch.status["images_seen"]
            watch.end()
            code = cluster.stop()
            if code != 143:
                self.failures.append(f"the coordinator has ended with exit code {code}, expected 143")
        finally:
            faults.undo(all_of_them=True)
            cluster.end()
        self.tell_faults(faults)
        self.table.append(f"images lost: {watch.images_lost}, {watch.images_lost / max(len(faults.faults), 1):.1f} a fault; "
                          f"{watch.status['restarts']} restarts, generation {watch.status['generation']}")
        self.tell_lives(lives)

    def break_jobs(self):
        """Runs jobs one after another until each has ended."""
        faults, counts, number = Faults(self.kinds, self.options.seed), [], 0
        line = "{:<8} {:>7} {:>12} {:>8} {:>8} {:>8} {:>12} {:>6}"
        lines = [line.format("job", "faults", "generations", "planned", "trained", "again", "checkpoints", "moved")]
        while len(faults.faults) < self.options.faults:
            number += 1
            counts.append(self.break_to_its_end(f"job-{number}", number, faults))
            lines.append(line.format(*counts[-1]))
            print("\n".join([lines[0], lines[-1], *self.failures]), flush=True)
        self.tell_faults(faults)
        self.table += lines
        planned, trained, again = (sum(count[column] for count in counts) for column in (3, 4, 5))
        self.table.append(f"images of all jobs: {planned} planned, {trained} trained, counted once, and {again} again; "
                          f"{self.saved_lost} saved ones lost")

    def break_to_its_end(self, name, seed, faults):
        """Runs one job. Returns its row of the table."""
        cluster, watch = self.begin(name, seed)
        record = Record(cluster.outputs or [self.folder / name])
        faults.turn_to(cluster, watch, self.broken_job)
        before = len(faults.faults)
        try:
            self.go(cluster, watch, faults, Lives(cluster))
            faults.job_has_ended()
        finally:
            watch.end()
            faults.undo(all_of_them=True)
            cluster.end()
            record.end()
        planned = self.options.job_steps * self.options.hosts * self.options.workers * BATCH
        once, all_of_them = record.trained()
        last, saved = record.last()
        batch = planned // self.options.job_steps
        for what, images in (("trained, counted once", once), ("of the last step", last), ("of the newest checkpoint", saved)):
            if not planned <= images < planned + batch:
                self.failures.append(f"{name}: {images} images {what}, expected {planned} or less than {batch} more")
        for generation, first, there in record.lost():
            self.saved_lost += there - first
            self.failures.append(f"{name}: generation {generation} began after image {first}, although {there} were saved")
        return (name, len(faults.faults) - before, max(start["generation"] for start in record.of_kind("start")), planned, once,
                all_of_them - once, len(record.saved), record.moves())

    def go(self, cluster, watch, faults, lives):
        next_at = time.monotonic() + 5
        while True:
            now = time.monotonic()
            faults.undo()
            if not faults.later and now - watch.last_step_at < 1:
                lives.look()
            if cluster.coordinator.poll() is not None and "coordinator" not in faults.busy:
                if self.options.job_steps and cluster.coordinator.returncode == 0:
                    return
                self.failures.append(f"the job has ended by itself with exit code {cluster.coordinator.returncode}: " +
                                     cluster.text_from(0).strip().splitlines()[-1])
                return
            hang_since = max(watch.last_step_at, max((f.at + f.lasts for f in faults.faults), default=0))
            if now - hang_since > self.options.hang and not faults.later:
                self.failures.append(f"a hang: no new step for {self.options.hang:.0f} s after fault #{len(faults.faults)}")
                (self.folder / "hang.json").write_text(json.dumps(watch.status, indent=1))
                return
            waiting = faults.waiting()
            if len(faults.faults) >= self.options.faults:
                if not waiting and not faults.later and not self.options.job_steps:
                    return
            elif now >= next_at:
                # While the job is down for long, further faults would show nothing new.
                if not waiting or now - waiting[0].at < 60:
                    faults.one()
                next_at = now + faults.pause(self.options.interval)
            time.sleep(0.05)

    def tell_faults(self, faults):
        line = "{:<12} {:>7} {:>9} {:>9} {:>9}"
        self.table.append(line.format("fault", "done", "continued", "median", "worst"))
        for kind in [*self.kinds, "all"]:
            of_kind = [f for f in faults.faults if kind in (f.kind, "all")]
            took = sorted(f.took for f in of_kind if f.took is not None)
            median, worst = (f"{statistics.median(took):.1f} s", f"{took[-1]:.1f} s") if took else ("-", "-")
            self.table.append(line.format(kind, len(of_kind), len(took), median, worst))
        hangs = faults.waiting()
        self.table.append(f"hangs (no new step for {self.options.hang:.0f} s): {len(hangs)}")
        for fault in hangs:
            self.failures.append(f"training has not continued after fault #{fault.number}, {fault}")

    def tell_lives(self, lives):
        for role, pid, first, last, seconds in lives.longest():
            grown = last[0] > first[0] * MOST_GROWTH + MOST_GROWTH_BYTES or last[1] > first[1] + MOST_FILES
            self.table.append(f"{role} that lived longest ({seconds:.0f} s): {first[0] / 2**20:.0f} -> {last[0] / 2**20:.0f} "
                              f"MiB, {first[1]} -> {last[1]} open files")
            if grown:
                self.failures.append(f"the {role} {pid} has grown: {first} -> {last} (bytes, files)")

    # The runs without faults.

    def unbroken(self, name, seed):
        """Trains as many images as the broken run."""
        cluster, watch = self.begin(name, seed)
        try:
            images, start = watch.status["images_seen"], time.monotonic()
            watch.wait_for(lambda status: status["images_seen"] >= self.last_images, 24 * 3600, "all images")
            rate = curves.good_rate(images, watch.status["images_seen"], time.monotonic() - start)
            watch.end()
            cluster.stop()
        finally:
            cluster.end()
        return rate

    def compare(self):
        rates = [self.unbroken("first", 1), self.unbroken("second", 2)]
        runs = [curves.losses(self.folder / name / "metrics.jsonl") for name in ("broken", "first", "second")]
        ratio, steps = curves.compare(*runs)
        self.table.append(f"loss over {steps} steps: its distance to an unbroken run is {ratio:.3f} of that between two "
                          f"seeds (at most {MOST_RATIO})")
        if not ratio <= MOST_RATIO:
            self.failures.append("the losses differ too much from those of a run without faults")
        rate = statistics.mean(rates)
        self.table.append(f"goodput: {self.broken_rate:.1f} images/s that count, {100 * self.broken_rate / rate:.1f} % of "
                          f"the {rate:.1f} without faults")

    # Only the measurement of goodput.

    def goodput(self):
        self.table.append("{:<22} {:>7} {:>10} {:>8} {:>12}".format("", "faults", "images/s", "of normal", "images lost"))
        cluster, watch = self.begin("goodput", 1)
        faults = Faults(self.kinds, self.options.seed)
        faults.turn_to(cluster, watch, self.broken_job)
        try:
            none = None
            for name, every in (("no faults", None), ("a fault every 60 s", 60), ("a fault every 15 s", 15)):
                done, lost = len(faults.faults), watch.images_lost
                rate = self.rate_with(faults, watch, every)
                none = none or rate
                self.table.append("{:<22} {:>7} {:>10.1f} {:>6.1f} % {:>12}".format(
                    name, len(faults.faults) - done, rate, 100 * rate / none, watch.images_lost - lost))
            watch.end()
            cluster.stop()
        finally:
            faults.undo(all_of_them=True)
            cluster.end()

    def rate_with(self, faults, watch, every):
        # Everything that was trained before this part is on disk, so faults lose only images of this part.
        images, output = watch.status["images_seen"], self.folder / "goodput"
        watch.wait_for(lambda _: newest_checkpoint(output) >= images, self.options.hang, "a checkpoint before the faults")
        start, images = time.monotonic(), newest_checkpoint(output)
        next_at = start + (every / 2 if every else 1e9)
        while time.monotonic() - start < self.options.minutes * 60:
            faults.undo()
            if time.monotonic() >= next_at:
                faults.one()
                next_at += every
            if time.monotonic() - watch.last_step_at > self.options.hang + 12:
                self.failures.append(f"a hang: no new step for {self.options.hang:.0f} s after fault #{len(faults.faults)}")
                break
            time.sleep(0.05)
        faults.undo(all_of_them=True)
        watch.wait_for(lambda _: not faults.waiting(), self.options.hang + 12, "training after the last fault")
        return curves.good_rate(images, watch.status["images_seen"], time.monotonic() - start)

    def run(self):
        print(f"soak: {self.folder}; kinds: {', '.join(self.kinds)}", flush=True)
        self.draw()
        if self.options.goodput:
            self.goodput()
        elif self.options.job_steps:
            self.break_jobs()
        else:
            self.break_it()
            if not self.options.without_curves and not self.failures:
                self.compare()
        print("\n" + "\n".join(self.table))
        for failure in self.failures:
            print("FAILED: " + failure)
        (self.folder / "result.txt").write_text("\n".join([*self.table, *self.failures, ""]))
        return 1 if self.failures else 0


class Lives:
    """Memory and open files of each process while the job trains: SETTLE seconds after it was first seen, and at the
    last look."""

    def __init__(self, cluster):
        self.cluster, self.known, self.next = cluster, {}, 0

    def look(self):
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + 2
        for pid, role in self.cluster.roles().items():
            life = self.known.setdefault(pid, {"role": role, "since": now, "first": None, "last": None})
            footprint = clusters.footprint_of(pid)
            if footprint is None or now - life["since"] < SETTLE:
                continue
            life["first"] = life["first"] or footprint
            life["last"], life["seconds"] = footprint, now - life["since"]

    def longest(self):
        """For each role, returns (role, pid, first, last, seconds) of the process that has lived longest."""
        found = []
        for role in ("coordinator", "agent", "worker"):
            lives = [(life["seconds"], pid, life) for pid, life in self.known.items()
                     if life["role"] == role and life["last"]]
            if lives:
                seconds, pid, life = max(lives, key=lambda each: each[:2])
                found.append((role, pid, life["first"], life["last"], seconds))
        return found


def wait(seconds, meanwhile):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        meanwhile()
        time.sleep(0.2)


def main():
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("soak: needs root, to make network namespaces")
    folder = pathlib.Path(options.folder).resolve() if options.folder else pathlib.Path(tempfile.mkdtemp(prefix="pfc-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    code = 1
    try:
        code = Soak(options, folder).run()
    finally:
        print(f"{clock()}  {time.monotonic() - start:.0f} s in all; {'ok' if code == 0 else 'failed: logs are in ' + str(folder)}")
        if not options.folder and code == 0:
            shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
