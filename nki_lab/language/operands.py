"""Checks what a composite of nki.language is given, and makes the tile that it returns.

Composites return new SBUF tiles. They take tiles of equal shape; the compiler does not broadcast
(release-notes/components/nki.rst, NKI Language: known limitations), the simulator does in functions of two tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, RuleBroken, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.operands import instead_of
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import SBUF, MemoryRegion

#: Intermediate values are kept in the type that the engines compute in.
FLOAT32 = "float32"


def on_chip(function: str, parameter: str, value: Any) -> NkiTensor:
    """Return `value` if it is a tile in SBUF or PSUM; otherwise raise WrongOperand."""
    if not isinstance(value, NkiTensor):
        raise WrongOperand(
            f"nl.{function}: `{parameter}` must be a tile, found {type(value).__name__} {value!r}",
            help=instead_of((value,), "make tiles with nl.load, nl.full or nl.ndarray"),
        )
    if not value.storage.on_chip:
        raise WrongOperand(
            f"nl.{function}: `{parameter}` is {value.describe()}; instructions compute on SBUF and PSUM",
            help="load it first: tile = nl.load(tensor), or nisa.dma_copy into an SBUF tile",
        )
    return value


def new_tile(
    shape: Sequence[int], dtype: Any, buffer: MemoryRegion = SBUF, name: str = ""
) -> NkiTensor:
    """Return a new on-chip tile."""
    return current().allocate(tuple(shape), dtype, buffer, name)


def result_like(x: NkiTensor, dtype: DType | None) -> NkiTensor:
    """Return a new SBUF tile like `x`, of its dtype by default."""
    return new_tile(x.shape, x.dtype if dtype is None else dtype)


def same_shape(function: str, first: str, x: NkiTensor, second: str, y: NkiTensor) -> None:
    """Raise RuleBroken unless both tiles have one shape."""
    if x.shape == y.shape:
        return
    help = "slice the larger tile, or repeat axes of size 1 with nl.broadcast_to"
    if x.shape[0] == y.shape[0]:
        help = _repeated(x, first, y, second)
    raise RuleBroken(
        f"nl.{function}: `{first}` and `{second}` must have the same shape; composites do not broadcast",
        notes=[f"{first} = {x.describe()}", f"{second} = {y.describe()}"],
        help=help,
    )


def broadcast_together(function: str, x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Return two tiles whose free axes are the same: those of size 1 are repeated, as NKI's simulator does.

    Its compiler does not: that is a finding (release-notes/components/nki.rst, known issues: broadcasting). Where one
    has a single partition, the other may have several; the caller repeats it.
    """
    if x.shape == y.shape or not (
        x.ndim == y.ndim
        and all(a == b or 1 in (a, b) for a, b in zip(x.shape, y.shape, strict=True))
    ):
        same_shape(function, "x", x, "y", y)
        return x, y
    what = f"nl.{function} of {list(x.shape)} and {list(y.shape)}, which repeats elements,"
    current().meet_form("broadcast", what, _repeated(x, "x", y, "y"))
    for dim, (a, b) in enumerate(zip(x.shape[1:], y.shape[1:], strict=True), 1):
        x, y = (x.broadcast(dim, b), y) if a < b else (x, y.broadcast(dim, a)) if b < a else (x, y)
    return x, y


def _repeated(x: NkiTensor, first: str, y: NkiTensor, second: str) -> str:
    """Return what to write instead of a function of tiles of which one has to be repeated."""
    if x.shape[0] != y.shape[0]:
        return "repeat both first to the shape of the result: nl.broadcast_to(tile, shape)"
    if 1 not in (x.free_size, y.free_size):
        return "slice the larger tile, or repeat axes of size 1 with nl.broadcast_to"
    whole, column = (first, second) if y.free_size == 1 else (second, first)
    return (
        f"write nisa.tensor_scalar(dst, data={whole}, op0=..., operand0={column}) for one value per"
        f" partition (float32), or repeat it first: nl.broadcast_to({column}, {whole}.shape)"
    )


def settle_dtype(function: str, x: NkiTensor, y: NkiTensor, dtype: DType | None) -> Any:
    """Return the dtype asked for, else that of the first of two tiles.

    The documentation says "the input tile's" and does not say whose where they differ, so that is a finding.
    """
    if dtype is None and x.dtype is not y.dtype:
        current().find(
            "portability",
            f"nl.{function} of {x.dtype} and {y.dtype} tiles: the result is {x.dtype}, the dtype of the first one",
            help=f"say what you want: nl.{function}(x, y, dtype=nl.{x.dtype})",
        )
    return x.dtype if dtype is None else dtype


def trailing_axes(function: str, x: NkiTensor, axis: Any) -> tuple[int, ...]:
    """Return the axes to reduce, ascending: the last free axes, without a gap."""
    asked = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    try:
        axes = sorted({a.__index__() % x.ndim if -x.ndim <= a < x.ndim else x.ndim for a in asked})
    except (AttributeError, TypeError):
        axes = []
    if not axes or axes != list(range(x.ndim - len(axes), x.ndim)) or axes[0] == 0:
        last = ", ".join(str([*range(k, x.ndim)]) for k in range(x.ndim - 1, 0, -1))
        help = (
            "axis 0 is the partition axis: reduce over it with nisa.nc_matmul (a column of ones as one operand) or"
            " after nl.transpose"
            if 0 in axes
            else f"reduce the last free axes: {last}"
        )
        raise RuleBroken(
            f"nl.{function}: axis={axis!r} of {x.describe()} must be the last free axes, without a gap",
            help=help,
        )
    return tuple(axes)


def reduced_shape(x: NkiTensor, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after reducing `axes`; a tile keeps one free axis."""
    kept = x.shape[: axes[0]]
    if keepdims:
        return kept + (1,) * len(axes)
    return kept if len(kept) > 1 else (*kept, 1)


def not_modelled(function: str, what: str, instead: str = "") -> NotModelled:
    """Return the error of a real feature of nki.language that is not modelled."""
    return NotModelled(f"nl.{function}: {what} not modelled yet", help=instead)
