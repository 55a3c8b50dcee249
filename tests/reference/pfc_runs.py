"""Runs programs for comparisons and studies, reads a job's metrics, and reports the errors of a case."""

import datetime
import json
import pathlib
import subprocess
import sys


def run(command, **options):
    """Returns the program's stdout. Ends this script if the program fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nfailed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def metrics(path):
    """Returns the objects of steps, in order; other events have no loss."""
    objects = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [entry for entry in objects if "loss" in entry]


def seconds_between(first, last):
    """Returns the seconds between two events of metrics.jsonl."""
    begin, end = (datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")) for event in (first, last))
    return (end - begin).total_seconds()


def report(name, errors, limits):
    """Prints the errors of a case. Returns whether one is above its limit, or not a number."""
    failed = any(not error <= limits[key] for key, error in errors.items())
    print(f"{'FAILED' if failed else 'ok':7}{name:38}",
          "  ".join(f"{key} {error:.1e}" for key, error in errors.items()), flush=True)
    return failed
