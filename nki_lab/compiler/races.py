"""Finds races between the two cores of a logical core: uses of one byte of shared HBM that nothing orders.

What orders the uses of a tensor (a barrier on it, a collective of both cores) divides them into spans, per tensor. Span
n of one core runs beside span n of the other. Where addresses are fixed, it is decided here, byte by byte; where values
of the device decide about addresses or passes of loops, a run decides it (simulator/races.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.logical_core import Places, Use, Watched, ordered_by, race, rows_text
from nki_lab.ir.program.nodes import Finding, Kernel, Loop
from nki_lab.ir.tensor.coverage import part_of
from nki_lab.ir.tensor.footprint import byte_range, footprint, share_bytes
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Storage

Pairs = Sequence[tuple[Storage, Storage]]
#: Elements of tensors up to which the rows of a race are looked for.
_ELEMENTS = 1 << 28


class Races(NamedTuple):
    """What two programs show about races.

    Attributes:
        findings: one per pair of places that race.
        watched: tensors on which a run must decide.
    """

    findings: tuple[Finding, ...]
    watched: tuple[Watched, ...]


def find_races(first: Kernel, second: Kernel, pairs: Pairs, to_watch: bool = False) -> Races:
    """Return the races that the programs of two cores show; `pairs` are their shared tensors.

    With `to_watch` only tensors are looked at that a run may have to decide on.
    """
    shared = [*pairs, *zip(first.inputs, second.inputs, strict=True)]
    meet = _meet_alike(first, second, shared)
    shared = _written(first, second, shared)
    if to_watch and meet and not any(map(_has_values, (first, second))):
        return Races((), ())
    if not shared:
        return Races((), ())
    events = [
        _events(kernel, {pair[core].id: pair[0].id for pair in shared})
        for core, kernel in enumerate((first, second))
    ]
    findings: list[Finding] = []
    watched: list[Watched] = []
    for pair in sorted(shared, key=lambda pair: pair[0].id):
        mine, theirs = (of_core.get(pair[0].id, []) for of_core in events)
        looked = _Look(mine, theirs, meet)
        racing = looked.races
        if not to_watch:
            findings += [race(a, b, _rows(a, b)) for a, b in racing.values()]
        if looked.undecided:
            watched.append(Watched(pair, frozenset(racing), tuple(looked.undecided)))
    return Races(tuple(findings), tuple(watched))


def _has_values(kernel: Kernel) -> bool:
    """Tell whether values of the device may decide which bytes are touched, or how often."""
    return kernel.has_loops or any(form.dynamic for form in kernel.touches.forms)


def _meet_alike(first: Kernel, second: Kernel, shared: Pairs) -> bool:
    """Tell whether the cores come to the same places of order, for the same tensors."""
    names = {b.id: a.id for a, b in shared}
    of_first, of_second = (
        _orders(_meetings(kernel.body, same))
        for kernel, same in ((first, {a.id: a.id for a, _ in shared}), (second, names))
    )
    return of_first == of_second


def _meetings(body: Iterable[Instruction | Loop], names: dict[int, int]) -> list[Any]:
    """Return what orders tensors, each as the tensors it is about, and the loops with such."""
    events: list[Any] = []
    for node in body:
        if isinstance(node, Loop):
            events.append(_Passes(_number_of_passes(node), _meetings(node.body, names)))
        elif node.definition.waits_for_others and (ordered := ordered_by(node)):
            events.append(frozenset(names.get(s.id, -1) for s in ordered))
    return events


def _written(first: Kernel, second: Kernel, shared: Pairs) -> list[tuple[Storage, Storage]]:
    """Return the shared tensors that both cores use and one of them writes."""
    used, written = [], []
    for kernel in (first, second):
        touches = kernel.touches
        used.append(set(np.unique(touches.storage).tolist()))
        written.append(set(np.unique(touches.storage[touches.writes]).tolist()))
    return [
        (a, b)
        for a, b in shared
        if a.id in used[0] and b.id in used[1] and (a.id in written[0] or b.id in written[1])
    ]


# -- what a core does with a tensor, in order --------------------------------------------------------------------------

_ORDERED: frozenset[int] = frozenset()  # here the other core has come to the same place


class _Passes(NamedTuple):
    """What a pass of a device loop does with a tensor; `number` of passes, None where values of the device decide."""

    number: int | None
    events: list[Any]


def _events(kernel: Kernel, shared: dict[int, int]) -> dict[int, list[Any]]:
    """Return, per shared tensor, the uses of it, what orders them, and the loops with such, in order."""
    touches = kernel.touches
    touched = np.zeros(len(kernel.instructions), bool)
    touched[touches.at[np.isin(touches.storage, list(shared))]] = True
    return _events_of(kernel.body, iter(touched.tolist()), shared)


def _events_of(
    body: Iterable[Instruction | Loop], touched: Iterator[bool], shared: dict[int, int]
) -> dict[int, list[Any]]:
    events: dict[int, list[Any]] = {}
    for node in body:
        if isinstance(node, Loop):
            for key, inner in _events_of(node.body, touched, shared).items():
                events.setdefault(key, []).append(_Passes(_number_of_passes(node), inner))
        elif next(touched):
            ordered = {s.id for s in ordered_by(node)}
            for storage in ordered & shared.keys():
                events.setdefault(shared[storage], []).append(_ORDERED)
            written = node.written()
            updated = {id(view) for view in written}
            for view in (*written, *(v for v in node.read() if id(v) not in updated)):
                storage = view.storage.id
                if storage in shared and storage not in ordered:
                    use = Use(node, view, id(view) in updated)
                    events.setdefault(shared[storage], []).append(use)
    return events


def _number_of_passes(loop: Loop) -> int | None:
    if loop.kind != "for" or not all(type(bound) is int for bound in loop.bounds):
        return None
    return len(range(*loop.bounds))


def _orders(events: Iterable[Any]) -> tuple[Any, ...]:
    """Return what orders the uses of tensors, in the loops it stands in."""
    orders: list[Any] = []
    for event in events:
        if isinstance(event, frozenset):
            orders.append(event)
        elif isinstance(event, _Passes) and event.number != 0 and (inner := _orders(event.events)):
            orders.append((event.number, inner))
    return tuple(orders)


def _is_decided(orders: Iterable[Any]) -> bool:
    """Tell whether no value of the device decides how often a place of order is passed."""
    return all(
        isinstance(order, frozenset) or (order[0] is not None and _is_decided(order[1]))
        for order in orders
    )


_Reasoned = tuple[Use, str]  # a use, and why it is not decided here; "" where it is


def _spans(events: Iterable[Any], reason: str = "") -> list[list[_Reasoned]]:
    """Return the uses between one place of order and the next.

    Of a loop that holds such places there are two passes, if it makes several: the end of one runs beside the begin of
    the next. More passes have the same spans again.
    """
    spans: list[list[_Reasoned]] = [[]]
    for event in events:
        if isinstance(event, frozenset):
            spans.append([])
        elif isinstance(event, _Passes):
            if event.number == 0:
                continue
            why = reason or ("" if event.number else "in a loop that a register ends")
            inner = _spans(event.events, why)
            for _ in range(2 if len(inner) > 1 and event.number != 1 else 1):
                spans[-1] += inner[0]
                spans += [list(span) for span in inner[1:]]
        else:
            spans[-1].append((event, _address_from(event) or reason))
    return spans


def _address_from(use: Use) -> str:
    """Return what places the use, where that is a value of the device."""
    dynamic = use.view.dynamic
    if dynamic is None:
        return ""
    where = "a register" if isinstance(dynamic.index, Register) else "a tile of indices"
    return f"address from {where}"


# -- both cores beside each other --------------------------------------------------------------------------------------


class _Look:
    """What the uses of one tensor by two cores show.

    Attributes:
        races: the first two uses of each pair of places that race.
        undecided: uses that may race, with their core and why that is not decided here.

    Args:
        first, second: the events of the cores.
        meet_alike: they come to the same places of order.
    """

    def __init__(self, first: list[Any], second: list[Any], meet_alike: bool) -> None:
        self.races: dict[Places, tuple[Use, Use]] = {}
        self.undecided: list[tuple[int, Use, str]] = []
        if meet_alike and _is_decided(_orders(first)):
            for a, b in zip(_spans(first), _spans(second), strict=True):
                self._compare(a, b)
        else:
            spans = _spans(first), _spans(second)
            why = "the cores meet as often as values of the device say"
            if not meet_alike:
                why = "the cores meet for different tensors"
            self._compare(
                *([(use, reason or why) for span in s for use, reason in span] for s in spans)
            )

    def _compare(self, first: list[_Reasoned], second: list[_Reasoned]) -> None:
        """Take in two spans that run beside each other."""
        fixed, others = ([u for u, reason in span if not reason] for span in (first, second))
        for a, b in _candidates(_distinct(fixed), _distinct(others)):
            places = (a.i.stack, b.i.stack)
            if places not in self.races and share_bytes(a.view, b.view):
                self.races[places] = a, b
        for core, (mine, theirs) in enumerate(((first, second), (second, first))):
            against = [use for use, _ in theirs]
            self.undecided += [
                (core, use, reason) for use, reason in mine if reason and _may_race(use, against)
            ]


def _may_race(use: Use, others: Iterable[Use]) -> bool:
    """Tell whether a use can race with one of the others, as far as the program tells before a run."""
    return any(
        (use.written or other.written)
        and (
            use.view.dynamic is not None
            or other.view.dynamic is not None
            or share_bytes(use.view, other.view)
        )
        for other in others
    )


def _distinct(uses: Iterable[Use]) -> list[Use]:
    """Return the uses that differ in place, way or bytes; loops that were unrolled repeat many."""
    distinct: dict[Any, Use] = {}
    for use in uses:
        view = use.view
        key = use.i.stack, use.written, view.offset, view.shape, view.strides, view.dtype
        distinct.setdefault(key, use)
    return list(distinct.values())


def _candidates(first: list[Use], second: list[Use]) -> Iterator[tuple[Use, Use]]:
    """Yield the pairs with a write whose ranges of bytes and rectangles meet, those with two writes first."""
    if not first or not second:
        return
    ranges = np.array([byte_range(use.view) for use in second])
    order = np.argsort(ranges[:, 0], kind="stable")
    low, high = ranges[order].T
    highest = np.maximum.accumulate(high)
    written = np.array([use.written for use in second])[order]
    boxes = np.array([footprint(use.view) for use in second])[order]
    for use in sorted(first, key=lambda use: not use.written):
        start, end = byte_range(use.view)
        near = slice(np.searchsorted(highest, start, "right"), np.searchsorted(low, end))
        meets = high[near] > start
        if not use.written:
            meets &= written[near]
        box = footprint(use.view)
        pitch, first_row, end_row, first_byte, end_byte = boxes[near].T
        meets &= (pitch != box.pitch) | (
            (first_row < box.end_row)
            & (box.first_row < end_row)
            & (first_byte < box.end_byte)
            & (box.first_byte < end_byte)
        )
        for n in sorted(order[near][meets].tolist(), key=lambda n: (not second[n].written, n)):
            yield use, second[n]


def _rows(a: Use, b: Use) -> str:
    """Return which rows two uses both touch."""
    storage = a.view.storage
    sizes = {a.view.dtype.itemsize, b.view.dtype.itemsize, storage.dtype.itemsize}
    unit = sizes.pop() if len(sizes) == 1 else 1
    if storage.nbytes // unit > _ELEMENTS:
        return ""
    marks = np.zeros((2, storage.nbytes // unit), bool)
    for mark, use in zip(marks, (a, b), strict=True):
        part_of(mark, unit, use.view)[...] = True
    return rows_text(storage, marks[0] & marks[1])
