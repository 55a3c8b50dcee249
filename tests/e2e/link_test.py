"""A job whose hosts lose the network for a while: it goes on, and is back soon after the link.

The coordinator and the workers are in network namespaces of their own, with a bridge between them, so
that a link can be taken away in two ways: down, which both sides see, or silent, when nobody sees
anything but that no packet arrives. Prints how long after the link everybody was heard of again.
By name only one length of a cut is tried; PFC_LINKS=all: every one.
"""

import json
import os
import re
import subprocess
import time
import unittest

from network import Network, address, may_make_namespaces
from support import BIN, LIMIT, JobTest, run

COORDINATOR, WORKERS = address(1), address(2)
CUTS = (3, 7, 20)  # seconds
SOON = 2.0  # seconds after the link within which everybody is back
SLACK = 8  # heartbeats come once a second, and the machine may be slow; TCP alone would take as long as the cut


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Link(JobTest):
    def setUp(self):
        super().setUp()
        self.network = Network(os.getpid(), "ab")

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
        join = re.sub("@.*#", f"@{where}:7450#", self.join_string())
        self.started.append(subprocess.Popen(
            self.network.within("b", BIN / "pfc-agent", "--once", "--join", join, "--host", WORKERS,
                                "--state-dir", self.folder / "agent"),
            env=self.environment, stdout=subprocess.DEVNULL))
        self.wait_for("training", lambda status: status["state"] == "training" and status["step"] > 1)

    def join_string(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(r"--join '(\S+)'", self.output())
            if found:
                return found[1]
            time.sleep(0.05)
        return self.fail("no join string in:\n" + self.output())

    def ends(self):
        done = run(*self.network.within("a", BIN / "pfcctl", "stop", "--now", "--state-dir", self.folder / "state"),
                   env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        for process in self.started:
            process.wait(timeout=LIMIT)

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
        self.network.take_away("b", how)
        time.sleep(seconds)  # how long the link is away
        self.network.give_back("b", how)
        back = time.monotonic()
        took = 0.0
        while max(self.silences(self.wait_for("training", lambda status: True))) >= took:
            self.assertLess(took, 60)
            time.sleep(0.05)
            took = time.monotonic() - back
        print(f"by {where}, link {how} for {seconds} s: everybody back {took:.1f} s after it", flush=True)
        return took

    def check_link(self, where, cuts):
        self.starts(where)
        for how in ("down", "silent"):
            for seconds in cuts:
                with self.subTest(link=how, seconds=seconds):
                    self.assertLess(self.loses_the_link(where, how, seconds), SOON + SLACK)
        self.wait_for("training", lambda status: status["state"] == "training")
        self.ends()

    def test_is_back_soon_after_the_link_by_address(self):
        self.check_link(COORDINATOR, CUTS)

    def test_is_back_soon_after_the_link_by_name(self):
        self.check_link("host-a", CUTS if os.environ.get("PFC_LINKS") == "all" else CUTS[1:2])


if __name__ == "__main__":
    unittest.main()
