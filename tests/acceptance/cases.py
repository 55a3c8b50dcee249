"""What the acceptance of a GPU consists of: cases, each one command with a time limit, in parts."""

import dataclasses
import itertools
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
PARTS = {
    "build": "The `cuda` preset, for the architectures of the GPUs here.",
    "tests": "Every GPU test.",
    "sanitizer": "`compute-sanitizer` on the tests of our own kernels.",
    "train": "pfc and PyTorch from the same initial weights, over the same images.",
    "step": "A whole training step: forward, head, backward, clip and SGD.",
    "head": "A step of the classification layer: N = 1024, D = 512, ArcFace, SGD with momentum.",
}
TABLES = ("train", "step", "head")  # parts whose output is for the report
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Tests of kernels of our own rather than of libraries.
OWN_KERNELS = {"kernels_gpu_test": "*Elementwise*:*Normalisation*:*Updates*:*Depthwise*",
               "head_gpu_test": "*HeadAgainstReference*:*HeadUpdates*:*Bf16Products*"}
NETWORKS, BATCHES = ("r50", "r100", "mbf"), (128, 256, 512)
CLASSES, RATES = (1_000_000, 4_000_000, 10_000_000), (1, 0.1)
MANY = 29_000_000


@dataclasses.dataclass
class Case:
    part: str
    name: str
    command: list
    limit: int          # seconds
    missing: str = ""   # why it cannot be run here
    tests: bool = False  # judged by what the test program says of each test

    def __post_init__(self):
        self.command = [str(word) for word in self.command]

    def judge(self, code, output):
        """"passed", or why it has not. A test that was skipped has not passed."""
        if code != 0:
            return f"exit code {code}"
        if not self.tests:
            return "passed"
        if re.search(r"\[  SKIPPED \]|\*\*\*Skipped|Not Run", output):
            return "some tests did not run"
        if not re.search(r"\[  PASSED  \] [1-9]|100% tests passed.* out of [1-9]", output):
            return "no test ran"
        return "passed"


