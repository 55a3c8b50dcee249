"""Compares the losses of 20 steps after a change from arcface_torch's own trainer to pfc, and from pfc to it.

PFC_ARCFACE_TORCH is the folder recognition/arcface_torch of a checkout of InsightFace; without it no test runs.
arcface_torch trains one epoch on 1, 2 and 8 processes; then both programs continue from its checkpoint_gpu_*.pt. In
the other direction pfc trains an epoch and writes such files, and both continue from them.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import reference_input
import step_parity

BIN = None
HERE = pathlib.Path(__file__).resolve().parent
UPSTREAM = os.environ.get("PFC_ARCFACE_TORCH", "")
CLASSES, PER_CLASS, BATCH, STEPS = 25, 8, 24, 20
PER_EPOCH = CLASSES * PER_CLASS // BATCH
JOB = {**step_parity.JOB, "batch_size": BATCH // 3, "sync_bn": True, "sample_rate": 1, "num_epoch": 10,
       "warmup_epoch": 0, "margin_list": [1.0, 0.3, 0.0], "margin_scale": 64, "weight_decay": 5e-4}
CASES = [(network, optimizer, gpus)
         for network in ("r18", "mbf") for optimizer in ("sgd", "adamw") for gpus in (1, 2, 8)]
RATES = {"sgd": 1e-4, "adamw": 1e-5}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipUnless(UPSTREAM, "not run: PFC_ARCFACE_TORCH is no checkout of arcface_torch")
class WithArcfaceTorch(unittest.TestCase):
    def prepare(self, network, optimizer):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.size = 112 if network == "mbf" else 32  # arcface_torch's mobilefacenet takes no other size
        self.job = {**JOB, "network": network, "optimizer": optimizer, "lr": RATES[optimizer], "num_classes": CLASSES}
        path = reference_input.make(self.folder, self.job, CLASSES, PER_CLASS, size=self.size)
        self.made = json.loads(path.read_text())

    def upstream(self, gpus, steps, **config):
        """Trains with arcface_torch on this number of processes. Returns the records of the steps."""
        (self.folder / "out").mkdir(exist_ok=True)
        keys = ("network", "embedding_size", "optimizer", "lr", "weight_decay", "margin_list", "num_epoch",
                "warmup_epoch", "num_classes", "sample_rate", "seed")
        settings = {"config": {**{key: self.job[key] for key in keys}, "output": str(self.folder / "out"),
                               "rec": "data", "num_image": CLASSES * PER_CLASS, "batch_size": BATCH // gpus,
                               "val_targets": [], "save_all_states": True, **config},
                    "data": str(self.folder / "reference.safetensors"), "batch": BATCH, "size": self.size,
                    "steps": steps, "losses": str(self.folder / "losses.json")}
        (self.folder / "settings.json").write_text(json.dumps(settings))
        port = free_port()
        command = [sys.executable, "-B", HERE / "arcface_torch_run.py", UPSTREAM, self.folder / "settings.json"]
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(gpus),
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(HERE)})
                 for rank in range(gpus)]
        outputs = [rank.communicate()[0] for rank in ranks]
        for rank, output in zip(ranks, outputs):
            self.assertEqual(rank.returncode, 0, output)
        return json.loads((self.folder / "losses.json").read_text())

    def pfc(self, output, last_step, **keys):
        job = {**self.made, "output": str(output), "max_steps": last_step, **keys}
        path = self.folder / "pfc.json"
        path.write_text(json.dumps({key: value for key, value in job.items() if value is not None}))
        step_parity.run([BIN / "pfc-coordinator", "--hosts", "localhost:3", "--config", path, "--port", 0,
                         "--http-port", 0, "--state-dir", self.folder / "state"])
        lines = (output / "metrics.jsonl").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if "loss" in entry]

    def compare(self, name, ours, theirs):
        self.assertEqual([s["step"] for s in ours], [s["step"] for s in theirs])
        self.assertEqual(len(ours), STEPS)
        errors = [abs(a["loss"] / b["loss"] - 1) for a, b in zip(ours, theirs)]
        print(f"{name}: loss {theirs[0]['loss']:.3f} to {theirs[-1]['loss']:.3f}, error first {errors[0]:.1e}, "
              f"largest {max(errors):.1e}", flush=True)
        self.assertLess(max(errors), 1e-3, name)

    def test_pfc_continues_with_three_workers_as_arcface_torch_does(self):
        for network, optimizer, gpus in CASES:
            with self.subTest(network=network, optimizer=optimizer, gpus=gpus):
                self.prepare(network, optimizer)
                theirs = self.upstream(gpus, PER_EPOCH + STEPS)
                ours = self.pfc(self.folder / "out" / "epoch-1", PER_EPOCH + STEPS, resume=True, init_from=None)
                self.compare(f"to pfc: {network}, {optimizer}, {gpus} GPUs", ours, theirs[PER_EPOCH:])

    def test_arcface_torch_continues_from_exported_files_as_pfc_does(self):
        for network, optimizer, gpus in CASES:
            with self.subTest(network=network, optimizer=optimizer, gpus=gpus):
                self.prepare(network, optimizer)
                ours = self.pfc(self.folder / "pfc", PER_EPOCH)
                step_parity.run([BIN / "pfcctl", "export", "arcface", "--gpus", gpus, "--output", self.folder / "out",
                                 "--checkpoint", self.folder / "pfc" / f"step-{PER_EPOCH:09}"])
                ours = self.pfc(self.folder / "pfc", PER_EPOCH + STEPS, resume=True)[PER_EPOCH:]
                theirs = self.upstream(gpus, PER_EPOCH + STEPS, resume=True)
                self.compare(f"from pfc: {network}, {optimizer}, {gpus} GPUs", ours, theirs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="cases whose names hold this text, for example r18,sgd,2")
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin.resolve()
    CASES = [case for case in CASES if arguments.only in ",".join(map(str, case))]
    unittest.main(argv=[sys.argv[0], *rest])
