"""Reads TensorBoard's event files independently of pfc's code: own frame parser and CRC-32C, and protoc's Python
classes of the official definitions."""

import functools
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PROTO = ROOT / "third_party" / "tensorboard" / "compat" / "proto"


def _crc_of_byte(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC = [_crc_of_byte(byte) for byte in range(256)]


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@functools.cache
def event_class():
    """Generates the classes with protoc in a folder that is kept until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="pfc-proto-")
    event_class.folder = folder
    subprocess.run(["protoc", f"--proto_path={ROOT / 'third_party'}", f"--python_out={folder.name}",
                    *sorted(str(path) for path in PROTO.glob("*.proto"))], check=True)
    sys.path.insert(0, folder.name)
    from tensorboard.compat.proto import event_pb2
    return event_pb2.Event


def frames(data):
    """Yields the frames of a file and checks each; a truncated last frame is an error too."""
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc(data[at:at + 8]), f"CRC of the length at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"the frame at {at} is cut short"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(body), f"CRC at {at}"
        yield body
        at += 12 + length + 4


def events(path):
    return [event_class().FromString(body) for body in frames(pathlib.Path(path).read_bytes())]


def files(folder):
    """Returns the files of one run in TensorBoard's order."""
    return sorted(path for path in pathlib.Path(folder).iterdir() if "tfevents" in path.name)


def values(folder):
    """Returns {(tag, step): value} of one run; each key may occur once."""
    found = {}
    for path in files(folder):
        for event in events(path):
            for value in event.summary.value:
                key = (value.tag, event.step)
                assert key not in found, f"{key} is in {path} and before"
                found[key] = value
    return found


def scalars(folder):
    return {key: value.simple_value for key, value in values(folder).items()
            if value.WhichOneof("value") == "simple_value"}


def buckets(value):
    """Returns rows of left, right and count."""
    numbers = list(value.tensor.double_val)
    assert [dim.size for dim in value.tensor.tensor_shape.dim] == [len(numbers) // 3, 3]
    return [tuple(numbers[i:i + 3]) for i in range(0, len(numbers), 3)]
