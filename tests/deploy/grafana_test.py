"""Checks the dashboard of deploy/grafana with Grafana's types, Prometheus' parser and pfc's metrics. No server
runs."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "tests" / "deploy" / "grafana_schema"
GRAFANA = ROOT / "deploy" / "grafana"
TEXT = (GRAFANA / "pfc.json").read_text()
# Installed once for each build folder.
WORK = pathlib.Path(os.environ["PFC_BIN"]).parent / "tests/deploy/grafana_schema"

sys.path.insert(0, str(GRAFANA))
sys.dont_write_bytecode = True
import dashboard  # noqa: E402


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)


def panels(made):
    """Yields all panels except rows; a folded row contains its panels."""
    for panel in made["panels"]:
        yield from panel["panels"] if panel["type"] == "row" else [panel]


def with_rows(made):
    """Yields each panel and row once, in the order of the file."""
    for panel in made["panels"]:
        yield panel
        yield from panel.get("panels", [])


def queries(made):
    asked = [target for panel in panels(made) for target in panel["targets"]]
    asked += [each["target"] for each in made["annotations"]["list"]]
    return [re.sub(r"\$__\w+", "5m", each["expr"]).replace("$instance", "a").replace("$run", ".*") for each in asked]


def names_in(text):
    """Returns the metrics and recording rules that a query or rule uses; histograms without suffix."""
    found = re.findall(r"\b(?:(?:job|worker|host):\w+(?::\w+)?|(?:pfc|process)_\w+)", text)
    return {re.sub("(_duration_seconds)_(?:bucket|sum|count)$", r"\1", name) for name in found}


def rules():
    """Returns {rule: its query}."""
    text = (ROOT / "deploy" / "prometheus" / "recording-rules.yml").read_text()
    return dict(re.findall(r"record: (\S+)\n +expr: (.*?)\n(?= *(?:- record|#|\n|$))", text + "\n", re.DOTALL))


def metrics():
    """Returns all metrics in the first columns of the tables of docs/metrics.md."""
    rows = re.findall(r"^\| (`(?:pfc|process)_.*?) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("npm") is None:
            raise unittest.SkipTest("not run: no npm")
        WORK.mkdir(parents=True, exist_ok=True)
        for file in SCHEMA.iterdir():
            shutil.copy(file, WORK)
        lock, done = (SCHEMA / "package-lock.json").read_text(), WORK / "installed"
        if done.exists() and done.read_text() == lock:
            return
        got = run("npm", "ci", "--no-audit", "--no-fund", cwd=WORK)
        if got.returncode and re.search(r"ENOTFOUND|ECONNREFUSED|ECONNRESET|EAI_AGAIN|ETIMEDOUT", got.stderr):
            raise unittest.SkipTest("not run: npm's registry does not answer")
        assert got.returncode == 0, got.stderr
        done.write_text(lock)

    def test_dashboard_has_grafanas_types_and_the_check_finds_mistakes(self):
        mistakes = {'"stacking"': '"staking"', '"mode": "normal"': '"mode": "above"', '"type": "heatmap"': '"type": "heat"',
                    '"displayMode": "basic"': '"displayMode": "simple"', '"includeAll": true': '"includeAll": "yes"'}
        texts = {"pfc": TEXT, **{f"mistake{number}": TEXT.replace(*pair) for number, pair in enumerate(mistakes.items())}}
        for name, text in texts.items():
            (WORK / f"{name}.ts").write_text(f'import type {{ Dashboard }} from "./dashboard";\nexport const made: Dashboard = {text}')
        said = run("node", "node_modules/typescript/bin/tsc", "--strict", "--noEmit", "--skipLibCheck", "--target", "es2020", "--module",
                   "commonjs", "--moduleResolution", "node", *(f"{name}.ts" for name in texts), cwd=WORK).stdout
        self.assertEqual(re.findall(r"^(?!mistake).*error TS.*(?:\n .*)*", said, re.MULTILINE), [])
        self.assertEqual(set(re.findall(r"^(mistake\d)\.ts.*error TS", said, re.MULTILINE)), texts.keys() - {"pfc"})


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.made = json.loads(TEXT)

    def test_file_equals_the_output_of_the_program(self):
        self.assertTrue(TEXT == dashboard.text(), "run python3 deploy/grafana/dashboard.py")
        self.assertEqual(self.made, dashboard.dashboard())

    def test_ids_are_unique(self):
        ids = [panel["id"] for panel in with_rows(self.made)]
        self.assertEqual(len(set(ids)), len(ids))

    def test_panels_do_not_overlap(self):
        folded = [row["panels"] for row in self.made["panels"] if row.get("collapsed")]
        for together in (self.made["panels"], *folded):
            for one, other in itertools.combinations(together, 2):
                a, b = one["gridPos"], other["gridPos"]
                apart = (a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
                         or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])
                self.assertTrue(apart, (one["title"], other["title"]))

    def test_each_panel_is_in_the_grid_and_has_a_description(self):
        for panel in panels(self.made):
            with self.subTest(panel["title"]):
                self.assertLessEqual(panel["gridPos"]["x"] + panel["gridPos"]["w"], 24)
                self.assertGreater(len(panel["description"]), 25)
                self.assertIn("unit", panel["fieldConfig"]["defaults"])

    def test_every_named_runbook_is_a_page_and_every_page_is_named(self):
        named = re.findall(r"docs/runbooks/[\w-]+\.md", TEXT)
        self.assertEqual([name for name in named if not (ROOT / name).is_file()], [])
        pages = {f"docs/runbooks/{page.name}" for page in (ROOT / "docs" / "runbooks").glob("*.md")}
        self.assertEqual(pages - set(named), set())

    def test_panels_link_to_runbooks_only_if_their_url_is_known(self):
        links = [panel["links"][0]["url"] for panel in panels(dashboard.dashboard("https://wiki.example/pfc/")) if "links" in panel]
        self.assertIn("https://wiki.example/pfc/straggler.md", links)
        self.assertFalse([panel for panel in panels(self.made) if "links" in panel])

    def test_queries_parse(self):
        if shutil.which("promtool") is None:
            self.skipTest("not run: no promtool (scripts/setup.sh watch)")
        asked = [{"record": f"query:{index}", "expr": each} for index, each in enumerate(queries(self.made))]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "queries", "rules": asked}]}, file)  # JSON is YAML
            file.flush()
            done = run("promtool", "check", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_queries_use_only_existing_metrics_and_rules(self):
        for query in queries(self.made):
            self.assertLessEqual(names_in(query), {*rules(), *metrics()}, query)

    def test_each_metric_is_on_the_dashboard_or_left_out_for_a_reason(self):
        page = (ROOT / "docs" / "grafana.md").read_text()
        left_out = set(re.findall(r"^\| `(\w+)` \|", re.search(r"## What is left out\n(.*?)(\n## |\Z)", page, re.DOTALL)[1], re.MULTILINE))
        chosen = [str(each["query"]) for each in self.made["templating"]["list"]]
        shown = set().union(*map(names_in, queries(self.made) + chosen))
        while more := set().union(*(names_in(rules()[name]) for name in shown & rules().keys())) - shown:
            shown |= more  # metrics of the rules, and of the rules that these use
        self.assertEqual(metrics() - shown, left_out)


@unittest.skipIf(yaml is None, "not run: python3-yaml is not installed: scripts/setup.sh deploy")
class Provisioning(unittest.TestCase):
    def read(self, name):
        return yaml.safe_load((GRAFANA / "provisioning" / name).read_text())

    def test_data_source_has_prometheus_scrape_interval(self):
        [source] = self.read("datasources/pfc.yml")["datasources"]
        prometheus = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
        self.assertEqual((source["type"], source["access"]), ("prometheus", "proxy"))
        self.assertEqual(source["jsonData"]["timeInterval"], prometheus["global"]["scrape_interval"])

    def test_dashboards_come_from_the_folder_that_the_page_names(self):
        [provider] = self.read("dashboards/pfc.yml")["providers"]
        page = (ROOT / "docs" / "grafana.md").read_text()
        self.assertIn(f'{provider["options"]["path"]}/pfc.json', page)
        self.assertIn(f'/d/{self.made_uid()}', page)

    def made_uid(self):
        return json.loads(TEXT)["uid"]


if __name__ == "__main__":
    unittest.main()
