"""Reads the files of `pfcctl export` with the programs that they are made for: PyTorch, ONNX's checker and ONNX
Runtime.

The networks are those of backbone_reference.py, with random weights and the statistics of random images. PyTorch and
the exported file then get the same images. PFC_BIN is the folder of the programs; onnxruntime.py says how to install
ONNX Runtime.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import zipfile

import numpy as np
import onnx
import torch

import image_records
import onnxruntime
import safetensors_io
from backbone_parity import randomise
from backbone_reference import IRESNET_BLOCKS, MBF, make_backbone, normalised, some_depths

BIN = pathlib.Path(os.environ["PFC_BIN"])
BATCHES = (1, 7, 32)
LIMIT, FLOAT16_LIMIT, LEAST_COSINE = 1e-4, 1e-2, 0.99

torch.manual_seed(0)
torch.set_num_threads(1)


def random_network(network, size, embedding_size):
    generator = torch.Generator().manual_seed(5)
    model = make_backbone(network, embedding_size, 0.0, size, size)
    randomise(model, generator)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 1.0  # one pass sets the statistics
    with torch.no_grad():
        model.train()(normalised(torch.randint(0, 256, (6, size, size, 3), generator=generator)))
    return model.eval()


def median_cosine(a, b):
    return np.median((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def worst(got, want):
    return (np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)).max()


class Exported(unittest.TestCase):
    """A network in a file, as a job writes it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def network(self, name, size, embedding_size=512):
        self.size = size
        self.model = random_network(name, size, embedding_size)
        state = {key: value.numpy() for key, value in self.model.state_dict().items()}
        safetensors_io.save(self.folder / "backbone.safetensors", state, {"network": name})
        return state

    def pfcctl(self, *words, codes=(0,)):
        done = subprocess.run([BIN / "pfcctl", *words], capture_output=True, text=True)
        self.assertIn(done.returncode, codes, done.stderr)
        return done

    def export(self, kind, *options):
        file = self.folder / f"exported.{kind}"
        if "--model" not in options:
            options = ("--model", self.folder / "backbone.safetensors", *options)
        self.said = json.loads(self.pfcctl("export", kind, "--output", file, "--json", *options).stdout)
        self.assertEqual(self.said["bytes"], file.stat().st_size)
        return file

    def pixels(self, count):
        generator = torch.Generator().manual_seed(11)
        return torch.randint(0, 256, (count, self.size, self.size, 3), generator=generator)

    def people(self, pixels):
        """Writes a data set of these images."""
        people = self.folder / "people"
        (people / "one").mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(pixels.numpy().astype(np.uint8)):
            (people / "one" / f"{number}.png").write_bytes(image_records.png(image))
        return people

    def export_int8(self, pixels, *options):
        return self.export("onnx", "--int8", "--calibrate", self.people(pixels), *options)

    def embeddings(self, pixels):
        with torch.no_grad():
            return np.concatenate([self.model(part).numpy() for part in normalised(pixels).split(8)])


class WithPyTorch(Exported):
    def test_state_dict_is_loaded_without_running_code(self):
        for network in ("r18", "mbf"):
            state = self.network(network, 32)
            loaded = torch.load(self.export("pt"), weights_only=True)
            self.assertEqual(set(loaded), set(state))
            for name, values in state.items():
                self.assertEqual(loaded[name].dtype, torch.from_numpy(np.asarray(values)).dtype)
                self.assertTrue(np.array_equal(loaded[name].numpy(), values), name)
            make_backbone(network, 512, 0.0, 32, 32).load_state_dict(loaded)

    def test_info_lists_the_tensors_outside_the_network(self):
        state = {name: torch.from_numpy(np.asarray(value)) for name, value in self.network("mbf", 32, 64).items()}
        centres, momentum = torch.randn(5, 64), {"momentum_buffer": torch.randn(5, 64)}
        forged = {"\x1b[31m\nnetwork": "r50\n" + "x" * 2000 + "\x07"}
        safetensors_io.save(self.folder / "centres.safetensors", {name: value.numpy() for name, value in state.items()}
                            | {"centres": centres.numpy()}, {"network": "mbf", **forged})
        torch.save({"epoch": 1, "state_dict_backbone": state, "state_dict_softmax_fc": {"weight": centres},
                    "state_optimizer": {"state": {0: momentum, 1: momentum}}}, self.folder / "checkpoint_gpu_0.pt")
        for file, others in (("checkpoint_gpu_0.pt", {"state_dict_softmax_fc": {"tensors": 1, "shape": [5, 64]},
                                                      "state_optimizer": {"tensors": 2}}),
                             ("centres.safetensors", {"centres": {"tensors": 1, "shape": [5, 64]}})):
            told = self.pfcctl("model", "info", self.folder / file, "--json").stdout
            self.assertEqual(json.loads(told)["others"], others)
            text = self.pfcctl("model", "info", self.folder / file).stdout
            self.assertIn("[5,64]", text)
            self.assertLess(max(map(len, text.splitlines())), 1100)
            self.assertNotRegex(text, "\nnetwork +r50")
            self.assertNotIn("\x1b", text)

    def test_tensors_of_a_state_dict_are_aligned_for_memory_mapping(self):
        self.network("r18", 32)
        with zipfile.ZipFile(self.export("pt")) as archive:
            self.assertIsNone(archive.testzip())
            for member in archive.infolist():
                archive.fp.seek(member.header_offset + 26)
                name, extra = np.frombuffer(archive.fp.read(4), "<u2")
                self.assertEqual((member.header_offset + 30 + int(name) + int(extra)) % 64, 0, member.filename)

    def test_safetensors_hold_the_same_tensors(self):
        state = self.network("mbf", 32)
        loaded = safetensors_io.load(self.export("safetensors"))
        self.assertEqual(set(loaded), set(state))
        for name, values in state.items():
            self.assertTrue(np.array_equal(loaded[name], values), name)


