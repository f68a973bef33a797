"""Which earlier uses of a memory share bytes with a new one?

For most tensors a short list answers. One that is used in many parts (columns of a tile, tiles of a tensor in HBM) is
cut in two where that separates its uses, and its halves again, so that a new use is compared with its neighbours only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from nki_lab.ir.footprint import Footprint, covers, flat_range, overlap
from nki_lab.ir.storage import Address, Storage

Use = tuple[Footprint, int]  # the bytes, and the position of the instruction
Rectangle = tuple[int, int, int, int]  # first row, end row, first byte, end byte

_LIST_LENGTH = 32
_NOWHERE = Address(0, 0)
_USEFUL = 0.75  # a cut that leaves more than this share on one side separates too little


class Uses:
    """Uses that a later instruction may have to wait for.

    Args:
        origin: where row 0 and byte 0 are in on-chip memory.
        pitch: bytes of a row there; 0 in HBM, where each view counts rows in its own way.
        rows: number of rows there.
    """

    __slots__ = ("writers", "readers", "limit", "origin", "pitch", "rows", "parts", "axis", "cut")

    def __init__(self, origin: Address = _NOWHERE, pitch: int = 0, rows: int = 0) -> None:
        self.writers: list[Use] = []
        self.readers: list[Use] = []
        self.limit = _LIST_LENGTH
        self.origin = origin
        self.pitch = pitch
        self.rows = rows
        # Once there are parts, the uses are in them: those below `cut` along `axis` in the first, those at or above
        # in the second, and those on both sides in both.
        self.parts: tuple[Uses, Uses] | None = None
        self.axis = self.cut = 0

    def read(self, box: Footprint, n: int, found: set[int]) -> None:
        """Note that instruction `n` reads `box`, and add to `found` which it must follow."""
        if self.parts is not None:
            for part in self._reached(box):
                part.read(box, n, found)
            return
        for other, at in self.writers:
            if overlap(other, box):
                found.add(at)
        self.readers.append((box, n))
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def write(self, box: Footprint, n: int, found: set[int]) -> None:
        """Note that instruction `n` writes `box`, and add to `found` which it must follow."""
        if self.parts is not None:
            for part in self._reached(box):
                part.write(box, n, found)
            self._join()
            return
        # A use that the new write covers can be forgotten: whoever comes later waits for the write.
        if self.writers:
            self.writers = _left(self.writers, box, found)
        if self.readers:
            self.readers = _left(self.readers, box, found)
        self.writers.append((box, n))
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def inherit(self, before: Uses, storage: Storage, address: Address) -> None:
        """Take over what used the bytes of `storage`, placed at `address`, when they were another tile's."""
        if before.pitch == self.pitch and before.origin == self.origin and before.rows <= self.rows:
            self._add(*before.remaining())  # the usual case, a tile of the same kind: nothing moves
            return
        rows = before.origin.partition - self.origin.partition
        shift = before.origin.byte - self.origin.byte
        first_row = address.partition - self.origin.partition
        first_byte = address.byte - self.origin.byte
        end_row, end_byte = first_row + storage.partitions, first_byte + storage.row_bytes

        def taken(uses: Iterable[Use]) -> list[Use]:
            result = []
            for box, n in uses:
                row, last_row, byte, last_byte = _rectangle(box, before.pitch)
                moved = Footprint(self.pitch, max(row + rows, first_row), min(last_row + rows, end_row),
                                  max(byte + shift, first_byte), min(last_byte + shift, end_byte))  # fmt: skip
                if moved.first_row < moved.end_row and moved.first_byte < moved.end_byte:
                    result.append((moved, n))
            return result

        writers, readers = before.remaining()
        self._add(taken(writers), taken(readers))

    def remaining(self) -> tuple[Collection[Use], Collection[Use]]:
        """Return the writers and the readers that no later write covers."""
        if self.parts is None:
            return self.writers, self.readers
        found = [part.remaining() for part in self.parts]
        return {*found[0][0], *found[1][0]}, {*found[0][1], *found[1][1]}

    def _add(self, writers: Collection[Use], readers: Collection[Use]) -> None:
        if self.parts is not None:
            for box, n in writers:
                for part in self._reached(box):
                    part._add([(box, n)], [])
            for box, n in readers:
                for part in self._reached(box):
                    part._add([], [(box, n)])
            return
        self.writers += writers
        self.readers += readers
        if len(self.readers) + len(self.writers) > self.limit:
            self._separate()

    def _reached(self, box: Footprint) -> list[Uses]:
        assert self.parts is not None
        place = _rectangle(box, self.pitch)
        first, second = self.parts
        reached = [first] if place[self.axis] < self.cut else []
        if place[self.axis + 1] > self.cut:
            reached.append(second)
        return reached

    def _separate(self) -> None:
        boxes = [box for box, _ in (*self.writers, *self.readers)]
        pitch = self.pitch or Counter(box.pitch for box in boxes).most_common(1)[0][0]
        places = [_rectangle(box, pitch) for box in boxes]
        best = (len(boxes), 0, 0)
        for axis in (0, 2):
            cut = sorted(place[axis] for place in places)[len(places) // 2]
            first = sum(place[axis] < cut for place in places)
            second = sum(place[axis + 1] > cut for place in places)
            best = min(best, (max(first, second), axis, cut))
        larger, axis, cut = best
        if larger > _USEFUL * len(boxes):
            self.limit = 2 * len(boxes)
            return
        self.axis, self.cut, self.pitch = axis, cut, pitch
        self.parts = Uses(self.origin, pitch), Uses(self.origin, pitch)
        writers, readers = self.writers, self.readers
        self.writers, self.readers = [], []
        for use in writers:
            for part in self._reached(use[0]):
                part.writers.append(use)
        for use in readers:
            for part in self._reached(use[0]):
                part.readers.append(use)

    def _join(self) -> None:
        # One write to everything makes the parts one again.
        assert self.parts is not None
        first, second = self.parts
        if first.parts is None and second.parts is None:
            same = first.writers == second.writers and len(first.writers) == 1
            if same and not first.readers and not second.readers:
                self.writers, self.parts, self.limit = first.writers, None, _LIST_LENGTH


def _left(uses: list[Use], box: Footprint, found: set[int]) -> list[Use]:
    left = []
    for use in uses:
        if overlap(use[0], box):
            found.add(use[1])
            if covers(box, use[0]):
                continue
        left.append(use)
    return left


def _rectangle(box: Footprint, pitch: int) -> Rectangle:
    """Return the rows and bytes of a footprint where rows are `pitch` bytes long; it may grow."""
    if box.pitch == pitch:
        return box.first_row, box.end_row, box.first_byte, box.end_byte
    low, high = flat_range(box)
    first, last = low // pitch, (high - 1) // pitch
    if first == last:
        return first, first + 1, low - first * pitch, high - first * pitch
    return first, last + 1, 0, pitch
