"""Deals: keeps how each transfer is split into packets, and which DMA engine moves each of them.

There can be hundreds of packets per transfer, so a profile keeps how transfers are dealt out (`Deals`), and the table
DmaPacket is made from that when somebody asks (`data.packet_table`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nki_lab.profiler import intervals

_LARGEST = 1 << 40  # packets or bytes of one transfer: more than any memory has


class Deal(NamedTuple):
    """Packets of one kind within a transfer, dealt to DMA engines that serve theirs one after the other.

    `slots` packets go to the first engine, as many to the next one, until `packets` have been dealt; the last engine
    may have fewer. The bytes are those that all of them together read and write.
    """

    slots: int
    packets: int
    read_bytes: int
    write_bytes: int


class Cut(NamedTuple):
    """A transfer that reaches out of the span of its profile.

    Attributes:
        row: of DmaPacketAggregated.
        start_ns, end_ns: when the whole transfer begins and ends.
        first_ns, last_ns: what of it the span holds.
    """

    row: int
    start_ns: int
    end_ns: int
    first_ns: int
    last_ns: int


class Packets(NamedTuple):
    """Columns of packets: row of their transfer, times, place in it, DMA engine, bytes."""

    row: np.ndarray
    start: np.ndarray
    end: np.ndarray
    place: np.ndarray
    engine: np.ndarray
    read: np.ndarray
    written: np.ndarray


class Deals:
    """How every transfer of a profile is cut into packets.

    Attributes:
        codes: per row of DmaPacketAggregated, a position in `forms`.
        forms: the deals of a transfer, in the order in which they move.
        cuts: of a profile of a span of time, the transfers that reach out of it.
    """

    __slots__ = ("codes", "forms", "cuts")

    def __init__(
        self,
        codes: Any,
        forms: Sequence[Sequence[Sequence[int]]],
        cuts: Sequence[Sequence[int]] = (),
    ) -> None:
        self.codes = np.asarray(codes, dtype=np.int64).reshape(-1)
        self.forms = tuple(tuple(Deal(*deal) for deal in form) for form in forms)
        self.cuts = tuple(Cut(*cut) for cut in cuts)
        if len(self.codes) and not (self.codes.min() >= 0 and self.codes.max() < len(self.forms)):
            raise ValueError("a transfer is dealt in a form that is not there")
        for form in self.forms:
            if not form or any(type(n) is not int or n < 0 for deal in form for n in deal):
                raise ValueError("packets are counted in whole numbers")
            if any(n > _LARGEST for deal in form for n in deal):
                raise ValueError("no transfer has that many packets or bytes")
            if any(not 0 < deal.slots <= deal.packets for deal in form):
                raise ValueError("an engine has no packet, or more than there are")
        rows = [cut.row for cut in self.cuts]
        if any(type(n) is not int for cut in self.cuts for n in cut) or len(set(rows)) < len(rows):
            raise ValueError("a transfer is cut twice, or not at a whole number of nanoseconds")
        for row, start, end, first, last in self.cuts:
            if not (0 <= row < len(self.codes) and start <= first <= last <= end):
                raise ValueError("a part of a transfer lies outside of it")

    def take(self, rows: np.ndarray) -> Deals:
        """Return the deals of some transfers: a mask, or their numbers."""
        numbers = np.arange(len(self.codes))[rows].tolist()
        places = {row: n for n, row in enumerate(numbers)} if self.cuts else {}
        cuts = [cut._replace(row=places[cut.row]) for cut in self.cuts if cut.row in places]
        return Deals(self.codes[rows], self.forms, cuts)

    def within(self, start: np.ndarray, end: np.ndarray, first: int, last: int) -> Deals:
        """Return the deals of transfers, with their times, of which only what lies in first <= t < last is kept."""
        before = {cut.row: cut for cut in self.cuts}
        cuts = dict(before)
        for row in np.flatnonzero((start < first) | (end > last)).tolist():
            at, to = int(start[row]), int(end[row])
            whole = before.get(row, Cut(row, at, to, at, to))
            cuts[row] = whole._replace(first_ns=max(at, first), last_ns=min(to, last))
        return Deals(self.codes, self.forms, list(cuts.values()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deals)
            and self.forms == other.forms
            and np.array_equal(self.codes, other.codes)
            and self.cuts == other.cuts
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def packets(self) -> np.ndarray:
        """Number of packets of each transfer; of one that is cut, those with a part in the span."""
        each = [sum(deal.packets for deal in form) for form in self.forms]
        counts = np.array(each, dtype=np.int64)[self.codes]
        for cut in self.cuts:
            counts[cut.row] = len(self._cut_packets(cut).place)
        return counts

    def packet_ns(self, length_ns: np.ndarray) -> np.ndarray:
        """Return the summed time of the packets of each transfer, from the times of the transfers."""
        share = [
            sum(deal.packets for deal in form) / sum(deal.slots for deal in form)
            for form in self.forms
        ]
        times = length_ns * np.array(share, dtype=np.float64)[self.codes]
        for cut in self.cuts:
            at_once = [  # packets that move in each slot, one behind the other
                np.bincount(np.arange(deal.packets) % deal.slots)
                for deal in self.forms[int(self.codes[cut.row])]
            ]
            so_far = np.concatenate(([0], np.cumsum(np.concatenate(at_once))))
            slot_ns = (cut.end_ns - cut.start_ns) / (len(so_far) - 1)
            inside = np.array([cut.first_ns, cut.last_ns]) - cut.start_ns
            ends = np.interp(inside / (slot_ns or 1.0), np.arange(len(so_far)), so_far)
            times[cut.row] = (ends[1] - ends[0]) * slot_ns
        return times

    def _cut_packets(self, cut: Cut) -> Packets:
        """Return the packets of a transfer that have a part in the span, with their times and bytes in it."""
        row = np.array([cut.row])
        start, end = np.array([cut.start_ns]), np.array([cut.end_ns])
        form = self.forms[int(self.codes[cut.row])]
        whole = Packets(
            *map(np.concatenate, zip(*_parts(row, start, end - start, form), strict=True))
        )
        first, last = cut.first_ns, cut.last_ns
        if last == cut.end_ns:  # with what takes no time at its very end
            last += 1
        lies = (whole.start < last) & ((whole.end > first) | (whole.start >= first))
        kept = Packets(*(column[lies] for column in whole))
        return kept._replace(
            start=np.maximum(kept.start, first),
            end=np.minimum(kept.end, cut.last_ns),
            read=intervals.amount_within(kept.read, kept.start, kept.end, first, last),
            written=intervals.amount_within(kept.written, kept.start, kept.end, first, last),
        )

    def all_packets(self, start: np.ndarray, end: np.ndarray) -> Packets:
        """Return the packets of all transfers, from the times of the transfers."""
        whole = np.ones(len(self.codes), dtype=bool)
        whole[[cut.row for cut in self.cuts]] = False
        parts: list[Sequence[np.ndarray]] = [self._cut_packets(cut) for cut in self.cuts]
        for code, form in enumerate(self.forms):
            rows = np.flatnonzero((self.codes == code) & whole)
            parts += _parts(rows, start[rows], end[rows] - start[rows], form)
        return Packets(*map(np.concatenate, zip(*parts, strict=True)))


def _parts(
    rows: np.ndarray, begin: np.ndarray, length: np.ndarray, form: tuple[Deal, ...]
) -> Iterator[tuple[np.ndarray, ...]]:
    slots = sum(deal.slots for deal in form)
    begin, length = begin[:, None], length[:, None]
    first_slot = first_place = 0
    for deal in form:
        number = np.arange(deal.packets)
        slot = first_slot + number % deal.slots
        yield (
            np.repeat(rows, deal.packets),
            (begin + length * slot // slots).ravel(),
            (begin + length * (slot + 1) // slots).ravel(),
            np.tile(first_place + number, len(rows)),
            np.tile(number // deal.slots, len(rows)),
            np.tile(_spread(deal.read_bytes, deal.packets), len(rows)),
            np.tile(_spread(deal.write_bytes, deal.packets), len(rows)),
        )
        first_slot += deal.slots
        first_place += deal.packets


def _spread(total: int, parts: int) -> np.ndarray:
    """Divide a whole number into parts that differ by one at most and add up to it."""
    return np.diff(total * np.arange(parts + 1) // parts)
