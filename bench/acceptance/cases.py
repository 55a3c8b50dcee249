"""The cases of the acceptance of a GPU, in parts. A case is one command with a time limit."""

import dataclasses
import itertools
import os
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PARTS = {  # in this order: the part that takes longest and finds least comes last
    "build": "The `cuda` preset, for the architectures of the GPUs here.",
    "versions": "The driver, its GPUs, and what `pfcctl check` finds.",
    "tests": "Every GPU test.",
    "trace": "Three steps of r50 at batch 128 in bf16, kernel by kernel.",
    "step": "A whole training step: forward, head, backward, clip and SGD.",
    "head": "A step of the classification layer: N = 1024, D = 512, ArcFace, SGD with momentum.",
    "resume": "A job that is stopped and resumed gives the same bits as an uninterrupted one.",
    "train": "pfc and PyTorch from the same initial weights, over the same images.",
    "sanitizer": "`compute-sanitizer` on the tests of our own kernels.",
}
TABLES = ("train", "step", "head")  # parts whose output is for the report
# The parts of each call of at most ten minutes: (part, pattern of case names). Each call can run without the others.
CALLS = {
    "a": (("build", ""), ("versions", ""), ("tests", ""), ("sanitizer", "memcheck-kernels"),
          ("trace", "")),
    "b": (("build", ""), ("step", "^r(50|100)-128$"), ("head", "^10{6,7}-")),
    "c": (("build", ""), ("sanitizer", "^(race|sync)check"), ("resume", ""), ("train", "")),
}
# The default options of a call.
CALL_DEFAULTS = {"networks": ("r50", "r100"), "batches": (128,), "precisions": ("bf16",),
                 "classes": (1_000_000, 10_000_000), "minutes": 9.5}
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Tests of pfc's own kernels, without those that only call libraries.
OWN_KERNELS = {"kernels_gpu_test": "*Elementwise*:*Normalisation*:*Updates*:*Depthwise*",
               "head_gpu_test": "*HeadAgainstReference*:*HeadUpdates*:*/Bf16Products.*"}
# Time limit of each test program, in seconds. The programs run in this order. NCCL's come last, because their processes
# may wait for each other forever.
TEST_LIMITS = {"kernels_gpu_test": 150, "backbone_gpu_test": 90, "head_gpu_test": 180,
               "training_gpu_test": 120, "grad_reducer_gpu_test": 60, "comm_gpu_test": 120}
NCCL = "^(comm|training|grad_reducer)_gpu"  # tests whose processes wait for each other
# Time limit, in seconds, of a case that stores its measurements. If the time runs out, the next call continues from
# them.
LONG = 1800
NETWORKS, BATCHES = ("r50", "r100", "mbf"), (128, 256, 512)
CLASSES, RATES = (1_000_000, 4_000_000, 10_000_000), (1, 0.1)
MANY = 29_000_000          # number of classes in a step of the head alone
MANY_TRAINED = 16_000_000  # number of classes in a job: float32 labels of a .rec allow at most 2^24
PRECISIONS = ("bf16", "fp16")


@dataclasses.dataclass
class Case:
    part: str
    name: str
    command: list
    limit: int          # in seconds
    missing: str = ""   # why the case cannot run here; empty if it can
    tests: bool = False  # whether the output of the test program decides the verdict
    sanitized: bool = False  # whether the summary of compute-sanitizer decides it too
    kept: pathlib.Path = None  # measurements from which a later call continues

    def __post_init__(self):
        self.command = [str(word) for word in self.command]

    def judge(self, code, output):
        """Returns "passed", or the reason why the case did not pass. A skipped test counts as not passed. code: None if
        the case was killed."""
        if code is None:
            return f"not done after {self.limit:g} s{self.at(output)}"
        if code != 0:
            return f"exit code {code}{self.at(output) or last_line(output)}"
        if self.tests and re.search(r"\[  SKIPPED \]|\*\*\*Skipped|Not Run", output):
            return "some tests did not run"
        passed = r"\[  PASSED  \] [1-9]|100% tests passed.* out of [1-9]"
        if self.tests and not re.search(passed, output):
            return "no test ran"
        if self.sanitized and not clean(output):
            return "compute-sanitizer does not say that it found nothing"
        return "passed"

    def at(self, output):
        """Returns the name of the test during which the program ended; empty if no test was incomplete."""
        begun = re.findall(r"\[ RUN      \] (\S+)", output) if self.tests else []
        ended = begun and re.search(rf"\[ +(OK|FAILED|SKIPPED) +\] {re.escape(begun[-1])}[ ,]",
                                    output)
        return "" if not begun or ended else f", in {begun[-1]}"


def clean(output):
    """Returns whether every summary of compute-sanitizer reports no findings."""
    findings = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) ", output)
    return findings != [] and all(number == "0" for number in findings)


def last_line(output):
    lines = output.strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""


def build(gpus):
    architectures = ";".join(sorted({gpu.architecture for gpu in gpus}))
    configure = f"cmake --preset cuda -DPFC_CUDA=ON -DPFC_TESTS=ON '-DPFC_CUDA_ARCHITECTURES={architectures}'"
    make = "cmake --build --preset cuda --target programs gpu_tests"
    return [Case("build", "cuda", ["sh", "-c", f"{configure} && {make}"], 3600)]


