"""Runs the programs of a launch grid on symbolic tensors: what the dialect does with a kernel."""

from __future__ import annotations

import dis
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from types import CodeType
from typing import Any

from nki_lab.beta1.allocation import check_all_placed, check_decorators, is_forced
from nki_lab.beta1.inserted import mend
from nki_lab.beta1.memory import store
from nki_lab.beta1.parallel import Programs
from nki_lab.beta1.program import Program
from nki_lab.beta1.scope import check_scopes
from nki_lab.beta1.text_rules import check_parameters, check_text
from nki_lab.beta1.tile import Tile
from nki_lab.beta1.turns import Turns
from nki_lab.errors import KernelArgument, NkiError
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import SHARED_HBM


def run(
    function: Callable[..., Any],
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    builder: Builder,
) -> Any:
    """Run the programs of the grid on symbolic tensors, and return the result of the first."""
    builder.mend = mend
    check_decorators(function)
    forced = is_forced(function)
    args, kwargs = held(list(positional)), held(dict(keywords))
    bound = inspect.signature(function).bind(*args, **kwargs).arguments
    shared: list[Tile] = []
    results: list[Any] = []
    programs = Programs(builder) if prod(builder.grid) > 1 else None

    def once(program: Program) -> Any:
        result = function(*args, **kwargs)
        if not any(program.place):
            with _at_its_return(builder):
                results.append(_results(result, builder))
        check_scopes(builder, program)
        return result

    _check_size(builder, 1)
    places = itertools.product(*map(range, builder.grid))
    turns = Turns(builder, [Program(builder.grid, p, shared, forced=forced) for p in places], once)
    with turns:
        for program in turns.programs:
            try:
                turns.run(program)
            except NkiError as error:
                if programs is not None:
                    error.notes = (
                        *error.notes,
                        f"in program {list(program.place)} of the launch grid",
                    )
                raise
            if not any(program.place):
                given = {name: _numbers(value) for name, value in bound.items()}
                check_parameters(function, given, _numbers(results[0]), builder)
            if builder.errors:
                break  # the other programs make the same mistakes
            if not any(program.place):
                _check_size(builder, len(turns.emitted(program)))
            if programs is not None:
                programs.share(shared)
                programs.end(program.place, turns.emitted(program))
    check_text(builder, [tile.base.storage for tile in shared])
    if programs is not None:
        programs.close()
    check_all_placed(builder, results[0])
    return results[0]


#: The most programs and instructions of a launch, which are traced one by one and held in memory. NKI sets no limit.
_MOST, _MOST_INSTRUCTIONS = 100_000, 2_000_000


def _check_size(builder: Builder, count: int) -> None:
    """Refuse a grid that would take hours to trace; `count` is how many instructions a program has, or 1."""
    number = prod(builder.grid)
    if number > _MOST or number * count > _MOST_INSTRUCTIONS:
        said = f", of which the first has {count:,} instructions" if count > 1 else ""
        raise KernelArgument(
            f"a launch grid of {number:,} programs{said}: nki_lab traces each of them, at most {_MOST:,} programs and"
            f" {_MOST_INSTRUCTIONS:,} instructions",
            help="launch fewer programs, and let each compute more",
        )


@contextmanager
def _at_its_return(builder: Builder) -> Iterator[None]:
    """Let what stores a result stand where a kernel returns: it has ended, and its caller is no part of it."""
    stack = ((builder.root, _last_return(builder.root)),)
    builder.stack = lambda depth=2: stack  # type: ignore[method-assign]
    try:
        yield
    finally:
        del builder.stack  # the method is there again


@lru_cache(maxsize=64)
def _last_return(code: CodeType) -> int:
    *_, last = (i.offset for i in dis.get_instructions(code) if i.opname.startswith("RETURN"))
    return last


def held(value: Any) -> Any:
    """Return a value with the tensors in its containers as tiles."""
    if isinstance(value, NkiTensor):
        return Tile(value)
    if type(value) in (list, tuple):
        return type(value)(map(held, value))
    if isinstance(value, tuple):
        return type(value)(*map(held, value))
    if type(value) is dict:
        return {key: held(item) for key, item in value.items()}
    return value


def _numbers(value: Any) -> set[int]:
    """Return the numbers of the tensors in a value."""
    if isinstance(value, Tile):
        value = value.base
    if isinstance(value, NkiTensor):
        return {value.storage.id}
    items = (
        value.values() if type(value) is dict else value if isinstance(value, (list, tuple)) else ()
    )
    return {number for item in items for number in _numbers(item)}


def _results(value: Any, builder: Builder) -> Any:
    """Return what a kernel returns with its tiles as tensors; a tile on the chip is stored first."""
    if isinstance(value, Tile):
        if value.on_chip:
            result = Tile(builder.allocate(value.shape, value.dtype, SHARED_HBM, "result"))
            store(result, value)
            value = result
        return value.read()
    if type(value) in (list, tuple):
        return type(value)(_results(item, builder) for item in value)
    if isinstance(value, tuple):
        return type(value)(*(_results(item, builder) for item in value))
    if type(value) is dict:
        return {key: _results(item, builder) for key, item in value.items()}
    return value
