"""Compares with PyTorch jobs that continue arcface_torch's checkpoints or start from model.pt.

step_reference.py trains an epoch. Its state is saved in the form of train_v2.py with save_all_states, for 1, 2 and 12
GPUs. Then three workers of pfc and the reference train 20 more steps.
"""

import argparse
import json
import pathlib
import pickletools
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import torch

import pfc_runs
import reference_input
import safetensors_io
import step_parity
import step_reference

BIN = None
CLASSES, PER_CLASS, SIZE, STEPS = 25, 4, 32, 20
# With sync_bn, a batch of 12 gives the same results on any number of GPUs. With lr 5e-5, the losses of this reference
# in float32 and in float64 differ by at most 1.5e-4 over 28 steps; with 1e-3, which amplifies rounding, by 0.1.
JOB = {**step_parity.JOB, "batch_size": 4, "sync_bn": True, "sample_rate": 1, "num_epoch": 10, "lr": 5e-5}


# The opcodes that torch.load(weights_only=True) accepts since PyTorch 2.0; Debian's 1.13 lacks BINFLOAT.
OPCODES = {"PROTO", "GLOBAL", "REDUCE", "MARK", "TUPLE", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_LIST", "SETITEMS",
           "APPENDS", "BINUNICODE", "LONG1", "BINFLOAT", "BINPERSID", "NEWFALSE", "STOP"}
GLOBALS = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch FloatStorage", "torch LongStorage"}


def load_plain(path):
    """Returns the result of torch.load() for a file. Fails if weights_only=True would not accept the file."""
    with zipfile.ZipFile(path) as archive:
        ops = list(pickletools.genops(archive.read("model/data.pkl")))
    if found := {op.name for op, _, _ in ops} - OPCODES | {a for op, a, _ in ops if op.name == "GLOBAL"} - GLOBALS:
        raise AssertionError(f"{path}: torch.load(weights_only=True) refuses {found}")
    return torch.load(path)


