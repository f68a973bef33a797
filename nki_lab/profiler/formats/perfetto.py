"""Writes a profile as a trace in Perfetto's own format.

Times are whole nanoseconds, and texts are written once. Packets of a field that Perfetto leaves to others hold the
profile itself, so that nothing is lost on the way back (`traces`); viewers pass over them.

Numbers of fields: protos/perfetto/trace/{trace,trace_packet,interned_data}.proto and
protos/perfetto/trace/track_event/{track_event,track_descriptor,counter_descriptor,debug_annotation}.proto of
github.com/google/perfetto.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.profiler.analyses.curves import curves
from nki_lab.profiler.analyses.drawing import Drawing, DrawnSlice, DrawnTrack
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.profile_json import document_of, dump
from nki_lab.profiler.formats.reading import write_whole

#: Field of a packet that holds a piece of our document: of those that trace_packet.proto keeps for extensions.
OWN_FIELD = 1500
#: The first piece: what follows is compressed JSON.
MARK = b"nki_lab profile\n"
_PIECE = 1 << 20
_KEPT = 1 << 10  # different numbers of one name that are kept, in case they come again

# Trace
_PACKET = 1
# TracePacket
_TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDED = 1, 2  # flags: texts are numbered from here on; texts numbered before are used
# TrackEvent
_ANNOTATION, _KIND, _NAME, _UUID, _CATEGORY, _VALUE, _FLOW, _LAST_FLOW = 4, 9, 10, 11, 3, 44, 47, 48
_BEGIN, _END, _COUNTER = 1, 2, 4
# InternedData
_CATEGORIES, _NAMES, _KEYS, _TEXTS = 1, 2, 3, 29


def save_perfetto_trace(profile: ProfileData, path: str | Path) -> Path:
    """Write the trace of a profile to a file, in one step, and return its path."""
    path = Path(path)
    write_whole(path, _packets(profile))
    return path


def to_perfetto_trace(profile: ProfileData) -> bytes:
    """Return a profile as a trace in Perfetto's format."""
    return b"".join(_packets(profile))


def _packets(profile: ProfileData) -> Iterator[bytes]:
    yield block(_PACKET, block(OWN_FIELD, MARK))
    yield from _Writer(Drawing(profile)).packets()
    packed = zlib.compress(dump(document_of(profile)).encode(), 6)
    for start in range(0, len(packed), _PIECE):
        yield block(_PACKET, block(OWN_FIELD, packed[start : start + _PIECE]))


class _Writer:
    """Writes a drawing, numbering texts as it meets them."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._known: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []
        self._written: dict[
            str, dict[Any, tuple[type, bytes]]
        ] = {}  # annotations, by name and value
        giver, taker, _ = drawing.arrows
        self._out = _by_event(giver, len(drawing.start))
        self._in = _by_event(taker, len(drawing.start))

    def packets(self) -> Iterator[bytes]:
        """Yield the packets of the drawing."""
        yield block(_PACKET, number(_SEQUENCE, 1) + number(_FLAGS, _CLEARED))
        cores = sorted({track.core for track in self._drawing.tracks})
        for core in cores:
            process = number(1, core + 1) + text(6, f"NeuronCore {core}")
            yield _descriptor(number(1, _core_uuid(core)) + block(3, process) + number(11, 3))
        for track in self._drawing.tracks:
            parent = number(5, _core_uuid(track.core)) + number(12, track.rank)
            yield _descriptor(number(1, _uuid(track)) + text(2, track.name) + parent)
        for shown in self._drawing.slices(in_time=True):
            yield from self._slice(shown)
        for place, curve in enumerate(curves(self._drawing.profile)):
            uuid = (1 << 40) + place
            unit = block(8, text(6, curve.unit))
            parent = number(5, _core_uuid(curve.core))
            yield _descriptor(number(1, uuid) + text(2, curve.title) + parent + unit)
            for time, value in zip(curve.times.tolist(), curve.values.tolist(), strict=True):
                yield self._packet(
                    time, number(_KIND, _COUNTER) + number(_UUID, uuid) + double(_VALUE, value)
                )

    def _slice(self, shown: DrawnSlice) -> Iterator[bytes]:
        where = number(_UUID, _uuid(shown.track))
        parts = [
            number(_KIND, _BEGIN) + where,
            number(_NAME, self._number(_NAMES, shown.title)),
            number(_CATEGORY, self._number(_CATEGORIES, shown.table)),
        ]
        parts += [self._annotation(name, value) for name, value in shown.args.items()]
        for flows, field in ((self._out, _FLOW), (self._in, _LAST_FLOW)):
            parts += [fixed64(field, flow + 1) for flow in flows(shown.event)]
        yield self._packet(shown.start, b"".join(parts))
        yield self._packet(shown.end, number(_KIND, _END) + where)

    def _packet(self, time: int, event: bytes) -> bytes:
        packet = number(_TIME, time) + number(_SEQUENCE, 1) + number(_FLAGS, _NEEDED)
        if self._new:
            packet += block(_INTERNED, b"".join(self._new))
            self._new = []
        return block(_PACKET, packet + block(_EVENT, event))

    def _number(self, table: int, value: str) -> int:
        """Return the number of a text, from 1 on, and note to write it where it is new."""
        written = self._known.get((table, value))
        if written is None:
            written = self._known[table, value] = len(self._known) + 1
            self._new.append(block(table, number(1, written) + text(2, value)))
        return written

    def _annotation(self, name: str, value: Any) -> bytes:
        kept = self._written.get(name)
        if kept is None:
            kept = self._written[name] = {}
        earlier = kept.get(value)
        # True is 1 to a dict, and 1.0 is 1: what was kept may be of another type.
        if earlier is not None and earlier[0] is type(value):
            return earlier[1]
        key = number(1, self._number(_KEYS, name))
        if isinstance(value, str):
            key += number(17, self._number(_TEXTS, value))
        elif isinstance(value, bool):
            key += number(2, value)
        else:
            key += number(4, value) if isinstance(value, int) else double(5, value)
        annotation = block(_ANNOTATION, key)
        if isinstance(value, str) or len(kept) < _KEPT:
            kept[value] = (type(value), annotation)
        return annotation


def _by_event(events: np.ndarray, count: int) -> Any:
    """Return a function that gives the arrows of an event."""
    order = np.argsort(events, kind="stable")
    starts = np.searchsorted(events[order], np.arange(count + 1))
    return lambda event: order[starts[event] : starts[event + 1]].tolist()


def _descriptor(track: bytes) -> bytes:
    return block(_PACKET, number(_SEQUENCE, 1) + block(_TRACK, track))


def _core_uuid(core: int) -> int:
    return (1 << 41) + core


def _uuid(track: DrawnTrack) -> int:
    return track.number


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
    """Write a field that holds text; what is not Unicode is replaced."""
    return block(field, value.encode("utf-8", "replace"))


def blocks(data: bytes, start: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield (field, start, end) of every field of a message that holds bytes, and pass over the others.

    Raises ValueError where the message is cut off or is none.
    """
    at = start
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a message is cut off")
            yield tag >> 3, at, at + length
            at += length
        elif kind == _VARINT:
            at = read_varint(data, at)[1]
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("no message")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer that `varint` wrote, and where the data goes on. Raises ValueError where it is cut off."""
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
