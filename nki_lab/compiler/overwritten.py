"""Reports instructions that read elements after they may have overwritten them, where addresses are fixed."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from itertools import combinations

from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program import overwritten as order
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel
from nki_lab.ir.tensor.view import NkiTensor


def find_overwritten(kernel: Kernel) -> tuple[Finding, ...]:
    """Return a finding for each instruction that writes elements before it reads them, or two to one place."""
    findings = FindingsByPlace(())
    verdicts: dict[Hashable, bool] = {}  # unrolled loops ask the same again and again
    for n in kernel.touches.repeated():
        i = kernel.instructions[n]
        for pair in order.pairs_of(i):
            a, b = i.args[pair.dst], i.args[pair.src]
            if type(a) is type(b) is NkiTensor and (
                a.storage is not b.storage or (a is b and pair.order is not order.Order.NONE)
            ):
                continue
            for dst, writes in order.touched(i, pair.dst, written=True):
                for src, reads in order.touched(i, pair.src, written=False):
                    if dst.storage is not src.storage or dst.dynamic or src.dynamic:
                        continue
                    if pair.order is not order.Order.NONE and order.is_same(writes, reads):
                        continue
                    if not order.may_meet(writes, reads):
                        continue
                    about = pair.dst, pair.src
                    if order.is_large(writes, reads):
                        make = partial(order.not_looked_at, i, pair, dst, src)
                        findings.add(("size", *about), i.stack, make)
                        continue
                    key = (
                        pair.order,
                        *order.place_key(writes, writes),
                        *order.place_key(reads, writes),
                    )
                    too_late = verdicts.get(key)
                    if too_late is None:
                        places = order.places_of(writes), order.places_of(reads)
                        too_late = verdicts[key] = order.reads_too_late(pair.order, *places)
                    if too_late:
                        findings.add(about, i.stack, partial(order.overwritten, i, pair, dst, src))
        if len(i.form.writes) > 1 or any(type(i.args[at]) is tuple for at in i.form.writes):
            _look_at_results(i, findings)
    return (*findings.all(), *_written_twice(kernel))


def _look_at_results(i: Instruction, findings: FindingsByPlace) -> None:
    """Note results of one instruction that lie on each other."""
    results = [
        (at, view, part)
        for at in i.form.writes
        for view, part in order.touched(i, at, written=True)
        if view.dynamic is None
    ]
    for (a, first, one), (b, second, other) in combinations(results, 2):
        if first.storage is not second.storage or not order.may_meet(one, other):
            continue
        if order.is_large(one, other):
            continue
        places = order.places_of(one), order.places_of(other)
        if order.reads_too_late(order.Order.NONE, *places):
            findings.add((a, b), i.stack, partial(order.results_meet, i, (a, b), (first, second)))


def _written_twice(kernel: Kernel) -> tuple[Finding, ...]:
    """Return a finding for each destination whose elements lie on each other."""
    findings = FindingsByPlace(())
    suspects = {form: _twice(form) for form in kernel.touches.forms}
    if not any(suspects.values()):
        return ()
    for i in kernel.instructions:
        for position in suspects[i.form]:
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                if order.lie_on_each_other(view):
                    findings.add(position, i.stack, partial(order.written_twice, i, position, view))
    return findings.all()


def _twice(form: Form) -> tuple[int, ...]:
    """Return the results of a form, by position, whose steps let elements lie on each other."""
    positions: tuple[int, ...] | None = form.cache.get(_twice)
    if positions is None:
        positions = form.cache[_twice] = tuple(
            position
            for position in form.writes
            if any(
                order.lie_on_each_other(part)
                for _, part in order.touched(form.example, position, written=True)
            )
        )
    return positions
