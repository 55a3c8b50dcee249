"""Base class of tests whose hosts are network namespaces. Needs root."""

import os
import subprocess

from network import Network
from support import BIN, LIMIT, JobTest, run


class HostsTest(JobTest):
    HOSTS = "abc"
    NAMES = [f"host-{key}" for key in HOSTS]

    def setUp(self):
        super().setUp()
        self.network = Network(os.getpid(), self.HOSTS)
        self.agents = []  # agents and other programs that must end with the test

    def tearDown(self):
        for process in self.agents:
            if process.poll() is None:
                process.kill()
            process.communicate()
        try:
            super().tearDown()
        finally:
            self.network.remove()

    def on_host(self, key, *command, **environment):
        """Starts a program on a host."""
        return self.background(*self.network.within(key, *command), **environment)

    def pfcctl(self, *words):
        return run(*self.network.within("a", BIN / "pfcctl", *words, "--state-dir", self.folder / "state"),
                   env=self.environment)

    def job_of(self, output, **keys):
        return self.job(**{"num_epoch": 1, "max_steps": 3, "batch_size": 2, "output": str(self.folder / output), **keys})

    def starts_agent(self, key, join, *more):
        """Passes the join string by environment, because all users of a machine can see arguments."""
        self.agents.append(self.on_host(key, BIN / "pfc-agent", "--once", "--state-dir", self.folder / f"agent-{key}", *more,
                                        PFC_JOIN=join))

    def starts_coordinator(self, *more):
        return self.on_host("a", BIN / "pfc-coordinator", "--port", 7450, "--http-port", 7451,
                            "--state-dir", self.folder / "state", *more)

    def ends(self, coordinator):
        """Waits until the coordinator ends. Returns it, with all of its output in stderr."""
        output = "".join(self.told) + coordinator.communicate(timeout=LIMIT)[0]
        return subprocess.CompletedProcess(coordinator.args, coordinator.returncode, "", output)
