"""Runs a program with a fake clock (libfaketime). Debian package: faketime (scripts/setup.sh test)."""

import pathlib


def library():
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "faketime is not installed (scripts/setup.sh test)"
    return found[0]


def shifted(by):
    """Returns the environment of a program whose calendar clock is wrong, for example by "-2d"."""
    return {"LD_PRELOAD": str(library()), "FAKETIME": by, "DONT_FAKE_MONOTONIC": "1"}


def faster(times):
    """Returns the environment of a program whose clocks, sleeps and timeouts run `times` as fast."""
    return {"LD_PRELOAD": str(library()), "FAKETIME": f"+0 x{times}"}
