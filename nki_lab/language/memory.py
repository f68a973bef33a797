"""Moves values between device memory and tiles."""

from __future__ import annotations

from typing import Any

from nki_lab.dtypes import DType
from nki_lab.errors import WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.operands import instead_of
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.dma_transpose import dma_transpose
from nki_lab.isa.operators import OPS
from nki_lab.language.operands import new_tile, on_chip, result_like
from nki_lab.language.sizes import active_target


def load(src: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return a new SBUF tile with the values of a tensor in HBM.

    Axis 0 becomes the partition axis, so it may have at most 128 elements; a tensor with one axis becomes one value
    per partition, and src.reshape((1, n)) one row. Another `dtype` is cast on the way, by the DMA.
    """
    tensor = _in_hbm("load", "src", src)
    if tensor.ndim == 1 and tensor.size > active_target().partitions:
        raise WrongOperand(
            f"nl.load: {tensor.describe()} has one axis, which becomes one value per partition: there are"
            f" {active_target().partitions} partitions",
            help=f"use .reshape((1, {tensor.size})) for one row, and .broadcast(0, rows) behind that for the same"
            " row on many partitions, or load 128 elements at a time",
        )
    shape = tensor.shape if tensor.ndim > 1 else (*tensor.shape, 1)
    tile = new_tile(shape, tensor.dtype if dtype is None else dtype)
    dma_copy(dst=tile, src=tensor)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write an SBUF tile to a tensor in HBM, cast to its dtype.

    DMA does not reach PSUM: copy such a tile first, with nl.copy.
    """
    dma_copy(dst=_in_hbm("store", "dst", dst), src=on_chip("store", "value", value))


def load_transpose2d(src: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return a new SBUF tile with the transpose of a tensor in HBM that has two axes."""
    tensor = _in_hbm("load_transpose2d", "src", src)
    if tensor.ndim != 2:
        raise WrongOperand(
            f"nl.load_transpose2d: `src` must have two axes, found {tensor.describe()}",
            help="flatten it with .reshape or .flatten_dims, or use nisa.dma_transpose with axes=",
        )
    tile = new_tile(tensor.shape[::-1], tensor.dtype)
    dma_transpose(dst=tile, src=tensor)
    return tile if dtype is None or dtype == tile.dtype else _copied(tile, dtype)


def _copied(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    result = result_like(x, dtype)
    tensor_copy(dst=result, src=x)
    return result


def _copy(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Copy a tile of SBUF or PSUM to a new SBUF tile.

    The copy is bit exact when the dtype stays the same. The same object as `op=` is the identity of
    `nisa.activation`.
    """
    return _copied(on_chip("copy", "x", x), dtype)


def _assign(part: NkiTensor, value: NkiTensor) -> None:
    """Copy on the chip by an engine, and by DMA where HBM takes part: what `t[...] = value` does."""
    if part.storage.on_chip and value.storage.on_chip:
        tensor_copy(dst=part, src=value)
    else:
        dma_copy(dst=part, src=value)


def _in_hbm(function: str, parameter: str, value: Any) -> NkiTensor:
    current()  # outside a kernel nothing else would help
    if not isinstance(value, NkiTensor) or value.storage.on_chip:
        given = value.describe() if isinstance(value, NkiTensor) else type(value).__name__
        help = (
            "copy between tiles with nl.copy or nisa.tensor_copy"
            if isinstance(value, NkiTensor)
            else "give an array to the kernel as an argument: there it is a tensor"
        )
        if parameter == "dst":
            result = "nl.ndarray(shape, dtype, buffer=nl.shared_hbm)"
            help = f"create a result with {result}, which is in SBUF without buffer=; {help}"
        raise WrongOperand(
            f"nl.{function}: `{parameter}` must be a tensor in HBM, found {given}",
            help=instead_of((value,), help),
        )
    return value


copy = OPS["copy"]
copy.expand = _copy
NkiTensor._assign = staticmethod(_assign)
