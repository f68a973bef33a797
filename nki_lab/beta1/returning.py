"""Rows for functions that return a new tile, and the functions that they make.

A row says which definition of the registry a function emits, with the signature that the dialect documents
(general/nki/api/nki/isa/__init__.py@0521004c), and what the tile is that it returns. The annotation of a parameter in
the signature says how an argument becomes an operand:

    tile      as large as the result; a mask cuts it
    column    a number, or one value per partition; a mask cuts its partitions
    rows      a tile with free axes of its own; a mask cuts its partitions
    part      a tensor, also of HBM, that a mask cuts and whose axes are not repeated
    whole     a tile that no mask cuts
    operator  a function of nki.language or NumPy
    flag, command, unit, bounds, descriptors   True or False, and members of the named choices

What an instruction cannot read or write itself is copied by `inserted.py`, as the old compiler did.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_lab import isa
from nki_lab.beta1 import enums
from nki_lab.beta1.index import Box
from nki_lab.beta1.masks import boxes
from nki_lab.beta1.operators import operator_of
from nki_lab.beta1.promotion import dtype_named, number
from nki_lab.beta1.results import column, mark, new, on_chip, part
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, WrongCall, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.instruction import BINDER
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.selection import FP32_MIN

Arguments = dict[str, Any]

#: The instructions of today, by name.
TODAY: dict[str, Any] = isa.instructions_of("nki.isa")


# -- how an argument becomes an operand ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What a parameter takes.

    Attributes:
        take: `(value, function, parameter) -> value`: once for a call; None: as it is.
        cut: `(value, box, shape) -> operand`: for each box that a mask leaves of a grid of `shape`; None: as it is.
    """

    take: Callable[[Any, str, str], Any] | None
    cut: Callable[[Any, Box | None, tuple[int, ...]], Any] | None = None


def tile_of(value: Any, function: str, parameter: str) -> Tile:
    """Return a tile on the chip; raise for a tensor of HBM."""
    if not isinstance(value, Tile):
        raise WrongOperand(
            f"nisa.{function}: `{parameter}` must be a tile, found {type(value).__name__} {value!r}",
            help="load tensors of HBM with nl.load, or make a tile with nl.ndarray",
        )
    return on_chip(value, f"nisa.{function}", parameter)


def anywhere(value: Any, function: str, parameter: str) -> Tile:
    """Return a tensor where it is."""
    return value if isinstance(value, Tile) else tile_of(value, function, parameter)


def _column(value: Any, function: str, parameter: str) -> Any:
    if value is None:
        return None
    return (
        on_chip(value, f"nisa.{function}", parameter) if isinstance(value, Tile) else number(value)
    )


def _tile_or_number(value: Any, function: str, parameter: str) -> Any:
    return (
        on_chip(value, f"nisa.{function}", parameter) if isinstance(value, Tile) else number(value)
    )


def operator_or_none(value: Any, function: str, parameter: str) -> Any:
    """Return the operator that a function stands for."""
    return None if value is None else operator_of(value, function, parameter)


def _optional_tile(value: Any, function: str, parameter: str) -> Any:
    return None if value is None else tile_of(value, function, parameter)


def _choice(kind: Any) -> Kind:
    return Kind(lambda value, function, parameter: enums.meant(value, kind, function, parameter))


def _rows(value: Any, box: Box | None, shape: tuple[int, ...]) -> Any:
    if value is None or box is None:
        return None if value is None else value.read()
    return value.read((box[0], *[(0, n) for n in value.shape[1:]]))


KINDS = {
    "tile": Kind(tile_of, part),
    "tile_or_number": Kind(_tile_or_number, part),
    "column": Kind(_column, lambda value, box, shape: column(value, box)),
    "rows": Kind(_optional_tile, _rows),
    "part": Kind(anywhere, lambda value, box, shape: value.read(box)),
    "whole": Kind(tile_of, lambda value, box, shape: value.read()),
    "operator": Kind(operator_or_none),
    "flag": Kind(lambda value, function, parameter: bool(value)),
    "command": _choice(enums.reduce_cmd),
    "unit": _choice(enums.engine),
    "bounds": _choice(enums.oob_mode),
    "descriptors": _choice(enums.dge_mode),
    "plain": Kind(None),
}


