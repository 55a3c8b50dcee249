"""Converts the panels of dashboard.py to Grafana's JSON, without the values that Grafana sets by default."""

import json

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID = 24  # columns in a dashboard
MOST = 8  # workers shown by a panel
# The coordinator and the job's run, both selected above the panels.
INSTANCE = 'instance="$instance"'
RUN = f'pfc_job_info{{{INSTANCE}, job_id=~"$run"}}'
NO_LEGEND = {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []}


def of_run(query):
    """Limits a query to the chosen runs. REQUIRES: its result has the labels instance and job."""
    return f"{query} and on (instance, job) {RUN}"


def worst(metric, function="topk", over="avg", count=MOST):
    """Selects a few workers or hosts, the same for the whole shown time, so that 1,024 workers are readable."""
    series = f"{metric}{{{INSTANCE}}}"
    return f"({series} and {function}({count}, {over}_over_time({series}[$__range] @ end())))"


class Panel(dict):
    """A panel's JSON with its size in the grid, but without a position."""

    def __init__(self, kind, title, says, queries, size, unit="none", runbook=None, **more):
        super().__init__(type=kind, title=title, description=says, datasource=DATASOURCE)
        self.width, self.height = size
        self.runbook = runbook
        defaults = {"unit": unit, **more.pop("defaults", {})}
        self["fieldConfig"] = {"defaults": defaults, "overrides": more.pop("overrides", [])}
        self["options"] = more.pop("options", {})
        whole, instant, form = more.pop("whole", False), more.pop("instant", False), more.pop("format", "time_series")
        self["targets"] = [
            {"refId": chr(ord("A") + number), "expr": text if whole else of_run(text), "legendFormat": legend,
             "instant": instant, "range": not instant, "format": form}
            for number, (legend, text) in enumerate(
                (legend, text.replace("$I", INSTANCE)) for legend, text in queries.items())]
        self.update(more)


def colours(*steps):
    """Returns thresholds. `steps`: the first colour, then pairs of a value and the colour from there on."""
    first, *pairs = steps
    return {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": [
        {"color": first, "value": None}, *({"color": colour, "value": value} for value, colour in pairs)]}}


def stat(title, query, says, *, legend="", size=(3, 4), steps=("green",), options=None, **more):
    defaults = {**colours(*steps), **more.pop("defaults", {})}
    return Panel("stat", title, says, {legend or title: query}, size, defaults=defaults, instant=True,
                 options={"graphMode": "none", **(options or {})}, **more)


def curves(title, queries, says, *, size=(12, 8), custom=None, defaults=None, **more):
    many = len(queries) > 1 or any("{{" in legend for legend in queries)
    legend = {"showLegend": many, "displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"],
              "sortBy": "Max", "sortDesc": True}
    return Panel("timeseries", title, says, queries, size,
                 defaults={"custom": {"fillOpacity": 8, **(custom or {})}, **(defaults or {"min": 0})},
                 options={"legend": legend if many else NO_LEGEND,
                          "tooltip": {"mode": "multi", "sort": "desc"}}, **more)


def stack(title, queries, says, **more):
    return curves(title, queries, says, custom={"fillOpacity": 60, "lineWidth": 0, "stacking": {"mode": "normal", "group": "A"}}, **more)


def by_worker(title, metric, says, *, function="topk", over="avg", legend="rank {{rank}} on {{host}}", more_queries=None, **more):
    """Returns a panel with a curve for each of the worst workers, and one for the median of all."""
    middle = {"median of all": f"quantile by (instance, job) (0.5, {metric}{{$I}})"}
    return curves(title, {legend: worst(metric, function, over), **middle, **(more_queries or {})}, says, **more)


def bars(title, queries, says, *, size=(6, 8), **more):
    return Panel("bargauge", title, says, queries, size, defaults={"min": 0, "decimals": 0, **colours("green", (1, "orange"))}, instant=True,
                 options={"orientation": "horizontal", "displayMode": "basic"}, **more)


