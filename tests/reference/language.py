"""The names of a kernel: stand-ins for `nl`, `nisa` and `ncc`.

Page: nki/api/nki/language/__init__.py.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.reference import instructions, machine, products
from tests.reference import numbers as n
from tests.reference.composites import FUNCTIONS
from tests.reference.numbers import TYPES, DType
from tests.reference.tensors import Refused, Register, Slice, Tensor, new


class Op(str):
    """An operator: a value for `op=`, and called a function of tiles that makes a tile in SBUF."""

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        return FUNCTIONS.get(self, self._apply)(*args, **options)

    def _apply(self, x: Any, y: Any = None, dtype: DType | None = None) -> Tensor:
        one = x if isinstance(x, Tensor) else y
        dst = new(one.shape, dtype or one.dtype)
        if y is None:
            instructions.activation(dst, self, x)
        elif isinstance(x, Tensor) and isinstance(y, Tensor):
            instructions.tensor_tensor(dst, x, y, self)
        else:
            scalar = y if isinstance(x, Tensor) else x
            instructions.tensor_scalar(dst, one, self, scalar, reverse0=scalar is x)
        return dst


def ndarray(shape, dtype, buffer="sbuf", name="", address=None) -> Tensor:
    shape = tuple(shape)
    if buffer == "shared_hbm":
        owner = machine.core().machine
        assert owner is not None
        return owner.shared_tensor(shape, dtype)
    if address is not None:  # all such tiles lie in one memory
        row = machine.core().sbuf.shape[1] // dtype.size
        steps = [math.prod(shape[k + 1 :]) for k in range(1, len(shape))]
        first = address[0] * row + address[1] // dtype.size
        return Tensor(machine.core().sbuf, shape, (row, *steps), first, dtype)
    return new(shape, dtype, buffer)


def full(shape, fill_value, dtype, buffer="sbuf", name="") -> Tensor:
    t = ndarray(shape, dtype, buffer)
    instructions.memset(t, fill_value)
    return t


def load(src: Tensor, dtype=None) -> Tensor:
    t = new(src.shape, dtype or src.dtype)
    instructions.dma_copy(t, src)
    return t


def fori_loop(lower, upper, body_fun, step=1) -> None:
    first, last = (x.value if isinstance(x, Register) else x for x in (lower, upper))
    for i in range(first, last, step):
        body_fun(Register(i))


def while_loop(init, body_fun) -> None:
    r, trips = Register(init.value), 0
    while r.value:
        r = Register(body_fun(r).value)
        trips += 1
        if trips > 1000:
            raise Refused("a loop does not end")


def _names(module: Any) -> dict[str, Callable[..., Any]]:
    return {
        k: f
        for k, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and k[0] != "_"
    }


def _enum(*names: str) -> SimpleNamespace:
    return SimpleNamespace(**{name: name for name in names})


_OPS = {
    *FUNCTIONS,
    *n.BINARY,
    *n.UNARY,
    *n.BITVEC,
    *n.ACTIVATIONS,
    "invert",
    "prelu",
    "bypass",
    "average",
}
nl = SimpleNamespace(
    **{name: Op(name) for name in _OPS}, **TYPES, sbuf="sbuf", psum="psum", shared_hbm="shared_hbm",
    private_hbm="private_hbm", hbm="private_hbm", ndarray=ndarray, full=full,
    zeros=lambda shape, dtype, buffer="sbuf", name="": full(shape, 0, dtype, buffer),
    ones=lambda shape, dtype, buffer="sbuf", name="": full(shape, 1, dtype, buffer),
    load=load, store=instructions.dma_copy, ds=Slice, fori_loop=fori_loop, while_loop=while_loop,
    affine_range=range, sequential_range=range, static_range=range,
    program_id=lambda axis=0: machine.core().number, num_programs=lambda axes=0: machine.core().machine.cores,  # type: ignore[union-attr]
)  # fmt: skip
_MEETING = ("core_barrier", "sendrecv", "sendrecv_compute")
_meetings = _names(machine)
nisa = SimpleNamespace(
    **_names(instructions), **_names(products), **{k: _meetings[k] for k in _MEETING},
    engine=_enum("tensor", "vector", "scalar", "gpsimd", "dma", "sync", "unknown"),
    reduce_cmd=_enum("idle", "reset", "reduce", "reset_reduce", "load_reduce"),
    dge_mode=_enum("unknown", "swdge", "hwdge", "none"), oob_mode=_enum("error", "skip"),
    matmul_perf_mode=_enum("none", "double_row"), dma_engine=_enum("dma", "gpsimd_dma"),
)  # fmt: skip
ncc = SimpleNamespace(
    **{k: f for k, f in _meetings.items() if k not in (*_MEETING, "core", "argument")},
    ReplicaGroup=machine.ReplicaGroup,
)
NAMES = {"nl": nl, "nisa": nisa, "ncc": ncc, "np": np}
