#!/usr/bin/env python3
"""Kills the coordinator with SIGKILL. The same command then takes over the job, and nothing is lost.

Kills a job's coordinator three times, and at some points of a job's start and of a new generation. PFC_KILLS=all kills
it twenty times, and at all of these points.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

from faults import Lines
from hosts import HostsTest
from network import may_make_namespaces
from service_test import ServiceTest
from support import LIMIT, JobTest, digest, run

KILLS = 20 if os.environ.get("PFC_KILLS") == "all" else 3
STEPS = 2 * KILLS + 4
# States of the job at which its coordinator is killed.
POINTS = ("nothing", "an agent", "a worker", "all workers")
NEXT_POINTS = ("the loss", "its cause", "the next generation", "a new process", "all members", "connections", "a step")
if os.environ.get("PFC_KILLS") != "all":
    POINTS = ("an agent", "all workers")
    NEXT_POINTS = ("the next generation", "all members")


def has_pending(pid, number):
    """Returns whether a stopped process has this signal pending."""
    pending = re.search(r"^ShdPnd:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    return int(pending, 16) >> (number - 1) & 1


class Survival(JobTest):
    SIZE = 112  # pixels; steps long enough to kill the coordinator between two of them
    KEYS = dict(max_steps=STEPS, num_epoch=1000, sample_rate=0.5, verbose=20)

    def setUp(self):
        super().setUp()
        self.environment["PFC_COORDINATOR_GRACE"] = "120s"
        self.coordinators = []

    def tearDown(self):
        for process in self.coordinators:
            process.kill()
            process.wait()
        super().tearDown()

    def start_again(self, job, workers=2, *more):
        """Runs the same command each time. Its output goes to a file, like a service's."""
        log = self.folder / f"coordinator-{len(self.coordinators)}.log"
        with open(log, "w") as output:
            process = subprocess.Popen(self.coordinator(workers, job, *more), env=self.environment,
                                       stdout=output, stderr=subprocess.STDOUT)
        process.log = log
        self.coordinators.append(process)
        return process

    def wait_while_it_runs(self, what, condition):
        """Like wait_for(), but fails if the coordinator ends first."""
        def holds():
            ended = self.coordinators[-1].poll()
            if condition():
                return True
            self.assertIsNone(ended, f"{what}: the coordinator has ended\n{self.said()}")
            return False
        self.wait_for(what, holds)

    def said(self):
        return "".join(f"--- {p.log.name}\n{p.log.read_text()}" for p in self.coordinators)

    def kill(self):
        self.coordinators[-1].kill()
        self.coordinators[-1].wait()

    def status(self):
        done = self.pfcctl("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def counters(self):
        """Returns {series: value} of everything that only grows."""
        port = self.http_port(self.coordinators[-1].log.read_text())
        lines = [line.rsplit(" ", 1) for line in self.page(port, "/metrics").splitlines() if line[:1] != "#"]
        grows = re.compile(r"_total|_count|_sum|_bucket|pfc_job_step|pfc_job_generation")
        return {name: float(value) for name, value in lines if name.startswith("pfc_") and grows.search(name)}

    def reached_step(self, step):
        path = self.folder / "out" / "metrics.jsonl"
        return path.exists() and any(s >= step for s in self.of_steps("step"))

    def expect_end(self, code=0):
        self.wait_while_it_runs("the end", lambda: self.coordinators[-1].poll() is not None)
        self.assertEqual(self.coordinators[-1].returncode, code, self.said())
        self.wait_until_all_have_ended()
        self.assertEqual(list((self.folder / "state" / "journals").iterdir()), [], "the journal was not deleted")

    def test_a_job_continues_with_the_same_bits_after_each_kill(self):
        self.finished(2, self.job("whole.json", **self.KEYS, output=str(self.folder / "whole")))
        job = self.job(**self.KEYS)
        self.start_again(job)
        self.wait_while_it_runs("the first step", lambda: self.reached_step(1) and self.status().get("step", 0) >= 1)
        workers, seen, seconds = self.workers(), self.counters(), []
        for kill in range(KILLS):
            self.wait_while_it_runs("progress", lambda: self.reached_step(2 * kill + 1))
            seen = self.counters()
            self.kill()
            self.start_again(job)
            self.wait_while_it_runs("their return", lambda: "are back after" in self.coordinators[-1].log.read_text())
            seconds.append(float(re.search(r"are back after (\S+) s", self.coordinators[-1].log.read_text())[1]))
            # None was started again. On a busy machine the job may have ended meanwhile.
            self.assertLessEqual(self.workers().items(), workers.items(), self.said())
            status = self.status()
            if status:
                self.assertEqual((status["generation"], status["restarts"], status["takeovers"]), (1, 0, kill + 1))
                self.assertGreater(status["taken_over_ms"], 0)
                now = self.counters()
                self.assertEqual({name: (value, now.get(name)) for name, value in seen.items()
                                  if now.get(name, -1) < value}, {})
        print("seconds until all were back:", seconds)
        self.expect_end()
        self.assertEqual(self.of_steps("step"), list(range(1, STEPS + 1)))
        for path in sorted((self.folder / "whole").rglob("*.safetensors")):
            name = path.relative_to(self.folder / "whole")
            self.assertEqual(digest(self.folder / "out" / name), digest(path), name)

    def reached(self, point):
        if point == "nothing":
            return list((self.folder / "state" / "journals").glob("*.journal"))
        if point == "an agent":
            return any("pfc-agent" in pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in self.processes())
        return len(self.workers()) >= (1 if point == "a worker" else 2)

    def test_a_job_that_was_starting_begins_again_without_a_restart(self):
        for point in POINTS:
            with self.subTest(point=point):
                job = self.job(**{**self.KEYS, "max_steps": 3}, output=str(self.folder / f"out-{point[:3]}"))
                self.start_again(job)
                self.wait_while_it_runs(point, lambda: self.reached(point))
                self.kill()
                self.start_again(job)
                self.expect_end()
                self.assertEqual(self.of_steps("step", f"out-{point[:3]}"), [1, 2, 3])
                self.assertIn("taking over", self.coordinators[-1].log.read_text())

    def test_workers_that_end_without_a_coordinator_report_to_the_next_one(self):
        job = self.job(**{**self.KEYS, "max_steps": 4})
        self.start_again(job)
        self.wait_while_it_runs("a step", lambda: self.reached_step(2) and self.status().get("step", 0) >= 1)
        self.kill()
        self.wait_for("the last step", lambda: self.reached_step(4))
        self.start_again(job)
        self.expect_end()
        self.assertIn("job completed", self.coordinators[-1].log.read_text())
        self.assertEqual(self.of_steps("step"), list(range(1, 5)))

    def test_a_worker_that_is_lost_without_a_coordinator_is_replaced(self):
        job = self.job(**{**self.KEYS, "save_every_steps": 2})
        self.start_again(job, 2, "--max-restarts", 1)
        self.wait_while_it_runs("a step", lambda: self.reached_step(4) and self.status().get("step", 0) >= 1)
        self.kill()
        os.kill(self.workers()[1], signal.SIGKILL)
        self.start_again(job, 2, "--max-restarts", 1)
        self.expect_end()
        self.assertIn("restart 1, restarts left: 0 of 1", self.coordinators[-1].log.read_text())
        self.assertIn("SIGKILL", self.coordinators[-1].log.read_text())

    def reached_in_next(self, point, lost):
        """Returns whether the next generation, after a lost worker, has reached this point."""
        log = self.coordinators[-1].log.read_text()
        if point in ("the loss", "its cause", "the next generation"):
            return {"the loss": "", "its cause": "SIGKILL", "the next generation": "generation 2: starting"}[point] in log
        if point == "a new process":
            return len(set(self.workers().values()) - {lost}) == 2
        status = self.status()
        if status.get("generation", 0) < 2:
            return False
        if point == "a step":
            return status["workers"][0]["images_seen"] > status["workers"][0]["resumed_images"]
        states = {worker["state"] for worker in status["workers"]}
        phases = {worker["phase"] for worker in status["workers"]}
        return "starting" not in states and (point == "all members" or any(phase != "" for phase in phases))

    def test_a_takeover_while_a_generation_starts_does_not_count_as_a_restart(self):
        for point in NEXT_POINTS:
            with self.subTest(point=point):
                output = f"out-{point.replace(' ', '-')}"
                job = self.job(**{**self.KEYS, "max_steps": 40, "save_every_steps": 2}, output=str(self.folder / output))
                options = (2, "--max-restarts", 3)
                self.start_again(job, *options)
                self.wait_while_it_runs("a step", lambda: self.status().get("step", 0) >= 2)
                kept, lost = self.workers()[0], self.workers()[1]
                os.kill(lost, signal.SIGKILL)
                self.wait_while_it_runs(point, lambda: self.reached_in_next(point, lost))
                first = self.coordinators[-1]
                self.kill()
                self.start_again(job, *options)
                self.wait_while_it_runs("their return", lambda: self.status().get("generation", 0) >= 2)
                self.assertIn(kept, self.workers().values(), self.said())
                self.assertEqual(self.status().get("restarts", 1), 1, self.said())
                self.expect_end()
                self.assertNotIn("restart 2", first.log.read_text() + self.coordinators[-1].log.read_text())
                self.assertEqual(self.of_steps("step", output), list(range(1, 41)))

    def test_a_job_restarts_after_the_grace_time_of_its_workers(self):
        """The agent is still ending the workers, which must write a checkpoint, when the next coordinator starts."""
        job = self.job(**{**self.KEYS, "save_every_steps": 2})
        self.start_again(job, 2, "--coordinator-grace", "2s")
        self.wait_while_it_runs("a checkpoint", lambda: self.reached_step(4) and self.status().get("step", 0) >= 1)
        stopped = self.workers()[1]
        os.kill(stopped, signal.SIGSTOP)
        self.kill()
        self.wait_for("the agent has given the job up", lambda: has_pending(stopped, signal.SIGTERM))
        self.start_again(job, 2, "--coordinator-grace", "2s")
        self.wait_while_it_runs("the next one", lambda: "taking over" in self.coordinators[-1].log.read_text())
        os.kill(stopped, signal.SIGCONT)
        self.expect_end()
        self.assertEqual(self.of_steps("step"), list(range(1, STEPS + 1)))
        self.assertNotIn("restart ", self.coordinators[-1].log.read_text())

    def test_the_next_coordinator_continues_a_stop(self):
        job = self.job(**{**self.KEYS, "max_steps": 100000})
        first = self.start_again(job)
        self.wait_while_it_runs("a step", lambda: self.reached_step(1) and self.status().get("step", 0) >= 1)
        first.send_signal(signal.SIGTERM)
        self.wait_while_it_runs("the request", lambda: "stopping" in first.log.read_text())
        self.kill()
        self.start_again(job)
        self.expect_end(143)

    def test_another_job_does_not_take_over_a_running_one(self):
        job = self.job(**{**self.KEYS, "max_steps": 100000})
        self.start_again(job, 2, "--coordinator-grace", "3s")
        self.wait_while_it_runs("a step", lambda: self.reached_step(1))
        self.kill()
        other = self.finished(2, self.job(max_steps=2, output=str(self.folder / "other")))
        self.assertIn("job.json or --set was changed since then", other.stderr)
        self.wait_until_all_have_ended()

    def kill_while_it_trains(self, job):
        self.start_again(job, 2, "--coordinator-grace", "300s")
        self.wait_while_it_runs("a step", lambda: self.reached_step(1) and self.status().get("step", 0) >= 1)
        self.kill()
        return set(self.processes())

    def test_another_job_with_the_same_output_first_ends_the_running_one(self):
        for more in (("--set", "lr=0.01"), ("--take-over", "never")):
            with self.subTest(more=more):
                old = self.kill_while_it_trains(self.job(**{**self.KEYS, "max_steps": 100000, "resume": True}))
                began = time.monotonic()
                new = self.start_again(self.folder / "job.json", 2, *more)
                self.wait_while_it_runs("another start", lambda: "starting 2 workers" in new.log.read_text())
                self.assertEqual(old & set(self.processes()), set(), "the new job did not wait for the old one")
                self.assertLess(time.monotonic() - began, 120)
                self.assertIn(f"still writes to {self.folder / 'out'}", new.log.read_text())
                self.wait_while_it_runs("their checkpoint", lambda: "resumed from" in new.log.read_text())
                self.wait_while_it_runs("a step", lambda: self.status().get("step", 0) >= 1)
                new.send_signal(signal.SIGTERM)
                self.expect_end(143)

    def test_a_refused_job_does_not_end_a_running_one(self):
        job = self.job(**{**self.KEYS, "max_steps": 100000})
        old = self.kill_while_it_trains(job)
        refused = self.train(2, job, "--set", "lr=0.01")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f"still trains into {self.folder / 'out'}", refused.stderr.splitlines()[-1])
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            command = self.coordinator(2, job, "--set", "resume=true")
            command[command.index("--port") + 1] = str(busy.getsockname()[1])
            refused = run(*command, env=self.environment)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("is in use", refused.stderr.splitlines()[-1])
        self.assertEqual(old - set(self.processes()), set())
        self.start_again(job, 2, "--coordinator-grace", "300s")
        self.wait_while_it_runs("their return", lambda: "are back after" in self.coordinators[-1].log.read_text())
        self.coordinators[-1].send_signal(signal.SIGTERM)
        self.expect_end(143)

    def test_a_job_with_another_output_is_left_running(self):
        old = self.kill_while_it_trains(self.job(**{**self.KEYS, "max_steps": 100000}))
        other = self.finished(2, self.job(max_steps=2, output=str(self.folder / "other")))
        self.assertEqual(old - set(self.processes()), set(), other.stderr)
        self.start_again(self.job(**{**self.KEYS, "max_steps": 100000}))
        self.wait_while_it_runs("their return", lambda: "are back after" in self.coordinators[-1].log.read_text())
        self.coordinators[-1].send_signal(signal.SIGTERM)
        self.expect_end(143)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class SeveralHosts(HostsTest):
    """Uses TLS: the next coordinator must accept certificates that the last one issued."""

    # A coordinator that takes over waits up to --start-timeout for the lost host's agent.
    COMMAND = ("--hosts", "host-a:2,host-b:2,host-c:2", "--min-workers", 4, "--start-timeout", "20s")

    def setUp(self):
        super().setUp()
        self.environment["PFC_COORDINATOR_GRACE"] = "120s"
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.wait()
        for pid in self.processes():
            if "pfc-agent" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)  # the agent would wait for the next coordinator
        for process in self.started:
            process.stdout.close()  # blocks until the agents have closed it too
        super().tearDown()

    def start_again(self):
        process = self.starts_coordinator(*self.COMMAND, "--config", self.folder / "job.json")
        self.lines = Lines(process)
        self.started.append(process)
        return process

    def test_agents_and_workers_of_other_hosts_are_taken_over(self):
        self.job(num_epoch=100_000, max_steps=1_000_000, batch_size=2, save_every_steps=5)
        first = self.starts_coordinator(*self.COMMAND, "--config", self.folder / "job.json")
        self.started.append(first)
        joins = self.join_strings(first, ["host-b", "host-c"])
        self.lines = Lines(first)
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"], "--host", f"host-{key}")
        self.lines.wait_for("Global Step: 5")
        workers = self.workers()
        first.kill()
        first.wait()
        process = self.start_again()
        self.lines.wait_for("all 3 agents and 6 workers are back")
        self.assertEqual(self.workers(), workers)
        # The job is still elastic: it continues without a host that is lost now.
        self.agents[1].kill()
        here = self.lines.wait_for("generation 2: starting 0 workers, and 4 workers stay")
        here = self.lines.wait_for("Global Step", here)
        # After another takeover, a host can still join with its token.
        process.kill()
        process.wait()
        process = self.start_again()
        self.lines.wait_for("all .* are back")
        self.starts_agent("c", joins["host-c"], "--host", "host-c")
        here = self.lines.wait_for("generation 3: starting 2 workers, and 4 workers stay")
        self.lines.wait_for("Global Step", here)
        process.terminate()
        self.assertEqual(process.wait(timeout=LIMIT), 143, "".join(self.lines.lines))
        self.assertEqual(list((self.folder / "state" / "journals").iterdir()), [])
        self.wait_until_all_have_ended()


class ServiceTakeover(ServiceTest):
    def test_the_next_coordinator_of_a_service_continues_with_its_queue(self):
        self.environment["PFC_COORDINATOR_GRACE"] = "60s"
        service = self.service()
        done = self.submit()
        self.wait_until(done, "completed")
        running, waiting = self.submit("until_stop"), [self.submit() for _ in range(3)]
        self.wait_for_training()
        before = self.processes()
        self.kills(service)
        again = self.starts("again", *service.args)
        self.wait_for("their return", lambda: "are back after" in self.said("again"))
        self.assertEqual({pid for pid in before if self.name_of(pid) == "pfc-worker"},
                         {pid for pid in self.processes() if self.name_of(pid) == "pfc-worker"})
        self.assertEqual([self.state_of(job) for job in (done, running, *waiting)],
                         ["completed", "running", "waiting", "waiting", "waiting"])
        self.assertEqual(self.ctl("stop", running).returncode, 0)
        for job in waiting:
            self.wait_until(job, "completed")
        self.ends(again)


if __name__ == "__main__":
    unittest.main()
