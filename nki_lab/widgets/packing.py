"""Packs data for its way from the kernel to a view in the browser.

As one block of bytes, compressed: a JSON header, then typed arrays the browser uses in place.

    4 bytes   length of the header (little-endian)
    header    {"meta": ..., "arrays": [[name, type, first byte, elements], ...]}, padded with blanks
    arrays    each at a multiple of 8 bytes

`static/parts.js` reads it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

#: Types an array may have; the browser has an array class for each.
ARRAY_TYPES = ("u1", "u2", "u4", "i4", "f4", "f8")
_ALIGN = 8


class UnknownPart(ValueError):
    """A name that stands for no block of data."""


class Blocks(Protocol):
    """The data of what is shown, in blocks with names."""

    def make(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a part; raises UnknownPart."""

    def stored(self, tabs: Sequence[str]) -> Mapping[str, bytes]:
        """Return the blocks that a widget keeps in its own state."""

    def recorded(
        self, tabs: Sequence[str], limit: int
    ) -> tuple[Mapping[str, Sequence[bytes]], Mapping[str, Sequence[str]]]:
        """Return the blocks that a page without a kernel holds, and for each tab the parts that have no room."""


def pack(meta: Any, arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Put JSON data and arrays into one compressed block of bytes, the same for the same content."""
    table = []
    pieces = []
    at = 0
    for name, array in (arrays or {}).items():
        kind = f"{array.dtype.kind}{array.dtype.itemsize}"
        assert kind in ARRAY_TYPES, f"array {name} has type {array.dtype}"
        data = np.ascontiguousarray(array).astype(f"<{kind}", copy=False).tobytes()
        table.append([name, kind, at, array.size])
        pieces.append(_padded(data, b"\0"))
        at += len(pieces[-1])
    header = json.dumps(
        {"meta": meta, "arrays": table}, separators=(",", ":"), allow_nan=False
    ).encode()
    header = _padded(bytes(4) + header, b" ")[4:]
    block = len(header).to_bytes(4, "little") + header + b"".join(pieces)
    return gzip.compress(block, compresslevel=1, mtime=0)


def unpack(block: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what `pack` was given."""
    data = gzip.decompress(block)
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    first = 4 + length
    arrays = {
        name: np.frombuffer(data, f"<{kind}", count, first + at)
        for name, kind, at, count in header["arrays"]
    }
    return header["meta"], arrays


def smallest(values: np.ndarray) -> np.ndarray:
    """Return whole numbers of 0 or more in the smallest unsigned type that holds them."""
    highest = int(values.max(initial=0))
    for kind in ("u1", "u2", "u4"):
        if highest <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype("f8")


def _padded(data: bytes, filler: bytes) -> bytes:
    return data + filler * (-len(data) % _ALIGN)
