"""pfcctl trace of real jobs: the file's content, the worker that is blamed, and the clocks of several hosts."""

import collections
import contextlib
import os
import re
import signal
import statistics
import subprocess
import threading
import unittest

import browser
import trace_viewer
from hosts import HostsTest
from network import may_make_namespaces
from support import BIN, LIMIT, JobTest, run
from trace_event_format import Trace


@contextlib.contextmanager
def slowed(pid, stopped=0.5, running=0.1):
    """Stops a process repeatedly, long enough that a busy machine makes no other process as slow."""
    over = threading.Event()

    def pulse():
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(stopped)
            os.kill(pid, signal.SIGCONT)
            over.wait(running)

    thread = threading.Thread(target=pulse)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class TraceTest(JobTest):
    def begin(self, workers=2, *more, **keys):
        self.process = self.start(workers, self.job(**{"num_epoch": 100000, **keys}), *more)
        self.addCleanup(self.process.stdout.close)
        self.read_until(self.process, "Global Step: 2 ")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=LIMIT)

    def traces(self, *more):
        """Repeats the command until all workers have reported that they train."""
        def traced():
            done = self.pfcctl("trace", "--output", self.folder / "trace.json", *more)
            return "is not training now" not in done.stderr and done
        return self.wait_for("all workers train", traced, pause=0.1)

    def written(self):
        trace = Trace((self.folder / "trace.json").read_text())
        self.assertEqual(trace.problems, [])
        return trace

    def test_a_trace_has_all_workers(self):
        self.begin(num_workers=2)
        for _ in range(5):
            done = self.succeeded(self.traces("--steps", 5))
            self.assertRegex(done.stdout, r"recording steps (\d+) to \d+ of job [0-9a-f]+, 2 workers\n")
            first, last = map(int, re.search(r"steps (\d+) to (\d+)", done.stdout).groups())
            self.assertEqual(last - first, 4)
            trace = self.written()
            # On a busy machine a worker may receive the request late and start with its next step.
            if {each["first_step"] for each in trace.json["otherData"]["ranks"]} == {first}:
                break
        self.assertEqual(trace.names, {0: "rank 0 (localhost, slot 0)", 1: "rank 1 (localhost, slot 1)"})
        for rank in (0, 1):
            rows = {name for (pid, _), name in trace.threads.items() if pid == rank}
            self.assertLessEqual({"training", "inputs", "loader 0", "loader 1", "collectives: step",
                                  "collectives: gradients", "collectives: inputs", "checkpoints"}, rows)
            forward = [s for s in trace.on_row("training", "phase") if s.pid == rank and s.name == "forward"]
            self.assertEqual([s.args["step"] for s in forward], list(range(first, last + 1)))
        work = collections.Counter(s.name for s in trace.slices)
        for name in ("data_wait", "backward", "optimizer", "read", "decode", "fill_batch", "sample_classes", "all_reduce"):
            self.assertGreater(work[name], 0, name)
        about = trace.json["otherData"]
        self.assertEqual([(each["rank"], each["first_step"], each["last_step"]) for each in about["ranks"]],
                         [(0, first, last), (1, first, last)])
        self.assertLess(max(each["clock_error_ms"] for each in about["ranks"]), 50)
        self.assertIn("5 steps of 2 ranks", done.stdout)
        self.end()

    @unittest.skipUnless(browser.is_here(), "not run: no Chromium, its driver or Selenium")
    def test_a_viewer_shows_every_row_of_the_file(self):
        missing = trace_viewer.install()
        if missing:
            self.skipTest(f"not run: {missing}")
        self.begin()
        self.succeeded(self.traces("--steps", 5))
        self.end()
        trace = self.written()
        viewer = trace_viewer.Viewer(self.environment, LIMIT, self.folder, self.folder / "trace.json")
        try:
            shown = viewer.profiles()
        finally:
            viewer.close()
        rows = collections.defaultdict(list)
        for each in trace.slices:
            rows[each.pid, each.tid].append(each)
        self.assertEqual(set(shown), {f"{trace.names[pid]} (pid {pid}), {trace.threads[pid, tid]} (tid {tid})" for pid, tid in rows})
        for (pid, tid), slices in rows.items():
            first = min(each.begin for each in slices)
            spans = shown[f"{trace.names[pid]} (pid {pid}), {trace.threads[pid, tid]} (tid {tid})"]
            self.assertEqual(len(spans), len(slices))
            for (name, begin, end), each in zip(sorted(spans, key=lambda s: s[1:]),
                                                sorted(slices, key=lambda s: (s.begin, s.end)), strict=True):
                self.assertEqual(name.split(" {")[0], each.name)
                self.assertAlmostEqual(begin, each.begin - first, delta=0.01)
                self.assertAlmostEqual(end, each.end - first, delta=0.01)

    def test_the_summary_names_the_slow_worker(self):
        self.begin(3)
        with slowed(self.workers()[2]):
            done = self.traces("--steps", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = self.written()
        last, waited = collections.Counter(), collections.Counter()
        for ranks in trace.collectives("step").values():
            if len(ranks) < 3:
                continue
            latest = max(ranks.values(), key=lambda s: s.begin)
            last[latest.pid] += 1
            for each in ranks.values():
                waited[each.pid] += max(min(latest.begin, each.end) - each.begin, 0)
        self.assertEqual(min(waited, key=lambda rank: waited[rank]), 2, (last, waited))
        self.assertRegex(done.stdout, r"rank 2 \(localhost, slot 2\) entered \d+ of \d+ \w+ of the communicator \"")
        self.assertRegex(done.stdout, r"Slowest: rank 2 \(localhost, slot 2\)")
        self.assertTrue(any(tail["pid"] == 2 for tail, _ in trace.arrows), trace.arrows)
        self.end()

    def test_a_trace_has_the_other_workers_if_one_dies(self):
        self.begin(2, "--max-restarts", 0)
        victim = self.workers()[1]
        self.assertEqual(self.traces("--steps", 1).returncode, 0)  # after this, both workers train
        process = subprocess.Popen(
            [str(word) for word in (BIN / "pfcctl", "trace", "--state-dir", self.folder / "state", "--steps", 5000,
                                    "--output", self.folder / "trace.json")],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        first = int(re.search(r"recording steps (\d+)", line)[1])
        self.read_until(self.process, f"Global Step: {first + 40} ")  # the request may arrive late
        os.kill(victim, signal.SIGKILL)
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1, (output, errors))
        self.assertRegex(output, r"rank 1( \(localhost, slot 1\))?: incomplete: ")
        trace = self.written()
        self.assertNotIn(1, {s.pid for s in trace.slices})
        self.assertTrue([s for s in trace.slices if s.pid == 0 and s.name == "forward"], output)
        self.process.communicate(timeout=LIMIT)
        self.wait_until_all_have_ended()

    def test_a_trace_ends_when_its_job_ends(self):
        self.begin(2, num_epoch=40)  # 400 steps
        done = self.succeeded(self.traces("--steps", 10000))
        self.assertIn(" to 400 of job ", done.stdout)
        self.assertEqual(max(s.args["step"] for s in self.written().on_row("training") if s.name == "forward"), 400)
        self.process.communicate(timeout=LIMIT)

    def test_a_trace_without_a_job_is_an_error(self):
        ask = BIN / "pfcctl", "trace", "--coordinator", "127.0.0.1:1", "--state-dir", self.folder / "state"
        self.assert_one_line(run(*ask, env=self.environment), "/security/admin.pem does not exist")
        self.train(1, self.job(max_steps=1))  # creates admin.pem
        self.assert_one_line(run(*ask, env=self.environment), "127.0.0.1:1 does not answer")

    def test_an_unwritable_file_is_an_error_before_recording(self):
        done = run(BIN / "pfcctl", "trace", "--coordinator", "127.0.0.1:1", "--output", self.folder / "none" / "trace.json",
                   env=self.environment)
        self.assert_one_line(done, "none/trace.json: cannot create")


@unittest.skipUnless(may_make_namespaces(), "not run: namespaces need root")
class ClocksTest(HostsTest):
    """Three hosts. Two have booted at other times, so their monotonic clocks differ."""

    AHEAD = {"b": 1000, "c": 3}  # seconds

    def test_traces_of_hosts_with_different_clocks_are_aligned(self):
        job = self.job(num_epoch=100000, batch_size=2)
        coordinator = self.starts_coordinator("--hosts", "host-a:1,host-b:1,host-c:1", "--config", job)
        joins = self.join_strings(coordinator, ["host-b", "host-c"])
        for key in "bc":
            self.agents.append(self.on_host(
                key, "unshare", "--time", "--monotonic", self.AHEAD[key], BIN / "pfc-agent", "--once", "--state-dir",
                self.folder / f"agent-{key}", "--host", f"host-{key}", PFC_JOIN=joins[f"host-{key}"]))
        self.read_until(coordinator, "Global Step: 4 ")
        self.succeeded(self.pfcctl("trace", "--steps", 10, "--output", self.folder / "trace.json"))
        trace = Trace((self.folder / "trace.json").read_text())
        self.assertEqual(trace.problems, [])
        apart = []  # microseconds between first and last end of a collective
        for ranks in trace.collectives("step").values():
            if len(ranks) == 3:
                ends = [each.end for each in ranks.values()]
                apart.append(max(ends) - min(ends))
                # No worker can leave a collective before the last worker has entered it.
                errors = 1e3 * sum(each["clock_error_ms"] for each in trace.json["otherData"]["ranks"])
                self.assertGreater(min(ends) + errors, max(each.begin for each in ranks.values()))
        self.assertGreater(len(apart), 20)
        # With wrong clocks the ends of all collectives would be apart. A busy machine delays only some of them.
        self.assertLess(statistics.quantiles(apart, n=10)[0], 5_000, sorted(apart))
        coordinator.send_signal(signal.SIGTERM)
        coordinator.communicate(timeout=LIMIT)
        for agent in self.agents:
            agent.communicate(timeout=LIMIT)


if __name__ == "__main__":
    unittest.main()
