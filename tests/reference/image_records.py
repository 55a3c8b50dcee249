"""Writes a training set in InsightFace's RecordIO layout with numpy alone: PNG images, which keep
every pixel, so that two programs that read the set see the same numbers.
"""

import pathlib
import struct
import zlib

MAGIC = 0xCED7230A


def png(image):
    """RGB uint8 [H, W, 3] as PNG bytes."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def record(payload):
    """One RecordIO record. A payload word that equals the magic would have to split the record."""
    words = [payload[at:at + 4] for at in range(0, len(payload), 4)]
    assert struct.pack("<I", MAGIC) not in words, "this payload needs a split record"
    return struct.pack("<II", MAGIC, len(payload)) + payload + b"\0" * (-len(payload) % 4)


def write(folder, images, labels):
    """train.rec, train.idx and property; images uint8 [n, H, W, 3], labels int [n] of classes
    0 .. max, each of them there."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    n, classes = len(images), int(max(labels)) + 1
    records = [struct.pack("<IfQQ", 2, 0, 0, 0) + struct.pack("<2f", n + 1, n + 1 + classes)]
    records += [struct.pack("<IfQQ", 0, label, key, 0) + png(image)
                for key, (image, label) in enumerate(zip(images, labels), start=1)]
    for label in range(classes):
        owned = [key for key, other in enumerate(labels, start=1) if other == label]
        records.append(struct.pack("<IfQQ", 2, 0, n + 1 + label, 0) +
                       struct.pack("<2f", owned[0], owned[-1] + 1))
    offset = 0
    with open(folder / "train.rec", "wb") as rec, open(folder / "train.idx", "w") as idx:
        for key, payload in enumerate(records):
            idx.write(f"{key}\t{offset}\n")
            offset += rec.write(record(payload))
    _, height, width, _ = images.shape
    (folder / "property").write_text(f"{classes},{height},{width}\n")
