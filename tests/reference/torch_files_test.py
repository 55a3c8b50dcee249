"""Tests that pfc reads the same numbers from the files of torch.save(), for every network and layout."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import torch

import safetensors_io
from backbone_reference import (ADAFACE_BLOCKS, IRESNET_BLOCKS, MBF, RESNET, TFACE_BLOCKS, make_backbone,
                                some_depths)

PROGRAM = None
SIZE = 32


def random_state(network, embedding_size=64, seed=0):
    """Returns a state dict of random numbers, also for batch statistics."""
    torch.manual_seed(seed)
    model = make_backbone(network, embedding_size, height=SIZE, width=SIZE)
    state = model.state_dict()
    for name, tensor in state.items():
        if tensor.dtype == torch.int64:
            tensor.fill_(7)
        else:
            tensor.uniform_(-2, 2)
    return state


class TorchFiles(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def read(self, contents, **options):
        """Saves the contents; returns pfc's result for the file: (done, tensors)."""
        torch.save(contents, self.folder / "model.pt", **options)
        out = self.folder / "out.safetensors"
        done = subprocess.run([PROGRAM, self.folder / "model.pt", out], capture_output=True, text=True)
        return done, safetensors_io.load(out) if done.returncode == 0 else None

    def reads(self, contents, expected, **options):
        done, tensors = self.read(contents, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(tensors), set(expected))
        for name, tensor in expected.items():
            wanted = tensor if tensor.dtype == torch.int64 else tensor.float()
            self.assertTrue((torch.from_numpy(tensors[name]) == wanted).all(), name)

    def fails(self, contents, *words, **options):
        done, _ = self.read(contents, **options)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_weights_of_networks_of_every_kind_are_read(self):
        for network in some_depths([*IRESNET_BLOCKS, *ADAFACE_BLOCKS, *TFACE_BLOCKS, *RESNET, *MBF]):
            with self.subTest(network=network):
                state = random_state(network)
                self.reads(state, state)

    def test_the_classifier_of_torchvision_is_left_out(self):
        state = random_state("resnet18")
        self.reads({**state, "fc.weight": torch.randn(1000, 512), "fc.bias": torch.randn(1000)}, state)

    def test_data_in_a_file_that_are_not_the_network_are_ignored(self):
        state = random_state("mbf")
        centres = torch.randn(5, 64)
        named = lambda prefix: {prefix + name: tensor for name, tensor in state.items()}
        for name, contents in {
                "arcface_torch": {"epoch": 1, "global_step": 20, "state_dict_backbone": state,
                                  "state_dict_softmax_fc": {"weight": centres},
                                  "state_optimizer": {"state": {0: {"momentum_buffer": centres}},
                                                      "param_groups": [{"lr": 0.1, "params": [0]}]}},
                "Lightning": {"state_dict": named("model.") | {"head.kernel": centres.t()}, "epoch": 3,
                              "hyper_parameters": argparse.Namespace(lr=0.1, loss=pathlib.Path("x")),
                              "optimizer_states": [{"state": {0: {"momentum_buffer": centres}}}]},
                "CVLface": named("net."), "DistributedDataParallel": named("module.")}.items():
            with self.subTest(name):
                self.reads(contents, state)

    def test_cvlface_gives_the_order_of_colours_in_a_file_next_to_the_weights(self):
        state, stem = random_state("ir_18"), "input_layer.0.weight"
        contents = {"net." + name: tensor for name, tensor in state.items()}
        self.fails(contents, "model.yaml: found no line", "copy the file")
        for order in ("BGR", "'RGB'"):
            (self.folder / "model.yaml").write_text(f"input_size: [3, 112, 112]\ncolor_space: {order}\n")
            flipped = state[stem] if order == "BGR" else state[stem].flip(1)
            self.reads(contents, {**state, stem: flipped})  # pfc stores the weights for BGR

    def test_networks_with_squeeze_and_excitation_read_bgr_unless_they_are_tfaces(self):
        state, stem = random_state("ir_se_50"), "input_layer.0.weight"
        flipped = {**state, stem: state[stem].flip(1)}  # pfc stores the weights for RGB
        self.reads(state, state)
        self.reads({"state_dict": {"model." + name: tensor for name, tensor in state.items()}}, flipped)
        contents = {"net." + name: tensor for name, tensor in state.items()}
        self.fails(contents, "model.yaml: found no line", "copy the file")
        for order, expected in {"BGR": flipped, "RGB": state}.items():
            (self.folder / "model.yaml").write_text(f"color_space: {order}\n")
            self.reads(contents, expected)

    def test_tensors_of_other_types_and_layouts_are_read(self):
        state = random_state("mbf")
        flat = torch.cat([t.reshape(-1) for t in state.values() if t.is_floating_point()])
        shared, begin = {}, 0
        for name, tensor in state.items():
            shared[name] = tensor
            if tensor.is_floating_point():
                shared[name] = flat[begin:begin + tensor.numel()].view(tensor.shape)
                begin += tensor.numel()
        transposed = dict(state)
        transposed["features.layers.2.weight"] = state["features.layers.2.weight"].t().contiguous().t()
        for name, contents in {
                "float16": {k: t.half() if t.is_floating_point() else t for k, t in state.items()},
                "bfloat16": {k: t.bfloat16() if t.is_floating_point() else t for k, t in state.items()},
                "float64": {k: t.double() if t.is_floating_point() else t for k, t in state.items()},
                "channels last": {k: t.contiguous(memory_format=torch.channels_last)
                                  if t.dim() == 4 else t for k, t in state.items()},
                "parameters": {k: torch.nn.Parameter(t) if t.is_floating_point() else t
                               for k, t in state.items()},
                "one storage": shared, "transposed": transposed}.items():
            with self.subTest(name):
                self.reads(contents, contents)
        with self.subTest("pickle protocol 4"):
            self.reads(state, state, pickle_protocol=4)

    def test_files_without_a_network_are_rejected_in_one_line(self):
        self.fails(torch.randn(7, 512), "model.pt: holds one tensor [7, 512]", "class centres")
        self.fails(random_state("mbf"), "before 1.6", "convert it",
                   _use_new_zipfile_serialization=False)
        self.fails(make_backbone("mbf", 64, height=SIZE, width=SIZE), "holds no tensors",
                   "backbone_reference.MobileFaceNet")
        state = random_state("mbf")
        del state["conv_sep.layers.1.bias"]
        self.fails(state, "has no tensor 'conv_sep.layers.1.bias'")
        self.fails({"conv1.weight": torch.zeros(64, 3, 7, 7), "layer4.0.conv2.weight": torch.zeros(1 << 62, 0, 1, 1)},
                   "unknown network")

    def test_code_in_a_pickle_is_not_run(self):
        class Command:
            def __reduce__(self):
                return os.system, (f"touch {target}",)

        target = self.folder / "was_run"
        self.fails(Command(), "holds no tensors but posix.system", "nothing in it was run")
        state = random_state("mbf")
        self.reads({"state_dict": state, "callbacks": Command()}, state)
        self.assertFalse(target.exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM = arguments.program
    unittest.main(argv=[sys.argv[0], *rest])
