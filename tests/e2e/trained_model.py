"""Base class of tests of a trained model."""

import pathlib
import sys

from support import BIN, JobTest, run

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "reference"))


class TrainedModel(JobTest):
    """All tests of a class share the model, and a folder for each person with the images of the data set."""

    STEPS = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        one = cls()
        one.setUp()
        one.finished(1, one.job(max_steps=cls.STEPS, output=str(cls.shared / "out")))
        cls.model = cls.shared / "out/backbone.safetensors"
        cls.people = cls.shared / "people"
        run(BIN / "pfcctl", "data", "unpack", cls.data, "--out", cls.people, check=True)
        (cls.people / "train.lst").unlink()
