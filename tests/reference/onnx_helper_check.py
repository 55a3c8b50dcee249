"""Checks a file of `pfcctl export onnx` with arcface_torch's own onnx_helper.py. By hand, because that script is
not part of pfc:

    PFC_ONNX_HELPER=arcface_torch/onnx_helper.py python3 tests/reference/onnx_helper_check.py backbone.onnx

The time limit is left out: the package that runs the file here is not the one that the competition uses.
"""

import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile
import types
from unittest import mock

import numpy as np


def blob_from_images(images, scalefactor, size, mean, swapRB):
    """Replaces cv2.dnn.blobFromImages() for images that have the right size."""
    assert all(image.shape[:2] == size[::-1] for image in images)
    x = np.stack(images).astype(np.float32)
    return np.ascontiguousarray(((x[..., ::-1] if swapRB else x) - mean[0]).transpose(0, 3, 1, 2) * scalefactor, np.float32)


def stand_ins():
    """Replaces modules that the script imports and Debian lacks, besides onnxruntime.py."""
    cv2 = types.SimpleNamespace(resize=lambda image, size: image, dnn=types.SimpleNamespace(
        blobFromImages=blob_from_images,
        blobFromImage=lambda image, *how, **more: blob_from_images([image], *how, **more)))
    data = types.SimpleNamespace(get_image=None)
    return {"cv2": cv2, "insightface": types.SimpleNamespace(data=data), "insightface.data": data}


def main():
    helper = os.environ.get("PFC_ONNX_HELPER")
    if helper is None:
        print("not run: set PFC_ONNX_HELPER to arcface_torch's onnx_helper.py")
        return 0
    spec = importlib.util.spec_from_file_location("onnx_helper", helper)
    module = importlib.util.module_from_spec(spec)
    image = np.random.default_rng(1).integers(0, 256, (112, 112, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, stand_ins()):
        shutil.copy(pathlib.Path(sys.argv[1]), folder)
        spec.loader.exec_module(module)
        judge = module.ArcFaceORT(folder, cpu=True)
        judge.benchmark = lambda img: (judge.forward(img), 0.0)
        error = judge.check(track="ms1m", test_img=image)
    print(f"onnx_helper.py: {error or 'accepted'}")
    return 1 if error else 0


if __name__ == "__main__":
    raise SystemExit(main())
