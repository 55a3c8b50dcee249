"""Runs a program on a clock of its own, with libfaketime. Debian's package is faketime (scripts/setup.sh test)."""

import pathlib


def library():
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "faketime is not installed (scripts/setup.sh test)"
    return found[0]


def shifted(by):
    """Variables for a program whose calendar clock is wrong, by "-2d" for example."""
    return {"LD_PRELOAD": str(library()), "FAKETIME": by, "DONT_FAKE_MONOTONIC": "1"}


def faster(times):
    """Variables for a program whose clocks, sleeps and timeouts run so many times as fast."""
    return {"LD_PRELOAD": str(library()), "FAKETIME": f"+0 x{times}"}
