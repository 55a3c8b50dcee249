"""landmarks_yunet.py with a fake detector: `pfcctl data align` can read the list that it writes."""

import contextlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PFCCTL = pathlib.Path(os.environ["PFC_BIN"]) / "pfcctl"
SPEC = importlib.util.spec_from_file_location("landmarks_yunet", ROOT / "scripts/landmarks_yunet.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)

FACE = [12.3, 16.6, 23.6, 16.5, 18.0, 23.0, 13.4, 29.7, 22.7, 29.6]  # in 36 x 36 pixels


class Landmarks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "landmarks.txt"
        self.model = self.folder / "yunet.onnx"
        self.model.touch()
        self.seen = []

    def photographs(self):
        data, images = self.folder / "data", self.folder / "photo graphs"
        for words in (("synth", "--identities", "3", "--images-per-identity", "2", "--size", "36", "--val-identities", "2",
                       "--val-pairs", "10", "--out", data), ("unpack", data, "--out", images)):
            subprocess.run([PFCCTL, "data", *words], check=True, capture_output=True)
        (images / "train.lst").unlink()
        return images

    def detect(self, path):
        self.seen.append(path.name)
        if path.name == "broken.jpg":
            raise ValueError("cannot be decoded")
        return None if path.name == "empty.PNG" else FACE

    def run_script(self, images):
        errors, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(told):
            script.main(["--model", str(self.model), "--images", str(images), "--out", str(self.out)],
                        lambda model, score, longest: self.detect)
        return told.getvalue(), errors.getvalue()

    def test_align_reads_the_written_list(self):
        images = self.photographs()
        for name in ("broken.jpg", "empty.PNG", ".hidden.jpg", "notes.txt", "two\nlines.jpg"):
            (images / name).touch()
        told, errors = self.run_script(images)
        self.assertIn("6 faces; 3 images have no line", told)
        self.assertEqual(sorted(line.split(": ")[1] for line in errors.splitlines()),
                         ["cannot be decoded", "found a control character in the name, which a list cannot hold; rename it",
                          "found no face"])
        aligned = subprocess.run([PFCCTL, "data", "align", self.out, "--images", images, "--out", self.folder / "aligned"],
                                 capture_output=True, text=True)
        self.assertEqual(aligned.returncode, 0, aligned.stderr)
        self.assertEqual(len(list((self.folder / "aligned").rglob("*.jpg"))), 6)
        self.assertNotIn("exchanged", aligned.stdout + aligned.stderr)

    def test_continues_after_the_last_complete_line(self):
        images = self.folder / "images"
        images.mkdir()
        for name in "abc":
            (images / f"{name}.jpg").touch()
        self.run_script(images)
        whole = self.out.read_bytes()
        self.out.write_bytes(whole[:-20])  # as left by a killed run
        self.seen.clear()
        self.run_script(images)
        self.assertEqual(self.seen, ["c.jpg"])
        self.assertEqual(self.out.read_bytes(), whole)

    def test_takes_the_largest_face_in_pixels_of_the_photograph(self):
        """With an OpenCV of the test's own, which has shrunk the image to a quarter."""
        class Error(Exception):
            pass

        class Detector:
            create = classmethod(lambda cls, *_: cls())
            sizes = []

            def setInputSize(self, size):
                self.sizes.append(size)
                if len(self.sizes) > 1:
                    self.detect = lambda _: (1, None)

            def detect(self, _):
                return 1, [[0, 0, 9, 9, *range(1, 11), 0.9], [0, 0, 10, 9, *range(11, 21), 0.8], [0, 0, 1, 1, *range(10), 1]]

        image = types.SimpleNamespace
        cv2 = types.SimpleNamespace(error=Error, FaceDetectorYN=Detector, INTER_AREA=3,
                                    imread=lambda path: None if path == "broken" else image(shape=(4096, 1024, 3)),
                                    resize=lambda _, size, interpolation: image(shape=(size[1], size[0], 3)))
        with unittest.mock.patch.dict(sys.modules, cv2=cv2):
            detect = script.YuNet("yunet.onnx", 0.6, 1024)
        self.assertEqual(detect("a.jpg"), [4 * number for number in range(11, 21)])
        self.assertEqual(Detector.sizes, [(256, 1024)])
        self.assertIsNone(detect("a.jpg"))
        with self.assertRaisesRegex(ValueError, "cannot be decoded"):
            detect("broken")

    def test_names_a_missing_folder_or_missing_images(self):
        with self.assertRaisesRegex(SystemExit, "nowhere: not found"):
            self.run_script(self.folder / "nowhere")
        (self.folder / "none").mkdir()
        with self.assertRaisesRegex(SystemExit, "none: found no .jpeg, .jpg"):
            self.run_script(self.folder / "none")


if __name__ == "__main__":
    unittest.main()
