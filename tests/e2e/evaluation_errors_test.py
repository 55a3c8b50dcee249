"""Verbs that evaluate a model, given damaged models and sets, outputs that are inputs, and hostile names."""

import json
import os
import pathlib
import pickle
import re
import shutil
import unittest

import numpy as np

from support import BIN, digest, run
from trained_model import TrainedModel

import safetensors_io  # in tests/reference


class EvaluationErrors(TrainedModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images = sorted(str(p.relative_to(cls.people)) for p in cls.people.rglob("*.jpg"))

    def pfcctl(self, verb, *words, model=None):
        return run(BIN / "pfcctl", verb, "--model", model or self.model, *words)

    def changed_model(self, name, **tensors):
        """Writes a copy of the model with other values of these tensors, and returns its path."""
        path = self.folder / f"{name}.safetensors"
        raw = self.model.read_bytes()
        header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
        whole = safetensors_io.load(self.model)
        for tensor, value in tensors.items():
            whole[tensor.replace("__", ".")][...] = value
        safetensors_io.save(path, whole, header.get("__metadata__"))
        return path

    def write_ijb(self, score=1):
        """Writes lists with one template for each image."""
        root = self.folder / "ijb"
        (root / "meta").mkdir(parents=True)
        shutil.copytree(self.people, root / "loose_crop")

        def write(name, lines):
            (root / "meta" / f"ijbc_{name}").write_text("".join(line + "\n" for line in lines))

        points = "10 14 21 14 16 20 12 26 20 26"
        write("name_5pts_score.txt", (f"{name} {points} {score}" for name in self.images))
        write("face_tid_mid.txt", (f"{name} {i} 1" for i, name in enumerate(self.images)))
        write("template_pair_label.txt", ["0 1 1", "0 79 0", "2 3 1", "2 78 0"])
        for name, some in (("gallery_G1", range(0, 80, 10)), ("gallery_G2", range(0, 40, 10)), ("probe_mixed", range(5, 80, 10))):
            write(f"1N_{name}.csv", ["TEMPLATE_ID,SUBJECT_ID", *(f"{t},{t // 10}" for t in some)])
        return root

    def test_embeddings_that_are_zero_or_not_finite_are_errors(self):
        root = self.write_ijb()
        for name, tensors in (("nan", {"conv_sep__layers__0__weight": np.nan}), ("inf", {"features__layers__2__weight": np.inf}),
                              ("variance", {"features__layers__3__running_var": -1}),
                              ("zero", {"features__layers__3__weight": 0, "features__layers__3__bias": 0})):
            model = self.changed_model(name, **tensors)
            for words in (("verify", "--bin", self.data / "val.bin"), ("identify", "--probes", self.people), ("ijbc", "--data", root),
                          ("embed", "--in", self.people, "--out", self.folder / "x.npy")):
                self.assert_one_line(self.pfcctl(*words, model=model), f"{name}.safetensors: the embedding of ",
                                     "is zero" if name == "zero" else "is not finite", code=2)
        self.assertEqual(list(self.folder.glob("x*")), [])

    def test_templates_of_zeros_find_no_mate(self):
        found = json.loads(self.pfcctl("ijbc", "--data", self.write_ijb(score=0), "--json").stdout)
        self.assertEqual(found["identification"]["rank"]["1"], 0)

    def test_outputs_that_are_inputs_are_refused(self):
        model, val = (pathlib.Path(shutil.copy(path, self.folder)) for path in (self.model, self.data / "val.bin"))
        root = self.write_ijb()
        (self.folder / "link.npy").symlink_to(val)
        people = pathlib.Path(shutil.copytree(self.people, self.folder / "people"))
        for words, told in ((("embed", "--in", people, "--out", model), "is the input file"),
                            (("embed", "--in", people, "--out", people / "x.npy"), "inside the data set"),
                            (("verify", "--bin", val, "--roc", model), "is the input file"),
                            (("verify", "--bin", val, "--roc", self.folder / "link.npy"), "is the input file"),
                            (("ijbc", "--data", root, "--roc", root / "meta/ijbc_face_tid_mid.txt"), "is the input file"),
                            (("ijbc", "--data", root, "--roc", model), "is the input file"),
                            (("ijbc", "--data", root, "--roc", self.folder / "no/x.svg"), "No such file"),
                            (("verify", "--bin", val, "--roc", self.folder / "no/x.svg"), "No such file")):
            done = self.pfcctl(*words, model=model)
            self.assert_one_line(done, told)
            self.assertNotIn("embedding", done.stderr)
        self.assertEqual((digest(model), digest(val)), (digest(self.model), digest(self.data / "val.bin")))
        self.assertEqual(len(list(people.rglob("*"))), len(list(self.people.rglob("*"))))

    def embed(self, out, data=None, *more):
        return self.pfcctl("embed", "--in", data or self.people, "--out", self.folder / out, *more)

    def test_embed_never_pairs_labels_and_embeddings_of_two_runs(self):
        self.assert_one_line(self.embed("labels.npy"), "and is not labels.npy", code=2)
        self.assertEqual(self.embed("a.npy").returncode, 0)
        before = {path.name: digest(path) for path in self.folder.iterdir()}
        other = pathlib.Path(shutil.copytree(self.people, self.folder / "other"))
        shutil.move(other / self.images[-1], other / self.images[0].replace(".jpg", "x.jpg"))
        other = pathlib.Path(shutil.move(other, self.shared / "other"))
        self.addCleanup(shutil.rmtree, other)
        self.assert_one_line(self.embed("b.npy", other), "labels.npy: already exists", code=2)
        self.assert_one_line(self.embed("a.safetensors"), "a.npy: already exists", "a.names.txt", code=2)
        # A run over data with other labels and names, which fails at its last image, leaves all files as they were.
        (other / sorted(os.listdir(other))[-1] / "zz.jpg").write_bytes(b"\xff\xd8 cut short")
        self.assert_one_line(self.embed("a.npy", other), "1 of 81 images are damaged", code=2)
        self.assertEqual({path.name: digest(path) for path in self.folder.iterdir()}, before)
        self.assertIn("1 damaged image with", self.embed("a.npy", other, "--max-damaged", 0.1).stdout)
        self.assertEqual(len(np.load(self.folder / "a.npy")), len(np.load(self.folder / "labels.npy")))

    def test_verify_checks_all_its_files_before_it_computes(self):
        good, bad = self.data / "val.bin", self.folder / "bad.bin"
        bad.write_bytes(good.read_bytes()[:-20])
        (self.folder / "loop.bin").symlink_to("loop.bin")
        broken = self.folder / "cut.safetensors"
        broken.write_bytes(self.model.read_bytes()[:5000])
        for words in ((good, bad), (good, self.folder / "none.bin"), (good, self.folder / "loop.bin"), (good, "x" * 5000),
                      (good, "--model", broken)):
            done = self.pfcctl("verify", "--bin", *words)
            self.assert_one_line(done, code=2)
            self.assertNotIn("embedding", done.stderr)
            self.assertNotIn("filesystem error", done.stderr)
        # A set that is given twice is one set, and a batch is not larger than the set.
        found = json.loads(self.pfcctl("verify", "--json", "--batch", 4096, "--bin", good, self.data / "./val.bin").stdout)
        self.assertEqual([each["set"] for each in found], ["val"])
        images, _ = pickle.loads(good.read_bytes())
        halves = self.folder / "halves.bin"
        halves.write_bytes(pickle.dumps((images[:40], [True] * 10 + [False] * 10)))
        self.assertIn("10 of its folds have only pairs of one person", self.pfcctl("verify", "--bin", halves).stderr)

    def test_names_are_printed_as_one_line_of_utf8(self):
        model = shutil.copy(self.model, os.fsencode(self.folder) + b"/\xff\x1b[31m\nforged")
        data = os.fsdecode(os.fsencode(self.folder) + b"/\xfe")
        shutil.copytree(self.people, data)
        model = os.fsdecode(model)
        for words in (("verify", "--bin", self.data / "val.bin"), ("embed", "--in", data, "--out", self.folder / "\x1b.safetensors"),
                      ("identify", "--probes", data), ("ijbc", "--data", self.write_ijb())):
            for json_too in ((), ("--json",)):
                done = self.succeeded(self.pfcctl(*words, *json_too, model=model))
                self.assertNotIn("\x1b", done.stdout + done.stderr)
                self.assertNotIn("\nforged", done.stdout + done.stderr)
        for json_too in ((), ("--json",)):
            done = self.succeeded(run(BIN / "pfcctl", "model", "info", model, *json_too))
            self.assertNotIn("\x1b", done.stdout)

    def test_identify_compares_people_only_by_name(self):
        sets = ("identify", "--probes", self.data, "--gallery", self.people)
        self.assert_one_line(self.pfcctl(*sets), "has no name", "--same-labels", code=2)
        done = self.pfcctl(*sets, "--same-labels", "--json")
        self.assertEqual(json.loads(done.stdout)["mated"], 80)
        self.assertIn("80 of 80 probes find their own image", done.stderr)
        noises = self.folder / "noises.txt"
        noises.write_text("".join(name + "\n" for name in self.images))
        self.assert_one_line(self.pfcctl("identify", "--probes", self.people, "--noises", noises), "no image is left of 80", code=2)

    def test_ijbc_leaves_out_templates_of_damaged_images(self):
        root = self.write_ijb()
        for k in (0, 5):
            (root / "loose_crop" / self.images[k]).write_bytes(b"\xff\xd8 cut short")
        lines = (root / "meta/ijbc_name_5pts_score.txt").read_text()
        (root / "meta/ijbc_name_5pts_score.txt").write_text(re.sub(r"(?m)^(\S*%s) .*" % re.escape(self.images[10]),
                                                                   r"\1 9000 14 9021 14 9016 20 9012 26 9020 26 1", lines))
        words = ("ijbc", "--data", root, "--max-damaged", 0.1)
        found = json.loads(self.pfcctl(*words, "--json").stdout)
        self.assertEqual((found["pairs"], found["left_out_pairs"], found["identification"]["probes"]), (2, 2, 7))
        done = self.pfcctl(*words)
        self.assertIn("2 more pairs were skipped", done.stdout)
        self.assertIn("5 of 5 landmarks are outside the image", done.stderr)


if __name__ == "__main__":
    unittest.main()
