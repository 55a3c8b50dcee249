"""A job whose hosts lose the network for a while: it goes on, and is back soon after the link.

The coordinator and the workers are in network namespaces of their own, with a bridge between them, so
that a link can be taken away in two ways: down, which both sides see, or silent, when nobody sees
anything but that no packet arrives. Prints how long after the link everybody was heard of again.
"""

import json
import os
import subprocess
import time
import unittest

from support import BIN, JobTest, run

COORDINATOR, WORKERS = "10.77.0.1", "10.77.0.2"
SOON = 2.0  # seconds after the link within which everybody is back
SLACK = 1.5  # heartbeats come once a second, and the machine may be busy


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def may_make_namespaces():
    name = f"pfc-probe-{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    ip("netns", "delete", name)
    return True


class Network:
    """Two namespaces, "a" and "b", on a bridge in a third one."""

    def __init__(self, mark):
        self.names = {key: f"pfc-{mark}-{key}" for key in ("a", "b", "bridge")}
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        bridge = self.names["bridge"]
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for key, address in (("a", COORDINATOR), ("b", WORKERS)):
            ip("-n", self.names[key], "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{key}",
               "netns", bridge)
            ip("-n", bridge, "link", "set", f"to-{key}", "master", "br0", "up")
            ip("-n", self.names[key], "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", self.names[key], "link", "set", "eth0", "up")
        self.hosts = {key: self.host_file(name) for key, name in self.names.items() if key != "bridge"}

    @staticmethod
    def host_file(name):
        """/etc/hosts of this namespace alone: the names of the two hosts."""
        folder = f"/etc/netns/{name}"
        os.makedirs(folder)
        with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{COORDINATOR} the-coordinator\n{WORKERS} the-workers\n")
        return folder

    def within(self, key, *command):
        return ["ip", "netns", "exec", self.names[key], *map(str, command)]

    def take_away(self, how):
        if how == "down":
            ip("-n", self.names["bridge"], "link", "set", "to-b", "down")
        else:
            ip("-n", self.names["bridge"], "link", "set", "to-b", "nomaster")

    def give_back(self, how):
        if how == "down":
            ip("-n", self.names["bridge"], "link", "set", "to-b", "up")
        else:
            ip("-n", self.names["bridge"], "link", "set", "to-b", "master", "br0")

    def remove(self):
        for key, folder in self.hosts.items():
            os.unlink(f"{folder}/hosts")
            os.rmdir(folder)
        for name in self.names.values():
            ip("netns", "delete", name)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Link(JobTest):
    def setUp(self):
        super().setUp()
        self.network = Network(os.getpid())

    def tearDown(self):
        try:
            super().tearDown()
        finally:
            self.network.remove()

    def starts(self, where):
        """A job of two workers in "b", its coordinator in "a", known to the agent as `where`."""
        command = self.coordinator(2, self.job(num_epoch=100_000, save_every_steps=0))
        for option, value in (("--hosts", f"{WORKERS}:2"), ("--port", "7450")):
            command[command.index(option) + 1] = value
        self.log = open(self.folder / "coordinator.log", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        self.started = [subprocess.Popen(self.network.within("a", *command), env=self.environment,
                                         stdout=self.log, stderr=subprocess.STDOUT)]
        self.started.append(subprocess.Popen(
            self.network.within("b", BIN / "pfc-agent", "--coordinator", f"{where}:7450", "--host", WORKERS),
            env=self.environment, stdout=subprocess.DEVNULL))
        self.wait_for("training", lambda status: status["state"] == "training" and status["step"] > 1)

    def ends(self):
        done = run(*self.network.within("a", BIN / "pfcctl", "stop", "--now", "--state-dir", self.folder / "state"),
                   env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        for process in self.started:
            process.wait(timeout=60)

    def output(self):
        return (self.folder / "coordinator.log").read_text(encoding="utf-8")

    def status(self):
        done = run(*self.network.within("a", BIN / "pfcctl", "status", "--json", "--state-dir", self.folder / "state"),
                   env=self.environment)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait_for(self, what, holds):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(self.started[0].poll(), self.output())
            status = self.status()
            if status and holds(status):
                return status
            time.sleep(0.05)
        return self.fail(f"not {what}: {self.status()}\n{self.output()}")

    @staticmethod
    def silences(status):
        return [each["silent_seconds"] for each in status["hosts"] + status["workers"]]

    def loses_the_link(self, where, how, seconds):
        self.network.take_away(how)
        time.sleep(seconds)  # how long the link is away
        self.network.give_back(how)
        back = time.monotonic()
        took = 0.0
        while max(self.silences(self.wait_for("training", lambda status: True))) >= took:
            self.assertLess(took, 60)
            time.sleep(0.05)
            took = time.monotonic() - back
        print(f"by {where}, link {how} for {seconds} s: everybody back {took:.1f} s after it", flush=True)
        return took

    def check_link(self, where):
        self.starts(where)
        for how in ("down", "silent"):
            for seconds in (3, 7, 20):
                with self.subTest(link=how, seconds=seconds):
                    self.assertLess(self.loses_the_link(where, how, seconds), SOON + SLACK)
        self.wait_for("training", lambda status: status["state"] == "training")
        self.ends()

    def test_is_back_soon_after_the_link_by_address(self):
        self.check_link(COORDINATOR)

    def test_is_back_soon_after_the_link_by_name(self):
        self.check_link("the-coordinator")


if __name__ == "__main__":
    unittest.main()
