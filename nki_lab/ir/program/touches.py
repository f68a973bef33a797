"""Touches: which tensors each instruction of a program touches, as columns over the whole program.

A pass that looks for something rare asks the columns first, and then only the instructions that may have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.tensor.view import NkiTensor

_Take = Callable[[tuple[Any, ...]], tuple[NkiTensor, ...]]
#: A position behind every program.
NEVER = np.iinfo(np.int32).max


class Touches:
    """Every access to a tensor, instruction by instruction; an operand that is updated is one access.

    Attributes:
        forms: the forms of the program, in order of first use.
        form: per instruction, the index of its form.
        views: per access, the tensor: operands, those inside lists, and tiles of indices.
        at: per access, the position of the instruction.
        storage: per access, the id of the tensor's storage.
        reads, writes: per access, what is done.
        storages: one more than the largest id.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        forms = [i.form for i in instructions]
        self.forms = tuple(dict.fromkeys(forms))
        index = {form: k for k, form in enumerate(self.forms)}
        kinds = [index[form] for form in forms]
        takes = [_take(form) for form in self.forms]
        taken = [takes[kind](i.args) for kind, i in zip(kinds, instructions, strict=True)]
        self.views = [*chain.from_iterable(taken)]
        self.form = np.array(kinds, np.int32)
        self.storage = np.array([view.storage.id for view in self.views], np.int32)
        self.storages = int(self.storage.max(initial=-1)) + 1
        roles = [_roles(form, take) for form, take in zip(self.forms, takes, strict=True)]
        lengths = np.array([len(role) for role in roles], np.int32)
        counts = lengths[self.form]
        self.at = np.repeat(np.arange(len(forms), dtype=np.int32), counts)
        # The k-th access of an instruction has the k-th role of its form, and those of all forms follow each other.
        shift = (np.cumsum(lengths) - lengths)[self.form] - (np.cumsum(counts) - counts)
        role = np.arange(len(self.views)) + np.repeat(shift, counts)
        accesses = [*chain.from_iterable(roles)]
        self.reads = np.array([reads for reads, _ in accesses], bool)[role]
        self.writes = np.array([writes for _, writes in accesses], bool)[role]

    def per_form(self, fact: Callable[[Form], bool]) -> np.ndarray:
        """Return, per instruction, a fact of its form."""
        return np.array([fact(form) for form in self.forms], bool)[self.form]

    def first(self, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return, per storage, the first instruction that has one of `which` accesses to it; NEVER where none has."""
        positions = np.full(self.storages, NEVER, np.int32)
        np.minimum.at(positions, self.storage[which], self.at[which])
        return positions

    def last(self, which: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return, per storage, the last instruction that has one of `which` accesses to it; -1 where none has."""
        positions = np.full(self.storages, -1, np.int32)
        np.maximum.at(positions, self.storage[which], self.at[which])
        return positions

    def repeated(self) -> list[int]:
        """Return the positions of the instructions that have several accesses to one storage."""
        keys = np.sort(self.at.astype(np.int64) * self.storages + self.storage)
        repeated: list[int] = np.unique(keys[1:][keys[1:] == keys[:-1]] // self.storages).tolist()
        return repeated


def _positions(form: Form) -> tuple[int, ...]:
    return tuple({*form.reads, *form.writes})


def _take(form: Form) -> _Take:
    """Return the function from the arguments of an instruction to the tensors it touches."""
    positions = _positions(form)
    if form.dynamic or any(type(form.example.args[k]) is tuple for k in positions):
        return lambda args: _tensors(args, positions, (*form.reads, *form.writes))
    if len(positions) > 1:
        return itemgetter(
            *positions
        )  # a third of what a loop takes; of one position it gives no tuple
    return itemgetter(slice(positions[0], positions[0] + 1)) if positions else lambda args: ()


def _tensors(
    args: tuple[Any, ...], positions: tuple[int, ...], addressed: tuple[int, ...]
) -> tuple[NkiTensor, ...]:
    def flat(places: tuple[int, ...]) -> list[NkiTensor]:
        values = [args[k] for k in places]
        return [v for value in values for v in (value if type(value) is tuple else (value,))]

    indices = [view.dynamic.index for view in flat(addressed) if view.dynamic is not None]
    return (*flat(positions), *(index for index in indices if type(index) is NkiTensor))


def _roles(form: Form, take: _Take) -> list[tuple[bool, bool]]:
    """Return, per tensor that `take` gives, whether it is read and whether it is written."""
    args = form.example.args
    roles: list[tuple[bool, bool]] = []
    for k in _positions(form):
        many = len(args[k]) if type(args[k]) is tuple else 1
        roles += [(k in form.reads, k in form.writes)] * many
    indices = len(take(args)) - len(roles)
    return roles + [(True, False)] * indices


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct integers of an array, sorted, as np.unique does.

    From NumPy 2.3 on that looks them up in a hash table first, which takes a hundred times as long as sorting where
    nearly all of them differ: seconds for some millions, in which nothing can be interrupted.
    """
    ordered = np.sort(values, axis=None)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
