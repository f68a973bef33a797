"""Makes new tensors; in SBUF and PSUM axes before the partition axis are block axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from nki_lab.beta1.allocation import Allocation, Memory
from nki_lab.beta1.program import running
from nki_lab.beta1.promotion import dtype_named, integer, integers, number
from nki_lab.beta1.results import filler
from nki_lab.beta1.tile import Blocks, Tile
from nki_lab.beta1.zeros import Zeros
from nki_lab.dtypes import DType, uint8
from nki_lab.errors import TensorArgument
from nki_lab.errors.beta1 import older
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.author_text import variable_of
from nki_lab.isa.copies import memset
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM, MemoryRegion

_MEMORIES = {
    "sbuf": SBUF, "psum": PSUM, "hbm": MemoryRegion.private_hbm, "private_hbm": MemoryRegion.private_hbm,
    "shared_hbm": SHARED_HBM,
}  # fmt: skip


class par_dim(int):  # the name that kernels write
    """The size of the partition axis; axes before it are block axes."""

    def __new__(cls, size: Any) -> par_dim:
        """Return the size; an error where it is no integer."""
        if type(size) is not int:
            size = integer(size, "nl.par_dim: the size of the partition axis")
        return super().__new__(cls, size)


def ndarray(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """Return a new tensor whose elements nothing has written yet."""
    return created(shape, dtype, buffer, name)


def zeros(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """Return a new tensor filled with zeros."""
    return created(shape, dtype, buffer, name, 0, **kwargs)


def ones(shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any) -> Tile:
    """Return a new tensor filled with ones."""
    return created(shape, dtype, buffer, name, 1, **kwargs)


def full(
    shape: Any, fill_value: Any, dtype: Any, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Tile:  # fmt: skip
    """Return a new tensor filled with one value."""
    return created(shape, dtype, buffer, name, fill_value, **kwargs)


def empty_like(
    a: Tile, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Tile:
    """Return a new tensor with the shape of another."""
    return created(a.shape, a.dtype if dtype is None else dtype, buffer or _memory_like(a), name)


def zeros_like(
    a: Tile, dtype: Any = None, *, buffer: Any = None, name: str = "", **kwargs: Any
) -> Tile:
    """Return a new tensor of zeros with the shape of another."""
    return created(
        a.shape, a.dtype if dtype is None else dtype, buffer or _memory_like(a), name, 0, **kwargs
    )


def created(
    shape: Any,
    dtype: Any,
    buffer: Any,
    name: str,
    fill: Any = None,
    lazy_initialization: bool = False,
) -> Tile:
    """Return a new tensor.

    Args:
        shape, dtype, buffer, name: as nl.ndarray takes them.
        fill: the value of all its elements, or None.
        lazy_initialization: the value is there for the first product that is added to it.
    """
    program = running()
    buffer = buffer.region if isinstance(buffer, Memory) else buffer
    placed = buffer if isinstance(buffer, Allocation) else None
    if placed is not None:
        if fill is not None and not lazy_initialization:
            raise TensorArgument(
                f"buffer={placed!r}: a tensor that the kernel places itself cannot have an initial value",
                help="write nl.ndarray, and assign the value: t[...] = 0",
            )
        buffer = placed.memory
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    element, memory = dtype_named(dtype), _memory(buffer)
    kinds = tuple(map(type, sizes))
    # Kernels make thousands of tensors of few shapes; of others than integers not all can be looked up.
    sizes, partition = (_known_axes if _PLAIN.issuperset(kinds) else _axes)(sizes, kinds)
    fill = None if fill is None else number(fill)
    if not memory.on_chip:
        # Nobody but the kernel sees a tensor of one program; the result of a kernel may be one.
        if memory is SHARED_HBM:
            program.count += 1
            if program.count <= len(program.shared):
                return program.shared[program.count - 1]
        if fill is not None:
            raise TensorArgument(
                f"a tensor in HBM cannot have an initial value; found {fill} for shape {sizes}",
                notes=[older("err_hbm_tensor_with_init_value_not_supported")],
                help=f"write nl.ndarray, and nl.store(t[...], value={fill})",
            )
        tile = Tile(current().allocate(sizes, element, SHARED_HBM, name))
        if memory is SHARED_HBM:
            program.shared.append(tile)
        return tile
    if len(sizes) == 1:
        sizes = (*sizes, 1)
    block = sizes[partition:]
    addresses: Mapping[tuple[int, ...], tuple[int, int]] = {}
    if placed is not None and not program.forced:
        row_bytes = prod(block[1:]) * element.itemsize
        addresses = placed.addresses(sizes[:partition], block[0], row_bytes, current().target)
    if not partition:
        return _block(block, element, memory, name, fill, addresses.get(()))

    builder = current()
    declared = program.clock

    def make(place: tuple[int, ...]) -> Tile:
        number = len(builder.storages)
        program.declared[number], program.places[number] = declared, (blocks, place)
        label = f"{name}[{', '.join(map(str, place))}]"
        return _block(block, element, memory, label, fill, addresses.get(place))

    name = name or variable_of(current().stack()) or "blocks"
    blocks = Blocks(sizes, partition, element, memory, name, make)
    # Blocks with a place of their own are made at once: errors about places name the line of the declaration.
    for place in addresses:
        blocks.block(place)
    return Tile(blocks)


def _axes(sizes: tuple[Any, ...], kinds: tuple[type, ...]) -> tuple[tuple[int, ...], int]:
    """Return a shape, whose sizes are of some types, as integers, and which axis is the partition axis."""
    marked = [n for n, kind in enumerate(kinds) if issubclass(kind, par_dim)]
    if len(marked) > 1:
        raise TensorArgument(
            f"shape {sizes} has {len(marked)} partition axes",
            help="write nl.par_dim for one axis: those before it are block axes, those after it free axes",
        )
    whole = integers(sizes, "a size of a tensor", "write a shape of integers, such as (128, 512)")
    return whole, marked[0] if marked else 0


_PLAIN = frozenset((int, par_dim))
_known_axes = lru_cache(maxsize=1024)(_axes)


def _block(
    sizes: tuple[int, ...],
    dtype: DType,
    memory: MemoryRegion,
    name: str,
    fill: int | float | None,
    address: tuple[int, int] | None = None,
) -> Tile:
    builder = current()
    if name or address is not None:
        tensor = builder.allocate(sizes, dtype, memory, name, address=address)
    else:
        tensor = builder.fresh(sizes, dtype, memory)
    if memory is PSUM and not fill:
        return Tile(tensor, zeros=Zeros(fill is not None))
    if fill is not None:
        memset(dst=tensor, value=filler(fill, dtype))
    return Tile(tensor)


def _memory(buffer: Any) -> MemoryRegion:
    if buffer is None:
        return SBUF
    memory = buffer if isinstance(buffer, MemoryRegion) else _MEMORIES.get(str(buffer))
    if memory is None:
        raise TensorArgument(
            f"buffer={buffer!r} is no memory",
            help="write nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm",
        )
    return memory


def _memory_like(a: Tile) -> Any:
    return a.buffer if a.on_chip else SBUF


def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> Tile:
    """Return a tensor in HBM that holds an array known while tracing."""
    from nki_lab.language.creation import shared_constant as made

    array = np.asarray(constant)
    return Tile(made(array.astype(dtype_named(array.dtype if dtype is None else dtype).np)))


def shared_identity_matrix(n: int, dtype: Any = uint8, **kwargs: Any) -> Tile:
    """Return a tensor in HBM that holds an identity matrix."""
    return shared_constant(np.eye(int(n)), dtype)
