"""Counts the images that a job has trained, and the images that it lost although they were saved."""

import json
import pathlib
import threading


class Record(threading.Thread):
    """Reads the output folders of a job several times a second. Keeps every event and every checkpoint, because
    a later generation drops events that it repeats, and old checkpoints are removed."""

    PAUSE = 0.2

    def __init__(self, folders):
        super().__init__(daemon=True)
        self.folders, self.over = [pathlib.Path(folder) for folder in folders], threading.Event()
        self.lines, self.seen, self.looks = set(), set(), 0
        self.events = []   # (look, event)
        self.saved = []    # (look, number of images of a checkpoint)
        self.leaders = []  # the folder that rank 0 of each generation uses
        self.start()

    def run(self):
        while not self.over.wait(self.PAUSE):
            self.look()

    def look(self):
        self.looks += 1
        for folder in self.folders:
            for line in text_of(folder / "metrics.jsonl").splitlines(keepends=True):
                if line.endswith("\n") and line not in self.lines:
                    self.lines.add(line)
                    self.events.append((self.looks, json.loads(line)))
                    if self.events[-1][1]["kind"] == "start":
                        self.leaders.append(folder)
        for folder in self.folders:
            for manifest in folder.glob("step-*/manifest.json"):
                images = images_of(manifest)
                if (manifest, images) not in self.seen:
                    self.seen.add((manifest, images))
                    self.saved.append((self.looks, images))

    def end(self):
        self.over.set()
        self.join()
        self.look()

    def of_kind(self, kind):
        return [event for _, event in self.events if event["kind"] == kind]

    def trained(self):
        """Returns the number of distinct trained images, and the number including repetitions."""
        batch = {start["generation"]: start["workers"] * start["batch_size"] for start in self.of_kind("start")}
        steps = sorted((step["images_seen"] - batch[step["generation"]], step["images_seen"]) for step in self.of_kind("step"))
        once, end = 0, 0
        for low, high in steps:
            once += max(high - max(low, end), 0)
            end = max(end, high)
        return once, sum(high - low for low, high in steps)

    def last(self):
        """Returns images_seen of the last step, and of the newest checkpoint."""
        steps = self.of_kind("step")
        last = max(steps, key=lambda step: (step["generation"], step["step"]))["images_seen"] if steps else 0
        return last, max((images for _, images in self.saved), default=0)

    def moves(self):
        """Returns how often rank 0 of a generation was on another host than rank 0 of the previous generation. Rank 0
        writes the checkpoints."""
        return sum(before != after for before, after in zip(self.leaders, self.leaders[1:]))

    def lost(self):
        """Returns [(generation, images at its start, images of the newest checkpoint)] for the generations that did
        not begin with the newest checkpoint, but with fewer images."""
        found = []
        for look, event in self.events:
            before = max((images for when, images in self.saved if when < look), default=0)
            if event["kind"] == "start" and event["images_seen"] < before:
                found.append((event["generation"], event["images_seen"], before))
        return found


def newest_checkpoint(folder):
    """Returns the images of the newest checkpoint in the folder; 0 if there is none."""
    return max(map(images_of, folder.glob("step-*/manifest.json")), default=0)


def images_of(manifest):
    text = text_of(manifest)
    return json.loads(text)["trained"]["images"] if text else 0


def text_of(path):
    """Returns the text of a file, or "" if it does not exist or was removed."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