def timeline(title, queries, says, *, states, size=(12, 8), **more):
    """`states`: {value: (text, colour)}."""
    mappings = [{"type": "value", "options": {str(value): {"text": text, "color": colour, "index": value}
                                              for value, (text, colour) in states.items()}}]
    return Panel("state-timeline", title, says, queries, size, defaults={"mappings": mappings, **colours("red", (1, "green"))},
                 options={"mergeValues": True, "showValue": "never", "rowHeight": 0.8,
                          "legend": NO_LEGEND}, **more)


def heat_map(title, query, says, *, size=(12, 8), **more):
    return Panel("heatmap", title, says, {"{{le}}": query}, size, format="heatmap",
                 options={"calculate": False, "yAxis": {"unit": "s"}, "rowsFrame": {"layout": "le"},
                          "color": {"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "exponent": 0.5,
                                    "reverse": False, "steps": 64}}, **more)


def table(title, columns, says, *, size=(24, 9), units=None, links=None, order, **more):
    """`columns`: {title: query}. Each query's result is one column, and all have the same labels."""
    names = {f"Value #{chr(ord('A') + number)}": column for number, column in enumerate(columns)}
    overrides = [{"matcher": {"id": "byName", "options": column}, "properties": [{"id": "unit", "value": unit}]}
                 for column, unit in (units or {}).items()]
    overrides += [{"matcher": {"id": "byName", "options": column}, "properties": [{"id": "links", "value": [link]}]}
                  for column, link in (links or {}).items()]
    made = Panel("table", title, says, columns, size, whole=True, instant=True, format="table", overrides=overrides,
                 options={"sortBy": [{"displayName": order, "desc": True}]},
                 transformations=[{"id": "merge", "options": {}},
                                  {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}}],
                 **more)
    for target in made["targets"]:
        target["legendFormat"] = ""
    return made


def annotation(name, query, colour, title, text, *, labels="", value_is_time=False, shown=True):
    return {"name": name, "datasource": DATASOURCE, "enable": shown, "iconColor": colour, "titleFormat": title, "textFormat": text,
            "tagKeys": labels, "useValueForTime": value_is_time,
            "target": {"refId": "Anno", "expr": query.replace("$I", INSTANCE), "interval": "", "legendFormat": "",
                       "range": True, "instant": False}}


def place(rows, runbooks):
    """Places {row's title: panels} from left to right and down; `-` before a title folds the row."""
    placed, top, number = [], 0, 0
    for title, panels in rows.items():
        folded = title.startswith("-")
        number += 1
        row = {"id": number, "type": "row", "title": title.lstrip("-"), "collapsed": folded,
               "gridPos": {"h": 1, "w": GRID, "x": 0, "y": top}, "panels": []}
        placed.append(row)
        top, left, tallest = top + 1, 0, 0
        for panel in panels:
            if left + panel.width > GRID:
                top, left, tallest = top + tallest, 0, 0
            number += 1
            (row["panels"] if folded else placed).append(
                {"id": number, "gridPos": {"h": panel.height, "w": panel.width, "x": left, "y": top}, **with_runbook(panel, runbooks)})
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return placed


def with_runbook(panel, runbooks):
    if panel.runbook is None:
        return panel
    page = f"docs/runbooks/{panel.runbook}.md"
    if not runbooks:
        return {**panel, "description": f"{panel['description']} What to do: {page}"}
    return {**panel, "links": [{"title": "What to do", "url": f"{runbooks.rstrip('/')}/{panel.runbook}.md", "targetBlank": True}]}


def lines_of(value, indent=""):
    """Returns JSON in which short values are one line, so that a changed panel makes a short diff."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= 130 or not isinstance(value, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + lines_of(each, inner) for each in value) + f"\n{indent}]"
    pairs = (f"{inner}{json.dumps(key)}: {lines_of(each, inner)}" for key, each in value.items())
    return "{\n" + ",\n".join(pairs) + f"\n{indent}}}"
