"""Reads the tracks, slices and counters of a trace in Perfetto's format, whoever wrote it.

Numbers of fields: protos/perfetto/trace of github.com/google/perfetto, as in `perfetto`, which writes traces.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nki_lab.profiler.formats.perfetto import read_varint
from nki_lab.profiler.formats.reading import MAX_BYTES

#: Slices that are open on one track at a time, and tracks above a track.
_DEEPEST = 1000
_ABOVE = 16
# TracePacket
_TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLOCK, _DEFAULTS, _TRACK, _PACKED = (
    8,
    10,
    11,
    12,
    13,
    58,
    59,
    60,
    50,
)
_CLEARED = 1
#: Clocks up to this number count nanoseconds; others are defined by the trace.
_LAST_BUILT_IN_CLOCK = 63
# TrackEvent
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4


class Track(NamedTuple):
    """A line of a trace: its name, the unit of its values, and the tracks above it."""

    name: str
    unit: str
    above: tuple[str, ...]

    def names(self) -> Iterator[str]:
        """Yield its name, and those of the tracks above it."""
        yield self.name
        yield from self.above

    @property
    def path(self) -> str:
        """Its name behind those above it."""
        return " / ".join(name for name in reversed((self.name, *self.above)) if name)


class Slice(NamedTuple):
    """A span of time on a track.

    Attributes:
        name, category: what it is called.
        track: where it is.
        start, end: in ns.
        annotations: its facts by name.
        flows: numbers of the arrows that begin, pass or end here.
    """

    name: str
    category: str
    track: Track
    start: int
    end: int
    annotations: Mapping[str, Any]
    flows: tuple[int, ...]


class Counted(NamedTuple):
    """A value of a counter from a time in ns on."""

    track: Track
    time: int
    value: float


@dataclass
class _Sequence:
    """What one writer of packets has said before: its texts by number, and what its packets leave out."""

    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    clock: int = 0
    track: int = 0


@dataclass
class _Descriptor:
    name: str = ""
    unit: str = ""
    parent: int = 0


class TraceEvents:
    """Reads a trace.

    Attributes:
        doubts: sentences on what was not understood.
    """

    def __init__(self) -> None:
        self.doubts: list[str] = []
        self._sequences: dict[int, _Sequence] = {}
        self._described: dict[int, _Descriptor] = {}
        self._tracks: dict[int, Track] = {}
        self._open: dict[int, list[tuple[int, str, str, dict[str, Any], list[int]]]] = {}
        self._clocks: set[int] = set()
        self._ends = 0

    def read(self, data: bytes) -> Iterator[Slice | Counted]:
        """Yield slices as they end, and values. Raises ValueError where the data is damaged or cut off."""
        packets = list(_packets(data, MAX_BYTES))
        for packet in packets:  # tracks may be described after their first event
            for number, value in _fields(packet):
                if number == _TRACK:
                    self._describe(value)
        for packet in packets:
            yield from self._packet(packet)
        open_slices = sum(map(len, self._open.values()))
        if open_slices:
            self.doubts.append(f"not read: {open_slices:,} slices that do not end")
        if self._ends:
            self.doubts.append(f"not read: {self._ends:,} ends of slices that do not begin")
        if self._clocks:
            self.doubts.append(
                f"times of clock {', '.join(map(str, sorted(self._clocks)))}, which the trace defines, are taken as ns"
            )

    def _describe(self, data: bytes) -> None:
        uuid, described = 0, _Descriptor()
        for number, value in _fields(data):
            if number == 1:
                uuid = value
            elif number in (2, 10):
                described.name = _text(value)
            elif number == 5:
                described.parent = value
            elif number in (3, 4) and not described.name:  # a process or a thread
                wanted = 6 if number == 3 else 5
                described.name = next((_text(v) for n, v in _fields(value) if n == wanted), "")
            elif number == 8:
                described.unit = next((_text(v) for n, v in _fields(value) if n == 6), "")
        known = self._described.setdefault(uuid, described)
        known.name, known.unit = known.name or described.name, known.unit or described.unit

    def _track(self, uuid: int) -> Track:
        track = self._tracks.get(uuid)
        if track is None:
            described = self._described.get(uuid, _Descriptor())
            above: list[str] = []
            parent = described.parent
            while parent in self._described and len(above) < _ABOVE:
                above.append(self._described[parent].name)
                parent = self._described[parent].parent
            track = self._tracks[uuid] = Track(described.name, described.unit, tuple(above))
        return track

    def _packet(self, packet: bytes) -> Iterator[Slice | Counted]:
        time = sequence = flags = 0
        clock, event, interned, defaults = None, None, None, None
        for number, value in _fields(packet):
            if number == _TIME:
                time = value
            elif number == _SEQUENCE:
                sequence = value
            elif number == _FLAGS:
                flags = value
            elif number == _CLOCK:
                clock = value
            elif number == _EVENT:
                event = value
            elif number == _INTERNED:
                interned = value
            elif number == _DEFAULTS:
                defaults = value
        if flags & _CLEARED or sequence not in self._sequences:
            self._sequences[sequence] = _Sequence()
        said = self._sequences[sequence]
        if defaults is not None:
            for number, value in _fields(defaults):
                if number == _CLOCK:
                    said.clock = value
                elif number == _EVENT:
                    said.track = next((v for n, v in _fields(value) if n == 11), said.track)
        if interned is not None:
            _remember(said, interned)
        if event is not None:
            if (clock if clock is not None else said.clock) > _LAST_BUILT_IN_CLOCK:
                self._clocks.add(clock if clock is not None else said.clock)
            yield from self._event(said, event, time)

    def _event(self, said: _Sequence, event: bytes, time: int) -> Iterator[Slice | Counted]:
        kind, uuid, name, category, value = 0, said.track, "", "", None
        annotations: dict[str, Any] = {}
        flows: list[int] = []
        for number, found in _fields(event):
            if number == 9:
                kind = found
            elif number == 11:
                uuid = found
            elif number == 10:
                name = said.texts.get((2, found), "")
            elif number == 23:
                name = _text(found)
            elif number == 3:
                category = category or said.texts.get((1, found), "")
            elif number == 22:
                category = category or _text(found)
            elif number == 4:
                _annotate(said, found, annotations)
            elif number in (47, 48):
                flows.append(struct.unpack("<Q", found)[0])
            elif number in (36, 42):
                flows.append(found)
            elif number == 30:
                value = float(_signed(found))
            elif number == 44:
                value = struct.unpack("<d", found)[0]
        if kind == _COUNTER:
            if value is not None:
                yield Counted(self._track(uuid), time, value)
            return
        stack = self._open.setdefault(uuid, [])
        if kind == _BEGIN:
            if len(stack) >= _DEEPEST:
                raise ValueError("slices are nested too deeply")
            stack.append((time, name, category, annotations, flows))
        elif kind == _END and stack:
            start, name, category, begun, arrows = stack.pop()
            yield Slice(
                name,
                category,
                self._track(uuid),
                start,
                time,
                begun | annotations,
                (*arrows, *flows),
            )
        elif kind == _END:
            self._ends += 1
        elif kind == _INSTANT:
            yield Slice(name, category, self._track(uuid), time, time, annotations, tuple(flows))


def _packets(data: bytes, room: int) -> Iterator[bytes]:
    """Yield the packets of a trace, those that are compressed, too."""
    for number, packet in _fields(data):
        if number != 1:
            continue
        if not isinstance(packet, bytes):
            raise ValueError("no packet")
        packed = next((v for n, v in _fields(packet) if n == _PACKED), None)
        if packed is None:
            yield packet
            continue
        unpack = zlib.decompressobj()
        inner = unpack.decompress(packed, max(room, 1))
        if not unpack.eof:
            raise ValueError("cut off, or too large")
        room -= len(inner)
        for number, packet in _fields(inner):
            if number == 1:
                yield packet


def _remember(said: _Sequence, interned: bytes) -> None:
    """Keep texts by their table and number."""
    for table, entry in _fields(interned):
        if table in (1, 2, 3, 29):
            ident, text = 0, ""
            for number, value in _fields(entry):
                if number == 1:
                    ident = value
                elif number == 2:
                    text = _text(value)
            said.texts[table, ident] = text


def _annotate(said: _Sequence, data: bytes, into: dict[str, Any]) -> None:
    """Read an annotation: a name and a value; nested ones are left out."""
    name = ""
    value: Any = None
    for number, found in _fields(data):
        if number == 1:
            name = said.texts.get((3, found), "")
        elif number == 10:
            name = _text(found)
        elif number == 2:
            value = bool(found)
        elif number == 3:
            value = found
        elif number == 4:
            value = _signed(found)
        elif number == 5:
            value = struct.unpack("<d", found)[0]
        elif number in (6, 9):
            value = _text(found)
        elif number == 17:
            value = said.texts.get((29, found))
    if name and value is not None:
        into[name.removeprefix("debug.")] = value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        raise ValueError("no text")
    return value.decode("utf-8", "replace")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: a number, or the bytes of a text, a message or a number of fixed size.

    Raises ValueError where the message is cut off or is none.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("no message")
        if at + size > end:
            raise ValueError("a message is cut off")
        yield tag >> 3, data[at : at + size]
        at += size
