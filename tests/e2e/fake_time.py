"""Runs a program with a fake clock (libfaketime). Debian package: faketime (scripts/setup.sh test)."""

import pathlib


def library():
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "faketime is not installed (scripts/setup.sh test)"
    return found[0]


def shifted(by):
    """Returns the environment of a program whose calendar clock is wrong, for example by "-2d"."""
    return {"LD_PRELOAD": str(library()), "FAKETIME": by, "DONT_FAKE_MONOTONIC": "1"}


def faster_later(file):
    """Returns the environment of a program whose clocks run at normal speed until set_speed(file)."""
    set_speed(file, 1)
    return {"LD_PRELOAD": str(library()), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}


def set_speed(file, times):
    """Makes the program's clocks, sleeps and timeouts run `times` as fast. The clocks jump ahead once: by the
    program's run time so far, times (times - 1)."""
    pathlib.Path(file).write_text(f"+0 x{times}\n")
