"""Sends Prometheus the queries that Grafana would send for a dashboard: variables, intervals, steps."""

import json
import pathlib
import re
import time

DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "pfc.json"
ALL = ".*"  # value of a dashboard variable if all its values are selected
# Seconds. Grafana's interval is the second number of the first pair whose first is larger (rangeUtil.roundInterval).
ROUNDED = ((1.5, 1), (3.5, 2), (7.5, 5), (12.5, 10), (17.5, 15), (25, 20), (45, 30), (90, 60), (210, 120), (450, 300))


class Grafana:
    """`chosen`: {variable: value}. `range_s`: shown time range up to now. `scrape_s`: Prometheus' scrape
    interval, which is the data source's "timeInterval"."""

    def __init__(self, watch, chosen, range_s=300, scrape_s=1):
        self.watch, self.chosen, self.range_s, self.scrape_s = watch, chosen, range_s, scrape_s
        self.dashboard = json.loads(DASHBOARD.read_text())

    def panels(self):
        """Yields all panels with queries, also those in folded rows."""
        for panel in self.dashboard["panels"]:
            yield from panel["panels"] if panel["type"] == "row" else [panel]

    def targets(self):
        """Returns [(title, panel, target)]."""
        return [(f'{panel["title"]} {target["refId"]}', panel, target) for panel in self.panels() for target in panel["targets"]]

    def interval(self, points):
        """Returns the step in seconds for at most `points` points."""
        wanted = self.range_s / points
        return max(next(interval for limit, interval in ROUNDED if wanted < limit), self.scrape_s)

    def fill_in(self, text, interval):
        built_in = {"__range": f"{self.range_s}s", "__interval": f"{interval}s",
                    "__rate_interval": f"{max(interval + self.scrape_s, 4 * self.scrape_s)}s"}
        filled = re.sub(r"\$(\w+)", lambda name: {**built_in, **self.chosen}[name[1]], text)
        assert "$" not in filled, filled
        return filled

    def ask(self, target, points):
        """Returns ([{labels, values}], step). Each value is [seconds, number]; an instant query has one."""
        step = self.interval(points)
        query, now = self.fill_in(target["expr"], step), time.time()
        if target["instant"]:
            found = self.watch.get("/api/v1/query", query=query, time=now)["result"]
        else:
            start, end = ((now - self.range_s) // step * step, now // step * step)
            found = self.watch.get("/api/v1/query_range", query=query, start=start, end=end, step=step)["result"]
        return [{"labels": each["metric"], "values": [[at, float(value)] for at, value in each.get("values") or [each["value"]]]}
                for each in found], step

    def answer(self, panel, target):
        """Returns the series of one target; a panel has one point per pixel."""
        return self.ask(target, points=panel["gridPos"]["w"] * 75)[0]

    def values_of(self, name):
        """Returns the choices of a variable whose query lists a label's values."""
        [variable] = [each for each in self.dashboard["templating"]["list"] if each["name"] == name]
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        now = time.time()
        return self.watch.get(f"/api/v1/label/{label}/values", start=now - self.range_s, end=now,
                              **{"match[]": self.fill_in(metric, self.scrape_s)})

    def events(self, name):
        """Returns [(begin, end, title)] of an annotation. Points one step apart are one event; 0 means no event."""
        [annotation] = [each for each in self.dashboard["annotations"]["list"] if each["name"] == name]
        series, step = self.ask(annotation["target"], points=100)
        events = []
        for each in series:
            title = re.sub(r"{{(\w+)}}", lambda label: each["labels"][label[1]], annotation["titleFormat"])
            begin = None
            for at in (value / 1000 if annotation["useValueForTime"] else at for at, value in each["values"] if value > 0):
                if begin is not None and at <= end + step:
                    end = at
                    continue
                if begin is not None:
                    events.append((begin, end, title))
                begin = end = at
            if begin is not None:
                events.append((begin, end, title))
        return events
