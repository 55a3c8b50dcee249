"""Tests the whole worker on a real or an emulated GPU. The emulation (tests/support/simt) runs our CUDA sources with
threads as fibers, runs streams as late as possible, and computes the libraries' results on the CPU. Without a GPU
exits with 77 (not run)."""

import math
import os
import pathlib
import sys
import unittest

from support import BIN, JobTest, digest, run

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "acceptance"))
import gpus  # noqa: E402

WORKER = pathlib.Path(os.environ["PFC_GPU_WORKER"])
EMULATED = WORKER.name == "pfc_worker_emulated"
NOT_RUN = 77


class WorkerOnAGpu(JobTest):
    IMAGES = 6
    SIZE = 32

    def trained(self, name, program=WORKER, **keys):
        job = self.job(f"{name}.json", output=str(self.folder / name), val_targets=[],
                       **{"batch_size": 8, "max_steps": 4, "num_epoch": 2, "device": "cuda", **keys})
        done = self.succeeded(run(program, "--config", job, env=self.environment))
        return self.of_steps("loss", name), done.stdout

    def assert_close(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            self.assertLess(abs(a - b) / b, tolerance, (found, expected))

    def test_losses_on_a_gpu_agree_with_the_cpu_in_every_precision(self):
        # Not mbf: one of its PReLU inputs near 0 changes its sign in the first step.
        keys = dict(network="r18", lr=0.02)
        expected, _ = self.trained("cpu", BIN / "pfc-worker", **{**keys, "device": "cpu"})
        fp32, log = self.trained("fp32", **keys)
        self.assertIn("Emulated GPU" if EMULATED else "CUDA (GPU 0", log)
        # A real GPU adds in another order, so signs before PReLUs change here too.
        first, later = (1e-6, 1e-3) if EMULATED else (1e-5, 1e-2)
        self.assert_close(fp32[:1], expected[:1], first)
        self.assert_close(fp32, expected, later)
        # Rounding differences grow after two steps. In fp16 the first gradients overflow until the loss scale is
        # small enough; such updates are skipped.
        for precision, steps in (("bf16", 2), ("fp16", 1)):
            found, log = self.trained(precision, precision=precision, **keys)
            self.assert_close(found[:steps], expected[:steps], 1e-2)
            self.assertTrue(all(map(math.isfinite, found)))
            self.assertEqual("Fp16 Grad Scale" in log, precision == "fp16")

    def test_a_job_gives_the_same_bits_with_and_without_cuda_graphs(self):
        keys = dict(sample_rate=0.5, gradient_acc=2, batch_size=4)
        for precision in ("fp32",) if EMULATED else ("fp32", "bf16"):  # the emulation is slow
            for name, graphs in (("graphs", True), ("again", True), ("plain", False)):
                self.trained(f"{precision}-{name}", precision=precision, cuda_graphs=graphs, **keys)
            expected = digest(self.folder / f"{precision}-graphs/backbone.safetensors")
            for name in ("again", "plain"):
                with self.subTest(precision=precision, name=name):
                    self.assertEqual(digest(self.folder / f"{precision}-{name}/backbone.safetensors"),
                                     expected)

    def test_a_job_on_a_gpu_resumes_with_the_same_bits(self):
        adamw, sgd = dict(optimizer="adamw", lr=1e-3), dict(lr=0.02)
        for precision, optimizer in [("fp16", adamw)] + ([] if EMULATED else [("bf16", sgd)]):
            keys = dict(precision=precision, sample_rate=0.5, **optimizer)
            self.trained(f"{precision}-whole", **keys)
            self.trained(f"{precision}-parts", **{**keys, "max_steps": 2})
            self.trained(f"{precision}-parts", resume=True, **keys)
            with self.subTest(precision=precision):
                self.assertEqual(digest(self.folder / f"{precision}-whole/backbone.safetensors"),
                                 digest(self.folder / f"{precision}-parts/backbone.safetensors"))

    def test_a_cpu_continues_from_the_checkpoint_of_a_gpu(self):
        self.trained("gpu", max_steps=2)
        losses, _ = self.trained("gpu", BIN / "pfc-worker", device="cpu", resume=True)
        self.assertEqual(len(losses), 4)
        self.assertTrue(all(map(math.isfinite, losses)))


if __name__ == "__main__":
    if not EMULATED:
        try:
            gpus.find_gpus()
        except gpus.NoGpu as why:
            print(f"not run: {why}")
            sys.exit(NOT_RUN)
    unittest.main()
