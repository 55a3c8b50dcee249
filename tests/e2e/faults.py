"""Shared by tests of faults: a job on three hosts, the coordinator's lines with their times, its status page from
outside of its network namespace, and the time of each stage of a recovery."""

import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from hosts import HostsTest
from network import enter
from support import BIN, LIMIT

# Timeout in seconds for a line or a state. It is ten times as long as an idle machine needs, or with the default limits
# twice the default --collective-timeout.
WAIT = 600 if os.environ.get("PFC_FAULT_LIMITS") == "default" else 240
REPEAT = int(os.environ.get("PFC_REPEAT", 1))  # repetitions of measured tests


class Lines:
    """The output of a program, read by a thread, with the time of each line."""

    def __init__(self, process):
        self.lines, self.times, self.ended = [], [], False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.read, args=(process,), daemon=True)
        self.thread.start()

    def read(self, process):
        for line in process.stdout:
            with self.changed:
                self.lines.append(line)
                self.times.append(time.monotonic())
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def here(self):
        """Returns the index of the next line."""
        with self.changed:
            return len(self.lines)

    def wait_for(self, pattern, after=0, limit=WAIT):
        """Waits for the first matching line from index `after` on; returns its index plus one."""
        def found():
            return next((i for i, line in enumerate(self.lines[after:], after) if re.search(pattern, line)), None)
        with self.changed:
            self.changed.wait_for(lambda: self.ended or found() is not None, timeout=limit)
            assert found() is not None, f"{pattern!r} did not appear after line {after} of:\n" + self.text()
            return found() + 1

    def text(self):
        """Returns all lines except those of single steps."""
        return "".join(line for line in self.lines if not line.startswith("Training:") or "Loss" not in line)

    def line(self, number):
        return self.lines[number - 1]

    def time(self, number):
        return self.times[number - 1]


class Status:
    """The status page of a coordinator in a network namespace, read by a thread in that namespace."""

    def __init__(self, namespace, state_dir, port=7451):
        self.port = port
        token = (pathlib.Path(state_dir) / "security/reader.token").read_text(encoding="utf-8").strip()
        self.headers = {"Authorization": f"Bearer {token}"}
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.thread = ThreadPoolExecutor(1, initializer=enter, initargs=(namespace,))

    def __call__(self):
        return self.thread.submit(self._ask).result()

    def _ask(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=WAIT, context=self.tls)
        try:
            connection.request("GET", "/status.json", headers=self.headers)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def wait_until(self, holds, what, limit=WAIT, pause=0.02):
        """Returns the first status for which `holds` is true, and when it was received."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            status = self()
            if holds(status):
                return status, time.monotonic()
            time.sleep(pause)
        raise AssertionError(f"not within {limit} s: {what}; the last status: {status}")

    def close(self):
        self.thread.shutdown()


class Timeline:
    """Times of the events after a fault. With PFC_FAULT_FIGURES=FILE, appends each as a line of JSON."""

    def __init__(self, name, limit=None):
        self.name, self.limit, self.start, self.seconds = name, limit, time.monotonic(), {}

    def note(self, what, when):
        self.seconds[what] = round(when - self.start, 2)

    def tell(self):
        text = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in self.seconds.items())
        print(f"{self.name}: {text}" + (f" (limit {self.limit})" if self.limit else ""), flush=True)
        if "PFC_FAULT_FIGURES" in os.environ:
            with open(os.environ["PFC_FAULT_FIGURES"], "a", encoding="utf-8") as file:
                file.write(json.dumps({"fault": self.name, "limit": self.limit, "load": os.getloadavg()[0],
                                       **self.seconds}) + "\n")


class JobOnHosts(HostsTest):
    """A job on three hosts that trains until it is stopped. Its coordinator is on host a."""

    bin = BIN  # of coordinator and agents

    def begins(self, *more, slots=(1, 1, 1), once=True, **keys):
        """Returns when the job has done some steps."""
        job = self.job_of("out", **{"num_epoch": 100_000, "max_steps": 1_000_000, "replicate": True,
                                    "snapshot_seconds": 0.2, **keys})
        self.once = once
        self.process = self.starts_coordinator(
            "--hosts", ",".join(f"{name}:{count}" for name, count in zip(self.NAMES, slots)), *more, "--config", job)
        self.addCleanup(self.process.stdout.close)
        self.joins = self.join_strings(self.process, self.NAMES[1:])
        self.lines = Lines(self.process)
        self.addCleanup(self.lines.thread.join)
        for key in "bc":
            self.comes(key)
        self.status = Status(self.network.names["a"], self.folder / "state")
        self.addCleanup(self.status.close)
        self.here = self.lines.wait_for("Global Step: 5")

    def comes(self, key, *more):
        """Starts the agent of this host. Without `once` it stays when the coordinator is lost."""
        self.starts_agent(key, self.joins[f"host-{key}"], "--host", f"host-{key}", *more, once=self.once)
        return self.agents[-1]

    def starts_agent(self, key, join, *more, once=True):
        # Its lines also go to the coordinator, so they are not read here.
        self.agents.append(subprocess.Popen(
            self.network.within(key, self.bin / "pfc-agent", *(["--once"] if once else []), "--state-dir",
                                self.folder / f"agent-{key}", *more),
            env={**self.environment, "PFC_JOIN": join}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def waits_for(self, pattern):
        """Reads up to a matching line and returns it."""
        self.here = self.lines.wait_for(pattern, self.here)
        return self.lines.line(self.here)

    def pids(self):
        """Returns {rank: pid} of the workers of this generation."""
        return {worker["rank"]: worker["pid"] for worker in self.status()["workers"]}

    def stops_well(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(timeout=LIMIT), 143, self.lines.text())
        self.lines.wait_for("job stopped by SIGTERM", self.here)

    def named(self, timeline, pattern):
        """Notes when a line names the cause; returns the line."""
        line = self.waits_for(pattern)
        timeline.note("named", self.lines.time(self.here))
        return line

    def goes_on(self, timeline, generation, survivors=(), start="continued from the copies in "
                                                                "memory of step"):
        """Notes when these processes have left the last generation's collectives and joined this or a later one, and
        when a step has finished; returns the line that says where the job resumed."""
        states = ("joined", "training", "no progress", "leaving")

        def out(status):
            here = [worker for worker in status["workers"] if worker["pid"] in survivors]
            return status["generation"] > generation or (
                status["generation"] == generation and all(worker["state"] in states for worker in here))
        if survivors:
            timeline.note("collectives left", self.status.wait_until(out, "survivors have joined")[1])
        line = self.waits_for(start)
        self.waits_for("Global Step")
        timeline.note("next step", self.lines.time(self.here))
        timeline.tell()
        return line
