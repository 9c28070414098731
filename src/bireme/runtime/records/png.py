"""Encodes an image as a PNG: from PNG bytes, nested lists, arrays or tensors."""

from __future__ import annotations

import struct
import sys
import zlib
from typing import Any, List, Tuple  # Any: values of frameworks that need not be installed

Picture = Tuple[bytes, int, int]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_QUICK = 1


def encoded(data: Any) -> Picture:
    """Returns PNG bytes, width and height; raises ValueError for what is not an image.

    The shape is height x width, with 1, 3 or 4 channels last, or first as torch has them. Whole numbers are
    0 to 255, other numbers 0 to 1; what is beyond is cut.
    """
    if isinstance(data, (bytes, bytearray, memoryview)):
        png = bytes(data)
        if not png.startswith(_SIGNATURE) or len(png) < 33:
            raise ValueError("these bytes are not a PNG")
        width, height = struct.unpack_from(">II", png, 16)
        return png, width, height
    numpy: Any = sys.modules.get("numpy")
    if hasattr(data, "detach"):
        data = data.detach().to("cpu")
        shape, first = _shape(tuple(data.shape))
        data = data.permute(1, 2, 0) if first else data
        if data.is_floating_point():
            data = (data.float() * 255).round().nan_to_num(0)
        pixels = bytes(data.clamp(0, 255).int().flatten().tolist())
    elif numpy is not None and hasattr(data, "__array__"):
        data = numpy.asarray(data)
        shape, first = _shape(data.shape)
        data = data.transpose(1, 2, 0) if first else data
        if data.dtype.kind == "b":
            data = data.astype("uint8") * 255
        elif data.dtype.kind not in "ui":
            data = numpy.nan_to_num((data.astype("float64") * 255).round())
        pixels = data.clip(0, 255).astype("uint8").tobytes()
    else:
        pixels, shape = _of_lists(data)
    height, width, channels = shape
    if channels not in _COLOUR_TYPES or not (height and width):
        raise ValueError(f"an image is height x width, or has 1, 3 or 4 channels; this is {list(shape)}")
    line = width * channels
    # Every line begins with its filter; 0 is none.
    raw = b"".join(b"\0" + pixels[at : at + line] for at in range(0, len(pixels), line))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(raw, _QUICK)), _chunk(b"IEND", b""))
    return _SIGNATURE + b"".join(chunks), width, height


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _of_lists(data: Any) -> Tuple[bytes, Tuple[int, int, int]]:
    sizes: List[int] = []
    level = data
    while isinstance(level, (list, tuple)):
        sizes.append(len(level))
        level = level[0] if level else None
    shape, first = _shape(tuple(sizes))
    values = _flat(data, tuple(sizes))
    if first:
        area = sizes[1] * sizes[2]
        values = [values[c * area + i] for i in range(area) for c in range(sizes[0])]
    scale = 1 if all(isinstance(value, int) for value in values) else 255
    return bytes(min(255, max(0, round(value * scale))) for value in values), shape


def _flat(data: Any, sizes: Tuple[int, ...]) -> List[Any]:
    if not sizes:
        return [data]
    if not isinstance(data, (list, tuple)) or len(data) != sizes[0]:
        raise ValueError("the lines of an image have the same length")
    return [value for part in data for value in _flat(part, sizes[1:])]


def _shape(sizes: Tuple[int, ...]) -> Tuple[Tuple[int, int, int], bool]:
    """Returns height, width and channels, and whether the channels came first."""
    if len(sizes) == 2:
        return (sizes[0], sizes[1], 1), False
    if len(sizes) == 3 and sizes[2] in _COLOUR_TYPES:
        return (sizes[0], sizes[1], sizes[2]), False
    if len(sizes) == 3 and sizes[0] in _COLOUR_TYPES:
        return (sizes[1], sizes[2], sizes[0]), True
    raise ValueError(f"an image is height x width, or has 1, 3 or 4 channels; this is {list(sizes)}")
