"""A worker that makes no progress is named with what it does, and replaced; a slow worker is left alone."""

import json
import os
import signal
import threading
import time
import unittest

import threads
from support import LIMIT, JobTest


class Stuck(JobTest):
    def start_with_floor(self, workers, floor, *more, **keys):
        process = self.start(workers, self.job(**{"num_epoch": 1000, **keys}), "--progress-floor", floor,
                             *(() if "--progress-factor" in more else ("--progress-factor", 3)), *more)
        self.port = self.http_port(self.read_until(process, "Global Step: 5"))
        return process

    def status(self):
        return json.loads(self.page(self.port, "/status.json"))

    def stop_in(self, pid, rank, *phases):
        """Stops the first thread of this rank's process in one of these phases."""
        def stops():
            threads.stop(pid)
            time.sleep(0.5)  # the worker has usually reported its phase by now; otherwise this is repeated
            return self.status()["workers"][rank]["phase"] in phases or threads.resume(pid)
        self.wait_for(f"a phase of {phases}", stops, pause=0.13)

    def is_replaced(self, fault, *words):
        """Makes rank 1 of three workers stuck: it is named with these words, and the job continues."""
        process = self.start_with_floor(3, "2s", "--max-restarts", 1, save_every_steps=2)
        before = self.workers()
        # In these phases the worker is in no collective of the step. In a collective, it would look like the workers
        # that wait.
        self.stop_in(before[1], 1, "forward", "backward", "optimizer")
        fault(before[1])
        lines = self.read_until(process, "rank 1 (host localhost, slot 1, pid %d): no progress" % before[1])
        lines += self.read_until(process, "restart 1, restarts left: 0 of 1")
        named = next(line for line in lines if "while 2 other workers wait for it in" in line)
        for word in ("no progress for", "at step", *words):
            self.assertIn(word, named)
        self.read_until(process, "resumed from")
        after = self.workers()
        self.assertNotEqual(after[1], before[1])
        self.assertEqual((after[0], after[2]), (before[0], before[2]), "workers that waited keep their processes")
        self.read_until(process, "Global Step")
        self.stopped(process)
        return "".join(lines)

    def test_a_worker_that_waits_for_a_read_is_named_with_the_file(self):
        fifo = self.folder / "no-answer"
        os.mkfifo(fifo)
        text = self.is_replaced(lambda pid: threads.read(pid, fifo), f"main thread in read of {fifo}")
        self.assertIn("[rank 1] pfc-worker: the training thread is in:", text)

    def test_without_restarts_the_last_line_names_the_stuck_worker(self):
        process = self.start_with_floor(2, "2s")
        pid = self.workers()[1]
        self.stop_in(pid, 1, "forward", "backward", "optimizer")
        fifo = self.folder / "no-answer"
        os.mkfifo(fifo)
        threads.read(pid, fifo)
        output = self.ended(process, 1)
        last = output.strip().splitlines()[-1]
        for word in ("rank 1", "no progress for", "while 1 other worker waits for it in", "state S"):
            self.assertIn(word, last)

    def test_a_stopped_data_thread_is_found(self):
        process = self.start_with_floor(2, "2s")
        pid = self.workers()[1]
        held = threading.Event()
        stopped = []
        for thread in sorted(int(each) for each in os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{thread}/comm") as comm:
                if comm.read().startswith("pfc-data"):
                    threads.stop(thread)
                    stopped.append(thread)
        self.assertTrue(stopped)
        threading.Thread(target=lambda: [os.waitpid(each, 0x40000000) for each in stopped] and held.set(),
                         daemon=True).start()
        output, _ = process.communicate(timeout=LIMIT)
        self.assertIn("rank 1", output.strip().splitlines()[-1])
        self.assertIn("of communicator 'inputs')", output.strip().splitlines()[-1])

    def test_a_worker_is_not_blamed_for_a_long_evaluation(self):
        process = self.start_with_floor(2, "3s", "--progress-factor", 1.5, "--max-restarts", 0,
                                        verbose=1, val_targets=["val"])
        pid = self.workers()[1]
        self.stop_in(pid, 1, "evaluate")
        time.sleep(7)  # longer than the limit of a step; the limit of an evaluation is 12 s
        threads.resume(pid)
        step = self.status()["step"]
        self.wait_for("another step", lambda: self.status()["step"] > step)
        self.assertEqual(self.status()["state"], "training")
        self.stopped(process)

    def test_a_slow_worker_is_reported(self):
        process = self.start_with_floor(2, "30s")
        pid, over = self.workers()[1], threading.Event()

        def slow_down():
            while not over.is_set():
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.15)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.05)

        thread = threading.Thread(target=slow_down)
        thread.start()
        try:
            self.read_until(process, "is slow: its own work takes")
            slow = [worker["slowness"] > 0 for worker in self.status()["workers"]]
            self.assertEqual(slow, [False, True])
            self.assertIn('pfc_worker_slow{host="localhost",rank="1"} 1', self.page(self.port, "/metrics"))
            shown = self.pfcctl("status")
            self.assertIn("rank 1 (host localhost) is slow", shown.stdout + shown.stderr)
        finally:
            over.set()
            thread.join()
        self.read_until(process, "is no longer slow")
        self.stopped(process)


if __name__ == "__main__":
    unittest.main()
