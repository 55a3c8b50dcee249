"""Compares loss curves."""

import json


def good_rate(before, after, seconds):
    """Returns how many images per second the job has trained beyond `before`; 0 while it still repeats lost images."""
    return max(after - before, 0) / max(seconds, 1e-3)


def losses(metrics):
    """Returns {images seen: loss} of the steps in a metrics.jsonl."""
    found = {}
    with open(metrics, encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["kind"] == "step":
                found[event["images_seen"]] = event["loss"]
    return found


def smooth(values, window):
    """Returns means over a window around each value."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    half = window // 2
    smoothed = []
    for i in range(len(values)):
        low, high = max(i - half, 0), min(i + half + 1, len(values))
        smoothed.append((sums[high] - sums[low]) / (high - low))
    return smoothed


def distance(a, b):
    return sum(abs(x - y) for x, y in zip(a, b)) / len(a)


def compare(broken, first, second):
    """Returns (ratio, number of steps). The ratio is the distance between the curves of the broken run and of the first
    unbroken run, divided by the distance between the curves of the two unbroken runs, which have different seeds.
    Distances are over the steps that all three runs have. Each curve is smoothed over a twentieth of these steps."""
    steps = sorted(set(broken) & set(first) & set(second))
    if len(steps) < 10:
        raise ValueError(f"the runs have {len(steps)} steps in common, expected at least 10")
    window = max(len(steps) // 20, 5)
    curves = [smooth([run[step] for step in steps], window) for run in (broken, first, second)]
    return distance(curves[0], curves[1]) / max(distance(curves[2], curves[1]), 1e-12), len(steps)
