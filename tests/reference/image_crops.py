#!/usr/bin/env python3
"""Compares random resized crops and centre crops with Pillow, on JPEG and PNG files of several sizes."""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, SHORTER, REGIONS = 224, 256, 12


def photograph(height, width, seed):
    """Draws waves and noise, so that a wrong filter or place is visible."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x * a + y * b + 2 * c) for c, (a, b) in enumerate([(0.05, 0.02), (0.3, 0.01), (0.02, 0.7)])]
    return np.clip(128 + 80 * np.stack(waves, -1) + random.normal(0, 15, (height, width, 3)), 0, 255).astype(np.uint8)


def centre(image):
    """Resize(256) and CenterCrop(224) of torchvision on an image of Pillow."""
    short = min(image.size)
    resized = image.resize([int(SHORTER * side / short) for side in image.size], Image.BILINEAR)
    left, top = (round((side - SIDE) / 2) for side in resized.size)
    return resized.crop((left, top, left + SIDE, top + SIDE))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crops", required=True)
    program = parser.parse_args().crops
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for height, width, suffix in [(375, 500, ".jpg"), (500, 375, ".png"), (150, 130, ".png"), (90, 1000, ".jpg"),
                                      (1201, 997, ".jpg"), (256, 256, ".png")]:
            path = Path(folder) / f"image{suffix}"
            Image.fromarray(photograph(height, width, height)).save(path, quality=90)
            image = Image.open(path)
            image.load()
            done = subprocess.run([program, path, str(SIDE), str(SHORTER), str(REGIONS)], check=True, capture_output=True)
            shown = np.frombuffer(done.stdout, np.uint8).reshape(REGIONS + 1, SIDE, SIDE, 3)
            expected = []
            for line in done.stderr.decode().splitlines():
                top, left, rows, columns = map(int, line.split())
                part = image.crop((left, top, left + columns, top + rows))
                expected.append(part.resize((SIDE, SIDE), Image.BILINEAR))
            expected.append(centre(image))
            difference = np.abs(shown.astype(int) - np.stack([np.asarray(e) for e in expected]))
            print(f"{height} x {width} {suffix}: largest difference {difference.max()}, mean {difference.mean():.4f}")
            # Pillow rounds after each direction, with weights of 22 bits.
            worst = max(worst, difference.max())
    if worst > 1:
        sys.exit(f"a pixel differs by {worst} levels, expected at most 1")


if __name__ == "__main__":
    main()