# -- rows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One function of `neuronxcc.nki.isa`.

    Attributes:
        definition: the instruction it emits.
        signature: as documented, with the kinds of its parameters.
        text: its docstring.
        over: the parameter whose shape and dtype the result has, and whose grid the mask is about.
        shape: `(arguments) -> shape` of the result, where it is another.
        dtype: `(arguments) -> dtype` of the result, where it is another; `dtype=` of the call comes first.
        place: `(box of the grid, shape of the result) -> box` of the result.
        into: the parameter that names the tile it writes; "" for functions that return a new one.
        adjust: `(arguments) -> None`: changes them before anything is emitted.
        moves: it moves bits, so a result of another dtype is a copy of its own.
        title: the name of the function, where the definition has another.
        also: parameters that the page describes and the signature hides in `**kwargs`, with their kinds.
    """

    definition: Any
    signature: str
    text: str
    over: str = "data"
    shape: Callable[[Arguments], Sequence[int]] | None = None
    dtype: Callable[[Arguments], DType] | None = None
    place: Callable[[Box, tuple[int, ...]], Box] | None = None
    into: str = ""
    adjust: Callable[[Arguments], None] | None = None
    moves: bool = False
    title: str = ""
    also: dict[str, str] = field(default_factory=dict)
    #: Its parameters, each with what takes an argument and what cuts it; `function_of` fills them in.
    operands: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.title or self.definition.name


#: Keyword arguments of public kernels that no page lists and that change nothing here.
_HARMLESS = {"name", "engine", "precise_schedule"}


def refuse_others(function: str, others: Arguments) -> None:
    """Refuse keyword arguments that a function does not have, but those that change nothing."""
    for keyword in others:
        if keyword not in _HARMLESS:
            raise WrongCall(
                f"nisa.{function} has no parameter `{keyword}`",
                help="leave it out: no page of the dialect says what it does",
            )


def call(row: Row, given: tuple[Any, ...], mask: Any, dtype: Any, others: Arguments) -> Any:
    """Emit the instructions of a call, one for each box that the mask leaves, and return the tile they write."""
    name = row.name
    arguments = {
        parameter: value if take is None else take(value, name, parameter)
        for (parameter, take, _), value in zip(row.operands, given, strict=True)
    }
    operands = row.operands
    if others:
        operands = [*operands, *_described(row, arguments, others)]
    if row.adjust is not None:
        row.adjust(arguments)
    over = arguments[row.over]
    if row.into:
        out = arguments[row.into]
    else:
        if dtype is not None and not row.moves:
            element = dtype_named(dtype)
        else:
            element = over.dtype if row.dtype is None else row.dtype(arguments)
        out = new(over.shape if row.shape is None else row.shape(arguments), element)
    grid = over.shape
    made = []
    places: list[Box | None] = []
    if mask is None and not row.into:
        current().result = out.base.storage
    for box in [None] if mask is None else boxes(mask, grid):
        to = box if box is None or row.place is None else row.place(box, out.shape)
        if to in places:
            raise NotModelled(
                f"nisa.{name} under a mask that leaves several separate parts of one result",
                help="compare each axis with one limit, so that one box is left",
            )
        values = {
            parameter: arguments[parameter] if cut is None else cut(arguments[parameter], box, grid)
            for parameter, _, cut in operands
        }
        if row.into:
            values[row.into] = out.read(to)
        else:
            values["dst"] = out.target(to)
        made.append(row.definition(**values))
        places.append(to)
    if row.into:
        return out
    note(out, made, places)
    return cast(out, dtype_named(dtype)) if row.moves and dtype is not None else out


def _described(row: Row, arguments: Arguments, others: Arguments) -> list[Any]:
    """Take the parameters that the page describes beside the signature; refuse the rest."""
    extra = []
    for parameter, kind in row.also.items():
        if parameter in others:
            take = KINDS[kind].take
            value = others.pop(parameter)
            arguments[parameter] = value if take is None else take(value, row.name, parameter)
            extra.append((parameter, take, KINDS[kind].cut))
    refuse_others(row.name, others)
    return extra


def cast(x: Tile, dtype: DType) -> Tile:
    """Return a tile in another dtype: itself, or a copy of what a mask has left."""
    if x.dtype is dtype:
        return x
    out = new(x.shape, dtype)
    covered: list[Any] = [None] if x.covers is None else list(x.covers)
    note(out, [tensor_copy(dst=out.target(b), src=x.read(b)) for b in covered], covered)
    return out


def note(out: Tile, made: list[Any], covered: list[Any]) -> None:
    """Note which instructions made a tile, and which boxes a mask left."""
    out.made = tuple(made)
    if covered != [None] and covered != [tuple((0, n) for n in out.shape)]:
        out.covers = covered
        mark(made)


# -- functions of rows ----------------------------------------------------------------------------------------------


class fp32:
    """Limits of float32."""

    min = FP32_MIN
    max = -FP32_MIN


_SCOPE = {
    "engine": enums.engine,
    "reduce_cmd": enums.reduce_cmd,
    "fp32": fp32,
    "np": np,
    "call": call,
}


def function_of(row: Row) -> Callable[..., Any]:
    """Make the function of a row: it has the documented signature, and passes on what is given by name."""
    (parsed,) = ast.parse(f"def {row.name}({row.signature}): pass").body
    assert isinstance(parsed, ast.FunctionDef)
    names = []
    for argument in (*parsed.args.args, *parsed.args.kwonlyargs):
        if argument.annotation is not None:
            assert isinstance(argument.annotation, ast.Name)
            kind = KINDS[argument.annotation.id]
            row.operands.append((argument.arg, kind.take, kind.cut))
            names.append(argument.arg)
            argument.annotation = None
    asked = {a.arg for a in parsed.args.kwonlyargs}
    given = f"({', '.join(names)},)"
    dtype = "dtype" if "dtype" in asked else "None"
    mask = "mask" if "mask" in asked else "None"
    others = "kwargs" if parsed.args.kwarg else "{}"
    text = f"return call(_row, {given}, {mask}, {dtype}, {others})"
    parsed.body = ast.parse(f"def f(): {text}").body[0].body  # type: ignore[attr-defined]
    scope = {**_SCOPE, "_row": row, "__name__": __name__}
    module = ast.fix_missing_locations(ast.Module([parsed], []))
    exec(compile(module, f"{BINDER} of {row.name}>", "exec"), scope)
    function = scope[row.name]
    function.__doc__ = row.text
    return function  # type: ignore[return-value]
