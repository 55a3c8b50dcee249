"""Jobs whose hosts lose the network for a while: they continue and reconnect soon after the link returns.

The coordinators are in one network namespace and the worker of each job in another one, connected by a bridge. A link
fails in two ways: down (both sides see it) or silent (packets are dropped). The agents know their coordinator by address
or by name. There is one job for each of the four combinations, and all links fail at the same time. Prints when agent
and worker were heard of again after the link returned.
"""

import itertools
import json
import pathlib
import re
import subprocess
import time
import unittest

from hosts import HostsTest
from network import address, may_make_namespaces
from support import BIN, LIMIT, run

CUTS = (3, 7, 20)  # seconds
SOON = 2.0  # seconds after the link returned in which all must reconnect
SLACK = 8  # more seconds for heartbeats and a slow machine; TCP alone would need as long as the cut
START = 120  # seconds until a job must train


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Link(HostsTest):
    HOSTS = "abcde"

    def test_agents_and_workers_reconnect_soon_after_the_link_returns(self):
        jobs = [LinkedJob(self, key, where, how) for key, (where, how) in zip(
            "bcde", itertools.product((address(1), "host-a"), ("down", "silent")))]
        for job in jobs:
            job.wait_until_it_trains()
        for seconds in CUTS:
            self.cut(jobs, seconds)
        for job in jobs:
            job.wait_until_it_trains()
            job.stop()

    def cut(self, jobs, seconds):
        for job in jobs:
            self.network.take_away(job.key, job.how)
        time.sleep(seconds)  # duration of the cut
        for job in jobs:
            self.network.give_back(job.key, job.how)
        back = time.monotonic()
        took = {}
        while len(took) < len(jobs):
            for job in jobs:
                before = time.monotonic() - back
                if job not in took and max(job.silences()) < before:
                    took[job] = before
            self.assertLess(time.monotonic() - back, 60, [job.output() for job in jobs])
            time.sleep(0.05)
        for job in jobs:
            print(f"by {job.where}, link {job.how} for {seconds} s: all back {took[job]:.1f} s after it", flush=True)
            with self.subTest(by=job.where, link=job.how, seconds=seconds):
                self.assertLess(took[job], SOON + SLACK)


class LinkedJob:
    """A worker on host `key` with its coordinator on host a, known to the agent as `where`. `how`: the kind of cut."""

    def __init__(self, test, key, where, how):
        self.test, self.key, self.where, self.how = test, key, where, how
        name, port = address(ord(key) - ord("a") + 1), 7450 + ord(key)
        self.state = test.folder / f"state-{key}"
        output = test.folder / f"out-{key}"
        command = [BIN / "pfc-coordinator", "--hosts", f"{name}:1", "--port", port, "--http-port", 0,
                   "--state-dir", self.state, "--config",
                   test.job(f"{key}.json", num_epoch=100_000, save_every_steps=0, output=str(output))]
        self.log = test.folder / f"coordinator-{key}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.started = [subprocess.Popen(test.network.within("a", *command), env=test.environment, stdout=log,
                                             stderr=subprocess.STDOUT)]
        join = re.sub("@.*#", f"@{where}:{port}#", self.wait_for("join string", self.join_string))
        self.started.append(subprocess.Popen(
            # Lower priority, because the worker trains while the test waits.
            test.network.within(key, "nice", "-n", "19", BIN / "pfc-agent", "--once", "--join", join, "--host", name,
                                "--state-dir", test.folder / f"agent-{key}"),
            env=test.environment, stdout=subprocess.DEVNULL))

    def join_string(self):
        found = re.search(r"--join '(\S+)'", self.output())
        return found and found[1]

    def output(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8")

    def pfcctl(self, *words):
        return run(*self.test.network.within("a", BIN / "pfcctl", *words, "--state-dir", self.state),
                   env=self.test.environment)

    def status(self):
        done = self.pfcctl("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def silences(self):
        status = self.wait_for("a status", self.status)
        return [each["silent_seconds"] for each in status["hosts"] + status["workers"]]

    def wait_until_it_trains(self):
        def trains():
            status = self.status()
            return status and status["state"] == "training" and status["step"] > 1
        self.wait_for("training", trains)

    def wait_for(self, what, found):
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            self.test.assertIsNone(self.started[0].poll(), self.output())
            if value := found():
                return value
            time.sleep(0.05)
        return self.test.fail(f"no {what}: {self.status()}\n{self.output()}")

    def stop(self):
        done = self.pfcctl("stop", "--now")
        self.test.assertEqual(done.returncode, 0, done.stderr)
        for process in self.started:
            process.wait(timeout=LIMIT)


if __name__ == "__main__":
    unittest.main()
