"""Advice on inputs that are loaded more than once.

What to do depends on how much is loaded between two loads of the same part. Where that fits into SBUF, the part can
stay there. Where it does not, the loops must be cut into blocks: of the free dimensions first, so that a part serves
several products while it is there, and then of the contracted dimension too, which lets the blocks grow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.ir.tensor.storage import Storage
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, size

#: Loaded bytes over distinct ones: below, a few parts overlap, as at the edges of a window.
LEAST_FACTOR = 1.5
#: Bytes that engines read of a load, over its bytes: from here on parts serve several instructions already.
SERVES_SEVERAL = 1.5


class _Loads:
    """All loads of one input."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.entries: list[int] = []
        self.again: list[int] = []
        self.bytes = 0
        self.bytes_again = 0
        self.between: list[int] = []  # bytes per partition loaded since the same part was

    @property
    def factor(self) -> float:
        """How many times over it is loaded."""
        distinct = self.bytes - self.bytes_again
        return self.bytes / distinct if distinct else 0.0


def _find(evidence: Evidence) -> Iterator[Proposal]:
    loads, input_of = _collect(evidence)
    repeated = [load for load in loads.values() if load.factor >= LEAST_FACTOR]
    if not repeated:
        return
    served = _served(evidence, input_of)
    room = evidence.target.sbuf_usable_bytes_per_partition
    for load in repeated:
        between = int(np.median(load.between))
        name = load.storage.name
        message = (
            f"`{name}` is loaded {load.factor:.1f} times over: {size(load.bytes)} in "
            f"{counted(len(load.entries), 'transfer')} for {size(load.bytes - load.bytes_again)}"
        )
        bound = ""
        if between <= room:
            message += f"; {size(between)} per partition later the same part comes again"
            help = (
                f"hoist the loads: load each part of `{name}` before the loop that uses it again, and keep its tile "
                f"(SBUF has {size(room)} per partition)"
            )
        else:
            message += f"; {size(between)} per partition lie between, and SBUF has {size(room)}"
            bound = "as if every part were loaded once, for which SBUF has no room"
            if served[load.storage.id] / load.bytes < SERVES_SEVERAL:
                help = (
                    "block the free dimensions: compute several tiles of the result at a time, so that a part of "
                    f"`{name}` serves all of them while it is in SBUF"
                )
            else:
                help = (
                    "block all dimensions: with the contracted dimension cut too, larger blocks fit into SBUF, and "
                    f"each part of `{name}` serves more tiles of the result"
                )
        again = np.array(load.again, dtype=np.int64)
        yield Proposal(message, help, again, changes=((again, None),), bound=bound)


def _collect(evidence: Evidence) -> tuple[dict[int, _Loads], dict[int, int]]:
    """Return the loads of every input, and for every tile the input it was loaded from."""
    loads: dict[int, _Loads] = {}
    latest: dict[object, int] = {}  # part -> bytes per partition loaded up to it
    input_of: dict[int, int] = {}
    loaded = 0
    written = evidence.written
    rows = {r: r.form.example.written()[0].free_bytes for r in evidence.timeline.entries_by_record
            if r.moves}  # fmt: skip
    for entry in evidence.loads.tolist():
        record = evidence.records[entry]
        tile, source = evidence.ends(entry)
        storage = source.storage
        loaded += rows[record]
        if storage.id in written or record.form.dynamic or record.moves[0].inputs > 1:
            continue
        loads_of_storage = loads.get(storage.id)
        if loads_of_storage is None:
            loads_of_storage = loads[storage.id] = _Loads(storage)
        input_of[tile.storage.id] = storage.id
        loads_of_storage.entries.append(entry)
        moved = record.moves[0].bytes_read
        loads_of_storage.bytes += moved
        part = (storage.id, source.offset, record.form)
        before = latest.get(part)
        if before is not None:
            loads_of_storage.again.append(entry)
            loads_of_storage.bytes_again += moved
            loads_of_storage.between.append(loaded - before)
        latest[part] = loaded
    return loads, input_of


def _served(evidence: Evidence, input_of: dict[int, int]) -> dict[int, int]:
    """Return by input how many bytes instructions read of the tiles it was loaded into, however often."""
    touches = evidence.kernel.touches
    source = np.full(len(evidence.kernel.storages), -1)
    source[list(input_of)] = list(input_of.values())
    positions = evidence.timeline.positions
    ran = np.bincount(positions[positions >= 0], minlength=len(evidence.kernel.instructions))
    accesses = np.flatnonzero(touches.reads & (source[touches.storage] >= 0))
    sizes: dict[tuple[int, ...], int] = {}
    read = dict.fromkeys(input_of.values(), 0)
    columns = (source[touches.storage[accesses]], ran[touches.at[accesses]], accesses)
    for tensor, count, access in zip(*(column.tolist() for column in columns), strict=True):
        view = touches.views[access]
        size = sizes.get(view.shape)
        if size is None:
            size = sizes[view.shape] = view.size
        read[tensor] += count * size * view.dtype.itemsize
    return read


RULE = AdviceRule("reloaded input", _find)
