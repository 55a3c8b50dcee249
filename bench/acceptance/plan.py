"""Chooses the cases for the GPUs, programs and Python of this machine."""

import re
import subprocess

import cases
from programs import Programs

ASK_TORCH = """
import sys, torch
cuda, cudnn = torch.version.cuda, torch.backends.cudnn.version()
print(torch.__version__, "(CUDA", cuda, "cuDNN", cudnn, end=")")
sys.exit(0 if torch.cuda.is_available() else 1)
"""


def python_with_gpu(given):
    """Returns (python, torch's version, "") for the first Python whose torch sees a GPU. If there is none, returns (the
    first Python, "none", the reason)."""
    asked = [given] if given else ["python3", "/usr/bin/python3"]
    for python in asked:
        try:
            said = subprocess.run([python, "-c", ASK_TORCH], capture_output=True, text=True)
        except OSError:
            continue
        if said.returncode == 0:
            return python, said.stdout, ""
    return asked[0], "none", (f"no torch that sees a GPU in {' or '.join(asked)}; name one with "
                              "--python")


class Plan:
    """The cases of each part. They are determined when the part begins, because the first part builds the programs."""

    def __init__(self, gpus, work, options):
        self.gpus, self.work, self.options = gpus, work, options
        self.programs = Programs(options.bin, work)
        self.version = self.programs.version()
        self.python, self.torch, self.no_torch = python_with_gpu(options.python)

    def kept(self, part, name):
        """Returns the file in which a case keeps its measurements."""
        return self.work / "kept" / self.version / f"{part}-{name}.json"

    def cases(self, part):
        programs = self.programs
        found = {"build": lambda: cases.build(self.gpus) if programs.built_here else [],
                 "tests": lambda: cases.tests(programs, self.options.worker_tests),
                 "versions": lambda: cases.versions(programs),
                 "trace": lambda: cases.trace(self), "resume": lambda: cases.resume(self),
                 "sanitizer": lambda: cases.sanitizer(programs),
                 "train": lambda: cases.train(self), "step": lambda: cases.step(self),
                 "head": lambda: cases.head(self)}[part]()
        wanted = dict(cases.CALLS.get(self.options.call, ())).get(part, "")
        found = [case for case in found if re.search(wanted, case.name)]
        for case in found:
            if part in cases.TABLES and self.no_torch:
                case.missing = self.no_torch
        return found
