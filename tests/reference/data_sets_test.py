"""Reads data sets of other programs: GNU tar, and Python's LMDB and pickle. Each has the images of one drawn set, and
must be unpacked to the same bytes and labels."""

import argparse
import json
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

import lmdb

PFCCTL = None
IDENTITIES, IMAGES = 12, 5


def pfcctl(*words):
    done = subprocess.run([PFCCTL, "data", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"pfcctl data {words}: {done.stdout}{done.stderr}")
    return done.stdout


def contents(folder):
    """Returns (label, bytes) of each image of a folder that `unpack` has written, in order."""
    lines = (folder / "train.lst").read_text().splitlines()
    return [(int(label), (folder / path).read_bytes())
            for _, label, path in (line.split("\t") for line in lines)]


class DataSets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        pfcctl("synth", "--identities", IDENTITIES, "--images-per-identity", IMAGES,
               "--val-identities", 4, "--val-pairs", 10, "--out", cls.folder / "drawn")
        pfcctl("unpack", cls.folder / "drawn", "--out", cls.folder / "images")
        cls.images = contents(cls.folder / "images")
        random.Random(3).shuffle(cls.images)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def unpacked(self, data, name):
        pfcctl("unpack", data, "--out", self.folder / f"{name}-unpacked")
        return contents(self.folder / f"{name}-unpacked")

    def write_lmdb(self, name, entries):
        with lmdb.open(str(self.folder / name), map_size=1 << 28) as env:
            with env.begin(write=True) as txn:
                for key, value in entries:
                    txn.put(key, value)
        return self.folder / name

    def test_an_lmdb_of_pickles_is_read(self):
        for protocol in (2, 3, 4, 5):
            with self.subTest(protocol=protocol):
                entries = [(str(i).encode(), pickle.dumps((image, label), protocol))
                           for i, (label, image) in enumerate(self.images)]
                keys = [key for key, _ in entries]
                entries += [(b"__keys__", pickle.dumps(keys)), (b"__len__", pickle.dumps(len(keys)))]
                data = self.write_lmdb(f"pickles{protocol}", entries)
                self.assertEqual(self.unpacked(data, f"pickles{protocol}"), self.images)

    def test_an_lmdb_of_images_and_labels_is_read(self):
        entries = [(b"num-samples", str(len(self.images)).encode())]
        for i, (label, image) in enumerate(self.images, 1):
            entries += [(b"image-%09d" % i, image), (b"label-%09d" % i, str(label).encode())]
        data = self.write_lmdb("pairs", entries)
        self.assertEqual(self.unpacked(data, "pairs"), self.images)

    def test_an_lmdb_with_a_list_is_read(self):
        data = self.write_lmdb("listed", [(b"%06d.jpg" % i, image)
                                          for i, (_, image) in enumerate(self.images)])
        (data / "labels.txt").write_text(
            "".join(f"{i:06}.jpg {label}\n" for i, (label, _) in enumerate(self.images)))
        self.assertEqual(self.unpacked(data, "listed"), self.images)

    def test_tar_archives_of_every_format_are_read(self):
        # The names are longer than the header's field for them, if the format allows this.
        for form, prefix in {"ustar": "a" * 60, "pax": "a" * 120, "gnu": "a" * 120}.items():
            with self.subTest(form=form):
                samples = self.folder / f"{form}-samples"
                samples.mkdir()
                for i, (label, image) in enumerate(self.images):
                    name = f"{prefix}{i:04}"
                    (samples / f"{name}.jpg").write_bytes(image)
                    if i % 2 == 0:
                        (samples / f"{name}.cls").write_text(f"{label}\n")
                    else:
                        (samples / f"{name}.json").write_text(json.dumps({"label": label}))
                archive = self.folder / f"{form}.tar"
                subprocess.run(["tar", "--sort=name", f"--format={form}", "-cf", archive, "-C", samples, "."],
                               check=True)
                self.assertEqual(self.unpacked(archive, form), self.images)

    def test_info_and_validate_accept_an_lmdb(self):
        data = self.write_lmdb("looked", [(str(i).encode(), pickle.dumps((image, label)))
                                          for i, (label, image) in enumerate(self.images)])
        info = json.loads(pfcctl("info", data, "--json"))
        self.assertEqual(info["images"], IDENTITIES * IMAGES)
        self.assertEqual(info["classes"], IDENTITIES)
        self.assertIn("found no faults", pfcctl("validate", data))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="folder of the programs")
    options, rest = parser.parse_known_args()
    PFCCTL = str(pathlib.Path(options.bin).resolve() / "pfcctl")
    unittest.main(argv=[sys.argv[0], *rest])
