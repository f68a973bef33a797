"""Finds tensors on the chip that the body of a loop makes and that are used after the loop.

The old compiler traced a body once, and what it made there belonged to the body: a tensor that outlives the loop is
made before it. (general/nki/api/nki.errors.rst, err_local_variable_used_out_of_scope)
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import NamedTuple

from nki_lab.beta1.program import Program
from nki_lab.errors.beta1 import OutOfScope, older
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span


class Scope(NamedTuple):
    """A loop that has ended.

    Attributes:
        loop: its name.
        first, end: numbers of the tensors that were made in it.
        began, ended: ticks of the program's clock, which counts the beginnings and ends of loops.
        at: how many instructions there were at its end.
    """

    loop: str
    first: int
    end: int
    began: int
    ended: int
    at: int


def check_scopes(builder: Builder, program: Program) -> None:
    """Record an error for each line that uses a tensor of a loop that has ended."""
    if not program.scopes:
        return
    ended: list[Scope | None] = [None] * len(builder.storages)
    for scope in reversed(program.scopes):  # those inside others end first, and count
        ended[scope.first : scope.end] = [scope] * (scope.end - scope.first)
    # Blocks belong to where their tensor was declared.
    around: dict[int, Scope | None] = {}
    ticks = [scope.ended for scope in program.scopes]  # in order
    for number, tick in program.declared.items():
        if tick not in around:
            later = islice(program.scopes, bisect_right(ticks, tick), None)
            around[tick] = next((s for s in later if s.began <= tick), None)
        ended[number] = around[tick]
    told: set[tuple[Span, str]] = set()
    first = min(scope.at for scope in program.scopes)
    for at, i in enumerate(builder.body[first:], first):
        if type(i) is not Instruction:
            continue
        for value in i.args:
            if type(value) is not NkiTensor:
                continue
            storage = value.storage
            last = ended[storage.id]
            if last is None or at < last.at or not storage.on_chip:
                continue
            place = Span.of(i.stack[0]), storage.name.partition(".")[0]
            if place not in told:
                told.add(place)
                builder.errors.append(_error(i, storage, last))


def _error(i: Instruction, storage: Storage, scope: Scope) -> OutOfScope:
    made = f": `{storage.name}` was made at {Span.of(storage.stack[0])}" if storage.stack else ""
    return OutOfScope(
        f"`{storage.name}` is used after the {scope.loop} in which it was made",
        stack=i.stack,
        notes=[
            f"a tensor that the body of a loop makes belongs to it{made}",
            older("err_local_variable_used_out_of_scope"),
        ],
        help="make it before the loop with nl.ndarray, and assign to it in the loop: t[...] = value",
    )
