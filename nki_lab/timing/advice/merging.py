"""Advice on instructions so small that what each costs by itself takes the time: larger ones do the same.

nki/guides/architecture/trainium2_arch.rst gives every engine a least time per instruction; `targets` holds the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from nki_lab.ir.definition.form_key import key_of
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import GPSIMD, SCALAR, TENSOR, VECTOR, Engine
from nki_lab.timing.advice.draft import Draft, Refused, conflicts
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Group, Proposal, counted, duration

#: Numbers of instructions that are tried as one.
FOLDS = (16, 4, 64)
#: Lines that are looked at, those that take the longest.
_LINES = 3


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for engine, groups in _by_line(evidence, (VECTOR, SCALAR, GPSIMD)):
        example = groups[0].record.form.example
        width = max(t.free_size for t in (*example.read(), *example.written()))
        yield from _proposals(
            evidence,
            engine,
            groups,
            f"{_count(groups)} of {engine.name} on {width:,} elements per partition",
            "let one instruction do the work of {0}, on a tile that is {0} times as wide",
        )


def _find_products(evidence: Evidence) -> Iterator[Proposal]:
    for engine, groups in _by_line(evidence, (TENSOR,)):
        columns = groups[0].record.form.example.written()[0].free_size
        yield from _proposals(
            evidence,
            engine,
            groups,
            f"{_count(groups)} of {engine.name}, each with {columns} columns of the moving tile",
            "let one product do the work of {0}: give it {0} times as many columns of the moving tile",
        )


def _by_line(
    evidence: Evidence, engines: tuple[Engine, ...]
) -> Iterator[tuple[Engine, list[Group]]]:
    """Yield the groups of each line whose instructions take at least 5 % of the run; the longest first."""
    lines: dict[tuple[int, Engine], list[Group]] = {}
    if not evidence.can_edit:
        return
    for engine in engines:
        for group in evidence.groups_of(engine):
            lines.setdefault((group.line, engine), []).append(group)
    for (_, engine), groups in sorted(lines.items(), key=lambda item: -_took(item[1]))[:_LINES]:
        if _took(groups) >= 50 * evidence.total_ns:  # picoseconds
            yield engine, groups


def _took(groups: list[Group]) -> int:
    return sum(group.record.interval * len(group.entries) for group in groups)


def _count(groups: list[Group]) -> str:
    return counted(sum(len(group.entries) for group in groups), "instruction")


def _proposals(
    evidence: Evidence, engine: Engine, groups: list[Group], message: str, help: str
) -> Iterator[Proposal]:
    entries = np.sort(np.concatenate([group.entries for group in groups]))
    names = evidence.labels(entries)
    for fold in FOLDS:
        if len(entries) >= fold:
            yield Proposal(
                f"{message}, {duration(_took(groups) / 1000 / len(entries))} each",
                help.format(fold),
                entries,
                changes=((entries[np.arange(len(entries)) % fold > 0], None),),
                edit=partial(merged, lines=names, engine=engine, fold=fold),
            )


def merged(draft: Draft, lines: frozenset[str], engine: Engine, fold: int) -> Kernel:
    """Return the program in which one instruction does what up to `fold` did on views side by side."""
    chains: list[list[int]] = []
    open_chains: dict[Any, list[int]] = {}
    for n in draft.at(lines):
        i = draft.instructions[n]
        if i.form.engine is not engine or i.form.dynamic:
            continue
        chain = next((open_chains.pop(key) for key in _after(i) if key in open_chains), None)
        if chain is None or len(chain) >= fold:
            chain = []
            chains.append(chain)
        chain.append(n)
        open_chains[_key(i, _views(i))] = chain
    joined: dict[int, Instruction] = {}
    place = {n: n for n in range(len(draft.instructions))}
    for chain in chains:
        if len(chain) > 1:
            joined[chain[-1]] = _joined(draft, chain)
            place.update(dict.fromkeys(chain, chain[-1]))
    if not joined:
        raise Refused
    for a, b in conflicts(draft.instructions):
        if place[a] >= place[b]:
            raise Refused
    return draft.done(joined.get(n, i) for n, i in enumerate(draft.instructions) if place[n] == n)


def _views(i: Instruction) -> list[NkiTensor]:
    return [value for value in i.args if type(value) is NkiTensor]


def _key(i: Instruction, views: list[NkiTensor]) -> Any:
    """Return what an instruction and the one it goes on from have in common, with these views."""
    others = tuple(key_of(v) for v in i.args if type(v) is not NkiTensor)
    return i.definition, others, tuple((v.storage.id, v.shape, v.strides, v.offset) for v in views)


def _after(i: Instruction) -> Iterator[Any]:
    """Yield the keys of instructions that this one may go on from: views that it writes lie behind those."""
    views = _views(i)
    written = {id(v) for v in i.written()}
    for fixed in range(1 << sum(id(v) not in written for v in views)):
        before, bit = [], 0
        for view in views:
            moved = id(view) in written
            if not moved:
                moved = not fixed >> bit & 1
                bit += 1
            before.append(_moved(view, -view.shape[-1] * view.strides[-1]) if moved else view)
        yield _key(i, before)


def _moved(view: NkiTensor, by: int) -> NkiTensor:
    return NkiTensor._make(view.storage, view.shape, view.strides, view.offset + by, view.dtype)


def _joined(draft: Draft, chain: list[int]) -> Instruction:
    first, last = draft.instructions[chain[0]], draft.instructions[chain[-1]]
    ends = {id(a): b for a, b in zip(_views(first), _views(last), strict=True)}

    def change(view: NkiTensor) -> NkiTensor:
        if ends[id(view)].offset == view.offset:
            return view
        shape = (*view.shape[:-1], view.shape[-1] * len(chain))
        return NkiTensor._make(view.storage, shape, view.strides, view.offset, view.dtype)

    return draft.with_views(first, change)


RULE = AdviceRule("small instructions", _find)
PRODUCTS = AdviceRule("few columns per product", _find_products)
