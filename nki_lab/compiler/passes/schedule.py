"""List scheduling: finds an order in which engines wait less, and keeps it only where the timing model agrees.

Engines take their instructions in order, so an instruction that waits holds up those behind it. Where another one is
ready, it goes first: the loads of the next tile, the first steps of the next row. The order of the author stays where
the estimate does not gain by another one.

It runs after allocation, on places that are settled: tiles then keep their bytes, so an order can never need more
memory, and no tile moves onto another one that is still in use (`_Handovers`). That the compiler schedules is
documented (nki/guides/how-to-scheduling-apis.rst; nki/deep-dives/nki-compiler.rst), its method is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.dependences import dependences_of
from nki_lab.compiler.passes.estimate import Edges, Piece
from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.compiler.passes.straight_parts import in_new_order, straight_parts
from nki_lab.compiler.passes.timed import fastest
from nki_lab.ir.definition.form_times import Record, record_of
from nki_lab.ir.definition.instruction import Form
from nki_lab.ir.program.nodes import Dependences, Kernel
from nki_lab.ir.program.touches import distinct
from nki_lab.targets.spaces import PSUM, SBUF

_WORTH_A_NODE = (
    64  # uses before times uses after, from which on one step between them stands for all
)
_GAIN = 0.01  # share of the time that another order has to gain before the author's is left


@compiler_pass(skippable=True)
def schedule(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with its instructions in an order that keeps every dependence and ends sooner, as modelled.

    Instructions move between the loops the device runs and within a body, never into, out of or past a loop; nor past a
    meeting of cores or ranks. Nothing moves in a kernel whose tiles lie on each other.
    """
    if kernel.overlaps or not kernel.instructions:
        return kernel
    parts = [p for p in straight_parts(kernel) if len(p) > 2]
    if not parts:
        return kernel
    records = records_of(kernel)
    pairs = kernel.dependences or dependences_of(kernel)
    orders: list[list[tuple[int, range, list[int]]]] = []
    for part, edges in zip(parts, edges_within(kernel, parts, pairs), strict=True):
        piece = Piece(records[part.start : part.stop], edges, kernel.target)
        wanted = piece.time_in_order() * (1 - _GAIN)
        if piece.least_time() >= wanted:  # as it is, some engine hardly ever waits
            continue
        better = [
            (time, part, [part.start + n for n in order])
            for order, time in _orders(piece)
            if time < wanted
        ]
        if better:
            orders.append(sorted(better, key=itemgetter(0)))
    # Who follows whom is the same in every order that keeps it: the waits need not look for it again.
    kernel = kernel.with_(dependences=pairs)
    # The estimate leaves out what the queues share, so an order that looks better may take longer (list scheduling has
    # such anomalies): the timing model has the last word.
    others = []
    for choice in range(max(map(len, orders), default=0)):
        moved = [better[min(choice, len(better) - 1)] for better in orders]
        others.append(in_new_order(kernel, [(part, order) for _, part, order in moved]))
    return fastest(kernel, others)


def _orders(piece: Piece) -> Iterator[tuple[list[int], int]]:
    """Yield orders of a piece with their estimated times: of what is ready, each takes something else first.

    First what the author wrote first; then what has the longest critical path behind it; then what has the most work
    of the busiest queue behind it.
    """
    yield piece.order_by_readiness()
    yield piece.order_by_readiness(piece.ranks_by_path())
    yield piece.order_by_readiness(piece.ranks_by_path(piece.busiest()))


def records_of(kernel: Kernel) -> list[Record | None]:
    """Return what each instruction costs; None for those that only look."""
    costs: dict[Form, Record | None] = {}
    for i in kernel.instructions:
        if i.form not in costs:
            looks = i.definition.observes
            costs[i.form] = None if looks else record_of(i.form, kernel.target, 1.0)
    return [costs[i.form] for i in kernel.instructions]


def edges_within(kernel: Kernel, parts: Sequence[range], pairs: Dependences) -> Iterator[Edges]:
    """Yield the edges inside each part, counted from its start, and of extra nodes behind its last instruction."""
    sort = np.argsort(pairs.after, kind="stable")
    before, after, result = (column[sort] for column in pairs)
    handovers = _Handovers(kernel)
    for part in parts:
        low, high = np.searchsorted(after, (part.start, part.stop))
        inside = np.flatnonzero(before[low:high] >= part.start) + low
        froms, tos, count = handovers.within(part)
        yield Edges.of(
            count,
            np.concatenate((before[inside] - part.start, froms)),
            np.concatenate((after[inside] - part.start, tos)),
            np.concatenate((result[inside], np.zeros(len(froms), bool))),
        )


class _Handovers:
    """Tiles that have bytes which others had before: all uses of the earlier one come before all of the later one.

    Not only those of the same bytes: a tile is in use from its first to its last access, and whoever decides what
    shares memory relies on that.
    """

    def __init__(self, kernel: Kernel) -> None:
        addresses = kernel.addresses or {}
        occupants = {SBUF: Occupants(), PSUM: Occupants()}
        touches = kernel.touches
        self._pairs = np.array(
            [
                (other.id, key)
                for key in dict.fromkeys(touches.storage.tolist())  # in order of first use
                if key in addresses
                for other in occupants[kernel.storages[key].buffer].replace(
                    kernel.storages[key], addresses[key]
                )
            ],
            np.int64,
        ).reshape(-1, 2)
        self._last, self._first = touches.last(), touches.first()
        # Storage and position of each use as one number, in order.
        self._length = len(kernel.instructions)
        self._uses = distinct(touches.storage.astype(np.int64) * self._length + touches.at)

    def within(self, part: range) -> tuple[np.ndarray, np.ndarray, int]:
        """Return who comes before whom inside a part, counted from its start, and the number of nodes.

        Where one tile or the other has many uses, one node stands between them for all of their pairs.
        """

        def positions(uses: np.ndarray | slice) -> np.ndarray:
            return self._uses[uses] % self._length - part.start

        earlier, later = self._pairs.T
        near = (self._last[earlier] >= part.start) & (self._first[later] < part.stop)
        pairs = self._pairs[near] * self._length
        starts = np.searchsorted(self._uses, pairs + part.start)
        stops = np.searchsorted(self._uses, pairs + part.stop)
        numbers = stops - starts  # of uses, before and after
        froms, tos, count = [], [], len(part)
        paired = numbers[:, 0] * numbers[:, 1]
        for n in np.flatnonzero(paired > _WORTH_A_NODE).tolist():
            ends, begins = (positions(slice(starts[n, k], stops[n, k])) for k in (0, 1))
            both = np.intersect1d(ends, begins)
            if len(
                both
            ):  # the instruction that ends one tile and begins the other stands between them itself
                ends, begins = ends[ends != both[0]], begins[begins != both[0]]
            between = int(both[0]) if len(both) else count
            froms += [ends, np.full(len(begins), between)]
            tos += [np.full(len(ends), between), begins]
            count += not len(both)
        few = np.flatnonzero((paired > 0) & (paired <= _WORTH_A_NODE))
        pair = np.repeat(few, paired[few])
        at = np.arange(len(pair)) - np.repeat(np.cumsum(paired[few]) - paired[few], paired[few])
        row, column = np.divmod(at, numbers[pair, 1])
        froms.append(positions(starts[pair, 0] + row))
        tos.append(positions(starts[pair, 1] + column))
        before, after = np.concatenate(froms), np.concatenate(tos)
        other = before != after
        return before[other], after[other], count
