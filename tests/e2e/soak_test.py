"""A small sample of scripts/soak.sh: the job recovers from a few faults of each kind."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "soak"))
from images import Record
from soak import Soak
from network import may_make_namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 1500


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class RandomFaults(unittest.TestCase):
    def test_a_job_recovers_from_some_random_faults(self):
        with tempfile.TemporaryDirectory(prefix="pfc-e2e-") as folder:
            done = subprocess.run([ROOT / "scripts/soak.sh", "--faults", "6", "--interval", "4", "--hosts", "2", "--workers",
                                   "1", "--least-steps", "30", "--hang", "300", "--seed", "2", "--folder", folder],
                                  env=os.environ, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("hangs (no new step for 300 s): 0", done.stdout)
        self.assertTrue(re.search(r"^all +6 +6 ", done.stdout, re.MULTILINE), done.stdout)
        self.assertIn("of that between two seeds", done.stdout)

    def test_jobs_train_all_planned_images_even_if_they_lose_hosts(self):
        with tempfile.TemporaryDirectory(prefix="pfc-e2e-") as folder:
            done = subprocess.run([ROOT / "scripts/soak.sh", "--faults", "4", "--interval", "8", "--hosts", "2", "--workers",
                                   "1", "--kinds", "absence,kill", "--unshared", "--min-workers", "1", "--job-steps", "100",
                                   "--hang", "300", "--seed", "2", "--folder", folder],
                                  env=os.environ, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"images of all jobs: \d+ planned, \d+ trained, counted once, and \d+ again; 0 saved ones lost")


class FakeWatch:
    """Watches a fake job: a checkpoint has 48 images before the faults; 60 are trained afterwards."""

    def __init__(self, folder):
        self.folder, self.status, self.last_step_at = folder, {"images_seen": 36}, math.inf

    def wait_for(self, condition, limit, what):
        if what == "a checkpoint before the faults":
            manifest = self.folder / "goodput/step-4/manifest.json"
            manifest.parent.mkdir(parents=True)
            manifest.write_text(json.dumps({"trained": {"images": 48}}))
        else:
            self.status = {"images_seen": 60}
        assert condition(self.status)


class Goodput(unittest.TestCase):
    def test_counts_images_up_to_a_checkpoint_and_after_training_has_resumed(self):
        with tempfile.TemporaryDirectory(prefix="pfc-e2e-") as folder:
            soak = Soak(SimpleNamespace(kinds="kill", minutes=1e-6, hang=1), pathlib.Path(folder))
            watch = FakeWatch(pathlib.Path(folder))
            faults = SimpleNamespace(undo=lambda all_of_them=False: None, waiting=lambda: [], faults=[])
            with mock.patch("curves.good_rate", lambda before, after, seconds: (before, after)):
                counted = soak.rate_with(faults, watch, None)
        self.assertEqual(counted, (48, 60), "images that a later part could lose do not count")


class ImageCount(unittest.TestCase):
    """Counts the images of a job from the output folders of two hosts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pfc-e2e-")
        self.addCleanup(folder.cleanup)
        self.folders = [pathlib.Path(folder.name) / key for key in "ab"]
        for each in self.folders:
            each.mkdir()
        self.record = Record(self.folders)
        self.addCleanup(self.record.end)

    def generation(self, host, number, start, end, batch, saved=()):
        events = [{"kind": "start", "images_seen": start, "workers": 1, "batch_size": batch}]
        events += [{"kind": "step", "step": seen, "images_seen": seen} for seen in range(start + batch, end + 1, batch)]
        with open(self.folders[host] / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.writelines(json.dumps({**event, "generation": number}) + "\n" for event in events)
        self.record.end()
        self.record.look()
        for images in saved:
            manifest = self.folders[host] / f"step-{images}/manifest.json"
            manifest.parent.mkdir()
            manifest.write_text(json.dumps({"trained": {"images": images}}))
        self.record.look()

    def test_images_that_repeat_count_once(self):
        self.generation(0, 1, 0, 40, 8, saved=(24,))
        self.generation(1, 2, 32, 64, 4)
        self.assertEqual(self.record.trained(), (64, 72))
        self.assertEqual(self.record.last(), (64, 24))
        self.assertEqual(self.record.lost(), [])

    def test_skipped_images_do_not_count(self):
        self.generation(0, 1, 0, 40, 8)
        self.generation(1, 2, 48, 64, 4)
        self.assertEqual(self.record.trained(), (56, 56))

    def test_a_generation_that_begins_below_a_checkpoint_loses_saved_images(self):
        self.generation(0, 1, 0, 40, 8, saved=(24, 32))
        self.generation(1, 2, 16, 64, 4)
        self.assertEqual(self.record.lost(), [(2, 16, 32)])


if __name__ == "__main__":
    unittest.main()
