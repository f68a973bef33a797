"""Checks what authors give tensors: memories, element types, shapes, addresses and indices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nki_lab.dtypes import DTYPES, DType
from nki_lab.errors import (
    AddressConflict,
    NkiError,
    TensorArgument,
    ViewError,
    close_matches,
)
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Address
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.source import Blame
from nki_lab.targets.spaces import ARGUMENT_HBM, SBUF, SHARED_HBM, MemoryRegion
from nki_lab.targets.spec import Target


def memory_of(buffer: MemoryRegion | str | None) -> MemoryRegion:
    """Return the memory a tensor is to live in; None is SBUF."""
    if buffer is None:
        return SBUF
    if isinstance(buffer, MemoryRegion):
        return SHARED_HBM if buffer is ARGUMENT_HBM else buffer
    raise TensorArgument(
        f"buffer must be a memory of nki.language, found {buffer!r}",
        help="use nl.sbuf, nl.psum, nl.hbm, nl.private_hbm or nl.shared_hbm",
        blame=Blame.of("buffer"),
    )


# The nearest element type for NumPy types that no memory of the chip holds.
_NUMBERS = {"float": "float32", "int": "int32", "bool": "bool_"}
_NEAREST = {"bool": "bool_", "float64": "float32", "int64": "int32", "uint64": "uint32"}


def element_of(dtype: Any, error: type[NkiError] = TensorArgument) -> DType:
    """Return the element type an author asked for; types of NumPy and PyTorch are refused with the name to write.

    The official API says `DType = str` (nki/api/nki/language/__init__.py).
    """
    if type(dtype) is DType:
        return dtype
    if isinstance(dtype, str):
        element = DTYPES.get("bool_" if dtype == "bool" else dtype)
        if element is not None:
            return element
        raise error(
            f"dtype {dtype!r} is not an NKI dtype",
            help=close_matches(dtype, DTYPES) or "use one of nki.language, e.g. nl.float32",
            blame=Blame.of("dtype"),
        )
    try:
        name = "" if dtype is None else np.dtype(dtype).name  # which takes None for float64
    except (
        TypeError,
        ValueError,
    ):  # the latter where it has a `dtype` of NKI: a tensor, a register
        name = str(getattr(dtype, "dtype", dtype))
    name = name.rpartition(".")[2]  # torch.float16
    if callable(dtype) and not isinstance(
        dtype, type
    ):  # a function in the place of a type, such as that of a tile
        name = _NUMBERS.get(getattr(dtype, "__name__", ""), "")
    name = _NEAREST.get(name, name)
    raise error(
        f"dtype {_written(dtype)} is not an NKI dtype",
        help=Hint(f"write nl.{name}", Rewrite("", f"nl.{name}"))
        if name in DTYPES
        else "use one of nki.language, e.g. nl.float32",
        blame=Blame.of("dtype"),
    )


def _written(dtype: Any) -> str:
    if isinstance(dtype, type):
        module = dtype.__module__.replace("numpy", "np").replace("builtins", "")
        return f"{module}.{dtype.__name__}".lstrip(".")
    if callable(dtype):
        return getattr(dtype, "__name__", type(dtype).__name__)
    text = repr(dtype)
    return (
        f"of type {type(dtype).__name__}" if " at 0x" in text else text
    )  # an address says nothing


class PartitionSize(int):
    """`nl.par_dim(n)` of NKI 0.1 and 0.2: the number n, as the first size of a shape.

    No page of these versions has it; kernels of nki-library at its tag 2.28 call it.
    """


def shape_of(shape: Any) -> tuple[int, ...]:
    """Return a shape as plain positive integers."""
    if type(shape) is tuple and shape:
        for n in shape:
            if type(n) is not int or n < 1:
                break
        else:
            return shape
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        plain = tuple(n.__index__() for n in sizes)
    except (AttributeError, TypeError):
        raise _wrong_shape(shape) from None
    if not plain or min(plain) < 1:
        raise _wrong_shape(plain)
    if any(type(n) is PartitionSize for n in sizes[1:]):
        raise TensorArgument(
            f"shape {plain} has nl.par_dim behind its first size: axis 0 is the partition axis",
            help="make a list of tiles, or write the sizes before it behind the partition axis",
            blame=Blame.of("shape", 0),
        )
    return plain


def _wrong_shape(shape: Any) -> TensorArgument:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    help = "write a tuple such as (128, 512)"
    if any(is_runtime(n) for n in sizes):
        help = "a shape is fixed while the kernel is traced: give the largest size, and use a part of the tensor"
    return TensorArgument(
        f"shape {shape!r} must be positive integers", help=help, blame=Blame.of("shape", 0)
    )


def address_of(
    address: Any, space: MemoryRegion, shape: tuple[int, ...], dtype: DType, target: Target
) -> Address | None:
    """Return the address an author asked for, or None; it must lie in the memory."""
    if address is None:
        return None
    blame = Blame.of("address")
    if not space.on_chip:
        raise TensorArgument(
            f"address={address} in {space.name}: only SBUF and PSUM have addresses",
            help="leave `address` out",
            blame=blame,
        )
    try:
        partition, byte = (n.__index__() for n in address)
    except (AttributeError, TypeError, ValueError):
        raise TensorArgument(
            f"address must be (start partition, byte within the partition), found {address!r}",
            help="write address=(0, 1024), for example",
            blame=blame,
        ) from None
    if not 0 <= partition < target.partitions or partition + shape[0] > target.partitions:
        raise TensorArgument(
            f"address {tuple(address)} with {shape[0]} partitions does not fit {target.partitions} partitions",
            help=f"start at partition 0 to {target.partitions - shape[0]}",
            blame=blame,
        )
    if byte < 0:
        raise TensorArgument(
            f"address {tuple(address)}: the byte must not be negative",
            help="count bytes from the start of the partition, which is 0",
            blame=blame,
        )
    if (
        space is MemoryRegion.psum
        and byte % target.psum_bank_bytes
        and (
            byte % target.psum_bank_bytes + prod(shape[1:]) * dtype.itemsize
            > target.psum_bank_bytes
        )
    ):
        raise TensorArgument(
            f"address {tuple(address)} in psum: the tensor crosses a bank of {target.psum_bank_bytes} bytes",
            help=f"start it at a multiple of {target.psum_bank_bytes}, or so that it ends before the next one",
            blame=blame,
        )
    step = target.sbuf_min_align_bytes if space is SBUF else target.psum_min_align_bytes
    if byte % step:
        raise AddressConflict(
            f"address {tuple(address)} in {space.name}: the byte must be a multiple of {step},"
            f" nl.tile_size.{space.name}_min_align",
            help=f"write ({partition}, {byte // step * step}) or ({partition}, {-(-byte // step) * step})",
            blame=blame,
        )
    return Address(partition, byte)


def portable_address(address: Any) -> bool:
    """Tell whether NKI's parser takes an address: an even byte, from partition 0, 32, 64 or 96 on.

    (KLR KLR/Trace/Term.lean, pointerAccess)
    """
    partition, byte = address
    return partition in (0, 32, 64, 96) and byte % 2 == 0


# -- indices ---------------------------------------------------------------------------------------


def is_runtime(value: Any) -> bool:
    """Tell whether an index is only known at run time: a register or a tensor."""
    return type(value) is not int and (isinstance(value, Register) or hasattr(value, "storage"))


def spelled_out(key: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return an index with the slices that `...` stands for in its place."""
    for at, entry in enumerate(key):
        if entry is Ellipsis:
            if any(k is Ellipsis for k in key[at + 1 :]):
                raise ViewError(
                    "an index can contain `...` only once", help="write `:` for each axis"
                )
            return key[:at] + (slice(None),) * (rank - len(key) + 1) + key[at + 1 :]
    return key


def entries(value: Any, what: str) -> tuple[Any, ...]:
    """Return the entries of a tuple, list or range."""
    if isinstance(value, (tuple, list, range)):
        return tuple(value)
    raise ViewError(
        f"{what} takes a tuple or list; found {type(value).__name__} {value!r}",
        help="put one entry in brackets with a comma: (entry,)",
    )


def integers(value: Any, what: str) -> tuple[int, ...]:
    """Return the entries of a tuple or list of integers."""
    return tuple(static_index(n, what) for n in entries(value, what))


def static_index(value: Any, what: str) -> int:
    """Return an integer known while the kernel is traced."""
    if type(value) is int:
        return value
    if is_runtime(value):
        raise ViewError(
            f"{what} needs an integer known while the kernel is traced; found {value!r}",
            help="to index with a run-time value, use t.select(dim, index), nl.ds(index, size) or"
            " t.ap(..., scalar_offset=index)",
        )
    try:
        if value is not True and value is not False:  # a comparison, not a place
            return value.__index__()
    except (AttributeError, TypeError):
        pass
    raise ViewError(
        f"{what} takes integers, slices, `...` and nl.ds; found {type(value).__name__} {value!r}",
        help="write an integer" + "; `//` divides into one" * isinstance(value, float),
    )
