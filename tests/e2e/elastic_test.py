"""A job that loses workers and hosts, goes on with those that are left, and gets them back."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import unittest

from faults import Lines
from hosts_test import HOSTS, ThreeHosts
from network import may_make_namespaces
from support import JobTest, run

CRASHES_IN_SLOT_1 = """#!/bin/sh
# A worker whose slot is broken: it starts, and crashes.
case " $* " in *" --slot 1 "*) kill -SEGV $$ ;; esac
exec {worker} "$@"
"""


def finite_losses(metrics):
    losses = [m["loss"] for m in metrics if m["kind"] == "step"]
    return losses and all(math.isfinite(loss) for loss in losses)


class OneHost(JobTest):
    def ends_well(self, process):
        output, _ = process.communicate(timeout=170)
        self.assertEqual(process.returncode, 0, output)
        self.assertTrue(finite_losses(self.metrics()))
        return output

    def test_a_spare_takes_the_place_of_a_killed_worker(self):
        process = self.start(3, self.job(num_epoch=15, save_every_steps=2), "--spares", 1)
        lines = self.read_until(process, "Global Step: 5")
        port = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(lines)).group(1)
        before = self.workers()
        self.assertEqual(set(before), {0, 1}, "the spare has no process")
        os.kill(before[1], signal.SIGKILL)
        self.read_until(process, "resumed from")
        after = self.workers()
        self.assertEqual(set(after), {0, 2})
        self.assertEqual(after[0], before[0], "the survivor keeps its process")
        status = json.loads(self.page(port, "/status.json"))
        self.assertEqual((status["world_size"], status["restarts_left"]), (2, 9))
        self.assertEqual(status["idle"], ["slot 1 of host localhost"])
        self.assertIn("pfc_job_slots_idle 1", self.page(port, "/metrics"))
        self.ends_well(process)

    def test_a_slot_that_always_crashes_is_left_out(self):
        folder = self.folder / "bin"
        folder.mkdir()
        bin_ = pathlib.Path(os.environ["PFC_BIN"])
        for name in ("pfc-coordinator", "pfc-agent"):
            shutil.copy(bin_ / name, folder / name)
        (folder / "pfc-worker").write_text(CRASHES_IN_SLOT_1.format(worker=bin_ / "pfc-worker"))
        (folder / "pfc-worker").chmod(0o755)
        command = self.coordinator(3, self.job(num_epoch=2), "--min-workers", 2)
        command[0] = str(folder / "pfc-coordinator")
        done = run(*command, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 of 3 workers: slot 1 of host localhost is left out", done.stderr)
        self.assertTrue(finite_losses(self.metrics()))

    def test_numbers_that_no_job_can_have_are_refused(self):
        for options, words in (
                (("--min-workers", 4), "--min-workers 4 and --spares 0 are together more than"),
                (("--spares", 2), "--spares 2 leaves no worker of the 2 slots of all hosts"),
                (("--min-workers", 2, "--max-workers", 1), "--min-workers 2 is more than --max-workers 1")):
            done = self.train(2, self.job(), *options)
            self.assert_one_line(done, words, code=2)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class SeveralHosts(ThreeHosts):
    def setUp(self):
        super().setUp()
        names = [f"host-{key}" for key in HOSTS]
        job = self.job_of("out", num_epoch=100_000, max_steps=1_000_000, save_every_steps=5)
        self.process = self.starts_coordinator("--hosts", ",".join(f"{n}:2" for n in names), "--min-workers", 4,
                                               "--config", job)
        self.joins = self.join_strings(self.process, names[1:])
        self.lines = Lines(self.process)
        for key in "bc":
            self.comes(key)
        self.here = self.lines.wait_for("Global Step: 10")

    def comes(self, key):
        self.starts_agent(key, self.joins[f"host-{key}"], "--host", f"host-{key}")

    def stops_well(self):
        """It was trained all the time: no step is missing, and no loss is not finite."""
        self.process.terminate()
        self.process.wait(timeout=120)
        self.lines.wait_for("job stopped by SIGTERM", self.here)
        self.assertEqual(self.process.returncode, 143, "".join(self.lines.lines))
        self.assertTrue(finite_losses(self.metrics()))

    def test_a_host_is_lost_and_comes_back(self):
        lost = self.agents[1]  # of host c
        lost.kill()
        lost.wait()
        self.here = self.lines.wait_for(r"generation 2: starting 0 workers, and 4 workers stay", self.here)
        self.here = self.lines.wait_for("4 of 6 workers: host host-c does not answer", self.here)
        self.here = self.lines.wait_for("Global Step", self.here)
        self.comes("c")
        self.here = self.lines.wait_for(r"generation 3: starting 2 workers, and 4 workers stay", self.here)
        self.here = self.lines.wait_for("6 workers x batch", self.here)
        self.here = self.lines.wait_for("Global Step", self.here)
        self.stops_well()

    def test_a_host_that_must_be_free_leaves_and_comes_back(self):
        leaving = self.agents[1]
        leaving.terminate()
        self.here = self.lines.wait_for(r"host host-c is leaving \(SIGTERM\): the workers write a checkpoint, and go on",
                                        self.here)
        self.here = self.lines.wait_for(r"generation 2: starting 0 workers, and 4 workers stay", self.here)
        self.assertEqual(leaving.wait(timeout=60), 143, "it ends when its workers have")
        self.here = self.lines.wait_for("Global Step", self.here)
        steps = [m["step"] for m in self.metrics(self.folder / "out") if m["kind"] == "step"]
        self.comes("c")
        self.here = self.lines.wait_for(r"generation 3: starting 2 workers", self.here)
        self.here = self.lines.wait_for("Global Step", self.here)
        self.assertTrue(steps)
        self.stops_well()


if __name__ == "__main__":
    unittest.main()
