"""Time until a job resumes after a worker was killed during an all-reduce, on separate hosts. Prints the seconds
since the fault; PFC_REPEAT=N repeats each test N times."""

import os
import signal
import unittest

from faults import REPEAT, JobOnHosts, Timeline
from network import may_limit_speed, may_make_namespaces


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Recovery(JobOnHosts):
    def in_all_reduce(self):
        """Waits until all workers are in an all-reduce; returns {rank: pid}."""
        if may_limit_speed():
            for key in self.HOSTS:
                self.network.slow(key, "eth0", "100mbit")  # so that an all-reduce lasts until the status is read

        def all_in(status):
            # This phase only waits for the all-reduces of the gradients.
            return all(worker["phase"] == "gradient_wait" for worker in status["workers"])
        status, _ = self.status.wait_until(all_in, "all are in an all-reduce")
        return {worker["rank"]: worker["pid"] for worker in status["workers"]}

    def kill_one(self, name, rank, *more, **keys):
        self.begins(*more, **keys)
        pids = self.in_all_reduce()
        victim = pids.pop(rank)
        timeline = Timeline(name)
        os.kill(victim, signal.SIGKILL)
        self.named(timeline, rf"rank {rank} \(host host-{self.HOSTS[rank]}, slot 0, pid {victim}\): .*SIGKILL")
        line = self.goes_on(timeline, 2, pids.values())
        self.assertIn("2 of 3 parts from their own worker, 1 from the neighbour", line)
        self.assertLessEqual(set(pids.values()), set(self.pids().values()), "survivors keep their processes")
        self.stops_well()

    def repeat(self, *kill, **keys):
        for turn in range(REPEAT):
            if turn > 0:
                self.tearDown()
                self.doCleanups()
                self.setUp()
            self.kill_one(*kill, **keys)

    def test_a_killed_worker_is_replaced_by_its_agent(self):
        self.repeat("killed in an all-reduce", 1, "--max-restarts", 3)

    def test_a_killed_worker_is_replaced_by_a_spare(self):
        self.repeat("killed in an all-reduce, with a spare", 1, "--spares", 1, slots=(1, 1, 2))

    def test_a_killed_rank_zero_is_replaced_by_a_spare(self):
        self.repeat("rank 0 killed in an all-reduce, with a spare", 0, "--spares", 1, slots=(1, 1, 2))


if __name__ == "__main__":
    unittest.main()
