"""Reads and writes safetensors files with numpy alone.

The format: 8 bytes little-endian length of a JSON header, the header, then the tensors' bytes.
"""

import json
import struct

import numpy as np

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


def load(path):
    """Returns the tensors of a file, as a dict of name to (copied) numpy array."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[begin:end], dtype=_DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).copy()
    return tensors


def save(path, tensors, metadata=None):
    """Writes a dict of name to numpy array, and metadata, a dict of strings."""
    header, arrays, offset = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, value in tensors.items():
        array = np.asarray(value)
        if array.dtype not in _NAMES:
            raise TypeError(f"{name}: dtype {array.dtype} has no safetensors name here")
        size = array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + size]}
        arrays.append(array)
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in arrays:
            file.write(np.ascontiguousarray(array).tobytes())