def rows_of(rank, gpus):
    begin = CLASSES // gpus * rank + min(rank, CLASSES % gpus)
    return slice(begin, begin + CLASSES // gpus + (rank < CLASSES % gpus))


def save_checkpoint(folder, trainer, gpus, epoch, steps, prefix=""):
    """Writes files as train_v2.py does. The numbering of parameters includes frozen ones."""
    backbone = trainer.backbone
    parameters = list(backbone.parameters())
    moments = trainer.optimizer.state
    of_backbone = {i: {key: t.float() for key, t in moments[p].items()} for i, p in enumerate(parameters)
                   if moments[p]}
    for rank in range(gpus):
        rows = rows_of(rank, gpus)
        state = {**of_backbone, len(parameters): {key: (t if key == "step" else t[rows]).float()
                                                  for key, t in moments[trainer.centres].items()}}
        torch.save({
            "epoch": epoch, "global_step": steps,
            "state_dict_backbone": {prefix + k: t.float() if t.is_floating_point() else t
                                    for k, t in backbone.state_dict().items()},
            "state_dict_softmax_fc": {"weight": trainer.centres.detach()[rows].float().clone()},
            "state_optimizer": {"state": state,
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
        """Writes job.json without init_from, and creates its output folder."""
        self.job = {**JOB, **keys}
        path = reference_input.make(self.folder, self.job, CLASSES, PER_CLASS, size=SIZE)
        job = json.loads(path.read_text())
        del job["init_from"]
        path.write_text(json.dumps({**job, **keys}))
        (self.folder / "out").mkdir()
        return path

    def trained(self, steps=None):
        """Returns a trainer after its first epoch, or after its first steps."""
        tensors = safetensors_io.load(self.folder / "reference.safetensors")
        trainer = step_reference.Trainer({**self.job, "max_steps": 0}, tensors, workers=3)
        for step in range(1, (steps or trainer.per_epoch) + 1):
            trainer.step(step, False)
        return trainer

    def save_two_shards(self):
        trainer = self.trained(steps=1)
        save_checkpoint(self.folder / "out", trainer, 2, 1, trainer.per_epoch)

    def runs(self, *command, code=0):
        done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def fails(self, job, *words):
        done = self.runs("pfc-worker", "--config", job, code=2)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_three_workers_continue_as_pytorch_does(self):
        for keys, layouts in ({}, ((1, ""), (12, "module."))), (step_parity.ADAMW, ((2, ""),)):
            with tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job = self.make(resume=True, **keys)
                trainer = self.trained()
                done = trainer.per_epoch
                for gpus, prefix in layouts:
                    output = self.folder / str(gpus) / "out"
                    output.mkdir(parents=True)
                    save_checkpoint(output, trainer, gpus, 1, done, prefix)
                theirs = [trainer.step(step, False) for step in range(done + 1, done + STEPS + 1)]
                for gpus, _ in layouts:
                    with self.subTest(gpus=gpus):
                        here = self.folder / str(gpus)
                        job.write_text(json.dumps({**json.loads(job.read_text()), "max_steps": done + STEPS,
                                                   "output": str(here / "out")}))
                        ours = step_parity.pfc(BIN, here, job, workers=3)
                        self.assertEqual([s["step"] for s in ours], [s["step"] for s in theirs])
                        errors = step_parity.compare_steps(ours, theirs)
                        print(f"{gpus} GPUs:", {key: f"{error:.1e}" for key, error in errors.items()})
                        self.assertLess(errors["loss"], 1e-3)
                        self.assertLess(errors["lr"], 1e-12)

    def test_checkpoint_of_other_identities_is_refused_with_the_counts(self):
        job = self.make(resume=True, max_steps=1)
        self.save_two_shards()
        (self.folder / "out" / "checkpoint_gpu_1.pt").rename(self.folder / "out" / "checkpoint_gpu_2.pt")
        self.fails(job, "checkpoint_gpu_1.pt: missing, but checkpoint_gpu_2.pt is there")
        (self.folder / "out" / "checkpoint_gpu_2.pt").unlink()
        self.fails(job, "out: its 1 file checkpoint_gpu_0.pt and so on hold 13 classes, expected num_classes, 25")

    def test_a_job_that_scales_colours_cannot_continue_a_checkpoint(self):
        job = self.make(resume=True, max_steps=1, image_mean=[0.4, 0.4, 0.4])
        self.save_two_shards()
        self.fails(job, "checkpoint_gpu_0.pt: found image_mean or image_std in the job, expected their default")

    def test_files_of_different_checkpoints_are_refused(self):
        job, out = self.make(resume=True, max_steps=1), self.folder / "out"
        self.save_two_shards()
        first, second = (torch.load(out / f"checkpoint_gpu_{rank}.pt") for rank in range(2))
        torch.save({**second, "global_step": 7}, out / "checkpoint_gpu_1.pt")
        self.fails(job, "checkpoint_gpu_1.pt: ", "global_step", " is 7, but ", " in checkpoint_gpu_0.pt")
        torch.save(second, out / "checkpoint_gpu_1.pt")
        torch.save({**first, "global_step": 2**62}, out / "checkpoint_gpu_0.pt")
        self.fails(job, "checkpoint_gpu_0.pt: ", "global_step", ": expected a number from 0 to 10^12")
        torch.save({**first, "state_optimizer": {"state": {}}}, out / "checkpoint_gpu_0.pt")
        self.fails(job, "checkpoint_gpu_0.pt: has no momentum_buffer in state_optimizer, expected that of optimizer sgd")

    def test_shards_of_older_versions_are_read_with_their_backbone(self):
        for form in "rank:{}_softmax_weight.pt", "rank_{}_softmax_weight.pt", "softmax_fc_gpu_{}.pt":
            with self.subTest(form), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job, out = self.make(resume=True, max_steps=1), self.folder / "out"
                torch.manual_seed(4)
                state = step_reference.make_backbone("mbf", 32, height=SIZE, width=SIZE).state_dict()
                torch.save(state, out / "backbone.pth")
                centres, momentum = torch.randn(2, CLASSES, 32)
                for rank in range(2):
                    rows = rows_of(rank, 2)
                    shard = centres[rows].clone()
                    torch.save({"weight": shard} if "fc" in form else shard, out / form.format(rank))
                    if "fc" not in form:
                        torch.save(momentum[rows].clone(), out / form.format(rank).replace(".pt", "_mom.pt"))
                done = self.runs("pfc-worker", "--config", job)
                parts = [safetensors_io.load(p) for p in sorted((out / "step-000000000").glob("centres-*"))]
                for name, wanted in ("weight", centres), ("momentum", momentum if "fc" not in form else 0 * momentum):
                    found = torch.cat([torch.from_numpy(part[name]) for part in parts])
                    self.assertTrue((found == wanted).all(), name)
                found = safetensors_io.load(out / "step-000000000" / "backbone.safetensors")
                self.assertTrue(all((torch.from_numpy(found[name]) == t).all() for name, t in state.items()))

    def test_exported_checkpoint_equals_the_file_that_pytorch_saves(self):
        for network, keys in ("r18", {}), ("r18", step_parity.ADAMW), ("mbf", {}):
            with self.subTest(network=network, keys=keys), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                # Most centres are not active in the last step, so they have updates that are not applied yet.
                job = self.make(network=network, sample_rate=0.3, max_steps=4, **keys,
                                init_from=str(self.folder / "init.safetensors"))
                self.runs("pfc-worker", "--config", job)
                self.runs("pfcctl", "export", "arcface", "--checkpoint", self.folder / "out" / "step-000000004",
                          "--gpus", "2", "--output", self.folder / "theirs")
                self.runs("pfcctl", "model", "info", self.folder / "theirs" / "checkpoint_gpu_1.pt")
                tensors = safetensors_io.load(self.folder / "reference.safetensors")
                trainer = step_reference.Trainer(self.job, tensors, workers=1)
                trainer.train()
                self.compare_saved([load_plain(self.folder / "theirs" / f"checkpoint_gpu_{gpu}.pt")
                                    for gpu in range(2)], trainer)

    def compare_saved(self, saved, trainer):
        self.assertEqual((saved[0]["epoch"], saved[0]["global_step"]), (0, 4))
        parameters, moments = list(trainer.backbone.parameters()), trainer.optimizer.state
        ours, head = saved[0]["state_optimizer"]["state"], len(parameters)
        self.assertEqual(set(ours), {*(i for i, p in enumerate(parameters) if p.requires_grad), head})
        backbone = saved[0]["state_dict_backbone"]
        self.assertEqual(set(backbone), set(trainer.backbone.state_dict()))
        names = [name for name, _ in trainer.backbone.named_parameters()]
        self.assertEqual([name for name in backbone if name in names], names)
        # The gradients of some biases are only rounding errors (step_parity.py), so only weights are compared.
        weights = [(backbone[name], t) for name, t in trainer.backbone.state_dict().items() if t.dim() > 1]
        weights.append((torch.cat([part["state_dict_softmax_fc"]["weight"] for part in saved]), trainer.centres))
        pairs = []  # moments
        for key, theirs in moments[trainer.centres].items():
            if key == "step":
                self.assertEqual(ours[head][key], theirs)
                continue
            pairs.append((torch.cat([part["state_optimizer"]["state"][head][key] for part in saved]), theirs))
            pairs += [(ours[i][key], moments[p][key]) for i, p in enumerate(parameters) if p.dim() > 1]
        # An input of a PReLU that is nearly 0 may have the other sign in float64. At the first step one such input
        # changes the gradients of all layers before it by 0.3 %; the gradients of later layers agree to 1e-5.
        for found, wanted, limit in [(*pair, 1e-3) for pair in weights] + [(*pair, 2e-2) for pair in pairs]:
            self.assertEqual(found.shape, wanted.shape)
            self.assertLess((found - wanted).norm(), limit * wanted.double().norm())
        groups = [{"params": parameters}, {"params": [torch.nn.Parameter(saved[0]["state_dict_softmax_fc"]["weight"])]}]
        optimizer = type(trainer.optimizer)(groups, lr=1)
        optimizer.load_state_dict(saved[0]["state_optimizer"])
        optimizer.step()
        rate = step_reference.learning_rate(self.job["lr"], 5, trainer.total, trainer.warm)
        for group in optimizer.param_groups:
            self.assertAlmostEqual(group["lr"], rate, places=12)

    def test_job_begins_from_a_checkpoint_of_adaface(self):
        keys = {"network": "ir_18", "max_steps": 1, "lr": 0}
        model = self.folder / "adaface.ckpt"
        job = self.make(**keys, init_from=str(model))
        torch.manual_seed(5)
        state = step_reference.make_backbone("ir_18", 32, height=SIZE, width=SIZE).state_dict()
        tensors = {**safetensors_io.load(self.folder / "reference.safetensors")}
        given = {name: tensors[name] for name in ("images", "labels", "centres")}
        torch.save({"state_dict": {**{"model." + name: t for name, t in state.items()},
                                   "head.kernel": torch.from_numpy(given["centres"]).t().contiguous()}}, model)
        done = self.runs("pfc-worker", "--config", job)
        self.assertNotIn("do not fit", done.stdout + done.stderr)
        trainer = step_reference.Trainer({**self.job, "max_steps": 1},
                                         {**given, **{name: t.numpy() for name, t in state.items()}}, workers=1)
        ours = pfc_runs.metrics(self.folder / "out" / "metrics.jsonl")[0]["loss"]
        self.assertAlmostEqual(ours / trainer.step(1, False)["loss"], 1, places=5)

    def test_job_begins_from_model_pt_with_other_identities_and_embeddings(self):
        for size, left in ((JOB["embedding_size"], []), (16, ["features.layers.3.bias [32], here [16]"])):
            with self.subTest(size=size), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                model = self.folder / "model.pt"
                job = self.make(max_steps=1, lr=0, embedding_size=size, init_from=str(model))
                state = step_reference.make_backbone("mbf", 32, height=SIZE, width=SIZE).state_dict()
                torch.save(state, model)
                done = self.runs("pfc-worker", "--config", job)
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
