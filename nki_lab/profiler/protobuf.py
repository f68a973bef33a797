"""How is a message of Protocol Buffers written, and how are its fields read?

Only the wire format (protobuf.dev/programming-guides/encoding): what the fields mean is the caller's business.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """Write an integer of 64 bits; a negative one as its two's complement."""
    if 0 <= value < 128:
        return _SINGLE[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SINGLE = [bytes([value]) for value in range(128)]


@lru_cache(maxsize=1024)
def _tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Write a field that holds an integer, an enum or a bool."""
    return _tag(field, _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """Write a field that holds 8 bytes of an unsigned integer."""
    return _tag(field, _FIXED64) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    """Write a field that holds a float of 64 bits."""
    return _tag(field, _FIXED64) + struct.pack("<d", value)


def block(field: int, value: bytes) -> bytes:
    """Write a field that holds bytes or a message."""
    return _tag(field, _BYTES) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Write a field that holds a text; what is no Unicode is replaced."""
    return block(field, value.encode("utf-8", "replace"))


def blocks(data: bytes, start: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield (field, start, end) of every field of a message that holds bytes, and pass over the others.

    Raises ValueError where the message is cut off or is none.
    """
    at = start
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a message is cut off")
            yield tag >> 3, at, at + length
            at += length
        elif kind == _VARINT:
            at = _read_varint(data, at)[1]
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("no message")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a message is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
