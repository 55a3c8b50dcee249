"""Checks the files of deploy/prometheus with Prometheus' own tools, and that the pages of alerts exist."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"


class PrometheusFilesTest(unittest.TestCase):
    def check(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(f"not run: no {command[0]} (scripts/setup.sh watch)")
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_rules_give_the_expected_series(self):
        self.check("promtool", "test", "rules", ROOT / "tests" / "deploy" / "prometheus_rules.yml")

    def test_configuration_is_valid(self):
        self.check("promtool", "check", "config", FOLDER / "prometheus.yml")
        self.check("amtool", "check-config", FOLDER / "alertmanager.yml")

    def test_configuration_of_a_cluster_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("recording-rules.yml", "alerts.yml"):
                shutil.copy(FOLDER / name, folder)
            text = (FOLDER / "cluster.yml").read_text()
            for path in set(re.findall(r"/etc/prometheus/(\S+)", text)):
                (pathlib.Path(folder) / path).touch()
            here = pathlib.Path(folder) / "cluster.yml"
            here.write_text(text.replace("/etc/prometheus", folder))
            self.check("promtool", "check", "config", "--syntax-only", here)

    def test_each_alert_has_a_page_and_each_page_an_alert(self):
        alerts = dict(re.findall(r"- alert: (\w+).*?runbook_url: (\S+)", (FOLDER / "alerts.yml").read_text(), re.S))
        self.assertGreaterEqual(len(alerts), 7)
        for alert, page in alerts.items():
            self.assertTrue((ROOT / page).read_text().startswith(f"# {alert}: "), page)
        self.assertEqual({path.name for path in RUNBOOKS.glob("*.md")}, {pathlib.Path(page).name for page in alerts.values()})

    def test_each_alert_is_tested(self):
        tested = set(re.findall(r"alertname: (\w+)", (ROOT / "tests" / "deploy" / "prometheus_rules.yml").read_text()))
        self.assertEqual(tested, set(re.findall(r"- alert: (\w+)", (FOLDER / "alerts.yml").read_text())))


if __name__ == "__main__":
    unittest.main()
