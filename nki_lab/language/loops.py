"""Which loops can a kernel write?

`affine_range`, `sequential_range` and `static_range` are unrolled: they are Python's `range` under other names
(nki/api/nki/language/__init__.py). Loops that the device runs are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from nki_lab.errors import NotModelled
from nki_lab.ir.tensor import NkiTensor


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`.

    The older dialect promised the compiler independent iterations by this name; today all unrolled loops are
    equal and the official API advises `range`.
    """
    return _unrolled("affine_range", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`."""
    return _unrolled("sequential_range", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`."""
    return _unrolled("static_range", start, stop, step)


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> NoReturn:
    """Refuse a loop with bounds known only on the device: not modelled yet."""
    _refuse("dynamic_range", "loop with range() over bounds known while the kernel is traced")


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], None], step: int = 1) -> NoReturn:
    """Refuse a counted loop that the device runs: not modelled yet."""
    _refuse("fori_loop", "write `for i in range(lower, upper, step): body_fun(i)` with numbers as bounds")  # fmt: skip


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> NoReturn:
    """Refuse a loop that ends on a value of the device: not modelled yet."""
    _refuse("while_loop", "loop with range() over the most iterations and mask with nl.where")


def _unrolled(name: str, start: Any, stop: Any, step: Any) -> range:
    for bound in (start, stop, step):
        if isinstance(bound, NkiTensor):
            raise NotModelled(
                f"nl.{name}: the bound {bound.describe()} is known only on the device, and such loops are not modelled",
                help="pass the number of iterations to the kernel as an int",
            )
    return range(start) if stop is None else range(start, stop, step)


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotModelled(
        f"nl.{name}: loops that run on the device are not modelled yet",
        help=instead,
    )
