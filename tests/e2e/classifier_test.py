"""An image classifier (torchvision's resnet18, softmax with bias, sync_bn) on three hosts with one worker each, of which
one is lost. Needs root.

PFC_CLASSIFIER_SIZE=224 uses images as large as ImageNet's, which takes minutes.
"""

import json
import os
import pathlib
import sys
import unittest

import numpy as np

from faults import Lines
from hosts import HostsTest
from network import may_make_namespaces

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "reference"))
import image_records  # noqa: E402

SIZE = int(os.environ.get("PFC_CLASSIFIER_SIZE", "32"))
CLASSES, TRAINED, JUDGED = 12, 20, 5  # images of each class


def write_photographs(folder, images_of_class, seed):
    """Writes PNG files of different sizes: a class has its own coarse pattern, an image its own noise."""
    patterns = np.random.default_rng(0).random((CLASSES, 4, 4, 3))
    generator = np.random.default_rng(seed)
    for label in range(CLASSES):
        (folder / f"class-{label:02}").mkdir(parents=True)
        for image in range(images_of_class):
            height, width = generator.integers(SIZE, SIZE * 3 // 2, 2)
            rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
            pixels = patterns[label][rows][:, columns] + generator.normal(0, 0.1, (height, width, 3))
            (folder / f"class-{label:02}" / f"{image}.png").write_bytes(
                image_records.png((np.clip(pixels, 0, 1) * 255).astype(np.uint8)))


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class ImageClassifier(HostsTest):
    def top_1(self):
        return [m["top"]["1"] for m in self.metrics() if m["kind"] == "evaluation"]

    def test_a_classifier_learns_on_three_hosts_and_continues_when_a_host_is_lost(self):
        write_photographs(self.folder / "train", TRAINED, seed=1)
        write_photographs(self.folder / "val", JUDGED, seed=2)
        job = self.folder / "job.json"
        job.write_text(json.dumps({
            "network": "resnet18", "zero_init_residual": True, "loss": "softmax", "label_smoothing": 0.1, "sync_bn": True,
            "rec": str(self.folder / "train"), "image_size": SIZE,
            "augment": {"random_resized_crop": {"scale": [0.5, 1]}}, "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225], "val_rec": str(self.folder / "val"), "val_resize": SIZE * 8 // 7,
            "batch_size": 8, "num_epoch": 10, "lr": 0.02, "warmup_epoch": 1, "weight_decay": 1e-4,
            "output": str(self.folder / "out"), "num_workers": 1, "frequent": 1, "verbose": 10, "save_every_steps": 10}))
        process = self.starts_coordinator("--hosts", ",".join(f"{name}:1" for name in self.NAMES), "--min-workers", 2,
                                          "--config", job)
        joins = self.join_strings(process, self.NAMES[1:])
        lines = Lines(process)
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"], "--host", f"host-{key}")
        here = lines.wait_for("Global Step: 30")
        self.agents[1].kill()  # on host c
        here = lines.wait_for("generation 2: starting 0 workers, and 2 workers stay", here)
        lines.wait_for("2 of 3 workers", here)
        process.wait(timeout=600)
        self.assertEqual(process.returncode, 0, "".join(lines.lines))
        steps = [m for m in self.metrics() if m["kind"] == "step"]
        planned = CLASSES * TRAINED // 24 * 24 * 10
        self.assertGreaterEqual(steps[-1]["images_seen"], planned - 24)
        print(f"top-1 {self.top_1()}, losses {steps[0]['loss']:.3f} to {steps[-1]['loss']:.3f}")
        self.assertGreater(self.top_1()[-1], 6 / CLASSES, "chance is 1 / 12")


if __name__ == "__main__":
    unittest.main()