class WithOnnx(Exported):
    def test_networks_of_every_kind_give_the_embeddings_of_pytorch_for_any_batch(self):
        """Without ONNX Runtime, only pfcctl itself compares the embeddings, with those of its own network."""
        for network in some_depths([*IRESNET_BLOCKS, "ir_18", "ir_se_50", "resnet18", *MBF]):
            # The file of a torchvision network cannot say another size than the default.
            size = 224 if network == "resnet18" else 112 if network in ("r50", "mbf") else 48
            with self.subTest(network=network):
                self.network(network, size)
                file = self.export("onnx")
                self.assertLess(self.said["difference"], LIMIT)
                model = onnx.load(file)
                onnx.checker.check_model(model, full_check=True)
                self.assertEqual([d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim],
                                 ["N", 3, size, size])
                self.assertEqual([d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim],
                                 ["N", 512])
                # arcface_torch's onnx_helper.py would take these nodes for a normalisation.
                for node in list(model.graph.node)[:8]:
                    self.assertFalse(any(word in node.name for word in ("Sub", "_minus", "Mul", "_mul", "Div")))
                if onnxruntime.is_installed():
                    self.compare_in_onnx_runtime(file, f"{network}, {size} x {size} pixels")

    def compare_in_onnx_runtime(self, file, name):
        pixels = self.pixels(max(BATCHES))
        images, want = normalised(pixels).numpy(), self.embeddings(pixels)
        session = onnxruntime.InferenceSession(file)
        for batch in BATCHES:
            difference = worst(session.run(None, {"data": images[:batch]})[0], want[:batch])
            print(f"{name}, batch {batch}: {difference:.1e}")
            self.assertLess(difference, LIMIT)

    def test_checker_accepts_every_option(self):
        self.network("mbf", 32)
        plain = self.export("onnx").stat().st_size
        for options in (["--opset", "11", "--flip"], ["--opset", "12"], ["--normalize"], ["--flip"], ["--float16"],
                        ["--float16", "--normalize", "--flip"]):
            with self.subTest(options=options):
                file = self.export("onnx", *options)
                onnx.checker.check_model(onnx.load(file), full_check=True)
                if "--float16" in options:
                    self.assertLess(file.stat().st_size, 0.8 * plain)


    def test_checker_accepts_int8(self):
        self.network("r18", 32)
        plain = self.export("onnx").stat().st_size
        model = onnx.load(self.export_int8(self.pixels(4), "--normalize", "--flip"))
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual(self.said["calibration_images"], 4)
        self.assertLess(model.ByteSize(), 0.4 * plain)
        dequantized = {y for node in model.graph.node if node.op_type == "DequantizeLinear" for y in node.output}
        for node in model.graph.node:
            if node.op_type in ("Conv", "Gemm"):
                self.assertLessEqual(set(node.input[:2]), dequantized, node.name)


    def test_an_int8_file_that_is_too_inaccurate_is_not_written(self):
        self.network("mbf", 48)
        file = self.folder / "exported.onnx"
        done = self.pfcctl("export", "onnx", "--model", self.folder / "backbone.safetensors", "--output", file, "--int8",
                           "--calibrate", self.people(self.pixels(8)), codes=(2,))
        self.assertIn("not written, because the median cosine", done.stderr)
        self.assertFalse(file.exists())


