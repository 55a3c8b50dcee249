"""A real Prometheus watches a real job with the rules of deploy/prometheus; a real Alertmanager sends alerts."""

import os
import signal
import subprocess
import unittest

from prometheus import MISSING, Watch, free_port
from support import LIMIT, JobTest


@unittest.skipIf(MISSING, f"not run: {', '.join(MISSING)} not installed (scripts/setup.sh watch)")
class WatchTest(JobTest):
    def begin(self, *more, **keys):
        """Starts Prometheus and a long job."""
        self.port = free_port()
        self.watch = Watch(self.folder / "watch", f"127.0.0.1:{self.port}", self.environment)
        command = self.coordinator(2, self.job(**{"num_epoch": 100000, **keys}), *more)
        command[command.index("--http-port") + 1] = str(self.port)
        self.process = self.background(*command)
        self.read_until(self.process, "Global Step: 2")

    def tearDown(self):
        self.watch.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=LIMIT)
        self.wait_until_all_have_ended()
        super().tearDown()

    def fired(self, alert, status="firing"):
        return self.watch.wait_for(f"{alert}, {status}", lambda: self.watch.receiver.alerts.get((alert, status)))

    def test_metrics_are_accepted_by_promtool(self):
        self.begin(save_every_steps=2)
        page = self.watch.wait_for("a checkpoint", lambda: (lambda text: text if "\npfc_job_checkpoints_total 1" in text else "")(
            self.page(self.port, "/metrics")))
        linted = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((linted.returncode, linted.stdout, linted.stderr), (0, "", ""))
        self.assertRegex(page, r'\npfc_worker_collectives_total\{communicator="step",host="localhost",kind="all_gather",rank="1"\} [1-9]')
        self.assertRegex(page, r'\npfc_worker_collective_seconds_total\{communicator="gradients",.*kind="all_reduce",rank="0"\} \d*\.\d')
        self.assertRegex(page, r"\npfc_job_last_checkpoint_size_bytes \d{4,}\n")

    def test_targets_are_found_and_rules_have_values(self):
        self.begin()
        rate = self.watch.wait_for("images a second", lambda: self.watch.query("job:pfc_samples:rate1m > 0"))
        self.assertEqual([labels["instance"] for labels, _ in rate], [f"127.0.0.1:{self.port}"])
        self.assertEqual(self.watch.query("sum(pfc_worker_up)")[0][1], 2)
        jobs = {each["discoveredLabels"]["job"]: each["discoveredLabels"]["__address__"]
                for each in self.watch.get("/api/v1/targets")["activeTargets"]}
        self.assertEqual(jobs, {"pfc": f"127.0.0.1:{self.port}", "pfc-hosts": "127.0.0.1:9100"})

    def test_prometheus_reads_the_last_values_of_a_job(self):
        self.begin(num_epoch=100)
        self.watch.wait_for("a first reading", lambda: len(self.watch.query("count_over_time(pfc_job_step[1m]) > 3")))
        self.process.communicate(timeout=LIMIT)
        self.assertEqual(self.process.returncode, 0)
        steps = 100 * self.IDENTITIES * self.IMAGES // 8
        self.assertEqual(self.watch.query("last_over_time(pfc_job_step[1m])")[0][1], steps)
        self.assertEqual(self.watch.query('last_over_time(pfc_job_state{state="completed"}[1m])')[0][1], 1)

    def test_alerts_fire_and_end(self):
        self.begin()
        self.watch.wait_for("a first reading", lambda: self.watch.query("pfc_job_step > 2"))
        stopped = list(self.workers().values())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        alert = self.fired("PfcNoProgress")
        self.assertEqual(alert["labels"]["severity"], "critical")
        self.assertIn("no step for 15 min, at step ", alert["annotations"]["summary"])
        self.assertEqual(alert["annotations"]["runbook_url"], "docs/runbooks/no-progress.md")
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        self.fired("PfcNoProgress", "resolved")
        self.process.kill()
        self.assertIn(f"127.0.0.1:{self.port} does not answer", self.fired("PfcCoordinatorDown")["annotations"]["summary"])


if __name__ == "__main__":
    unittest.main()
