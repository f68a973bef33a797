"""Finds elements that an instruction reads after it may have overwritten them, where values decide about addresses."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

from nki_lab.ir.definition.instruction import READ, WRITE, Instruction
from nki_lab.ir.program import overwritten as order
from nki_lab.ir.program.nodes import Finding, FindingsByPlace
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.simulator.accesses import Access, Elements


class Overwriting:
    """Follows a run (an `Observer`) where a result and an operand are of one tensor and values move one of them."""

    def __init__(self) -> None:
        self._findings = FindingsByPlace(())
        self._known: dict[Hashable, bool] = {}  # passes of a loop ask the same again and again

    def begin(self) -> None:
        """Forget what a former run has shown."""
        self._findings = FindingsByPlace(())

    def wants(self, i: Instruction) -> bool:
        """Tell whether a result may lie over an operand, which only values decide."""
        return i.form.dynamic and any(
            _is_doubtful(pair, dst, src)
            for pair in order.pairs_of(i)
            for dst, _ in order.touched(i, pair.dst, written=True)
            for src, _ in order.touched(i, pair.src, written=False)
        )

    def before(self, i: Instruction, accesses: Sequence[Access]) -> None:
        """Report what is overwritten before it is read."""
        for pair in order.pairs_of(i):
            for dst in _of(accesses, pair.dst, READ):
                for src in _of(accesses, pair.src, WRITE):
                    if _is_doubtful(pair, dst.view, src.view):
                        self._look_at(i, pair, dst, src)

    def noticed(self) -> tuple[Finding, ...]:
        """Return what the last run has shown."""
        return self._findings.all()

    def _look_at(self, i: Instruction, pair: order.Pair, dst: Access, src: Access) -> None:
        about = pair.dst, pair.src
        written, read = dst.elements, src.elements
        if order.is_large(dst.view, src.view):
            make = partial(order.not_looked_at, i, pair, dst.view, src.view)
            self._findings.add(("size", *about), i.stack, make)
            return
        if written.at is None and read.at is None:
            if not order.may_meet(written.window, read.window):
                return
            start = written.window
            key = pair.order, *order.place_key(start, start), *order.place_key(read.window, start)
            too_late = self._known.get(key)
            if too_late is None:
                too_late = self._known[key] = _too_late(pair, written, read)
        else:
            too_late = _too_late(pair, written, read)
        if too_late:
            make = partial(order.overwritten, i, pair, dst.view, src.view)
            self._findings.add(about, i.stack, make)


def _is_doubtful(pair: order.Pair, dst: NkiTensor, src: NkiTensor) -> bool:
    if dst.storage is not src.storage or (dst.dynamic is None and src.dynamic is None):
        return False
    return pair.order is order.Order.NONE or not order.is_same(dst, src)


def _of(accesses: Sequence[Access], position: int, other: str) -> Iterator[Access]:
    return (a for a in accesses if a.position == position and a.role != other and not a.is_index)


def _too_late(pair: order.Pair, written: Elements, read: Elements) -> bool:
    places = (order.places_of(e.window, e.at) for e in (written, read))
    return order.reads_too_late(pair.order, *places)
