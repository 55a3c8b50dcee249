"""Measures programs on a GPU one after the other, round by round. When one fails, hangs or does not fit, the others
still run. The results are stored in a file, from which a later call continues.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
sys.path += [str(REFERENCE), str(ROOT / "bench" / "cpu")]
# Messages of PyTorch, pfc's allocations and pfc's memory plan.
NO_MEMORY = ("out of memory", "of GPU memory requested,", "memory: a worker needs")


class Failed(Exception):
    """The reason why a program was not measured, as text for a cell of a table."""


class DoesNotFit(Failed):
    def __init__(self, why=""):
        super().__init__("does not fit into memory" + (f": {why}" if why else ""))


def run(command, limit):
    """Returns the program's stdout. Raises Failed if it fails or needs more than `limit` seconds."""
    words = [str(word) for word in command]
    # The output goes to files: reading a pipe would wait until all descendants of a killed program have closed it.
    with text_file() as out, text_file() as errors:
        try:
            code = subprocess.run(words, stdout=out, stderr=errors, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            code = None
        said = [file.seek(0) or file.read() for file in (out, errors)]
    if code == 0:
        return said[0]
    both = "".join(said)
    if any(text in both for text in NO_MEMORY):
        raise DoesNotFit
    reason = f"failed with {code}" if code is not None else f"was ended after {limit:g} s"
    print(f"{' '.join(words)}\n{reason}:\n{both[-4000:]}", file=sys.stderr, flush=True)
    if code is None:
        raise Failed(f"failed: not done after {limit:g} s")
    raise Failed(f"failed: {last_line(both) or f'exit code {code}'}")


def text_file():
    return tempfile.TemporaryFile("w+", errors="replace")


def last_line(text):
    """Returns a reason for a cell of a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160].replace("|", "/") if lines else ""


class Runs:
    """The results of each program: {"measured": [one value per round], "why_not": text}."""

    def __init__(self, path, options):
        """path: the file of the results; None stores nothing. Measurements with other options are dropped."""
        self.path = path
        self.options = {key: str(value) for key, value in vars(options).items()
                        if key not in ("kept", "rounds")}
        self.outcomes = {}
        if path and path.exists():
            kept = json.loads(path.read_text())
            if kept["options"] == self.options:
                self.outcomes = kept["outcomes"]

    def measured(self, name):
        """Returns one value per round; empty if the program failed."""
        outcome = self.outcomes.get(name, {})
        return [] if outcome.get("why_not") else outcome.get("measured", [])

    def why_not(self, name):
        return self.outcomes.get(name, {}).get("why_not", "")

    def alternate(self, programs, rounds, summary):
        """Measures every program once per round. Skips rounds with a stored result. programs: {name: function that
        measures}; summary: function that shows a measured value as text."""
        for number in range(rounds):
            for name, start in programs.items():
                outcome = self.outcomes.setdefault(name, {"measured": [], "why_not": ""})
                if outcome["why_not"] or len(outcome["measured"]) > number:
                    continue
                try:
                    value = start()
                    text = summary(value)
                    outcome["measured"].append(value)
                except Failed as failed:
                    outcome["why_not"] = text = str(failed)
                except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
                    outcome["why_not"] = text = f"failed: no measurements: {error!r}"
                print(f"round {number + 1}: {name}: {text}", file=sys.stderr, flush=True)
                self._keep()

    def _keep(self):
        if not self.path:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"options": self.options, "outcomes": self.outcomes}))
        new.replace(self.path)  # atomically, because the script may be ended at any time

    def failures(self):
        """Returns the failures of programs, except failures because of too little memory."""
        return [f"{name}: {outcome['why_not']}" for name, outcome in self.outcomes.items()
                if outcome["why_not"].startswith("failed")]


def add_arguments(parser, limit):
    parser.add_argument("--kept", type=pathlib.Path, metavar="FILE",
                        help="store measurements there, and continue from those of an earlier call")
    parser.add_argument("--limit", type=float, default=limit, help="seconds of one program's run")


def table_even_if_ended(measure, print_table):
    """Prints the table of all results, also when SIGTERM ends the measurements."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before everything was measured"))
    try:
        measure()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print_table()
        sys.stdout.flush()
