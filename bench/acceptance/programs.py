"""Finds the tested programs and their version. Results of other versions are not used."""

import hashlib
import os
import shutil
import subprocess
import sys

from cases import ROOT


def git(*words):
    """Returns the output of git; "" without git or a repository."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True,
                              text=True).stdout.strip()
    except OSError:
        return ""


def commit():
    """Returns the commit, ignoring changes of the pages that this script writes. PFC_COMMIT replaces it
    for sources without git history."""
    if os.environ.get("PFC_COMMIT"):
        return os.environ["PFC_COMMIT"]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".",
                  ":(exclude)docs/benchmarks")
    return (git("describe", "--always") or "unknown") + ("-dirty" if changed else "")


class Programs:
    """Finds the programs in a build folder of this repository, in one folder that holds all of them, or in a bundle. A
    bundle has the programs in FOLDER/bin, and a script FOLDER/run that starts one of them with the libraries it
    needs."""

    def __init__(self, given, work):
        self.built_here = given is None
        self.launcher, self.given = [], given
        if given is None:
            build = ROOT / "build" / "cuda"
            self.folders = [build / "bin", build / "tests", build / "benchmarks"]
            return
        self.given = given.resolve()
        self.folders = [self.given]
        if (self.given / "run").exists():
            self._wrap((work / "programs").resolve())

    def _wrap(self, folder):
        """Makes a folder of scripts that start the bundle's programs. The bundle's `run` searches the disk for CUDA's
        libraries every time, so these scripts do not use it: the path that it finds is stored in them."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folders, self.binaries = [folder], self.given / "bin"
        launcher = folder / "with-libraries"
        write_script(launcher, f"export LD_LIBRARY_PATH='{library_path(self.given)}'\nexec \"$@\"")
        self.launcher = [launcher]
        for program in self.binaries.iterdir():
            write_script(folder / program.name, f'exec "{launcher}" "{program}" "$@"')

    def path(self, name):
        found = [folder / name for folder in self.folders if (folder / name).exists()]
        return found[0] if found else self.folders[0] / name

    def under(self, tool, name):
        """Returns the command that runs a program under a tool. For a bundle, the tool runs the program itself, and not
        the script that starts it."""
        if self.launcher:
            return [*self.launcher, *tool, self.binaries / name]
        return [*tool, self.path(name)]

    def missing(self, *names):
        absent = [name for name in names if not self.path(name).exists()]
        return f"no {', '.join(absent)} in {self.folders[0]}" if absent else ""

    def gpu_tests(self):
        return sorted(path for folder in self.folders for path in folder.glob("*_gpu_test"))

    def version(self):
        """Returns the commit, and a hash of programs that were built elsewhere."""
        if self.built_here:
            return commit()
        digest = hashlib.sha256()
        folder = self.binaries if self.launcher else self.given
        for program in sorted(path for path in folder.glob("*") if path.is_file()):
            digest.update(program.name.encode() + program.read_bytes())
        return f"{commit()}-{digest.hexdigest()[:8]}"


def write_script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def library_path(bundle):
    """Returns the library path that the bundle's `run` sets. Starts printenv with `run` to find it."""
    printenv = os.path.relpath(shutil.which("printenv"), bundle / "bin")
    said = subprocess.run([bundle / "run", printenv, "LD_LIBRARY_PATH"], capture_output=True,
                          text=True)
    if said.returncode != 0:
        sys.exit(f"{bundle}/run does not set LD_LIBRARY_PATH for a program: {said.stderr}")
    return said.stdout.strip()
