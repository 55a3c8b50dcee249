"""Draws the Chinese characters of Debian's fonts: a set with 26,204 real classes for studies of sampling.

    glyphs.py --out build/glyphs [--classes 26204] [--size 32] [--threads 2]

Every character that all fonts have is a class, with --copies images in each font. Each image is turned, scaled and
moved a little. OUT/train holds the classes to train on, OUT/test the other characters. Needs
python3-fonttools, python3-pil and the packages fonts-noto-cjk, fonts-noto-cjk-extra, fonts-wqy-zenhei, fonts-hanazono
and fonts-cns11643-{kai,sung}.
"""

import argparse
import concurrent.futures
import pathlib
import sys

import numpy as np
from fontTools import ttLib
from PIL import Image, ImageDraw, ImageFont

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"))
import image_records  # noqa: E402

FONTS = [pathlib.Path("/usr/share/fonts") / name for name in (
    "opentype/noto/NotoSansCJK-Regular.ttc", "opentype/noto/NotoSansCJK-Black.ttc",
    "opentype/noto/NotoSerifCJK-Regular.ttc", "opentype/noto/NotoSerifCJK-ExtraLight.ttc",
    "truetype/wqy/wqy-zenhei.ttc", "truetype/hanazono/HanaMinA.ttf",
    "truetype/cns11643/TW-Kai-98_1.ttf", "truetype/cns11643/TW-Sung-98_1.ttf")]
CHARACTERS = [*range(0x3400, 0x4DC0), *range(0x4E00, 0xA000)]  # extension A, unified ideographs


def characters_of(path):
    font = (ttLib.TTCollection(path).fonts[0] if path.suffix == ".ttc" else ttLib.TTFont(path))
    return set(font.getBestCmap())


def draw(path, characters, size, seed):
    """Returns uint8 [n, size, size]: white characters on black, each turned, scaled and moved at random."""
    rng = np.random.default_rng(seed)
    font = ImageFont.truetype(str(path), 2 * size)
    images = np.empty((len(characters), size, size), np.uint8)
    for image, character in zip(images, characters):
        large = Image.new("L", (3 * size, 3 * size))
        ImageDraw.Draw(large).text((1.5 * size, 1.5 * size), chr(character), fill=255, font=font, anchor="mm")
        angle, scale = rng.uniform(-0.15, 0.15), 2.2 / rng.uniform(0.85, 1.05)
        matrix = scale * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        matrix = matrix @ np.array([[1, rng.uniform(-0.15, 0.15)], [0, 1]])
        offset = 1.5 * size - matrix @ (size / 2 + rng.uniform(-0.06, 0.06, 2) * size)
        image[:] = large.reduce(2).transform(
            (size, size), Image.AFFINE,
            (*matrix[0] / 2, offset[0] / 2, *matrix[1] / 2, offset[1] / 2), Image.BILINEAR)
    return images


def write(folder, characters, options):
    with concurrent.futures.ProcessPoolExecutor(options.threads) as pool:
        tasks = [pool.submit(draw, path, characters, options.size, (number, copy, len(characters)))
                 for number, path in enumerate(FONTS) for copy in range(options.copies)]
        images = np.concatenate([task.result() for task in tasks])
    labels = np.tile(np.arange(len(characters)), len(tasks))
    order = np.random.default_rng(0).permutation(len(labels))
    image_records.write(folder, np.repeat(images[order, :, :, None], 3, axis=3), labels[order], says_classes=False)
    (folder / "property").write_text(f"{len(characters)},{options.size},{options.size}\n")
    print(f"{folder}: {len(labels):,} images of {len(characters):,} characters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--classes", type=int, default=26204, help="characters to train on")
    parser.add_argument("--size", type=int, default=32, help="pixels a side")
    parser.add_argument("--copies", type=int, default=1, help="images of a character in each font")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    known = set(CHARACTERS).intersection(*(characters_of(path) for path in FONTS))
    characters = np.random.default_rng(1).permutation(sorted(known))
    if len(characters) <= options.classes:
        sys.exit(f"the fonts have {len(characters)} characters in common, expected more than {options.classes}")
    write(options.out / "train", characters[:options.classes], options)
    write(options.out / "test", characters[options.classes:], options)


if __name__ == "__main__":
    main()
