#!/usr/bin/env python3
"""Lists the slowest test cases of the last test runs, how many cases ran, and which were skipped.

    tests/support/test_times.py [--most 20] build/cpu build/asan ...

Reads each folder's Testing/Temporary/LastTest.log: GoogleTest's lines, the lines "time: NAME SECONDS s" of the
Python tests (tests/support/seconds.py), and ctest's own lines for tests that print neither.
"""

import argparse
import pathlib
import re

BEGIN = re.compile(r"^\d+/\d+ Test(?:ing)?: (\S+)")
CASE = re.compile(r"^\[(?: {7}OK |  FAILED )\] (\S+?)(?:, where .*)? \((\d+) ms\)$")
SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+?)(?:, where .*)? \(\d+ ms\)")
TIME = re.compile(r"^time: (\S+) ([0-9.]+) s$")
END = re.compile(r"^Test time = +([0-9.]+) sec")
PYTHON_SKIPPED = re.compile(r"^skipped: (\S+)$")


def read(log):
    """Returns ([(seconds, name)], [names of skipped cases]) of one log."""
    times, skipped, entry, found = [], [], "", False
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := BEGIN.match(line):
            entry, found = match[1], False
        elif match := SKIPPED.match(line) or PYTHON_SKIPPED.match(line):
            skipped.append(f"{entry}: {match[1]}")
            found = True
        elif match := CASE.match(line):
            times.append((int(match[2]) / 1000, f"{entry.split('.part_')[0]}.{match[1]}"))
            found = True
        elif match := TIME.match(line):
            times.append((float(match[2]), match[1]))
            found = True
        elif (match := END.match(line)) and not found:
            times.append((float(match[1]), entry))
    return times, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=20, help="how many of the slowest cases to list")
    parser.add_argument("builds", nargs="+", type=pathlib.Path, help="build folders")
    options = parser.parse_args()
    times, skipped = [], []
    for build in options.builds:
        log = build / "Testing/Temporary/LastTest.log"
        if log.exists():
            more_times, more_skipped = read(log)
            times += [(seconds, f"{build.name}: {name}") for seconds, name in more_times]
            skipped += more_skipped
    cases = sum(not name.endswith(".setUpClass") for _, name in times)
    print(f"{cases} test cases ran, {len(skipped)} were skipped. The slowest:")
    for seconds, name in sorted(times, reverse=True)[:options.most]:
        print(f"{seconds:8.1f} s  {name}")
    for name in skipped:
        print(f" skipped  {name}")


if __name__ == "__main__":
    main()
