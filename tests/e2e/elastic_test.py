"""A job that loses workers and hosts, continues with the remaining ones, and gets them back."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from faults import Lines
from hosts import HostsTest
from network import may_make_namespaces
from support import JobTest, run

CRASHES_IN_SLOT_1 = """#!/bin/sh
# A broken slot: as soon as the file exists, its worker crashes at the start.
[ -e {broken} ] && case " $* " in *" --slot 1 "*) kill -SEGV $$ ;; esac
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
        port = self.http_port(lines)
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
        self.read_until(process, "Global Step")
        counted = float(re.search(r'pfc_worker_cpu_seconds_total{.*rank="0".*} (.*)', self.page(port, "/metrics"))[1])
        used = pathlib.Path(f"/proc/{after[0]}/stat").read_text().rsplit(")")[1].split()[11:13]
        self.assertLess(counted, sum(map(int, used)) / os.sysconf("SC_CLK_TCK") + 0.1, "the survivor's time counts once")
        self.ends_well(process)

    def breakable(self, command):
        """Returns the command with workers whose slot 1 crashes once the file self.broken exists."""
        self.broken = self.folder / "broken"
        folder = self.folder / "bin"
        folder.mkdir()
        bin_ = pathlib.Path(os.environ["PFC_BIN"])
        for name in ("pfc-coordinator", "pfc-agent"):
            shutil.copy(bin_ / name, folder / name)
        (folder / "pfc-worker").write_text(CRASHES_IN_SLOT_1.format(broken=self.broken, worker=bin_ / "pfc-worker"))
        (folder / "pfc-worker").chmod(0o755)
        return [str(folder / "pfc-coordinator"), *command[1:]]

    def test_a_slot_that_always_crashes_is_left_out(self):
        command = self.breakable(self.coordinator(3, self.job(num_epoch=2), "--min-workers", 2))
        self.broken.touch()
        done = self.succeeded(run(*command, env=self.environment))
        self.assertIn("2 of 3 workers: slot 1 of host localhost is left out", done.stderr)
        self.assertTrue(finite_losses(self.metrics()))

    def test_a_job_that_loses_a_worker_for_good_trains_the_images_that_were_planned(self):
        job = self.job(num_epoch=100, max_steps=60, save_every_steps=5)
        process = subprocess.Popen(self.breakable(self.coordinator(2, job, "--min-workers", 1)), env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.read_until(process, "Global Step: 25")
        self.broken.touch()
        os.kill(self.workers()[1], signal.SIGKILL)
        output = self.ends_well(process)
        self.assertRegex(output, r"each step now has 4 images \(1 worker.*instead of 8 images \(2 workers")
        steps = [m for m in self.metrics() if m["kind"] == "step"]
        self.assertEqual([m["step"] for m in steps], list(range(1, len(steps) + 1)))
        self.assertEqual(steps[-1]["images_seen"], 60 * 8)
        self.assertEqual({m["images_seen"] - before["images_seen"] for before, m in zip(steps, steps[1:])}, {4, 8})

    def test_a_job_that_loses_a_worker_before_its_first_checkpoint_keeps_its_plan(self):
        process = subprocess.Popen(self.breakable(self.coordinator(2, self.job(num_epoch=100, max_steps=30), "--min-workers", 1)),
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.read_until(process, "Global Step: 5")
        self.broken.touch()
        os.kill(self.workers()[1], signal.SIGKILL)
        output = self.ends_well(process)
        self.assertRegex(output, r"training begins at step 1;.*each step now has 4 images \(1 worker.*instead of 8 images \(2 workers")
        steps = [m for m in self.metrics() if m["kind"] == "step"]
        self.assertEqual([m["images_seen"] for m in steps], list(range(4, 30 * 8 + 1, 4)))

    def test_contradictory_numbers_of_workers_and_spares_are_refused(self):
        for options, words in (
                (("--min-workers", 4), "--min-workers 4 and --spares 0 are together more than"),
                (("--spares", 2), "--spares 2 takes all of the 2 slots of all hosts: no worker is left"),
                (("--min-workers", 2, "--max-workers", 1), "--min-workers 2 is more than --max-workers 1")):
            done = self.train(2, self.job(), *options)
            self.assert_one_line(done, words, code=2)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class SeveralHosts(HostsTest):
    def setUp(self):
        super().setUp()
        job = self.job_of("out", num_epoch=100_000, max_steps=1_000_000, save_every_steps=5)
        self.process = self.starts_coordinator("--hosts", ",".join(f"{n}:2" for n in self.NAMES), "--min-workers", 4,
                                               "--config", job)
        self.joins = self.join_strings(self.process, self.NAMES[1:])
        self.lines = Lines(self.process)
        for key in "bc":
            self.comes(key)
        self.here = self.lines.wait_for("Global Step: 10")

    def comes(self, key):
        self.starts_agent(key, self.joins[f"host-{key}"], "--host", f"host-{key}")

    def stops_well(self):
        """Stops the job. Asserts that each step occurs once, with the images of 4 or 6 workers and a finite loss."""
        self.process.terminate()
        self.process.wait(timeout=120)
        self.lines.wait_for("job stopped by SIGTERM", self.here)
        self.assertEqual(self.process.returncode, 143, "".join(self.lines.lines))
        self.assertTrue(finite_losses(self.metrics()))
        steps = [m for m in self.metrics() if m["kind"] == "step"]
        self.assertEqual([m["step"] for m in steps], list(range(1, len(steps) + 1)))
        images = [0] + [m["images_seen"] for m in steps]
        self.assertEqual({after - before for before, after in zip(images, images[1:])}, {4 * 2, 6 * 2})

    def test_a_lost_host_is_left_out_and_joins_again(self):
        lost = self.agents[1]  # on host c
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

    def test_a_drained_host_leaves_and_returns(self):
        leaving = self.agents[1]
        leaving.terminate()
        self.here = self.lines.wait_for(r"host host-c is leaving \(SIGTERM\): the workers write a checkpoint and continue",
                                        self.here)
        self.here = self.lines.wait_for(r"generation 2: starting 0 workers, and 4 workers stay", self.here)
        self.assertEqual(leaving.wait(timeout=60), 143, "the agent ends after its workers")
        self.here = self.lines.wait_for("Global Step", self.here)
        steps = self.of_steps("step", "out")
        self.comes("c")
        self.here = self.lines.wait_for(r"generation 3: starting 2 workers", self.here)
        self.here = self.lines.wait_for("Global Step", self.here)
        self.assertTrue(steps)
        self.stops_well()


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class OwnOutput(HostsTest):
    """Every host has its own folder at `output`."""

    STEPS = 240

    def setUp(self):
        super().setUp()
        (self.folder / "out").mkdir()
        for key in "ab":
            (self.folder / f"out-of-{key}").mkdir()
            self.network.gives_its_own(key, self.folder / "out", self.folder / f"out-of-{key}")
        job = self.job_of("out", num_epoch=100_000, max_steps=self.STEPS, save_every_steps=20, replicate=True,
                          snapshot_seconds=0.1)
        self.process = self.starts_coordinator("--hosts", "host-b:1,host-a:1", "--min-workers", 1, "--config", job)
        self.join = self.join_strings(self.process, ["host-b"])["host-b"]
        self.lines = Lines(self.process)

    def comes(self):
        self.starts_agent("b", self.join, "--host", "host-b")

    def steps_of(self, key):
        return [m for m in self.metrics(self.folder / f"out-of-{key}") if m["kind"] == "step"]

    def test_a_returning_first_host_continues_from_the_checkpoints_of_the_others(self):
        self.comes()
        here = self.lines.wait_for("Global Step: 12")
        self.agents[0].kill()
        self.agents[0].wait()
        here = self.lines.wait_for("continued from the copies in memory", here)
        here = self.lines.wait_for("Global Step: 50", here)
        self.comes()
        here = self.lines.wait_for(r"copied the checkpoint of step \d+ from host host-a to ", here)
        self.lines.wait_for("training is complete", here)
        self.process.wait(timeout=120)
        self.assertEqual(self.process.returncode, 0, "".join(self.lines.lines))
        of_a, of_b = self.steps_of("a"), self.steps_of("b")
        again = [m for m in of_b if m["generation"] > 1]
        self.assertEqual(again[0]["step"], of_a[-1]["step"] + 1, "no step is lost where a host joins")
        planned = self.STEPS * 4
        self.assertTrue(planned <= again[-1]["images_seen"] < planned + 4, again[-1])


if __name__ == "__main__":
    unittest.main()
