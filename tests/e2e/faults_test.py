"""Faults of workers, links and disks during a job and its start: each is found within the limit, named, and survived.
Prints the seconds since the fault.

PFC_FAULTS=all also runs the longest tests. PFC_FAULT_LIMITS=default keeps the default silence limits, which takes
minutes. PFC_REPEAT=N repeats random tests N times."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from faults import REPEAT, JobOnHosts, Timeline
from network import may_make_namespaces
from support import BIN, LIMIT

DEFAULTS = os.environ.get("PFC_FAULT_LIMITS") == "default"
QUICK = () if DEFAULTS else ("--collective-timeout", "10s")

long = unittest.skipUnless(os.environ.get("PFC_FAULTS") == "all" or DEFAULTS or REPEAT > 1,
                           "takes about a minute; PFC_FAULTS=all runs it")

# If two workers lost their memory, there may be no complete copy, and training begins again.
AGAIN = "training begins at step 1|continued from the copies in memory of step"

HOLDS = """#!/bin/sh
# While this file exists, this worker starts and does nothing.
[ -e {flag} ] && exec sleep 1000
exec {worker} "$@"
"""


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class FaultsOnOneHost(JobOnHosts):
    def test_a_stopped_worker_is_replaced(self):
        self.begins("--max-restarts", 3, *QUICK)
        pids = self.pids()
        timeline = Timeline("SIGSTOP", "30 s" if DEFAULTS else "10 s of a collective")
        os.kill(pids[1], signal.SIGSTOP)
        line = self.named(timeline, rf"rank 1 \(host host-b, slot 0, pid {pids[1]}\): silent for")
        self.assertIn("state T (stopped)", line)
        self.goes_on(timeline, 2, {pids[0], pids[2]})
        self.stops_well()

    def loses_its_link(self, how):
        self.begins("--min-workers", 2, once=False, save_every_steps=5)
        pids = self.pids()
        timeline = Timeline(f"link cut ({how})", "30 s, and 10 s for the host to come back")
        self.network.take_away("c", how)
        self.named(timeline, "host host-c: its agent has been silent for 3")
        self.goes_on(timeline, 2, {pids[0], pids[1]})
        self.assertEqual(len(self.pids()), 2)
        self.network.give_back("c", how)
        timeline = Timeline(f"link back ({how})")
        self.waits_for("host host-c joins|generation 3: starting 1 worker")
        timeline.note("named", self.lines.time(self.here))
        self.goes_on(timeline, 3, start="3 workers x batch")
        self.stops_well()

    def test_a_host_whose_link_drops_all_packets_is_left_out_and_returns(self):
        self.loses_its_link("silent")

    @long
    def test_a_host_whose_link_goes_down_is_left_out_and_returns(self):
        self.loses_its_link("down")

    @long
    def test_a_host_that_only_the_workers_cannot_reach_is_left_out(self):
        self.network.add(self.HOSTS, "eth1", "10.88.0")
        self.begins("--min-workers", 2, "--network", "eth1", *QUICK)
        pids = self.pids()
        timeline = Timeline("network of the workers cut", "10 s of a collective, 10 s for the link to come back")
        self.network.take_away("c", "silent", "eth1")
        self.named(timeline, "continuing without host-c: .*host host-. cannot reach host host-c")
        self.goes_on(timeline, 2, {pids[0], pids[1]})
        self.assertEqual(self.status()["left_out"][0]["host"], "host-c")
        self.stops_well()

    @long
    def test_a_slow_lossy_link_does_not_end_the_job(self):
        self.begins("--max-restarts", 3)
        steps = 5 if DEFAULTS else 1
        timeline = Timeline("5 % lost, 100 ms delay")
        cable = self.network.spoil("c", 0.05, 0.1)
        self.addCleanup(cable.kill)
        for _ in range(steps + 1):  # the first of these may have finished before the link became slow
            self.waits_for("Global Step")
        timeline.note(f"{steps + 1} steps", self.lines.time(self.here))
        print(self.network.mend("c", cable))
        timeline.tell()
        status = self.status()
        self.assertEqual((status["generation"], status["restarts"]), (1, 0))
        self.waits_for("Global Step")
        self.stops_well()

    def test_a_full_disk_ends_the_job_and_leaves_the_last_checkpoint(self):
        out = self.folder / "out"
        out.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", out], check=True)
        self.addCleanup(subprocess.run, ["umount", out], check=True)
        self.begins("--max-restarts", 3, save_every_steps=2)
        timeline = Timeline("disk full")
        with open(out / "of-another", "wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            except OSError:
                pass
        self.named(timeline, "No space left on device")
        self.assertEqual(self.process.wait(timeout=LIMIT), 2, self.lines.text())
        timeline.tell()
        self.assertIn("No space left on device (make room on its disk)", self.lines.lines[-1])
        (out / "of-another").unlink()
        newest = max(path.name for path in out.glob("step-*"))
        done = self.finished(3, self.job_of("out", resume=True, num_epoch=100_000,
                                            max_steps=int(newest.removeprefix("step-")) + 1))
        self.assertIn(f"resumed from {out / newest}", done.stdout)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class FaultsWhileWorkersStart(JobOnHosts):
    def kills(self, rank, after=0.0):
        pid = self.pids()[rank]
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        return pid

    def test_a_worker_that_is_killed_while_the_group_connects_is_replaced(self):
        self.begins("--max-restarts", 10 + 2 * REPEAT)
        for turn in range(REPEAT):
            generation = self.status()["generation"] + 1
            self.kills(2)
            in_next = lambda status: status["generation"] == generation and all(
                worker["state"] != "starting" for worker in status["workers"])
            status, _ = self.status.wait_until(in_next, "all have joined")
            victim = status["workers"][1]["pid"]
            time.sleep(random.random() * 0.3)
            os.kill(victim, signal.SIGSTOP)
            waiting = lambda status: all(worker["phase"].startswith(("connecting", "comparing", "looking"))
                                         for worker in status["workers"] if worker["pid"] != victim)
            try:
                status, _ = self.status.wait_until(waiting, "the others wait for it", limit=5)
            except AssertionError:
                status = self.status()  # the others are in another phase, in which the job must survive the kill too
            time.sleep(0.5)
            others = {worker["pid"] for worker in status["workers"] if worker["pid"] != victim}
            timeline = Timeline("killed while others are " + status["workers"][0]["phase"])
            self.here = self.lines.here()
            os.kill(victim, signal.SIGKILL)
            self.named(timeline, rf"rank 1 \(host host-b, slot 0, pid {victim}\): .*SIGKILL")
            self.goes_on(timeline, generation + 1, others, AGAIN)
            self.assertLessEqual(others, set(self.pids().values()), "survivors keep their processes")
        self.stops_well()

    @long
    def test_a_job_continues_without_a_replacement_worker_that_never_joins(self):
        flag, self.bin = self.folder / "hold", self.folder / "bin"
        self.bin.mkdir()
        for name in ("pfc-coordinator", "pfc-agent"):
            shutil.copy(BIN / name, self.bin / name)
        (self.bin / "pfc-worker").write_text(HOLDS.format(flag=flag, worker=BIN / "pfc-worker"))
        (self.bin / "pfc-worker").chmod(0o755)
        self.begins("--min-workers", 2, "--start-timeout", "20s")
        pids = self.pids()
        flag.touch()
        self.kills(1)
        self.waits_for("generation 2: starting 1 worker, and 2 workers stay")
        timeline = Timeline("a rank never joins", "--start-timeout 20 s")
        timeline.start = self.lines.time(self.here)
        self.named(timeline, r"rank 1 \(host host-b, slot 0, pid \d+\): has not joined after 20 s")
        self.goes_on(timeline, 3, {pids[0], pids[2]})
        self.assertEqual(set(self.pids().values()), {pids[0], pids[2]})
        self.stops_well()

    def test_a_worker_that_fails_while_the_next_generation_is_planned_is_replaced(self):
        self.begins("--max-restarts", 10)
        for after in (0, 0.05, 0.3):
            generation = self.status()["generation"]
            here = self.lines.here()
            pids = self.pids()
            timeline = Timeline("another one killed while the next generation begins")
            os.kill(pids[1], signal.SIGKILL)
            time.sleep(after)
            os.kill(pids[2], signal.SIGKILL)
            self.here = here
            self.named(timeline, r"rank [12] \(.*SIGKILL")
            self.goes_on(timeline, generation + 1, {pids[0]}, AGAIN)
            self.status.wait_until(lambda status: status["state"] == "training" and len(status["workers"]) == 3,
                                   "all three train")
            self.assertNotIn(pids[2], self.pids().values())
        self.stops_well()

    def test_a_job_resumes_after_all_workers_are_killed_at_once(self):
        self.begins("--max-restarts", 3, save_every_steps=2)
        timeline = Timeline("all workers killed")
        for pid in self.pids().values():
            os.kill(pid, signal.SIGKILL)
        self.named(timeline, r"rank \d \(.*SIGKILL")
        self.goes_on(timeline, 2, start="resumed from")
        self.stops_well()

    @long
    def test_hosts_leave_and_join_repeatedly(self):
        turns = 3 if REPEAT == 1 else REPEAT
        self.begins("--min-workers", 2, save_every_steps=2)
        for turn in range(turns):
            timeline = Timeline("host leaves")
            self.agents[-1].terminate()
            self.waits_for(rf"generation {2 * turn + 2}: starting 0 workers, and 2 workers stay")
            self.assertEqual(self.agents[-1].wait(timeout=LIMIT), 143)
            self.goes_on(timeline, 2 * turn + 2, start="2 workers x batch")
            timeline = Timeline("host joins")
            self.comes("c")
            self.waits_for(rf"generation {2 * turn + 3}: starting 1 worker, and 2 workers stay")
            self.goes_on(timeline, 2 * turn + 3, start="3 workers x batch")
        status = self.status()
        self.assertEqual((status["generation"], status["restarts"], len(status["workers"])), (2 * turns + 1, 0, 3))
        self.stops_well()


if __name__ == "__main__":
    unittest.main()