class CompetitionLimits(Exported):
    def broken(self, file, *options):
        """Returns the names of the limits that the file exceeds."""
        done = self.pfcctl("model", "check-onnx", file, "--json", *options, codes=(0, 2))
        limits = json.loads(done.stdout)
        broken = [limit["what"] for limit in limits if not limit["kept"]]
        self.assertEqual(done.returncode, 2 if broken else 0, done.stderr)
        self.assertEqual("embeddings of 32 images" in [limit["what"] for limit in limits], not broken)
        return broken

    def test_files_beyond_a_limit_of_the_competition_are_reported(self):
        self.network("mbf", 112)
        self.assertEqual(self.broken(self.export("onnx")), [])
        self.assertEqual(self.broken(self.export("onnx", "--normalize")), [])
        self.assertEqual(self.broken(self.export("onnx", "--float16")), ["tensors"])
        self.network("mbf", 48)
        self.assertEqual(self.broken(self.export("onnx")), ["input"])
        self.network("mbf", 112, 600)
        self.assertEqual(self.broken(self.export("onnx"), "--track", "cfat"), ["embedding"])
        self.assertEqual(self.broken(self.export("onnx"), "--track", "glint"), [])

    def test_an_operator_that_cannot_run_is_reported_as_a_failed_limit(self):
        self.network("mbf", 112)
        model = onnx.load(self.export("onnx"))
        output = model.graph.output[0].name
        model.graph.node[-1].output[0] = "before"
        model.graph.node.append(onnx.helper.make_node("Softplus", ["before"], [output], name="last"))
        onnx.save(model, self.folder / "unknown.onnx")
        done = self.pfcctl("model", "check-onnx", self.folder / "unknown.onnx", codes=(2,))
        self.assertRegex(done.stdout, r"FAIL embeddings of 32 images +.*operator Softplus is not supported here")
        self.assertIn("ok   embedding ", done.stdout)


class ModelInfo(Exported):
    def test_operations_are_those_of_pytorchs_convolutions_and_linear_layers(self):
        for network in ("r18", "mbf"):
            with self.subTest(network=network):
                self.network(network, 48)
                products = []

                def count(layer, _, y, products=products):
                    products.append(y[0].numel() * layer.weight[0].numel())

                for layer in self.model.modules():
                    if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                        layer.register_forward_hook(count)
                self.embeddings(self.pixels(1))
                info = json.loads(self.pfcctl("model", "info", "--json", self.folder / "backbone.safetensors").stdout)
                self.assertEqual(info["flops"], 2 * sum(products))
                self.assertGreater(info["latency_ms"], 0)
                self.assertEqual(info["parameters"], sum(p.numel() for p in self.model.parameters()))


class FromPyTorch(Exported):
    def test_onnx_files_of_pytorchs_exporter_are_read(self):
        # Like arcface_torch's torch2onnx.py, this folds batch norms after convolutions, which renames the
        # convolutions.
        for network in ("r18", "mbf"):
            self.network(network, 48)
            pixels = self.pixels(3)
            want = self.embeddings(pixels)
            torch.onnx.export(self.model, torch.zeros(1, 3, 48, 48), str(self.folder / "theirs.onnx"), opset_version=11,
                              keep_initializers_as_inputs=False)
            again = self.export("safetensors", "--model", self.folder / "theirs.onnx")
            names = {node.op_type for node in onnx.load(self.folder / "theirs.onnx").graph.node}
            state = {name: torch.from_numpy(values) for name, values in safetensors_io.load(again).items()}
            self.model.load_state_dict(state)
            difference = worst(self.embeddings(pixels), want)
            print(f"{network}, operators {sorted(names)}: {difference:.1e}")
            self.assertLess(difference, 1e-5)


@unittest.skipUnless(onnxruntime.is_installed(), f"not run: no ONNX Runtime in {onnxruntime.PACKAGES}")
class WithOnnxRuntime(Exported):
    def run_file(self, file, images):
        return onnxruntime.InferenceSession(file).run(None, {"data": images})[0]

    def test_options_change_the_graph_as_documented(self):
        self.network("r18", 48)
        pixels = self.pixels(5)
        raw, images = pixels.permute(0, 3, 1, 2).float().numpy(), normalised(pixels).numpy()
        straight, mirrored = self.embeddings(pixels), self.embeddings(pixels.flip(2))
        for options, given, want, limit in (
                (["--opset", "11"], images, straight, LIMIT),
                (["--normalize"], raw, straight, LIMIT),
                (["--flip"], images, straight + mirrored, LIMIT),
                (["--normalize", "--flip", "--opset", "11"], raw, straight + mirrored, LIMIT),
                (["--float16"], images, straight, FLOAT16_LIMIT),
                (["--float16", "--normalize", "--flip"], raw, straight + mirrored, FLOAT16_LIMIT)):
            with self.subTest(options=options):
                difference = worst(self.run_file(self.export("onnx", *options), given), want)
                print(f"{' '.join(options)}: {difference:.1e}")
                self.assertLess(difference, limit)

    def test_int8_gives_nearly_the_embeddings_of_float32(self):
        self.network("r18", 48)
        pixels = self.pixels(16)
        got = self.run_file(self.export_int8(pixels), normalised(pixels).numpy())
        cosine = median_cosine(got, self.embeddings(pixels))
        print(f"int8: median cosine {cosine:.5f}, by pfc's own operators {self.said['median_cosine']:.5f}")
        self.assertGreater(cosine, LEAST_COSINE)
        self.assertAlmostEqual(cosine, self.said["median_cosine"], delta=1e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
