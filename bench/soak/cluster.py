"""A cluster of network namespaces for a soak test, with the faults that it can have. The coordinator has its own
host, and each of the other hosts has an agent."""

import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from network import Network, enter, ip  # noqa: E402

BIN = pathlib.Path(os.environ["PFC_BIN"])


def children_of(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return [""]


def footprint_of(pid):
    """Returns (resident bytes, open files) of a process; None if it has ended."""
    try:
        resident = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return resident, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return None


class Cluster:
    """Hosts "a", "b", ... with an agent each, and "k" with the coordinator."""

    def __init__(self, folder, hosts, workers, more_options=(), output=None):
        """`output`: a folder that the hosts do not share: on each host, another folder is mounted there (see
        outputs)."""
        self.folder = pathlib.Path(folder)
        self.keys = "abcdefghij"[:hosts]
        self.workers_of_host = workers
        self.more = list(more_options)
        self.network = Network(f"s{os.getpid()}", self.keys + "k")
        self.outputs = [self.own_output(key, output) for key in self.keys] if output else []
        self.coordinator = None
        self.agents = {}
        self.joins = {}
        self.log = open(self.folder / "coordinator.log", "ab")
        self.environment = {**os.environ, "PFC_STATE_DIR": str(self.folder / "pfc"), "XDG_STATE_HOME": str(self.folder / "logs")}

    def own_output(self, key, output):
        own = self.folder / f"output-{key}"
        for folder in (own, output):
            folder.mkdir(exist_ok=True)
        self.network.gives_its_own(key, output, own)
        return own

    def start_coordinator(self, job):
        """Starts the coordinator, also after it was killed."""
        hosts = ",".join(f"host-{key}:{self.workers_of_host}" for key in self.keys)
        mark = (self.folder / "coordinator.log").stat().st_size
        self.coordinator = subprocess.Popen(
            self.network.within("k", BIN / "pfc-coordinator", "--hosts", hosts, "--config", job, "--port", 7450,
                                "--http-port", 7451, "--state-dir", self.folder / "state", *self.more),
            env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        if self.joins:
            return
        deadline = time.monotonic() + 120
        while len(self.joins) < len(self.keys):
            text = self.text_from(mark)
            self.joins = dict(re.findall(r"host host-(\w): run there: pfc-agent --join '(\S+)'", text))
            if time.monotonic() > deadline or self.coordinator.poll() is not None:
                raise RuntimeError("the coordinator has not told the hosts how to join:\n" + text)
            time.sleep(0.1)

    def text_from(self, place):
        with open(self.folder / "coordinator.log", "rb") as file:
            file.seek(place)
            return file.read().decode(errors="replace")

    def start_agent(self, key):
        log = open(self.folder / f"agent-{key}.log", "ab")
        self.agents[key] = subprocess.Popen(
            self.network.within(key, BIN / "pfc-agent", "--state-dir", self.folder / f"agent-{key}", "--host", f"host-{key}"),
            env={**self.environment, "PFC_JOIN": self.joins[key]}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()

    def worker_pids(self, key=None):
        """Returns the pids of the workers of a host, or of all."""
        return [pid for each in (key or self.keys) if each in self.agents
                for pid in children_of(self.agents[each].pid) if command_of(pid)[0].endswith("pfc-worker")]

    def roles(self):
        """Returns {process: role}."""
        found = {self.coordinator.pid: "coordinator"}
        found.update({agent.pid: "agent" for agent in self.agents.values() if agent.poll() is None})
        found.update({pid: "worker" for pid in self.worker_pids()})
        return found

    def stop(self):
        """Stops the job after a checkpoint. Returns the coordinator's exit code."""
        if self.coordinator.poll() is None:
            self.coordinator.send_signal(signal.SIGTERM)
        return self.coordinator.wait(timeout=180)

    def end(self):
        for process in [self.coordinator, *self.agents.values()]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.log.close()
        time.sleep(0.5)  # the workers end soon after their agents
        self.network.remove()


class Watch(threading.Thread):
    """Reads the coordinator's status page several times a second, from its own host."""

    PAUSE = 0.1

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.changed, self.over = cluster, threading.Condition(), False
        self.status, self.looks = None, 0
        self.last_step_at = time.monotonic()
        self.images_lost, self.last_lost = 0, 0
        self.listeners = []
        self.start()

    def run(self):
        enter(self.cluster.network.names["k"])
        connection = None
        while not self.over:
            try:
                connection = connection or self.connect()
                connection.request("GET", "/status.json", headers={"Authorization": "Bearer " + self.token})
                self.see(json.loads(connection.getresponse().read()))
            except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError):
                connection = None
            time.sleep(self.PAUSE)

    def connect(self):
        text = (self.cluster.folder / "state/security/reader.token").read_text()
        self.token = text.split("@")[0].strip()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", 7451, timeout=5, context=context)

    def see(self, status):
        now = time.monotonic()
        with self.changed:
            # A restarted coordinator counts from 0.
            lost = status["images_lost"] - (self.last_lost if status["images_lost"] >= self.last_lost else 0)
            self.images_lost += lost
            self.last_lost = status["images_lost"]
            before = self.status
            steps = (before is not None and status["generation"] == before["generation"]
                     and status["images_seen"] > before["images_seen"])
            if steps:
                self.last_step_at = now
            self.status = status
            self.looks += 1
            for listener in self.listeners:
                listener(now, status, steps)
            self.changed.notify_all()

    def wait_for(self, condition, limit, what):
        with self.changed:
            if not self.changed.wait_for(lambda: self.status is not None and condition(self.status), timeout=limit):
                raise TimeoutError(f"not within {limit} s: {what}; the last status: {json.dumps(self.status)[:2000]}")

    def end(self):
        self.over = True
        self.join()
