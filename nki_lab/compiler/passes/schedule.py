"""In which order does each engine find its work without waiting longer than it must?

Engines take their instructions in order, so an instruction that waits holds up those behind it. Where another one is
ready, it goes first: the loads of the next tile, the first steps of the next row. The order of the author stays where
the estimate does not gain by another one.

It runs after allocation, on places that are settled: tiles then keep their bytes, so an order can never need more
memory, and no tile moves onto another one that is still in use (`_handovers`). That the compiler schedules is
documented (nki/guides/how-to-scheduling-apis.rst; nki/deep-dives/nki-compiler.rst), its method is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.estimate import Edges, order_by_readiness, time_in_order
from nki_lab.compiler.passes.insert_waits import dependences_by_kind
from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.compiler.passes.straight_parts import in_new_order, straight_parts
from nki_lab.ir.form_times import Record, record_of
from nki_lab.ir.instruction import Form
from nki_lab.ir.nodes import Kernel
from nki_lab.targets.spaces import PSUM, SBUF

_WORTH_A_NODE = (
    64  # uses before times uses after, from which on one step between them stands for all
)
_GAIN = 0.01  # share of the time that another order has to gain before the author's is left


def schedule(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with its instructions in an order that keeps every dependence and is estimated to end sooner.

    Instructions move between the loops the device runs and within a body, never into, out of or past a loop; nor past a
    meeting of cores or ranks. Nothing moves in a kernel whose tiles lie on each other.
    """
    if kernel.overlaps or not kernel.instructions:
        return kernel
    parts = [p for p in straight_parts(kernel) if len(p) > 2]
    if not parts:
        return kernel
    records = records_of(kernel)
    moved = []
    for part, edges in zip(parts, edges_within(kernel, parts), strict=True):
        costs = records[part.start : part.stop]
        before = time_in_order(costs, edges, kernel.target)
        found, after = order_by_readiness(costs, edges, kernel.target)
        if after < before * (1 - _GAIN):
            moved.append((part, [part.start + n for n in found]))
    return in_new_order(kernel, moved) if moved else kernel


def records_of(kernel: Kernel) -> list[Record | None]:
    """Return what each instruction costs; None for those that only look."""
    costs: dict[Form, Record | None] = {}
    for i in kernel.instructions:
        if i.form not in costs:
            looks = i.definition.observes
            costs[i.form] = None if looks else record_of(i.form, kernel.target, 1.0)
    return [costs[i.form] for i in kernel.instructions]


def edges_within(kernel: Kernel, parts: Sequence[range]) -> Iterator[Edges]:
    """Yield the edges inside each part, counted from its start, and of extra nodes behind its last instruction."""
    flows: list[set[int]] = []
    others: list[set[int]] = []
    for found, needed in dependences_by_kind(kernel):
        flows.append(needed)
        others.append(found - needed)
    handovers = _handovers(kernel, parts)
    for number, part in enumerate(parts):
        start = part.start
        results, order = (
            [[o - start for o in kind[n] if o >= start] for n in part] for kind in (flows, others)
        )
        for before, after in handovers.get(number, ()):
            earlier = [n - start for n in before]
            if len(before) * len(after) > _WORTH_A_NODE:
                results.append([])
                order.append(earlier)
                earlier = [len(order) - 1]
            for n in after:
                known = {*results[n - start], *order[n - start], n - start}
                order[n - start] += [e for e in earlier if e not in known]
        yield Edges(results, order)


def _handovers(
    kernel: Kernel, parts: Sequence[range]
) -> dict[int, list[tuple[list[int], list[int]]]]:
    """Return, per part, (uses of a tile, uses of a later one that has some of its bytes): all of the first come first.

    Not only those of the same bytes: a tile is in use from its first to its last access, and whoever decides what
    shares memory relies on that.
    """
    addresses = kernel.addresses or {}
    within = {n: number for number, part in enumerate(parts) for n in part}
    users: dict[int, dict[int, list[int]]] = {}  # by storage and part
    for n, i in enumerate(kernel.instructions):
        for view in (*i.read(), *i.written()):
            if view.storage.on_chip:
                known = users.setdefault(view.storage.id, {}).setdefault(within.get(n, -1), [])
                if not known or known[-1] != n:
                    known.append(n)
    occupants = {SBUF: Occupants(), PSUM: Occupants()}
    found: dict[int, list[tuple[list[int], list[int]]]] = {}
    for key, uses in users.items():  # in order of first use
        if key not in addresses:
            continue
        storage = kernel.storages[key]
        for other in occupants[storage.buffer].replace(storage, addresses[key]):
            for number in uses.keys() & users[other.id].keys():
                found.setdefault(number, []).append((users[other.id][number], uses[number]))
    return found
