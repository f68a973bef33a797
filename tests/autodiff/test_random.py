"""Random kernels that write parts of tiles again and again, against the same steps in NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.autodiff import backward, reverse
from tests.autodiff.test_rules import loaded, stored, tile
from tests.thorough import first

SHAPE = ROWS, WIDTH = 5, 8


class Act(NamedTuple):
    """A step of a random kernel: it writes one part of a tile from parts of others, all of one width.

    Attributes:
        formula: `(a, b, column) -> result` in NumPy.
        emit: `(dst, a, b, column)` in NKI; it may write to `a`, `b` and `column`, which are copies.
    """

    formula: Callable[..., Any]
    emit: Callable[..., Any]


def _scan(a, b, column):
    results, state = [], column[:, 0]
    for n in range(a.shape[1]):
        results.append(state := a[:, n] * state + b[:, n])
    return np.tanh(np.stack(results, 1))


def _emit_scan(dst, a, b, column):
    nisa.tensor_tensor_scan(dst=a, data0=a, data1=b, initial=column, op0=nl.multiply, op1=nl.add)
    nisa.activation(dst=dst, op=nl.tanh, data=a)


def _product(a, b, column):
    square = np.zeros((ROWS, a.shape[1]))
    product = a.T @ b
    rows = min(product.shape[0], ROWS)
    square[:rows] = product[:rows]
    return np.tanh(square * 0.3)


def _emit_product(dst, a, b, column):
    width = a.shape[1]
    total = tile((width, width), buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=a, moving=b)
    rows = min(width, ROWS)
    nisa.memset(dst=a, value=0.0)
    nisa.tensor_copy(dst=a[:rows], src=total[:rows])
    nisa.activation(dst=dst, op=nl.tanh, data=a, scale=0.3)


def _moved(a, b, column):
    result = b.copy()
    result[1:4] = a[0:3]
    return result


def _emit_moved(dst, a, b, column):
    between = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.hbm)
    nisa.dma_copy(dst=between, src=b)
    nisa.dma_copy(dst=between[1:4], src=a[0:3])
    nisa.dma_copy(dst=dst, src=between)


def _emit_repeated(dst, a, b, column):
    nisa.tensor_tensor(dst=dst, data1=b, data2=column.broadcast(1, b.shape[1]), op=nl.multiply)


def _emit_sum(dst, a, b, column):
    nisa.tensor_reduce(dst=column, op=nl.add, data=a, axis=1)
    nisa.tensor_scalar(dst=dst, data=b, op0=nl.subtract, operand0=column, reverse0=True)


def _emit_largest(dst, a, b, column):
    nisa.scalar_tensor_tensor(
        dst=dst, data=a, op0=nl.multiply, operand0=column, op1=nl.maximum, operand1=b
    )


def _emit_tanh(dst, a, b, column):
    nisa.activation(dst=dst, op=nl.tanh, data=a, scale=0.8, bias=column)


ACTS = (
    Act(lambda a, b, c: a * b, lambda dst, a, b, c: nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=nl.multiply)),
    Act(lambda a, b, c: np.tanh(a * 0.8 + c), _emit_tanh),
    Act(lambda a, b, c: c * b, _emit_repeated),
    Act(lambda a, b, c: a.sum(1, keepdims=True) - b, _emit_sum),
    Act(lambda a, b, c: np.maximum(a * c, b), _emit_largest),
    Act(lambda a, b, c: 0 * a + 0.6, lambda dst, a, b, c: nisa.memset(dst=dst, value=0.6)),
    Act(_scan, _emit_scan),
    Act(_product, _emit_product),
    Act(_moved, _emit_moved),
)  # fmt: skip


class Choice(NamedTuple):
    """An act on parts of three tiles: (tile, first element) of its result, its operands and its column."""

    act: Act
    width: int
    parts: tuple[tuple[int, int], ...]


def _chosen(rng: np.random.Generator) -> list[Choice]:
    choices = []
    for _ in range(rng.integers(5, 14)):
        width = int(rng.integers(1, WIDTH + 1))
        starts = rng.integers(0, WIDTH - width + 1, 4)
        parts = zip(rng.integers(0, 3, 4).tolist(), starts.tolist(), strict=True)
        choices.append(Choice(ACTS[rng.integers(len(ACTS))], width, tuple(parts)))
    return choices


def _formula(choices: Sequence[Choice], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    tiles = [x.copy(), y.copy(), x - 0.5]
    for act, width, parts in choices:
        dst, a, b, c = (tiles[n][:, k : k + width] for n, k in parts)
        dst[...] = act.formula(a.copy(), b.copy(), c[:, :1].copy())
    return np.stack(tiles)


def _kernel(choices: Sequence[Choice]) -> Any:
    def copied(part):
        copy = tile(part.shape)
        nisa.tensor_copy(dst=copy, src=part)
        return copy

    @nki.jit
    def kernel(x, y):
        tiles = [loaded(x), loaded(y), loaded(x)]
        nisa.tensor_scalar(dst=tiles[2], data=tiles[2], op0=nl.add, operand0=-0.5)
        for act, width, parts in choices:
            dst, a, b, c = (tiles[n][:, k : k + width] for n, k in parts)
            act.emit(dst, copied(a), copied(b), copied(c[:, 0:1]))
        return tuple(stored(t) for t in tiles)

    return kernel


@pytest.mark.parametrize("seed", first(range(100), 8))
def test_random_kernel(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    if seed % 2:  # no value stays in SBUF
        monkeypatch.setattr(reverse, "_TIMES_PEAK", 1 << 40)
    choices = _chosen(rng)
    x, y = (rng.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(2))
    kernel = _kernel(choices)
    np.testing.assert_allclose(np.stack(kernel(x, y)), _formula(choices, x, y), atol=1e-4)
    weights = rng.standard_normal((3, *SHAPE)).astype(np.float32)
    of_x, of_y = (g.astype(np.float64) for g in backward(kernel, x, y)(x, y, *weights))
    for along in rng.standard_normal((3, 2, *SHAPE)):
        up, down = (
            np.sum(_formula(choices, x + s * along[0], y + s * along[1]) * weights)
            for s in (1e-6, -1e-6)
        )
        terms = np.stack([of_x * along[0], of_y * along[1]])
        assert abs(terms.sum() - (up - down) / 2e-6) < 1e-5 * np.abs(terms).sum() + 1e-3
