"""A stand-in for ONNX Runtime's Python module, which Debian does not have.

It runs files in the npm package onnxruntime-node, on one thread, and has what arcface_torch's onnx_helper.py and
docs/use-a-model.md call. The package is looked for in PFC_ONNXRUNTIME, or in build/onnxruntime:

    npm install --prefix build/onnxruntime --ignore-scripts onnxruntime-node
"""

import json
import math
import os
import pathlib
import subprocess

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = pathlib.Path(os.environ.get("PFC_ONNXRUNTIME", HERE.parents[1] / "build" / "onnxruntime")) / "node_modules"


def is_installed():
    return (PACKAGES / "onnxruntime-node").is_dir()


class NodeArg:
    def __init__(self, value):
        self.name = value.name
        self.shape = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


class InferenceSession:
    """One input and one output, both float32."""

    def __init__(self, path, providers=None):
        graph = onnx.load(path, load_external_data=False).graph
        self.inputs, self.outputs = [NodeArg(v) for v in graph.input], [NodeArg(v) for v in graph.output]
        self.node = subprocess.Popen(["node", HERE / "run_onnx.js", path], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, env={**os.environ, "NODE_PATH": str(PACKAGES)})
        self._header()

    def __del__(self):
        if hasattr(self, "node"):
            self.node.stdin.close()
            self.node.stdout.close()
            self.node.wait()

    def get_inputs(self):
        return self.inputs

    def get_outputs(self):
        return self.outputs

    def run(self, output_names, feed):
        (name, x), = feed.items()
        request = {"input": name, "output": (output_names or [self.outputs[0].name])[0], "dims": x.shape}
        self.node.stdin.write(json.dumps(request).encode() + b"\n" + x.astype("<f4").tobytes())
        self.node.stdin.flush()
        dims = self._header()["dims"]
        return [np.frombuffer(self.node.stdout.read(4 * math.prod(dims)), "<f4").reshape(dims)]

    def _header(self):
        header = json.loads(self.node.stdout.readline() or '{"error": "node has ended"}')
        if "error" in header:
            raise RuntimeError(header["error"])
        return header
