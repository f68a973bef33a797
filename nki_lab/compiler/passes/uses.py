"""Finds the earlier uses of a memory that share bytes with a new one.

For most tensors a short list answers. One that is used in many parts (columns of a tile, tiles of a tensor in HBM) is
cut where that separates its uses, so that a new use is compared with its neighbours only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Iterable

from nki_lab.ir.tensor.footprint import Footprint, covers, flat_range, overlap
from nki_lab.ir.tensor.storage import Address, Storage

Use = tuple[Footprint, int]  # the bytes, and the position of the instruction
Rectangle = tuple[int, int, int, int]  # first row, end row, first byte, end byte

_LIST_LENGTH = 32
_NOWHERE = Address(0, 0)
_WORTH_PRUNING = 8
_USEFUL = 0.75  # a cut that leaves more than this share on one side separates too little


class Uses:
    """Uses that a later instruction may have to wait for.

    Args:
        origin: where row 0 and byte 0 are in on-chip memory.
        pitch: bytes of a row there; 0 in HBM, where each view counts rows in its own way.
        rows: number of rows there.
    """

    __slots__ = (
        "writers", "readers", "latest", "limit", "origin", "pitch", "rows", "parts", "axis", "cuts",
    )  # fmt: skip

    def __init__(self, origin: Address = _NOWHERE, pitch: int = 0, rows: int = 0) -> None:
        self.writers: list[Use] = []  # in program order
        self.readers: list[Use] = []
        self.latest: dict[Hashable, Use] = {}
        self.limit = _LIST_LENGTH
        self.origin = origin
        self.pitch = pitch
        self.rows = rows
        # Once there are parts, the uses are in them: part k has those between cut k - 1 and cut k along `axis`; a
        # use that lies across a cut is in both.
        self.parts: list[Uses] = []
        self.axis = 0
        self.cuts: list[int] = []

    def read(self, box: Footprint, n: int, predecessors: set[int], queue: Hashable = None) -> None:
        """Note that instruction `n` reads `box`, and add to `found` which it must follow.

        Args:
            queue: the engine that runs it, if that starts its instructions in order and they stay in this order:
                what its latest reader of these bytes has waited for is left out then.
        """
        if self.parts:
            reached = self._reached(box)
            for part in reached:
                part.read(box, n, predecessors, queue)
            self._adopt(reached)
            return
        if queue is not None and len(self.writers) + len(self.readers) > _WORTH_PRUNING:
            self._read_in_order(box, n, predecessors, queue)
            return
        for other, at in self.writers:
            if other is box or overlap(other, box):
                predecessors.add(at)
        self.readers.append((box, n))
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def _read_in_order(
        self, box: Footprint, n: int, predecessors: set[int], queue: Hashable
    ) -> None:
        before = self.latest.get(queue)
        since = before[1] if before is not None and covers(before[0], box) else -1
        for other, at in reversed(self.writers):
            if at < since:
                break
            if overlap(other, box):
                predecessors.add(at)
        if before is not None and covers(box, before[0]) and before in self.readers:
            self.readers.remove(before)  # who waits for this reader waits for that one too
        self.readers.append((box, n))
        self.latest[queue] = box, n
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def write(self, box: Footprint, n: int, predecessors: set[int]) -> None:
        """Note that instruction `n` writes `box`, and add to `found` which it must follow."""
        if self.parts:
            reached = self._reached(box)
            for part in reached:
                part.write(box, n, predecessors)
            if len(reached) == len(self.parts) and all(p.is_written_by(n) for p in reached):
                self.writers, self.parts, self.cuts = reached[0].writers, [], []
                self.limit = _LIST_LENGTH
            else:
                self._adopt(reached)
            return
        # A use that the new write covers can be forgotten: whoever comes later waits for the write.
        if self.writers:
            self.writers = _uncovered(self.writers, box, predecessors)
        if self.readers:
            self.readers = _uncovered(self.readers, box, predecessors)
        self.writers.append((box, n))
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def is_written_by(self, n: int) -> bool:
        """Tell whether the write of instruction `n` is the only use left."""
        return (
            len(self.writers) == 1
            and self.writers[0][1] == n
            and not self.readers
            and not self.parts
        )

    def remaining(self) -> tuple[Collection[Use], Collection[Use]]:
        """Return the writers and the readers that no later write covers, in program order."""
        if not self.parts:
            return self.writers, self.readers
        writers: set[Use] = set()
        readers: set[Use] = set()
        for part in self.parts:
            some_writers, some_readers = part.remaining()
            writers.update(some_writers)
            readers.update(some_readers)
        return sorted(writers, key=_position), sorted(readers, key=_position)

    def become(self, storage: Storage, address: Address) -> bool:
        """Go on as the uses of a tile at the same place, and tell whether that gives what `inherit` would."""
        if (
            self.parts
            or self.limit != _LIST_LENGTH
            or self.origin != address
            or self.pitch != storage.row_bytes
            or self.rows > storage.partitions
        ):
            return False
        self.rows = storage.partitions
        self.latest = {}
        return True

    def inherit(self, before: Uses, storage: Storage, address: Address) -> None:
        """Take over what used the bytes of `storage`, placed at `address`, when they were another tile's."""
        writers, readers = before.remaining()
        same = before.origin == self.origin and before.pitch == self.pitch
        if not same or before.rows > self.rows:  # else a tile of the same kind: nothing moves
            rows = before.origin.partition - self.origin.partition
            shift = before.origin.byte - self.origin.byte
            first_row = address.partition - self.origin.partition
            first_byte = address.byte - self.origin.byte
            ends = first_row + storage.partitions, first_byte + storage.row_bytes

            def moved(uses: Iterable[Use]) -> Iterable[Use]:
                for box, n in uses:
                    row, last_row, byte, last_byte = _rectangle(box, before.pitch)
                    row, last_row = max(row + rows, first_row), min(last_row + rows, ends[0])
                    byte, last_byte = max(byte + shift, first_byte), min(last_byte + shift, ends[1])
                    if row < last_row and byte < last_byte:
                        yield Footprint(self.pitch, row, last_row, byte, last_byte), n

            writers, readers = list(moved(writers)), list(moved(readers))
        self._add(writers, readers)

    def _add(self, writers: Collection[Use], readers: Collection[Use]) -> None:
        if not self.parts:
            if self.writers:
                self.writers = sorted((*self.writers, *writers), key=_position)
            else:
                self.writers = [*writers]
            self.readers += readers
            if len(self.readers) + len(self.writers) > self.limit:
                self._separate()
            return
        for use in writers:
            for part in self._reached(use[0]):
                part._add((use,), ())
        for use in readers:
            for part in self._reached(use[0]):
                part._add((), (use,))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _reached(self, box: Footprint) -> list[Uses]:
        place = _rectangle(box, self.pitch)
        first = bisect_right(self.cuts, place[self.axis])
        last = bisect_left(self.cuts, place[self.axis + 1])
        return self.parts[first : last + 1]

    def _separate(self) -> None:
        uses = (*self.writers, *self.readers)
        pitch = self.pitch or Counter(box.pitch for box, _ in uses).most_common(1)[0][0]
        places = [_rectangle(box, pitch) for box, _ in uses]
        best = (len(uses), 0, 0)
        for axis in (0, 2):
            cut = sorted(place[axis] for place in places)[len(places) // 2]
            below = sum(place[axis] < cut for place in places)
            above = sum(place[axis + 1] > cut for place in places)
            best = min(best, (max(below, above), axis, cut))
        larger, axis, cut = best
        if larger > _USEFUL * len(uses):
            self.limit = 2 * len(uses)
            return
        self.axis, self.cuts, self.pitch = axis, [cut], pitch
        self.parts = [Uses(self.origin, pitch), Uses(self.origin, pitch)]
        writers, readers = self.writers, self.readers
        self.writers, self.readers = [], []
        self._add(writers, readers)

    def _adopt(self, reached: list[Uses]) -> None:
        # A part that was cut along the same axis hands its parts over, so that none lies deeper than another.
        for part in reached:
            if part.parts and part.axis == self.axis:
                at = self.parts.index(part)
                self.parts[at : at + 1] = part.parts
                self.cuts[at:at] = part.cuts


def _position(use: Use) -> int:
    return use[1]


def _uncovered(uses: list[Use], box: Footprint, predecessors: set[int]) -> list[Use]:
    uncovered = []
    for use in uses:
        other, at = use
        if other is box:  # tiles are mostly used as a whole
            predecessors.add(at)
        elif overlap(other, box):
            predecessors.add(at)
            if not covers(box, other):
                uncovered.append(use)
        else:
            uncovered.append(use)
    return uncovered


def _rectangle(box: Footprint, pitch: int) -> Rectangle:
    """Return the rows and bytes of a footprint where rows are `pitch` bytes long; it may grow."""
    if box.pitch == pitch:
        return box.first_row, box.end_row, box.first_byte, box.end_byte
    low, high = flat_range(box)
    first, last = low // pitch, (high - 1) // pitch
    if first == last:
        return first, first + 1, low - first * pitch, high - first * pitch
    return first, last + 1, 0, pitch