def tests(programs, of_the_worker=()):
    if programs.built_here:
        command = ["ctest", "--preset", "cuda", "-L", "gpu", "--no-tests=error"]
        return [Case("tests", "ctest", command + ["-E", NCCL, "--parallel", "4"], LONG,
                     tests=True),
                Case("tests", "ctest-comm", command + ["-R", NCCL], LONG, tests=True)]
    found = {path.name: path for path in programs.gpu_tests()}
    if not found:
        return [Case("tests", "all", [], 0, missing=f"no *_gpu_test in {programs.folders[0]}")]
    order = list(TEST_LIMITS)
    names = sorted(found, key=lambda name: order.index(name) if name in order else -1)
    worker = Case("tests", "worker", [*whole_worker(programs), *of_the_worker], 300,
                  programs.missing("pfc-worker", "pfcctl"))
    return libraries(programs) + [worker] + [Case("tests", name, [found[name]], TEST_LIMITS.get(name, 120),
                                       tests=True) for name in names]


def whole_worker(programs):
    worker = programs.path("pfc-worker")
    return ["env", f"PFC_BIN={worker.parent}", f"PFC_GPU_WORKER={worker}", "python3", "-B",
            ROOT / "tests" / "e2e" / "gpu_test.py"]


def libraries(programs):
    """Checks that all shared libraries of a bundle's programs exist."""
    if not programs.launcher:
        return []
    script = '! ldd "$0"/* 2>&1 | grep "not found"'
    return [Case("tests", "libraries", [*programs.launcher, "sh", "-c", script, programs.binaries],
                 60)]


def versions(programs):
    smi = Case("versions", "nvidia-smi", ["nvidia-smi"], 60,
               "" if shutil.which("nvidia-smi") else "nvidia-smi is not installed")
    return [smi, Case("versions", "check", [programs.path("pfcctl"), "check"], 120,
                      programs.missing("pfcctl"))]


def of_pfc_alone(plan, part, network, *more):
    needed = ("pfc-worker", "pfcctl", "pfc-coordinator", "pfc-agent")
    command = ["python3", "-B", BENCH / "acceptance" / "jobs.py", part, "--bin",
               plan.programs.path("pfc-worker").parent, "--folder", plan.work / part, "--network",
               network, "--batch", plan.options.job_batch, "--size", plan.options.job_size, "--device",
               plan.options.job_device, *more]
    return [Case(part, network, command, 300, plan.programs.missing(*needed))]


def trace(plan):
    return of_pfc_alone(plan, "trace", plan.options.job_network, "--output",
                        plan.work / "trace.json")


def resume(plan):
    return of_pfc_alone(plan, "resume", plan.options.job_network)


def sanitizer(programs):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    missing = "" if pathlib.Path(tool).exists() else "compute-sanitizer is not installed"
    return [Case("sanitizer", f"{name}-{program}",
                 programs.under([tool, "--tool", name, "--error-exitcode", 9, "--target-processes",
                                 "all", "--require-cuda-init", "no"], program) +
                 [f"--gtest_filter={tests_of_it}"], 590,
                 missing or programs.missing(program), tests=True, sanitized=True)
            for name in SANITIZERS for program, tests_of_it in OWN_KERNELS.items()]


def train(plan):
    options, worker = plan.options, plan.programs.path("pfc-worker")
    kept = plan.kept("train", options.train_network)
    command = [plan.python, "-B", BENCH / "gpu" / "train_gpu.py", "--bin", worker.parent, "--folder",
               plan.work / "train", "--network", options.train_network, "--kept", kept]
    data = os.environ.get("PFC_TEST_DATA")
    if data:
        faces = pathlib.Path(data) / "lfw112"
        command += ["--data", faces, "--val", faces / "lfw_fold10.bin"]
    return [Case("train", options.train_network, command, LONG,
                 plan.programs.missing("pfc-worker", "pfcctl"), kept=kept)]


def step(plan):
    options, worker = plan.options, plan.programs.path("pfc-worker")
    found = []
    for network, batch in itertools.product(options.networks, options.batches):
        name = f"{network}-{batch}"
        kept = plan.kept("step", name)
        command = [plan.python, "-B", BENCH / "gpu" / "bench_step_gpu.py", "--bin", worker.parent,
                   "--folder", plan.work / "step", "--network", network, "--batch", batch,
                   "--compile", options.compile, "--rounds", options.rounds, "--precisions",
                   *options.precisions, "--kept", kept]
        found.append(Case("step", name, command, LONG,
                          plan.programs.missing("pfc-worker", "pfcctl"), kept=kept))
    return found


def head_steps(plan, classes, rate, *more):
    name = f"{classes}-{rate}"
    kept = plan.kept("head", name)
    command = [plan.python, "-B", BENCH / "gpu" / "bench_head_gpu.py", "--program",
               plan.programs.path("head_benchmark"), "--classes", classes, "--rate", rate,
               "--gpu-memory", plan.gpus[0].memory_bytes, "--kept", kept, *more]
    return Case("head", name, command, LONG, plan.programs.missing("head_benchmark"), kept=kept)


def training_of_many_classes(plan):
    programs_of_a_job = ("pfc-worker", "pfcctl", "pfc-coordinator", "pfc-agent")
    return Case("head", f"train-{MANY_TRAINED}",
                [plan.python, "-B", BENCH / "studies" / "many_classes.py", "--bin",
                 plan.programs.path("pfc-worker").parent, "--folder", plan.work / "many-classes",
                 "--classes", MANY_TRAINED, "--rate", 1, "--workers", 1, "--device", "cuda", "--precision",
                 "bf16"], 590, plan.programs.missing(*programs_of_a_job))


def head(plan):
    """Returns the first number of classes, then the numbers that fit into memory only with pfc, then the others."""
    first, *others = [[head_steps(plan, classes, rate) for rate in RATES]
                      for classes in plan.options.classes]
    many = [head_steps(plan, MANY, 1, "--centres", "bf16", "--programs", "pfc", "--rounds", 1,
                       "--steps", 5), training_of_many_classes(plan)]
    return first + many + sum(others, [])
