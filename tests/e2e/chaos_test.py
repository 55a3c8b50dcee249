"""pfcctl chaos on running jobs: jobs recover from its faults, it counts them, and ends lasting ones."""

import json
import pathlib
import re
import signal
import subprocess
import unittest

import fake_time
from faults import Lines
from hosts import HostsTest
from network import may_make_namespaces
from support import BIN, LIMIT, JobTest


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class OneHost(JobTest):
    def begins(self, *more):
        process = self.start(2, self.job(num_epoch=10_000), "--max-restarts", 100, *more, until="Global Step: 3")
        return process

    def test_chaos_names_the_option_that_the_agents_lack(self):
        process = self.begins()
        refused = self.pfcctl("chaos", "--kill-every", "1s", "--duration", "5s")
        self.assert_one_line(refused, "no host allows the fault kill", "pfc-agent --allow-chaos", code=2)
        self.assertNotIn("restart 1", self.stopped(process))

    def begins_chaos(self, *options, **environment):
        return self.background(BIN / "pfcctl", "chaos", "--state-dir", self.folder / "state", "--baseline", "1ms", *options,
                               **environment)

    def test_a_dry_run_injects_nothing_and_ctrl_c_ends_lasting_faults(self):
        process = self.begins("--allow-chaos")
        told = self.succeeded(self.pfcctl("chaos", "--kill-every", "10s", "--duration", "60s", "--dry-run"))
        self.assertRegex(told.stdout, r"after +\d+\.\d s  kill        rank [01] \(host localhost\)")
        self.assertIn("none was injected", told.stdout)

        victim = self.workers()[1]
        chaos = self.begins_chaos("--stop-every", "1s", "--stop-for", "10min", "--rank", "1")
        self.read_until(chaos, "stop        rank 1 (host localhost, slot 1, pid")
        self.wait_for("the victim stops", lambda: state_of(victim) == "T")  # a running thread stops at its next check for signals
        chaos.send_signal(signal.SIGINT)
        output = self.ended(chaos)
        self.assertIn("undo        host localhost", output)
        self.assertNotEqual(state_of(victim), "T")
        self.read_until(process, "Global Step")
        self.assertNotIn("restart 1", self.stopped(process))

    def test_chaos_fails_when_the_job_ends(self):
        process = self.begins("--allow-chaos")
        speed = self.folder / "speed"
        chaos = self.begins_chaos("--kill-every", "1000h", "--duration", "100h", **fake_time.faster_later(speed))
        self.read_until(chaos, "measures")
        self.stopped(process)
        fake_time.set_speed(speed, 20)  # pfcctl chaos waits up to a minute for the coordinator to return
        output = self.ended(chaos, 1)
        self.assertIn("the job ended, or its coordinator was lost", output)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class TwoHosts(HostsTest):
    def test_a_job_recovers_and_chaos_counts_its_faults(self):
        job = self.job_of("out", num_epoch=100_000, max_steps=1_000_000, save_every_steps=5)
        process = self.starts_coordinator("--hosts", "host-a:1,host-b:1", "--max-restarts", 1000, "--allow-chaos",
                                          "--config", job)
        joins = self.join_strings(process, ["host-b"])
        lines = Lines(process)
        self.starts_agent("b", joins["host-b"], "--host", "host-b", "--allow-chaos")
        lines.wait_for("Global Step: 3")
        done = self.succeeded(self.pfcctl(
            "chaos", "--kill-every", "9s", "--stop-every", "9s", "--stop-for", "2s", "--partition-every", "9s", "--partition-for", "4s",
            "--duration", "14s", "--baseline", "2s", "--seed", 3))
        for kind in ("kill", "stop", "partition"):
            counts = re.search(rf"^{kind} +(\d+) +(\d+) ", done.stdout, re.MULTILINE)
            self.assertTrue(counts, done.stdout)
            self.assertGreater(int(counts[1]), 0, done.stdout)
            self.assertEqual(counts[1], counts[2], "training continued after each fault")
        self.assertRegex(done.stdout, r"goodput: \d+\.\d images/s that count, over \d+ s; \d+\.\d % of the")
        told = [json.loads(line) for line in (self.folder / "state/audit.jsonl").read_text().splitlines()]
        faults = [each["detail"] for each in told if each["what"] == "chaos"]
        self.assertTrue(any(detail.startswith("FAULT_PARTITION: host host-") for detail in faults), faults)
        for key in "ab":  # the network is restored
            routes = subprocess.run(["ip", "-n", self.network.names[key], "route"], capture_output=True, text=True).stdout
            self.assertNotIn("unreachable", routes)
        process.terminate()
        process.wait(timeout=LIMIT)
        lines.wait_for("job stopped by SIGTERM")
        self.assertEqual(process.returncode, 143, "".join(lines.lines))
        self.agents[0].wait(timeout=LIMIT)


if __name__ == "__main__":
    unittest.main()
