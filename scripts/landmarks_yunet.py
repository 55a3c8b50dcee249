#!/usr/bin/env python3
"""Finds the landmarks of faces with YuNet, as `pfcctl data align` reads them.

    landmarks_yunet.py --model face_detection_yunet_2023mar.onnx --images photographs --out landmarks.txt

Needs OpenCV 4.5.4 or newer for Python (Debian: python3-opencv) and YuNet's ONNX file, which OpenCV publishes in
https://github.com/opencv/opencv_zoo. Each image gives one line, for its largest face: the path relative to --images,
then x and y of the left eye, right eye, nose and corners of the mouth, as seen in the image after its Exif rotation.
If the script is started again with the same --out, it continues with the images that have no line. An image that
cannot be read, or that has no face, is named on stderr and gets no line.
"""

import argparse
import os
import pathlib
import sys
import time

ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}


class YuNet:
    """A call with an image's path returns the ten numbers of its largest face, or None. Raises ValueError."""

    def __init__(self, model, score, longest):
        import cv2

        self.cv2, self.longest = cv2, longest
        try:
            self.detector = cv2.FaceDetectorYN.create(str(model), "", (320, 320), score)
        except cv2.error as error:
            raise ValueError(f"{model}: OpenCV cannot read it; expected the ONNX file of YuNet ({error})") from None

    def __call__(self, path):
        image = self.cv2.imread(str(path))
        if image is None:
            raise ValueError("cannot be decoded")
        scale = min(1, self.longest / max(image.shape[:2]))
        if scale < 1:
            size = [max(1, round(side * scale)) for side in (image.shape[1], image.shape[0])]
            image = self.cv2.resize(image, size, interpolation=self.cv2.INTER_AREA)
        self.detector.setInputSize((image.shape[1], image.shape[0]))
        try:
            faces = self.detector.detect(image)[1]
        except self.cv2.error as error:
            raise ValueError(f"the detector failed ({error})") from None
        if faces is None:
            return None
        largest = max(faces, key=lambda face: face[2] * face[3])  # x, y, width, height, landmarks, score
        return [float(number) / scale for number in largest[4:14]]


def one_line(text):
    return str(text).encode("utf-8", "backslashreplace").decode().replace("\n", "?")


def images_in(folder):
    """Returns the relative paths of the images, sorted, at any depth, without hidden files and folders."""
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [pathlib.Path(parent, name).relative_to(folder).as_posix() for name in files
                  if pathlib.Path(name).suffix.lower() in ENDINGS and not name.startswith(".")]
    return sorted(found)


def finished(out):
    """Returns the paths that have a line already. Removes an incomplete last line."""
    if not out.exists():
        return set()
    text = out.read_bytes()
    whole = text[:text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(out, len(whole))
    return {os.fsdecode(line).split("\t")[0] for line in whole.splitlines()}


def write_landmarks(images, out, detect, tell=lambda text: print(text, file=sys.stderr)):
    """Appends a line for each image that has none. Returns how many lines there are, and how many images have none."""
    paths, done = images_in(images), finished(out)
    missing, told = 0, time.monotonic()
    with open(out, "ab") as lines:
        for count, path in enumerate(paths, 1):
            if path in done:
                continue
            try:
                if any(ord(letter) < 32 for letter in path):
                    raise ValueError("found a control character in the name, which a list cannot hold; rename it")
                points = detect(images / path)
                if points is None:
                    raise ValueError("found no face")
            except ValueError as error:
                missing += 1
                tell(one_line(f"{images / path}: {error}"))
                continue
            lines.write(os.fsencode("\t".join([path, *(f"{number:.2f}" for number in points)]) + "\n"))
            lines.flush()
            if time.monotonic() - told > 2:
                told = time.monotonic()
                tell(f"{count:,} of {len(paths):,} images, {missing:,} without landmarks")
    return len(paths) - missing, missing


def main(words=None, make_detector=YuNet):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="YuNet's ONNX file")
    parser.add_argument("--images", type=pathlib.Path, required=True, help="folder of photographs, at any depth")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the list, for pfcctl data align")
    parser.add_argument("--score", type=float, default=0.6, help="least score of a face, 0 to 1 (default 0.6)")
    parser.add_argument("--longest", type=int, default=1024,
                        help="pixels of the longer side in which faces are looked for (default 1024)")
    options = parser.parse_args(words)
    for path, is_right in ((options.model, options.model.is_file()), (options.images, options.images.is_dir())):
        if not is_right:
            sys.exit(f"{path}: not found")
    try:
        detect = make_detector(options.model, options.score, options.longest)
    except ValueError as error:
        sys.exit(one_line(error))
    except ImportError as error:
        sys.exit(f"OpenCV for Python is missing ({error}); install it: apt-get install python3-opencv")
    lines, missing = write_landmarks(options.images, options.out, detect)
    if lines + missing == 0:
        sys.exit(f"{options.images}: found no {', '.join(sorted(ENDINGS))} files")
    print(f"{options.out}: {lines:,} faces; {missing:,} images have no line")


if __name__ == "__main__":
    main()
