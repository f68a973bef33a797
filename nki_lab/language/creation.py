"""Makes new tensors, empty, filled or constant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from nki_lab.dtypes import DType, dtype_of, uint8
from nki_lab.errors import TensorArgument, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.tensor.arguments import portable_address
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset
from nki_lab.isa.dma import dma_copy
from nki_lab.targets.spaces import SBUF, SHARED_HBM, MemoryRegion

# Bytes per partition of a tile that fills a part of HBM: the DMA guide's recommended minimum.
_PIECE_BYTES = 2048


def ndarray(
    shape: Any,
    dtype: DType,
    buffer: MemoryRegion = SBUF,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tensor whose elements nothing has written yet.

    In SBUF and PSUM the first axis counts partitions and at least one free axis follows.

    Args:
        shape: positive integers.
        dtype: element type of nki.language.
        buffer: nl.sbuf, nl.psum, nl.private_hbm (also called nl.hbm) or nl.shared_hbm; what a kernel returns
            must be in shared_hbm.
        name: shown in errors and profiles; by default the variable it is assigned to.
        address: start partition and byte within the partition; on chip only.
    """
    return allocate_named(shape, dtype, buffer, name, address)


def allocate_named(
    shape: Any, dtype: Any, buffer: Any, name: str, address: tuple[int, int] | None = None
) -> NkiTensor:
    """Return a new tensor with a name that the author gave it, if any."""
    builder = current()
    if isinstance(name, str) and name:
        builder.note_name(name)
    tensor = builder.allocate(shape, dtype, buffer, name, address=address)
    if address is not None and not portable_address(address):
        builder.find_for_parser(
            f"address={tuple(address)}, an odd byte or a partition other than 0, 32, 64 and 96",
            "give an even byte, and start at partition 0, 32, 64 or 96",
        )
    return tensor


def zeros(shape: Any, dtype: DType, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    """Return a new tensor filled with zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Any, dtype: DType, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    """Return a new tensor filled with ones."""
    return full(shape, 1, dtype, buffer, name)


def full(
    shape: Any, fill_value: Any, dtype: DType, buffer: MemoryRegion = SBUF, name: str = ""
) -> NkiTensor:
    """Return a new tensor filled with one value.

    On chip it is one `nisa.memset`. In HBM a filled SBUF tile is copied as often as needed.
    """
    tensor = allocate_named(shape, dtype, buffer, name)
    value = _fill_value(fill_value, tensor.dtype)
    if tensor.storage.on_chip:
        memset(dst=tensor, value=value)
    else:
        fill_hbm(tensor, value)
    return tensor


def zeros_like(
    x: NkiTensor, dtype: DType | None = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """Return a tensor of zeros like `x`, with its dtype by default.

    Without `buffer` it is in SBUF wherever `x` is, as the page says; nl.empty_like takes the memory of `x`.
    (nki/api/nki/language/__init__.py, zeros_like)
    """
    like_tensor("zeros_like", x)
    return zeros(x.shape, dtype or x.dtype, buffer or SBUF, name)


def like_tensor(function: str, x: Any, parameter: str = "x") -> None:
    """Refuse what is not a tensor where another one like it is to be made."""
    if not isinstance(x, NkiTensor):
        raise WrongOperand(
            f"nl.{function}: `{parameter}` must be a tensor, found {type(x).__name__} {x!r}",
            help="give a tensor of the kernel, or write nl.ndarray(shape, dtype, buffer)",
        )


def shared_constant(constant: Any) -> NkiTensor:
    """Return a tensor in shared HBM that holds an array known while tracing.

    Args:
        constant: a NumPy array, or the path of an `.npy` file. Its dtype must be one of nki.language; NumPy's
            default float64 and int64 are not.
    """
    if isinstance(constant, (str, os.PathLike)):
        constant = np.load(constant)
    array = np.array(constant, order="C", ndmin=1)  # a copy: later changes are not the kernel's
    element = dtype_of(array.dtype)
    if element is None or array.size == 0:
        raise TensorArgument(
            f"nl.shared_constant: an array of shape {array.shape} and dtype {array.dtype} cannot be a tensor",
            help="cast it, e.g. array.astype(np.float32), np.int32 or ml_dtypes.bfloat16",
        )
    array.flags.writeable = False
    return current().allocate(array.shape, element, SHARED_HBM, "constant", origin="constant", data=array)  # fmt: skip


def shared_identity_matrix(n: int, dtype: DType = uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """Return an identity matrix of `n` rows and columns in SBUF.

    The matrix lies in shared HBM once per size and dtype, and is copied to a new tile, or to `dst`.
    """
    if dst is not None:
        like_tensor("shared_identity_matrix", dst, "dst")
    tile = dst if dst is not None else current().allocate((n, n), dtype, SBUF)
    if tile.shape != (n, n):
        raise TensorArgument(
            f"nl.shared_identity_matrix: dst is {tile.describe()}, expected the shape [{n}, {n}]",
            help=f"make it with nl.ndarray(({n}, {n}), dtype), or leave `dst` out",
        )
    if tile.dtype.kind == "packed":
        raise TensorArgument(
            f"nl.shared_identity_matrix: 1 cannot be written in {tile.dtype}",
            help="make it in float32 or bfloat16, and pack it with nisa.quantize_mx",
        )
    matrices = current().identities
    matrix = matrices.get((n, tile.dtype))
    if matrix is None:
        data = np.eye(n).astype(tile.dtype.np)
        data.flags.writeable = False
        matrix = matrices[n, tile.dtype] = current().allocate(
            (n, n), tile.dtype, SHARED_HBM, "identity", origin="constant", data=data
        )
    dma_copy(dst=tile, src=matrix)
    return tile


def _fill_value(value: Any, dtype: DType) -> Any:
    # memset takes a value of the tile's kind (nki/migration/index.rst); 0 and 1 are meant for every dtype.
    if isinstance(value, np.generic):
        value = value.item()
    if dtype.is_float and isinstance(value, (int, bool)):
        return float(value)
    return int(value) if isinstance(value, float) and value.is_integer() and not dtype.is_float else value  # fmt: skip


def fill_hbm(tensor: NkiTensor, value: Any) -> None:
    """Fill a new tensor in HBM with copies of a filled tile."""
    filler: NkiTensor | None = None
    for part in pieces(tensor):
        if filler is None:  # the first piece is the largest
            filler = current().allocate(part.shape, tensor.dtype, SBUF, "filler")
            memset(dst=filler, value=value)
        dma_copy(dst=part, src=filler[0 : part.shape[0], 0 : part.shape[1]])


def pieces(tensor: NkiTensor) -> Iterator[NkiTensor]:
    """Yield views with two axes that cover a new tensor in HBM and are as large as a tile may be, or smaller."""
    columns = min(tensor.size, _PIECE_BYTES // tensor.dtype.itemsize)
    rows, rest = divmod(tensor.size, columns)
    partitions = current().target.partitions
    flat = tensor.reshape((tensor.size,))
    for first in range(0, rows, partitions):
        count = min(partitions, rows - first)
        yield flat[first * columns : (first + count) * columns].reshape((count, columns))
    if rest:
        yield flat[rows * columns :].reshape((1, rest))
