"""What came of each case, kept as one file a case and commit, so that a run can be taken up where it
ended."""

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


@dataclasses.dataclass
class Result:
    part: str
    name: str
    verdict: str  # "passed", "not run: why", or "failed: why"
    seconds: float = 0
    when: str = ""
    command: str = ""
    clocks: str = ""
    table: str = ""   # markdown that the case has printed
    output: str = ""  # everything, its end

    @property
    def kind(self):
        return self.verdict.split(":")[0]


def commit():
    """What the repository holds; results of another one are not taken over."""
    said = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


class Store:
    def __init__(self, folder):
        self.folder = folder / commit()
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, case):
        return self.folder / f"{case.part}-{case.name}.json"

    def load(self, case):
        """None where it has not been run, or not to an end."""
        path = self.path(case)
        result = Result(**json.loads(path.read_text())) if path.exists() else None
        return result if result and result.kind != "not run" else None

    def save(self, result):
        self.path(result).write_text(json.dumps(dataclasses.asdict(result), indent=2))

    def all(self):
        """Of every part that has been run at this commit, the oldest first."""
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        return [Result(**json.loads(path.read_text())) for path in paths]


def shown(command):
    """As a person would type it, in the repository."""
    return shlex.join(word.replace(f"{ROOT}/", "") for word in command)


def execute(case, seconds):
    """Runs a case for at most so long, in a process group of its own that ends with it."""
    process = subprocess.Popen(case.command, cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True)
    try:
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, *process.communicate()


def run(case, seconds):
    """The result of a case. One that had less than its own limit, and too little, has not run."""
    result = Result(case.part, case.name, f"not run: {case.missing}",
                    when=datetime.date.today().isoformat(), command=shown(case.command))
    if case.missing:
        return result
    allowed, begin = min(case.limit, seconds), time.monotonic()
    try:
        with gpus.ClockWatch() as watch:
            code, out, errors = execute(case, allowed)
    except OSError as error:
        result.verdict = f"failed: {error}"
        return result
    result.seconds, result.clocks = round(time.monotonic() - begin, 1), watch.text
    result.table = out if case.part in TABLES and code == 0 else ""
    result.output = (out + errors)[-KEPT_OUTPUT:]
    if code is None and allowed < case.limit:
        result.verdict = f"not run: it was cut off after {allowed:.0f} s; run again"
    elif code is None:
        result.verdict = f"failed: not done after {allowed:.0f} s"
    else:
        verdict = case.judge(code, out + errors)
        result.verdict = verdict if verdict == "passed" else f"failed: {verdict}"
    return result
