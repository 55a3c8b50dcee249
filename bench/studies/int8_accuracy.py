"""Measures the accuracy that a trained network loses with int8. Exports it as float32 and as int8, and runs both in
ONNX Runtime on the pairs of a verification set. By hand, with real faces:

    python3 bench/studies/int8_accuracy.py --bin build/cpu/bin --calibrate ../shared/data/lfw112 \\
        --pairs ../shared/data/lfw112/lfw_fold10.bin mbf.safetensors r50.safetensors
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"))
import onnxruntime  # noqa: E402
import verification  # noqa: E402

LEAST_COSINE, MOST_LOST = 0.99, 6 / 600


def embed(file, images):
    """Returns embeddings [N, D], each the sum for the image and its mirror image, and the seconds per image."""
    session = onnxruntime.InferenceSession(file)
    x = images.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
    start = time.monotonic()
    parts = [session.run(None, {"data": part[..., ::flip]})[0]
             for flip in (1, -1) for part in np.split(x, range(16, len(x), 16))]
    seconds = (time.monotonic() - start) / (2 * len(x))
    plain, mirrored = np.split(np.concatenate(parts).astype(np.float64), 2)
    return plain + mirrored, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--calibrate", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=pathlib.Path, required=True)
    options = parser.parse_args()
    images, same = verification.read(options.pairs)
    kept = True
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            files = {"float32": f"{folder}/float32.onnx", "int8": f"{folder}/int8.onnx"}
            more = {"float32": [], "int8": ["--int8", "--calibrate", options.calibrate]}
            embeddings, accuracy = {}, {}
            for name, file in files.items():
                subprocess.run([options.bin / "pfcctl", "export", "onnx", "--model", model, "--output", file,
                                *more[name]], check=True)
                embeddings[name], seconds = embed(file, images)
                accuracy[name] = verification.accuracy(embeddings[name], same)
                print(f"{model.name}, {name}: accuracy {accuracy[name]:.4f}, {1000 * seconds:.1f} ms an image, "
                      f"{pathlib.Path(file).stat().st_size / 1e6:.1f} MB")
        unit = [e / np.linalg.norm(e, axis=1, keepdims=True) for e in embeddings.values()]
        cosine = np.median((unit[0] * unit[1]).sum(axis=1))
        lost = (accuracy["float32"] - accuracy["int8"]) * len(same)
        print(f"{model.name}: median cosine {cosine:.5f}, {lost:.0f} of {len(same)} pairs lost")
        kept = kept and cosine >= LEAST_COSINE and lost <= MOST_LOST * len(same)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
