"""What may stand as an index, a size or a list of them?"""

from __future__ import annotations

from typing import Any

from nki_lab.errors import ViewError
from nki_lab.ir.tensor.register import Register


def is_runtime(value: Any) -> bool:
    """Tell whether an index is known only while the kernel runs: a register or a tensor."""
    return type(value) is not int and (isinstance(value, Register) or hasattr(value, "storage"))


def spelled_out(key: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return an index with the slices that `...` stands for in its place."""
    for at, entry in enumerate(key):
        if entry is Ellipsis:
            if any(k is Ellipsis for k in key[at + 1 :]):
                raise ViewError("an index can hold `...` only once", help="write `:` for each axis")
            return key[:at] + (slice(None),) * (rank - len(key) + 1) + key[at + 1 :]
    return key


def entries(value: Any, what: str) -> tuple[Any, ...]:
    """Return the entries of a tuple, list or range."""
    if isinstance(value, (tuple, list, range)):
        return tuple(value)
    raise ViewError(f"{what} takes a tuple or list; found {type(value).__name__} {value!r}")


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
            help="address by a value of the device with t.select(dim, index), nl.ds(index, size) or"
            " t.ap(..., scalar_offset=index)",
        )
    try:
        if value is not True and value is not False:  # a comparison, not a place
            return value.__index__()
    except (AttributeError, TypeError):
        pass
    raise ViewError(
        f"{what} takes integers, slices, `...` and nl.ds; found {type(value).__name__} {value!r}"
    )
