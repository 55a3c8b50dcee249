"""Reads a file in Chrome's Trace Event Format and reports what a viewer could not handle.

Format: "Trace Event Format" of the Catapult project, which chrome://tracing and ui.perfetto.dev read. Knows the kinds
of events that pfcctl trace may write: complete (X), flow (s, f) and metadata (M)."""

import collections
import json
import math

METADATA = {"process_name": ("name", str), "process_labels": ("labels", str), "process_sort_index": ("sort_index", int),
            "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
FIELDS = {"X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
          "s": {"ph", "name", "cat", "pid", "tid", "ts", "id"},
          "f": {"ph", "name", "cat", "pid", "tid", "ts", "id", "bp"},
          "M": {"ph", "name", "pid", "tid", "args"}}

Slice = collections.namedtuple("Slice", "pid tid name category begin end args")


class Trace:
    """Times are microseconds. If `problems` is not empty, the other members are unreliable."""

    def __init__(self, text):
        self.problems = []
        self.json = json.loads(text, parse_constant=lambda word: self.problems.append(f"{word} is no JSON"))
        self.names, self.threads, self.slices, self.arrows = {}, {}, [], []
        self.rows = collections.defaultdict(list)  # slices by (pid, tid)
        tails, heads = {}, {}
        self.expect(isinstance(self.json, dict) and isinstance(self.json.get("traceEvents"), list), "no traceEvents")
        self.expect(self.json.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit")
        for event in self.json["traceEvents"]:
            if not self.expect(FIELDS.get(event.get("ph")) == set(event), f"fields of {event}"):
                continue
            self.expect(type(event["pid"]) is int and type(event["tid"]) is int, f"pid or tid of {event}")
            self.expect(isinstance(event["name"], str) and event["name"], f"name of {event}")
            if event["ph"] == "M":
                self.metadata(event)
                continue
            self.expect(self.is_time(event["ts"]), f"ts of {event}")
            if event["ph"] == "X":
                self.expect(self.is_time(event["dur"]) and isinstance(event["args"], dict), f"dur or args of {event}")
                self.slices.append(Slice(event["pid"], event["tid"], event["name"], event["cat"], event["ts"],
                                         event["ts"] + event["dur"], event["args"]))
                self.rows[event["pid"], event["tid"]].append(self.slices[-1])
            else:
                ends = tails if event["ph"] == "s" else heads
                self.expect(event["id"] not in ends, f"id {event['id']} twice")
                ends[event["id"]] = event
        self.check_rows()
        self.check_arrows(tails, heads)

    def expect(self, holds, what):
        if not holds:
            self.problems.append(what)
        return holds

    @staticmethod
    def is_time(value):
        return type(value) in (int, float) and math.isfinite(value) and value >= 0

    def metadata(self, event):
        key, kind = METADATA.get(event["name"], (None, None))
        if not self.expect(key and set(event["args"]) == {key} and type(event["args"][key]) is kind, f"metadata {event}"):
            return
        if event["name"] == "process_name":
            self.expect(self.names.setdefault(event["pid"], event["args"]["name"]) == event["args"]["name"], "two names")
        if event["name"] == "thread_name":
            row = (event["pid"], event["tid"])
            self.expect(row not in self.threads, f"two names of {row}")
            self.threads[row] = event["args"]["name"]

    def check_rows(self):
        """Slices of a row must nest or be disjoint; every row and process must have a name."""
        for row, slices in self.rows.items():
            self.expect(row[0] in self.names and row in self.threads, f"no name for the row of {slices[0]}")
            open_ends = []
            for each in sorted(slices, key=lambda s: (s.begin, -s.end)):
                while open_ends and open_ends[-1] <= each.begin + 1e-3:
                    open_ends.pop()
                self.expect(not open_ends or each.end <= open_ends[-1] + 1e-3,
                            f"on row {self.threads.get(row)} {each} ends after the slice that it begins in")
                open_ends.append(each.end)

    def at(self, event):
        """Returns the slices that contain an arrow's end."""
        return [s for s in self.rows.get((event["pid"], event["tid"]), [])
                if s.begin - 1e-3 <= event["ts"] <= s.end + 1e-3]

    def check_arrows(self, tails, heads):
        self.expect(set(tails) == set(heads), "an arrow with one end")
        for number in set(tails) & set(heads):
            tail, head = tails[number], heads[number]
            self.expect(tail["ts"] <= head["ts"] + 1e-3, f"arrow {number} goes back in time")
            self.expect((tail["name"], tail["cat"]) == (head["name"], head["cat"]), f"arrow {number} has two names")
            self.expect(head["bp"] == "e" and self.at(tail) and self.at(head), f"arrow {number} ends outside of slices")
            self.arrows.append((tail, head))

    def on_row(self, name, category=None):
        """Returns the slices of the rows with this name in all processes."""
        return [s for s in self.slices if self.threads[s.pid, s.tid] == name and category in (None, s.category)]

    def collectives(self, communicator):
        """Returns {number: {pid: slice}}."""
        found = collections.defaultdict(dict)
        for each in self.on_row(f"collectives: {communicator}"):
            found[each.args["number"]][each.pid] = each
        return dict(found)
