"""How does a profile become a trace in Perfetto's own format?

Times are whole nanoseconds, and texts are written once. Packets of a field that Perfetto leaves to others hold the
profile itself, so that nothing is lost on the way back (`import_trace`); viewers pass over them.

Numbers of fields: protos/perfetto/trace/{trace,trace_packet,interned_data}.proto and
protos/perfetto/trace/track_event/{track_event,track_descriptor,counter_descriptor,debug_annotation}.proto of
github.com/google/perfetto.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.profiler.curves import curves
from nki_lab.profiler.drawing import Drawing, Slice, Track
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.profile_json import document_of, dump
from nki_lab.profiler.protobuf import block, double, fixed64, number, text
from nki_lab.profiler.reading import write_whole

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


def save_perfetto_trace(profile: Profile, path: str | Path) -> Path:
    """Write the trace of a profile to a file, in one step, and return its path."""
    path = Path(path)
    write_whole(path, _packets(profile))
    return path


def to_perfetto_trace(profile: Profile) -> bytes:
    """Return a profile as a trace in Perfetto's format."""
    return b"".join(_packets(profile))


def _packets(profile: Profile) -> Iterator[bytes]:
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

    def _slice(self, shown: Slice) -> Iterator[bytes]:
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
        known = self._known.get((table, value))
        if known is None:
            known = self._known[table, value] = len(self._known) + 1
            self._new.append(block(table, number(1, known) + text(2, value)))
        return known

    def _annotation(self, name: str, value: Any) -> bytes:
        kept = self._written.get(name)
        if kept is None:
            kept = self._written[name] = {}
        known = kept.get(value)
        # True is 1 to a dict, and 1.0 is 1: what was kept may be of another type.
        if known is not None and known[0] is type(value):
            return known[1]
        key = number(1, self._number(_KEYS, name))
        if isinstance(value, str):
            key += number(17, self._number(_TEXTS, value))
        elif isinstance(value, bool):
            key += number(2, value)
        else:
            key += number(4, value) if isinstance(value, int) else double(5, value)
        made = block(_ANNOTATION, key)
        if isinstance(value, str) or len(kept) < _KEPT:
            kept[value] = (type(value), made)
        return made


def _by_event(events: np.ndarray, count: int) -> Any:
    """Return a function that gives the arrows of an event."""
    order = np.argsort(events, kind="stable")
    starts = np.searchsorted(events[order], np.arange(count + 1))
    return lambda event: order[starts[event] : starts[event + 1]].tolist()


def _descriptor(track: bytes) -> bytes:
    return block(_PACKET, number(_SEQUENCE, 1) + block(_TRACK, track))


def _core_uuid(core: int) -> int:
    return (1 << 41) + core


def _uuid(track: Track) -> int:
    return track.number
