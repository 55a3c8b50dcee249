"""Jobs that go on from arcface_torch's checkpoints, and that begin from model.pt, against PyTorch.

step_reference.py trains an epoch. What it has then is saved as train_v2.py saves it with
save_all_states, for 1, 2 and 8 GPUs; three workers of pfc and the reference go on for 20 steps.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import torch

import reference_input
import safetensors_io
import step_parity
import step_reference

BIN = None
CLASSES, PER_CLASS, SIZE, STEPS = 25, 8, 32, 20
# sync_bn: a batch of 24 means the same on any number of GPUs. With a higher lr, rounding grows tenfold in
# three steps.
JOB = {**step_parity.JOB, "batch_size": 8, "sync_bn": True, "sample_rate": 1, "num_epoch": 10, "lr": 1e-4}


def rows_of(rank, gpus):
    begin = CLASSES // gpus * rank + min(rank, CLASSES % gpus)
    return slice(begin, begin + CLASSES // gpus + (rank < CLASSES % gpus))


def save_checkpoint(folder, trainer, gpus, epoch, steps):
    """As train_v2.py does. Numbers of parameters count those that are frozen, too."""
    backbone = trainer.backbone
    parameters = list(backbone.parameters())
    moments = trainer.optimizer.state
    momentum = {i: moments[p]["momentum_buffer"].float() for i, p in enumerate(parameters)
                if "momentum_buffer" in moments[p]}
    for rank in range(gpus):
        rows = rows_of(rank, gpus)
        state = {**momentum, len(parameters): moments[trainer.centres]["momentum_buffer"][rows].float()}
        torch.save({
            "epoch": epoch, "global_step": steps,
            "state_dict_backbone": {k: t.float() if t.is_floating_point() else t
                                    for k, t in backbone.state_dict().items()},
            "state_dict_softmax_fc": {"weight": trainer.centres.detach()[rows].float().clone()},
            "state_optimizer": {"state": {i: {"momentum_buffer": t} for i, t in state.items()},
                                "param_groups": [{"lr": 0.1, "params": list(range(len(parameters)))},
                                                 {"lr": 0.1, "params": [len(parameters)]}]},
            "state_lr_scheduler": {"base_lrs": [0.1, 0.1], "last_epoch": steps}},
            folder / f"checkpoint_gpu_{rank}.pt")


class ArcfaceCheckpoints(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def make(self, **keys):
        """job.json without init_from; its output exists."""
        path = reference_input.make(self.folder, JOB, CLASSES, PER_CLASS, size=SIZE)
        job = json.loads(path.read_text())
        del job["init_from"]
        path.write_text(json.dumps({**job, **keys}))
        (self.folder / "out").mkdir()
        return path

    def trained(self, gpus):
        """A trainer after its first epoch, and the number of its steps, which are saved in out."""
        trainer = step_reference.Trainer(JOB, safetensors_io.load(self.folder / "reference.safetensors"),
                                         workers=3)
        for step in range(1, trainer.per_epoch + 1):
            trainer.step(step, False)
        save_checkpoint(self.folder / "out", trainer, gpus, 1, trainer.per_epoch)
        return trainer, trainer.per_epoch

    def fails(self, job, *words):
        done = subprocess.run([BIN / "pfc-worker", "--config", job], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_three_workers_go_on_as_pytorch_does(self):
        for gpus in (1, 2, 8):
            with self.subTest(gpus=gpus), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job = self.make(resume=True)
                trainer, done = self.trained(gpus)
                job.write_text(json.dumps({**json.loads(job.read_text()), "max_steps": done + STEPS}))
                ours = step_parity.pfc(BIN, self.folder, job, workers=3)
                theirs = [trainer.step(step, False) for step in range(done + 1, done + STEPS + 1)]
                self.assertEqual([s["step"] for s in ours], [s["step"] for s in theirs])
                errors = step_parity.compare_steps(ours, theirs)
                print(f"{gpus} GPUs:", {key: f"{error:.1e}" for key, error in errors.items()})
                self.assertLess(errors["loss"], 1e-3)
                self.assertLess(errors["lr"], 1e-12)

    def test_checkpoint_of_other_identities_is_refused_with_the_counts(self):
        job = self.make(resume=True, max_steps=1)
        _, _ = self.trained(2)
        (self.folder / "out" / "checkpoint_gpu_1.pt").rename(self.folder / "out" / "checkpoint_gpu_2.pt")
        self.fails(job, "checkpoint_gpu_1.pt: missing, but checkpoint_gpu_2.pt is there")
        (self.folder / "out" / "checkpoint_gpu_2.pt").unlink()
        self.fails(job, "checkpoint_gpu_0.pt: has centres [13, 32], expected [25, 32]",
                   "25 classes on 1 GPU")

    def test_job_begins_from_model_pt_with_other_identities_and_embeddings(self):
        for size, left in ((JOB["embedding_size"], []), (16, ["features.layers.3.bias [32], here [16]"])):
            with self.subTest(size=size), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                model = self.folder / "model.pt"
                job = self.make(max_steps=1, lr=0, embedding_size=size, init_from=str(model))
                state = step_reference.make_backbone("mbf", 32, height=SIZE, width=SIZE).state_dict()
                torch.save(state, model)
                done = subprocess.run([BIN / "pfc-worker", "--config", job], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                text = done.stdout + done.stderr
                self.assertIn("weights from " + str(model), text)
                self.assertEqual("do not fit and stay as initialised" in text, bool(left), text)
                for words in left:
                    self.assertIn(words, text)
                ours = safetensors_io.load(self.folder / "out" / "backbone.safetensors")
                for name in ("conv_sep.layers.0.weight", "layers.3.layers.1.layers.0.layers.0.weight"):
                    self.assertTrue((torch.from_numpy(ours[name]) == state[name]).all(), name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
