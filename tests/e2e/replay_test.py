"""A job that ends because a value is not finite writes its step to a file, for replay."""

import json
import math
import re
import struct
import unittest

from support import BIN, JobTest, run


def read_header(path):
    """Returns the JSON header of a safetensors file and the offset of its data."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def read_loss(path):
    header, data = read_header(path)
    at = data + header["loss"]["data_offsets"][0]
    return struct.unpack("<f", path.read_bytes()[at:at + 4])[0]


class Replay(JobTest):
    def trained_weights(self):
        self.finished(1, self.job("first.json", max_steps=1, output=str(self.folder / "first")))
        return self.folder / "first" / "backbone.safetensors"

    def fill(self, path, tensor, value, count=None):
        """Sets the first `count` numbers of a tensor, or all."""
        header, data = read_header(path)
        begin, end = header[tensor]["data_offsets"]
        count = count or (end - begin) // 4
        raw = bytearray(path.read_bytes())
        raw[data + begin:data + begin + 4 * count] = struct.pack("<f", value) * count
        path.write_bytes(raw)

    def replay(self, *arguments):
        self.replayed = self.folder / "replayed.safetensors"
        return run(BIN / "pfcctl", "replay", "head", *arguments, "--out", self.replayed)

    def test_a_nan_in_a_weight_is_found_in_the_embeddings(self):
        weights = self.trained_weights()
        self.fill(weights, "conv_sep.layers.0.weight", math.nan, count=1)
        done = self.train(2, self.job(max_steps=3, init_from=str(weights)))
        folder = self.folder / "out" / "not-finite-step-000000001"
        self.assert_one_line(done, "the loss is not finite at step 1", f"inputs are in {folder}, for",
                             "start again: there is no checkpoint", "pfcctl replay head --in")
        parts = sorted(folder.iterdir())
        self.assertEqual([part.name for part in parts],
                         [f"head-0000{rank}-of-00002.safetensors" for rank in (0, 1)])
        for part in parts:  # the data have 8 identities, so each worker has 4
            self.assertEqual(read_header(part)[0]["centres"]["shape"], [4, 64])

        for workers in (1, 2):
            again = self.succeeded(self.replay("--in", folder, "--workers", workers))
            self.assertIn("in the job the loss was not finite (loss nan); the rows are from "
                          "before the update", again.stdout)
            self.assertRegex(again.stdout, r"embeddings +8 x 64 +512, first in sample 0")
            self.assertRegex(again.stdout, r"centres +8 x 64 +- ")
            self.assertIn("loss nan", again.stdout)
            self.assertTrue(math.isnan(read_loss(self.replayed)))
        self.assertIn("rank 1 is missing", self.replay("--in", parts[0]).stderr)

    def test_a_loss_that_is_not_finite_after_a_high_learning_rate_is_reproduced(self):
        done = self.train(2, self.job(lr=1e30, num_epoch=100, clip_norm=0))
        self.assert_one_line(done, "the loss is not finite at step")
        folder, = (self.folder / "out").glob("not-finite-step-*")
        self.succeeded(self.replay("--in", folder))
        self.assertFalse(math.isfinite(read_loss(self.replayed)))

    def replay_of_a_gradient_that_overflows(self, **keys):
        # The loss of embeddings of length 1e-35 is finite, but its gradient is 1e+35 times the scale.
        weights = self.trained_weights()
        self.fill(weights, "features.layers.3.weight", 1e-36)
        self.fill(weights, "features.layers.3.bias", 0)
        done = self.train(2, self.job(max_steps=3, init_from=str(weights), margin_scale=1e6, **keys))
        self.assert_one_line(done, "the gradient of the backbone is not finite at step 1",
                             "not-finite-step-000000001")
        return self.succeeded(self.replay("--in", self.folder / "out" / "not-finite-step-000000001"))

    def test_an_overflowing_gradient_is_written_for_the_replay(self):
        again = self.replay_of_a_gradient_that_overflows()
        self.assertIn("the rows are from after the update", again.stdout)
        self.assertRegex(again.stdout, r"embeddings +8 x 64 +- +[\d.]+e-3\d \.\. [\d.]+e-3\d")
        self.assertRegex(again.stdout, r"job's d_embeddings +8 x 64 +\d+, first in sample")
        self.assertTrue(math.isfinite(read_loss(self.replayed)))

    def test_all_micro_batches_of_a_step_are_replayed_from_before_the_update(self):
        again = self.replay_of_a_gradient_that_overflows(gradient_acc=2)
        self.assertIn("2 micro-batches of 8 samples", again.stdout)
        self.assertIn("the rows are from before the update", again.stdout)
        self.assertRegex(again.stdout, r"embeddings +16 x 64 +- ")
        self.assertRegex(again.stdout, r"job's d_embeddings +16 x 64 +\d+, first in sample")
        self.assertEqual(read_header(self.replayed)[0]["loss"]["shape"], [2])
        # The job's loss is the mean over both micro-batches; the replay reproduces it.
        job_loss = float(re.search(r"\(loss ([^)]*)\)", again.stdout).group(1))
        replayed = float(re.search(r"after the step: loss ([^,]*),", again.stdout).group(1))
        self.assertLess(abs(replayed - job_loss), 1e-5 * abs(job_loss))


if __name__ == "__main__":
    unittest.main()