class Programs:
    """Where the programs are: a build folder of this repository, one folder with all of them, or a
    bundle: FOLDER/bin and a FOLDER/run that starts one of them with the libraries it needs."""

    def __init__(self, given, work):
        self.built_here = given is None
        build = ROOT / "build" / "cuda"
        self.folders = [build / "bin", build / "tests", build / "benchmarks"]
        if given is not None:
            bundle = (given / "run").exists()
            self.folders = [self._wrapped(given, work / "programs") if bundle else given]

    @staticmethod
    def _wrapped(bundle, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for program in (bundle / "bin").iterdir():
            script = folder / program.name
            script.write_text(f'#!/bin/sh\nexec "{bundle.resolve()}/run" {program.name} "$@"\n')
            script.chmod(0o755)
        return folder

    def path(self, name):
        found = [folder / name for folder in self.folders if (folder / name).exists()]
        return found[0] if found else self.folders[0] / name

    def missing(self, *names):
        absent = [name for name in names if not self.path(name).exists()]
        return f"no {', '.join(absent)} in {self.folders[0]}" if absent else ""

    def gpu_tests(self):
        return sorted(path for folder in self.folders for path in folder.glob("*_gpu_test"))


def build(gpus):
    architectures = ";".join(sorted({gpu.architecture for gpu in gpus}))
    configure = f"cmake --preset cuda -DPFC_CUDA=ON '-DPFC_CUDA_ARCHITECTURES={architectures}'"
    make = "cmake --build --preset cuda --target programs gpu_tests"
    return [Case("build", "cuda", ["sh", "-c", f"{configure} && {make}"], 3600)]


def tests(programs):
    if programs.built_here:
        return [Case("tests", "ctest", ["ctest", "--preset", "cuda", "-L", "gpu", "--no-tests=error",
                                        "--parallel", "4"], 590, tests=True)]
    found = programs.gpu_tests()
    if not found:
        return [Case("tests", "all", [], 0, missing=f"no *_gpu_test in {programs.folders[0]}")]
    return [Case("tests", path.name, [path, "--gtest_brief=1"], 590, tests=True) for path in found]


def sanitizer(programs):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    missing = "" if pathlib.Path(tool).exists() else "compute-sanitizer is not installed"
    return [Case("sanitizer", f"{name}-{program}",
                 [tool, "--tool", name, "--error-exitcode", 9, "--target-processes", "all",
                  programs.path(program), "--gtest_brief=1", f"--gtest_filter={tests_of_it}"], 590,
                 missing or programs.missing(program), tests=True)
            for name in SANITIZERS for program, tests_of_it in OWN_KERNELS.items()]


def train(programs, python, work, options):
    command = [python, "-B", REFERENCE / "train_gpu.py", "--bin", programs.path("pfc-worker").parent,
               "--folder", work / "train", "--network", options.train_network]
    data = os.environ.get("PFC_TEST_DATA")
    if data:
        faces = pathlib.Path(data) / "lfw112"
        command += ["--data", faces, "--val", faces / "lfw_fold10.bin"]
    missing = programs.missing("pfc-worker", "pfcctl")
    return [Case("train", options.train_network, command, 590, missing)]


def step(programs, python, work, options):
    return [Case("step", f"{network}-{batch}",
                 [python, "-B", REFERENCE / "bench_step_gpu.py", "--bin",
                  programs.path("pfc-worker").parent, "--folder", work / "step", "--network", network,
                  "--batch", batch, "--compile", options.compile], 590,
                 programs.missing("pfc-worker", "pfcctl"))
            for network, batch in itertools.product(options.networks, options.batches)]


def head(programs, python, work, options):
    program = programs.path("head_benchmark")
    command = [python, "-B", REFERENCE / "bench_head_gpu.py", "--program", program]
    missing = programs.missing("head_benchmark")
    cases = [Case("head", f"{classes}-{rate}", command + ["--classes", classes, "--rate", rate], 590,
                  missing)
             for classes, rate in itertools.product(options.classes, RATES)]
    cases.append(Case("head", f"{MANY}-1", command + ["--classes", MANY, "--rate", 1, "--centres",
                                                      "bf16", "--programs", "pfc", "--rounds", 1,
                                                      "--steps", 5], 590, missing))
    programs_of_a_job = ("pfc-worker", "pfcctl", "pfc-coordinator", "pfc-agent")
    cases.append(Case("head", f"train-{MANY}",
                      [python, "-B", REFERENCE / "many_classes.py", "--bin",
                       programs.path("pfc-worker").parent, "--folder", work / "many-classes",
                       "--classes", MANY, "--rate", 1, "--workers", 1, "--device", "cuda",
                       "--precision", "bf16"], 590, programs.missing(*programs_of_a_job)))
    return cases


def python_with_gpu(given):
    """(the first Python whose torch sees a GPU, "") or (one, why it will not do)."""
    asked = [given] if given else ["python3", "/usr/bin/python3"]
    for python in asked:
        code = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)"
        try:
            if subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
                return python, ""
        except OSError:
            continue
    return asked[0], f"no torch that sees a GPU in {' or '.join(asked)}; name one with --python"


class Plan:
    """The cases of each part. A part's are looked up when its turn comes: the first one builds."""

    def __init__(self, gpus, work, options):
        self.gpus, self.work, self.options = gpus, work, options
        self.python, self.no_torch = python_with_gpu(options.python)

    def cases(self, part):
        programs = Programs(self.options.bin, self.work)
        measured = (programs, self.python, self.work, self.options)
        found = {"build": lambda: build(self.gpus) if programs.built_here else [],
                 "tests": lambda: tests(programs), "sanitizer": lambda: sanitizer(programs),
                 "train": lambda: train(*measured), "step": lambda: step(*measured),
                 "head": lambda: head(*measured)}[part]()
        for case in found:
            if part in TABLES and self.no_torch:
                case.missing = self.no_torch
        return found
