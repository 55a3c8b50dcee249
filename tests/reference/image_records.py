"""Writes and reads training sets in InsightFace's RecordIO layout.

Writing needs only numpy. The images are PNG files, which keep every pixel, so two programs that read the set get the
same numbers. Reading the sets of other programs needs Pillow.
"""

import concurrent.futures
import io
import pathlib
import struct
import sys
import zlib

import numpy as np

MAGIC = 0xCED7230A
HEADER = struct.Struct("<IfQQ")  # flag, label, id, id2; then `flag` float32 labels


def png(image):
    """Returns RGB uint8 [H, W, 3] as PNG bytes."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def record(payload):
    """Returns a RecordIO record. The payload must not contain the magic number, because the record would be split
    there."""
    words = [payload[at:at + 4] for at in range(0, len(payload), 4)]
    assert struct.pack("<I", MAGIC) not in words, "this payload needs a split record"
    return struct.pack("<II", MAGIC, len(payload)) + payload + b"\0" * (-len(payload) % 4)


def write(folder, images, labels, says_classes=True):
    """Writes train.rec, train.idx and property; images uint8 [n, H, W, 3], labels int [n] of classes
    0 .. max, all of them used. If the set does not give its number of classes, it may have more."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    n, classes = len(images), int(max(labels)) + 1
    records = [struct.pack("<IfQQ", 2, 0, 0, 0) + struct.pack("<2f", n + 1, n + 1 + classes)]
    records += [struct.pack("<IfQQ", 0, label, key, 0) + png(image)
                for key, (image, label) in enumerate(zip(images, labels), start=1)]
    if not says_classes:
        del records[0]
    for label in range(classes if says_classes else 0):
        owned = [key for key, other in enumerate(labels, start=1) if other == label]
        records.append(struct.pack("<IfQQ", 2, 0, n + 1 + label, 0) +
                       struct.pack("<2f", owned[0], owned[-1] + 1))
    offset = 0
    with open(folder / "train.rec", "wb") as rec, open(folder / "train.idx", "w") as idx:
        for key, payload in enumerate(records, start=0 if says_classes else 1):
            idx.write(f"{key}\t{offset}\n")
            offset += rec.write(record(payload))
    _, height, width, _ = images.shape
    if says_classes:
        (folder / "property").write_text(f"{classes},{height},{width}\n")


def payload_at(data, offset):
    """Returns the payload of a record. Joins the parts of a split record with the magic word."""
    payload, part = b"", 1
    while part in (1, 2):
        magic, length = struct.unpack_from("<II", data, offset)
        assert magic == MAGIC, f"no record at {offset}"
        part, length = length >> 29, length & (1 << 29) - 1
        joint = struct.pack("<I", MAGIC) if part in (2, 3) else b""
        payload += joint + data[offset + 8:offset + 8 + length]
        offset += 8 + (length + 3) // 4 * 4
    return payload


def decode(image):
    """Decodes the bytes of a JPEG or PNG file to RGB uint8 [H, W, 3]."""
    from PIL import Image  # imported here, because writing does not need it
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))


def decode_all(images):
    """Decodes n images of one size to uint8 [n, H, W, 3]."""
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        sys.exit(f"{sys.executable} has no Pillow, which decodes the images: install it (python3-pil)")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(decode, images)))


def read(folder):
    """Returns uint8 [n, H, W, 3] and int64 [n] of train.rec, in the order of train.idx. If record 0 says which records
    are images (as in InsightFace's own sets), returns only those."""
    folder = pathlib.Path(folder)
    data = (folder / "train.rec").read_bytes()
    lines = (line.split() for line in (folder / "train.idx").read_text().splitlines())
    offsets = {int(key): int(offset) for key, offset in lines}
    first = payload_at(data, offsets[0]) if 0 in offsets else b""
    if first and HEADER.unpack_from(first)[0] == 2:
        end = int(struct.unpack_from("<f", first, HEADER.size)[0])
        offsets = {key: offset for key, offset in offsets.items() if 0 < key < end}
    images, labels = [], []
    for offset in offsets.values():
        payload = payload_at(data, offset)
        flag, label, _, _ = HEADER.unpack_from(payload)
        if flag > 0:
            label, = struct.unpack_from("<f", payload, HEADER.size)
        images.append(payload[HEADER.size + 4 * flag:])
        labels.append(int(label))
    return decode_all(images), np.asarray(labels, dtype=np.int64)
