"""Runs the three calls of the acceptance completely, with pfc's worker on an emulated GPU, a driver that reports GPUs
which do not exist, and scripts in place of the programs that need a real GPU (GPU tests, compute-sanitizer,
PyTorch)."""

import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import programs
from cases import ROOT

BIN = pathlib.Path(os.environ["PFC_BIN"])
EMULATED = pathlib.Path(os.environ["PFC_EMULATED_WORKER"])
DRIVER = pathlib.Path(os.environ["PFC_FAKE_DRIVERS"]) / "two_gpus"
STAND_INS = {
    "kernels_gpu_test": 'echo "[  PASSED  ] 1 test."',
    "head_gpu_test": 'echo "[  PASSED  ] 1 test."',
    "comm_gpu_test": 'echo "[  PASSED  ] 1 test."',
    "head_benchmark": "true",
    "compute-sanitizer": 'echo "[  PASSED  ] 1 test."; echo "ERROR SUMMARY: 0 errors"',
    "nvidia-smi": 'echo "1, 1, 1, 1"',
    "python-with-torch": "printf '| measured |\\n|---|\\n| 1 |\\n'",
}


class EmulatedCalls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name in ("pfc-coordinator", "pfc-agent", "pfcctl"):
            shutil.copy(BIN / name, self.bin)  # these programs start the worker in their own folder
        shutil.copy(EMULATED, self.bin / "pfc-worker")
        for name, script in STAND_INS.items():
            programs.write_script(self.bin / name, script)

    def call(self, name):
        """Runs a call. Returns the names in its archive."""
        out = self.folder / f"out-{name}"
        done = subprocess.run(
            [ROOT / "scripts" / "gpu_acceptance.sh", "--call", name, "--bin", self.bin, "--out", out,
             "--work", self.folder / f"work-{name}", "--report", self.folder / f"page-{name}.md",
             "--python", self.bin / "python-with-torch", "--job-network", "mbf", "--job-batch", "4",
             "--job-size", "32", "--job-device", "auto",  # agents see no emulated GPU
             "--worker-tests", "WorkerOnAGpu.test_a_cpu_continues_from_the_checkpoint_of_a_gpu"],
            capture_output=True, text=True,
            env={**os.environ, "LD_LIBRARY_PATH": str(DRIVER), "PFC_COMMIT": "v1",
                 "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tarfile.open(out / f"results-{name}.tar.xz") as archive:
            return archive.getnames()

    def test_call_a_runs_the_tests_and_records_a_trace(self):
        names = self.call("a")
        self.assertIn("page-a.md", names)
        self.assertIn("trace.json", names)

    def test_call_b_compares_speed_with_pytorch(self):
        names = {pathlib.Path(name).name for name in self.call("b")}
        self.assertLessEqual({"step-r50-128.json", "step-r100-128.json", "head-1000000-1.json",
                              "head-10000000-1.json"}, names)

    def test_call_c_checks_for_races_resumes_a_job_and_trains(self):
        names = {pathlib.Path(name).name for name in self.call("c")}
        self.assertLessEqual({"sanitizer-racecheck-kernels_gpu_test.json", "resume-mbf.json",
                              "train-r50.json"}, names)


if __name__ == "__main__":
    unittest.main()
