"""An element of a reduction depends on its vector and the operator, not on how that lies or beside what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.ir.definition.operands import REDUCED
from nki_lab.isa import registry
from nki_lab.isa.example import example_call
from nki_lab.runtime import jit
from nki_lab.targets import ALL_TARGETS

ROWS, COLUMNS = 24, 480
RESET = nisa.reduce_cmd.reset_reduce
_RNG = np.random.default_rng(11)
RANDOM = _RNG.standard_normal((ROWS, COLUMNS)).astype(np.float32)
# Of two zeros, a maximum may be either: which one must not depend on the layout either.
ZEROS = np.where(_RNG.random((ROWS, COLUMNS)) < 0.5, np.float32(0), np.float32(-0.0))
DATA = {"random": RANDOM, "zeros": ZEROS}


def _tile(layout: str, rows: int, columns: int) -> Any:
    """Return a view of `rows` x `columns` elements that lies as its name says; its shape may have more axes."""
    if layout == "contiguous":
        return nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    if layout == "strided":
        return nl.ndarray((rows, 2 * columns), dtype=nl.float32, buffer=nl.sbuf)[:, ::2]
    if layout == "part":
        return nl.ndarray((rows, columns + 9), dtype=nl.float32, buffer=nl.sbuf)[:, 5 : columns + 5]
    inner = 8 if columns % 8 == 0 else 1
    if layout == "gaps":
        tile = nl.ndarray((rows, columns // inner, inner + 3), dtype=nl.float32, buffer=nl.sbuf)
        return tile[:, :, :inner]
    tile = nl.ndarray((rows, inner, columns // inner), dtype=nl.float32, buffer=nl.sbuf)
    return tile.permute((0, 2, 1))


LAYOUTS = ("contiguous", "strided", "part", "gaps", "permuted")


def _tensor_reduce(op):
    return lambda d, t, r: nisa.tensor_reduce(
        dst=r, op=op, data=t, axis=tuple(range(1, len(t.shape)))
    )


def _tensor_scalar_reduce(op):
    return lambda d, t, r: nisa.tensor_scalar_reduce(
        dst=d, data=t, op0=nl.multiply, operand0=1.5, reduce_op=op, reduce_res=r
    )


def _activation(name, function, op, **others):
    return lambda d, t, r: getattr(nisa, name)(
        dst=d, op=function, data=t, reduce_res=r, reduce_op=op, **others
    )


def _selected(d, t, r):
    chosen = nl.ndarray(t.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=chosen, data=t, op0=nl.less, operand0=1.0)
    nisa.select_reduce(
        dst=d, predicate=chosen, on_true=t, on_false=-3.0, reduce_res=r, reduce_cmd=RESET
    )


def _in_range(d, t, r):
    low, high = (nl.ndarray((t.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.memset(dst=low, value=3.0)
    nisa.memset(dst=high, value=400.0)
    nisa.range_select(
        dst=d, on_true_tile=t, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=low, bound1=high,
        reduce_cmd=RESET, reduce_res=r,
    )  # fmt: skip


EXTREMES = (nl.maximum, nl.minimum)
FUNCTIONS = (nl.copy, nl.exp)
SCALED = {"imm0": 1.0, "imm1": 0.0, "op0": nl.multiply, "op1": nl.add}
# How each instruction that reduces all free axes is called with (dst, data, result).
CALLS: dict[str, list[Callable[..., Any]]] = {
    "tensor_reduce": [_tensor_reduce(op) for op in (nl.add, nl.multiply, nl.subtract, *EXTREMES)],
    "tensor_scalar_reduce": [_tensor_scalar_reduce(op) for op in (nl.add, nl.multiply, *EXTREMES)],
    "bn_stats": [lambda d, t, r: nisa.bn_stats(dst=r, data=t)],
    "bn_aggr": [lambda d, t, r: nisa.bn_aggr(dst=r, data=t)],
    "activation": [_activation("activation", f, nl.add, reduce_cmd=RESET) for f in FUNCTIONS],
    "activation_reduce": [_activation("activation_reduce", f, nl.add) for f in FUNCTIONS],
    "activate2": [
        _activation("activate2", f, op, reduce_cmd=RESET, **SCALED)
        for f in FUNCTIONS
        for op in (nl.add, *EXTREMES)
    ],
    "exponential": [lambda d, t, r: nisa.exponential(dst=d, src=t, reduce_res=r, reduce_cmd=RESET)],
    "select_reduce": [_selected],
    "range_select": [_in_range],
}
RESULTS = {"bn_stats": 6, "bn_aggr": 2}  # how many a row has, where not 1


@jit
def _reduce(x, layout, call, results):
    rows, columns = x.shape
    t, d = _tile(layout, rows, columns), _tile(layout, rows, columns)
    nisa.dma_copy(dst=t, src=x.reshape(t.shape))
    r = nl.ndarray((rows, results), dtype=nl.float32, buffer=nl.sbuf)
    call(d, t, r)
    out = nl.ndarray((rows, results), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=r)
    return out


def _reducing() -> list[str]:
    """Return the instructions of which an operand says that all its free axes are reduced, or may be."""
    names = []
    for name, definition in registry.items():
        call = next(c for t in ALL_TARGETS if (c := example_call(definition, t)) is not None)
        along = [
            operand.along(call, call.args[definition.position[k]])
            for k, operand in definition.operands.items()
            if operand.along is not None
        ]
        if "reduce_res" in definition.params or any(REDUCED in words.values() for words in along):
            names.append(name)
    return sorted(names)


def _bits(call: Any, *args: Any) -> np.ndarray:
    return call(*args).view(np.uint32)


def test_each_instruction_that_reduces_free_axes_is_called():
    assert sorted([*CALLS, "tensor_partition_reduce"]) == _reducing()


@pytest.mark.parametrize("name", CALLS)
def test_free_axes(name):
    data = np.concatenate([RANDOM[::2], ZEROS[::2]])
    target = next(t for t in ALL_TARGETS if t.features >= set(registry[name].requires))
    with nki_lab.use_target(target.name):
        results = RESULTS.get(name, 1)
        for call in CALLS[name]:
            whole = {layout: _bits(_reduce, data, layout, call, results) for layout in LAYOUTS}
            for layout, bits in whole.items():
                np.testing.assert_array_equal(bits, whole["contiguous"], err_msg=layout)
            for k, layout in enumerate(LAYOUTS, start=9):
                alone = _bits(_reduce, data[k : k + 1], layout, call, results)
                np.testing.assert_array_equal(alone[0], whole["contiguous"][k], err_msg=layout)


@jit
def _over_partitions(x, layout, op):
    rows, columns = x.shape
    t = _tile(layout, rows, columns)
    nisa.dma_copy(dst=t, src=x.reshape(t.shape))
    r = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=r, op=op, data=t)
    out = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=r)
    return out


@jit
def _middle_axes(x, op, view):
    t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    t = view(t)
    r = nl.ndarray(t.shape[:2], dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=r, op=op, data=t, axis=2)
    out = nl.ndarray(t.shape[:2], dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=r)
    return out


_OPERATORS = [nl.add, nl.maximum]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("op", [*_OPERATORS, nl.average], ids=str)
def test_partitions(op, data):
    x = np.ascontiguousarray(data.reshape(-1, 96)[:120])
    bits = _bits(_over_partitions, x, "contiguous", op)
    for layout in LAYOUTS:
        np.testing.assert_array_equal(_bits(_over_partitions, x, layout, op), bits, err_msg=layout)
        for j in (0, 33, 95):
            alone = _bits(_over_partitions, np.ascontiguousarray(x[:, j : j + 1]), layout, op)
            np.testing.assert_array_equal(alone[0], bits[0, j : j + 1], err_msg=layout)
    if op is not nl.average:
        turned = _bits(_reduce, np.ascontiguousarray(x.T), "contiguous", _over_free_axis(op), 1)
        np.testing.assert_array_equal(turned[:, 0], bits[0])


def _over_free_axis(op: Any) -> Callable[..., Any]:
    return lambda d, t, r: nisa.tensor_reduce(dst=r, op=op, data=t, axis=1)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("op", _OPERATORS, ids=str)
def test_an_axis_that_was_moved_to_the_end(op, data):
    x = np.ascontiguousarray(data.reshape(ROWS, 60, 8))
    there = _bits(_middle_axes, x, op, lambda t: t.permute((0, 2, 1)))
    for j in range(8):
        one = _bits(_middle_axes, x, op, lambda t, j=j: t[:, :, j : j + 1].permute((0, 2, 1)))
        np.testing.assert_array_equal(one[:, 0], there[:, j])
    stored = np.ascontiguousarray(x.transpose(0, 2, 1))
    np.testing.assert_array_equal(_bits(_middle_axes, stored, op, lambda t: t), there)
