"""kill -9 of the coordinator, the agent or a worker, at stages from a job's start to a checkpoint: nothing is left
behind, and the next job with the same folders works as usual.

Kills each program once per test run; PFC_KILLS=all kills each at every stage.
"""

import os
import pathlib
import signal
import socket
import tempfile
import time
import unittest

from support import LIMIT, JobTest


def name_of(pid):
    """Returns the program's name. A child has its parent's name until exec."""
    try:
        return pathlib.Path(pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]).name
    except OSError:
        return ""


def shared_memory():
    """Returns the names in shared memory, except folders of other tests."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("pfc-test-")}


class Kill(JobTest):
    # Stages that the job has reached when the kill comes.
    STAGES = ("coordinator", "agent", "worker", "workers", "trains", "saves")
    VICTIMS = {"coordinator": "pfc-coordinator", "agent": "pfc-agent", "worker": "pfc-worker"}

    def pids(self, program):
        return sorted(pid for pid in self.processes() if name_of(pid) == program)

    def reached(self, stage):
        if stage == "coordinator":
            return self.pids("pfc-coordinator")
        if stage == "agent":
            return self.pids("pfc-agent")
        if stage == "worker":
            return self.pids("pfc-worker")
        if stage == "workers":
            return len(self.pids("pfc-worker")) == 2
        if stage == "trains":
            return (self.folder / "out" / "metrics.jsonl").exists()
        return list((self.folder / "out").glob(".step-*.tmp"))

    def kill_at(self, stage, victim):
        command = self.coordinator(2, self.job(max_steps=100000, num_epoch=100000, save_every_steps=1, resume=True))
        command[command.index("--port") + 1] = str(self.port)
        command += ["--coordinator-grace", "1s"]  # no other coordinator takes over
        started = self.background(*command)
        try:
            deadline = time.monotonic() + LIMIT
            while not self.reached(stage):
                self.assertLess(time.monotonic(), deadline, f"{stage} was not reached")
                if started.poll() is not None:
                    self.fail("the job has ended by itself: " + started.stdout.read())
            victims = self.pids(self.VICTIMS[victim])
            self.assertTrue(victims, f"no {victim} at this stage")
            os.kill(victims[0], signal.SIGKILL)
            output = started.communicate(timeout=LIMIT)[0]
        finally:
            started.kill()
            started.wait()
        self.wait_until_all_have_ended()
        return started.returncode, output

    def expect_nothing_left(self):
        self.assertEqual(shared_memory() - self.memory_before, set())
        with socket.create_server(("127.0.0.1", self.port)):
            pass  # no process listens there
        # The next job removes what a killed one left behind and resumes from its checkpoint.
        saved = [int(path.name[5:]) for path in (self.folder / "out").glob("step-*")]
        self.finished(2, self.job(max_steps=max(saved, default=0) + 1, num_epoch=100000, resume=True))
        self.assertEqual(list((self.folder / "out").glob(".*.tmp")), [])
        self.assertEqual([p.name for p in (self.folder / "state").iterdir() if p.suffix == ".json"], [])
        left = [p.name for p in (self.folder).iterdir()]
        self.assertLessEqual(set(left), {"out", "state", "job.json"})

    def check(self, stage, victim):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.shared))
        self.memory_before = shared_memory()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        code, output = self.kill_at(stage, victim)
        if victim == "coordinator":
            self.assertEqual(code, -signal.SIGKILL)
        else:
            self.assertIn(code, (1, 3), output)
            self.assertIn("SIGKILL", output.strip().splitlines()[-1])
        self.expect_nothing_left()

    def test_nothing_is_left_after_kill_9(self):
        first = {"coordinator": 0, "agent": 1, "worker": 2}
        kills = [(stage, victim) for victim in self.VICTIMS for stage in self.STAGES[first[victim]:]]
        if os.environ.get("PFC_KILLS") != "all":
            kills = [("workers", "coordinator"), ("worker", "agent"), ("saves", "worker")]
        for stage, victim in kills:
            with self.subTest(stage=stage, victim=victim):
                self.check(stage, victim)


if __name__ == "__main__":
    unittest.main()
