"""Stores the result of each case, in one file for each case, commit and set of programs, so that a run can continue
where it ended."""

import dataclasses
import datetime
import json
import os
import shlex
import signal
import subprocess
import time

import gpus
from cases import ROOT, TABLES

KEPT_OUTPUT = 20_000  # characters
GRACE = 10  # seconds that a case gets at its time limit, to print its results so far


@dataclasses.dataclass
class Result:
    part: str
    name: str
    verdict: str  # "passed", "not run: why", or "failed: why"
    seconds: float = 0
    when: str = ""
    command: str = ""
    clocks: str = ""
    table: str = ""   # markdown that the case printed
    output: str = ""  # the end of its whole output

    @property
    def kind(self):
        return self.verdict.split(":")[0]

    @property
    def goals_missed(self):
        """Returns the number of missed speed goals. A missed goal does not make a case fail, but the page shows the
        number."""
        return self.table.count("MISSED")

    @property
    def summary(self):
        return self.kind + (f", {self.goals_missed} goals MISSED" if self.goals_missed else "")


class Store:
    def __init__(self, folder, version):
        """version: the version of sources and programs. Results of other versions are ignored."""
        self.folder = folder / version
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, case):
        return self.folder / f"{case.part}-{case.name}.json"

    def load(self, case):
        """Returns None if the case has not run to its end."""
        path = self.path(case)
        result = Result(**json.loads(path.read_text())) if path.exists() else None
        return result if result and result.kind != "not run" else None

    def save(self, result):
        self.path(result).write_text(json.dumps(dataclasses.asdict(result), indent=2))

    def all(self):
        """Returns the results of every part that has run at this commit, the oldest first."""
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        return [Result(**json.loads(path.read_text())) for path in paths]


def shown(command):
    """Returns the command as typed in the repository."""
    return shlex.join(word.replace(f"{ROOT}/", "") for word in command)


def execute(case, seconds):
    """Runs a case with a time limit, in its own process group. The whole group ends with the case."""
    process = subprocess.Popen(case.command, cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace",
                               preexec_fn=os.setpgrp)
    try:
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGTERM)
        try:
            return None, *process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            signal_group(process, signal.SIGKILL)
            return None, *process.communicate()
    finally:
        signal_group(process, signal.SIGKILL)


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:  # no process is left
        pass


def run(case, seconds):
    """Returns the result of a case. A case that was killed before its own time limit counts as not run."""
    result = Result(case.part, case.name, f"not run: {case.missing}",
                    when=datetime.date.today().isoformat(), command=shown(case.command))
    if case.missing:
        return result
    allowed, begin = min(case.limit, seconds - GRACE), time.monotonic()
    try:
        with gpus.ClockWatch() as watch:
            code, out, errors = execute(case, allowed)
    except OSError as error:
        result.verdict = f"failed: {error}"
        return result
    result.seconds, result.clocks = round(time.monotonic() - begin, 1), watch.text
    result.table = out if case.part in TABLES else ""
    result.output = (out + errors)[-KEPT_OUTPUT:]
    if code is None and allowed < case.limit:
        result.verdict = f"not run: it was cut off after {allowed:.0f} s; run again"
    else:
        verdict = case.judge(code, out + errors)
        result.verdict = verdict if verdict == "passed" else f"failed: {verdict}"
    return result
