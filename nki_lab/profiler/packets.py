"""In which packets did each transfer move, and on which DMA engine?

There can be hundreds of packets per transfer, so a profile keeps how transfers are dealt out (`Deals`), and the table
DmaPacket is made from that when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nki_lab.errors import UsageError
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.schema import TRANSFERS

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile


#: A longer table DmaPacket is not made: ten columns of it take some 10 GB.
MOST_ROWS = 1 << 27
_LARGEST = 1 << 40  # packets or bytes of one transfer: more than any memory has


class Deal(NamedTuple):
    """Packets of one kind within a transfer, dealt to DMA engines that serve theirs one after the other.

    `slots` packets go to the first engine, as many to the next one, until `packets` have been dealt; the last engine
    may have fewer. All of them together read and write so many bytes.
    """

    slots: int
    packets: int
    read_bytes: int
    write_bytes: int


class Deals:
    """How every transfer of a profile is cut into packets.

    Attributes:
        codes: per row of DmaPacketAggregated, a position in `forms`.
        forms: the deals of a transfer, in the order in which they move.
    """

    __slots__ = ("codes", "forms")

    def __init__(self, codes: Any, forms: Sequence[Sequence[Sequence[int]]]) -> None:
        self.codes = np.asarray(codes, dtype=np.int64).reshape(-1)
        self.forms = tuple(tuple(Deal(*deal) for deal in form) for form in forms)
        if len(self.codes) and not (self.codes.min() >= 0 and self.codes.max() < len(self.forms)):
            raise ValueError("a transfer is dealt in a form that is not there")
        for form in self.forms:
            if not form or any(type(n) is not int or n < 0 for deal in form for n in deal):
                raise ValueError("packets are counted in whole numbers")
            if any(n > _LARGEST for deal in form for n in deal):
                raise ValueError("no transfer has that many packets or bytes")
            if any(not 0 < deal.slots <= deal.packets for deal in form):
                raise ValueError("an engine has no packet, or more than there are")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deals)
            and self.forms == other.forms
            and np.array_equal(self.codes, other.codes)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def packets(self) -> np.ndarray:
        """Number of packets of each transfer."""
        each = [sum(deal.packets for deal in form) for form in self.forms]
        return np.array(each, dtype=np.int64)[self.codes]

    def packet_ns(self, length_ns: np.ndarray) -> np.ndarray:
        """Return the summed time of the packets of each transfer, from the times of the transfers."""
        share = [
            sum(deal.packets for deal in form) / sum(deal.slots for deal in form)
            for form in self.forms
        ]
        return length_ns * np.array(share, dtype=np.float64)[self.codes]


def packet_table(profile: Profile) -> Mapping[str, Any]:
    """Make the table DmaPacket: one row per descriptor, served in order by the engine it was dealt to.

    The packets of the busiest engine fill the time from the transfer's first byte to its last one; those of an engine
    with fewer are shown just as long.
    """
    deals = profile.deals
    if deals is None or not len(deals.codes):
        return {}
    rows = int(deals.packets.sum())
    if rows > MOST_ROWS:
        raise UsageError(
            f"table DmaPacket would have {rows:,} rows, more than fit in memory",
            help="DmaPacketAggregated has a row for each transfer, with its bytes and times",
        )
    parts = [
        part
        for code, form in enumerate(deals.forms)
        for part in _parts(profile, np.flatnonzero(deals.codes == code), form)
    ]
    row, start, end, place, engine, read, written = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    order = np.lexsort((place, row, start))
    row = row[order]
    columns: dict[str, Any] = {
        "start_ts": start[order],
        "end_ts": end[order],
        "id": np.arange(1, len(order) + 1),
        "packet_idx": place[order],
        "packet_aggregation_id": profile.numbers(TRANSFERS, "id")[row],
        "engine_idx": engine[order],
        "read_bytes": read[order],
        "write_bytes": written[order],
        "transfer_bytes": np.maximum(read, written)[order],
    }
    for name in ("pcore_idx", "queue_type", "variable", "queue_name", "queue_idx"):
        column = profile.column(TRANSFERS, name)
        if column is not None:
            columns[name] = column.take(row) if isinstance(column, Strings) else column[row]
    return columns


def _parts(
    profile: Profile, rows: np.ndarray, form: tuple[Deal, ...]
) -> Iterator[tuple[np.ndarray, ...]]:
    slots = sum(deal.slots for deal in form)
    begin = profile.numbers(TRANSFERS, "start_ts")[rows][:, None]
    length = profile.numbers(TRANSFERS, "end_ts")[rows][:, None] - begin
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
