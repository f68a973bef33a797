"""What the examples in the texts of nki.language and nki.isa show."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import NotOnTarget
from nki_lab.runtime import run
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, on_later, wide
from tests.official.test_get_started import stored
from tests.public.sdk.references import signed

ISA, LANGUAGE = "api/nki/isa/__init__.py", "api/nki/language/__init__.py"

#: Function of nki.language of one tile -> the same in NumPy, and whether it needs numbers above zero.
OF_ONE: dict[str, tuple[Callable[..., Any], bool]] = {
    "abs": (np.abs, False),
    "exp": (np.exp, False),
    "log": (np.log, True),
    "sqrt": (np.sqrt, True),
    "rsqrt": (lambda x: 1 / np.sqrt(x), True),
    "reciprocal": (lambda x: 1 / x, True),
    "square": (np.square, False),
    "sin": (np.sin, False),
    "cos": (np.cos, False),
    "tan": (np.tan, False),
    "arctan": (np.arctan, False),
    "tanh": (np.tanh, False),
    "ceil": (np.ceil, False),
    "floor": (np.floor, False),
    "trunc": (np.trunc, False),
    "negative": (np.negative, False),
    "sign": (np.sign, False),
    "relu": (lambda x: np.maximum(x, 0), False),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), False),
}
#: Function of nki.language of two tiles -> the same in NumPy.
OF_TWO: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


@shows(LANGUAGE, "functions of one tile")
@in_versions
@on_all
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_tile(name, target, nki, rng):
    def applied(x):
        return stored(getattr(nl, name)(nl.load(x)))

    function, above = OF_ONE[name]
    x = signed(rng, (40, 30), "float32")
    x = np.abs(x) + np.float32(0.5) if above else np.clip(x, -1.4, 1.4)
    check(applied, (x,), function(wide(x)), target=target, nki=nki, close=1e-3)


@shows(LANGUAGE, "functions of two tiles")
@in_versions
@on_all
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_tiles(name, target, nki, rng):
    def applied(x, y):
        return stored(getattr(nl, name)(nl.load(x), nl.load(y)))

    x, y = signed(rng, (40, 30), "float32"), signed(rng, (40, 30), "float32")
    y[::3] = x[::3]  # some are equal
    check(applied, (x, y), OF_TWO[name](x, y).astype("f8"), target=target, nki=nki)


@shows(LANGUAGE, "tiles filled with zeros, ones and a number", "the condition of where is a tile")
@shows(LANGUAGE, "softmax and rms_norm along a row", "sums and products of rows, and their mean")
@in_versions
@on_all
def test_functions_along_rows(target, nki, rng):
    def applied(x, weights):
        tile, factors = nl.load(x), nl.load(weights)
        condition = nl.greater(tile, nl.full(x.shape, 0.25, x.dtype, buffer=nl.sbuf))
        lower = nl.subtract(nl.zeros(x.shape, x.dtype), nl.ones(x.shape, x.dtype))
        return (
            stored(nl.where(condition, tile, lower)),
            stored(nl.softmax(tile, axis=1)),
            stored(nl.rms_norm(tile, factors, axis=1, n=x.shape[1])),
            stored(nl.sum(tile, axis=1, keepdims=True)),
            stored(nl.max(tile, axis=1, keepdims=True)),
            stored(nl.mean(tile, axis=1, keepdims=True)),
        )

    x, weights = signed(rng, (60, 50), "float32"), signed(rng, (60, 50), "float32")
    a, w = wide(x, weights)
    grown = np.exp(a - a.max(1, keepdims=True))
    check(
        applied, (x, weights),
        np.where(a > 0.25, a, -1),
        grown / grown.sum(1, keepdims=True),
        a / np.sqrt((a * a).mean(1, keepdims=True)) * w,
        a.sum(1, keepdims=True), a.max(1, keepdims=True), a.mean(1, keepdims=True),
        target=target, nki=nki, close=1e-3,
    )  # fmt: skip


@shows(LANGUAGE, "matmul with a turned factor, transpose, copy from PSUM")
@in_versions
@on_all
def test_products_and_transposes(target, nki, rng):
    def applied(x, y):
        left, right = nl.load(x), nl.load(y)
        turned = nl.copy(nl.transpose(left))
        return stored(nl.copy(nl.matmul(left, right, transpose_x=True))), stored(turned)

    x, y = signed(rng, (128, 64), "float32"), signed(rng, (128, 90), "float32")
    check(applied, (x, y), wide(x).T @ wide(y), x.T, target=target, nki=nki, close=1e-3)


@shows(LANGUAGE, "a shared constant: the unit matrix")
@in_versions
@on_all
def test_the_unit_matrix(target, nki, rng):
    def applied(x):
        unit = nl.shared_identity_matrix(n=64, dtype=nl.float32)
        return stored(nl.copy(nl.matmul(nl.load(x), unit, transpose_x=True))), stored(unit)

    x = signed(rng, (64, 100), "float32")
    check(applied, (x,), x.T, np.eye(64), target=target, nki=nki, close=1e-5)


@shows(LANGUAGE, "elements of a row gathered by position")
@in_versions
@on_all
def test_elements_gathered_by_position(target, nki, rng):
    def applied(x, where):
        return stored(nl.gather_flattened(nl.load(x), nl.load(where)))

    x = signed(rng, (128, 60), "float32")
    where = rng.integers(60, size=(128, 40)).astype(np.uint32)
    expected = np.take_along_axis(x, where.astype(int), axis=1)
    check(applied, (x, where), expected, target=target, nki=nki)


@shows(LANGUAGE, "random numbers between 0 and 1, the same ones from the same seed")
@in_versions
@on_all
def test_random_numbers_follow_their_seed(target, nki):
    def drawn(seeds):
        both = nl.load(seeds)
        parts = []
        for number in range(3):
            nl.random_seed(nl.copy(both[:, number : number + 1]))
            parts.append(stored(nl.rand((64, 128), dtype=nl.float32)))
        return tuple(parts)

    first, second, third = run(
        drawn, np.array([[42, 42, 7]], np.int32), target=target, nki=nki
    ).outputs
    np.testing.assert_array_equal(first, second)
    assert (first != third).mean() > 0.9
    assert ((first >= 0) & (first < 1)).all()
    assert abs(float(first.mean()) - 0.5) < 0.02 and abs(float(first.std()) - 12**-0.5) < 0.02


@shows(LANGUAGE, "loops over affine_range, sequential_range and static_range", "a dynamic slice")
@in_versions
@on_all
@pytest.mark.parametrize("form", ["affine_range", "sequential_range", "static_range"])
def test_loops_that_are_unrolled(form, target, nki, rng):
    def squares(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for block in getattr(nl, form)(x.shape[1] // 64):
            columns = nl.ds(64 * block, 64)
            tile = nl.load(x[:, columns])
            nl.store(out[:, columns], nl.multiply(tile, tile))
        return out

    x = signed(rng, (70, 192), "float32")
    check(squares, (x,), wide(x) ** 2, target=target, nki=nki)


@shows(LANGUAGE, "no_reorder keeps an order", "a name for what is printed on the device")
@in_versions
@on_all
def test_an_order_is_kept(target, nki, rng, capsys):
    def applied(x):
        with nl.no_reorder():
            tile = nl.load(x)
            nl.device_print("before", tile[0:1, 0:1])
            tile = nl.add(tile, tile)
        return stored(tile)

    x = signed(rng, (20, 30), "float32")
    check(applied, (x,), 2 * wide(x), target=target, nki=nki)
    assert "before" in capsys.readouterr().out


@shows(
    LANGUAGE,
    "the values of views: permuted, repeated, of more and fewer axes, rearranged, picked",
)
@in_versions
@on_all
def test_views_and_their_values(target, nki, rng):
    def viewed(x):
        tile = nl.load(x)
        views = (
            tile.permute((0, 2, 1)),
            tile.slice(2, 1, 6, 2),
            tile.select(1, 3),
            tile.reshape_dim(2, (2, -1)).permute((0, 2, 1, 3)),
            tile.flatten_dims(1, 2),
            tile.select(1, 0).expand_dim(1).broadcast(1, 3),
            tile.select(1, 1).expand_dim(1).squeeze_dim(1),
            tile.flatten_dims(1, 2).rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 6}),
        )
        made = []
        for view in views:
            copy = nl.ndarray(view.shape, view.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copy, src=view)
            made.append(stored(copy))
        return tuple(made)

    x = signed(rng, (50, 4, 6), "float32")
    flat = x.reshape(50, 24)
    check(
        viewed, (x,),
        x.transpose(0, 2, 1), x[:, :, 1:6:2], x[:, 3], x.reshape(50, 4, 2, 3).transpose(0, 2, 1, 3), flat,
        np.repeat(x[:, :1], 3, axis=1), x[:, 1], flat.reshape(50, 6, 4).transpose(0, 2, 1),
        target=target, nki=nki,
    )  # fmt: skip


@shows(ISA, "activate2: a product, a sum and a function at once, on trn3 since 0.4")
@pytest.mark.parametrize("nki", ["0.4", "0.6", "0.7"])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_product_a_sum_and_a_function_at_once(target, nki, rng):
    def applied(x):
        tile = nl.load(x)
        nisa.activate2(
            dst=tile, op=nl.gelu, data=tile, imm0=-1.5, imm1=0.25, op0=nl.multiply, op1=nl.add
        )
        return stored(tile)

    x = signed(rng, (128, 70), "float32")
    if target == "trn2":
        with pytest.raises(NotOnTarget, match="activate2"):
            run(applied, x, target=target, nki=nki)
        return
    y = -1.5 * wide(x) + 0.25
    expected = y * 0.5 * (1 + np.vectorize(erf)(y / np.sqrt(2)))
    check(applied, (x,), expected, target=target, nki=nki, close=1e-3)


@shows(ISA, "positions of what is not zero, and how many there are")
@in_versions
@on_later
def test_positions_of_what_is_not_zero(target, nki, rng):
    def applied(x):
        out = nl.ndarray((1, x.shape[1] + 1), nl.int32, buffer=nl.sbuf)
        nisa.nonzero_with_count(dst=out, src=nl.load(x), index_offset=0, padding_val=-1)
        return stored(out)

    x = rng.integers(-1, 2, (1, 90)).astype(np.int32)
    (places,) = np.nonzero(x[0])
    expected = np.full((1, 91), -1)
    expected[0, : len(places)], expected[0, -1] = places, len(places)
    check(applied, (x,), expected, target=target, nki=nki)


@shows(
    ISA,
    "iota and affine_select: a number of each position",
    "a recurrence along a row",
    "running sums of a row",
)
@in_versions
@on_all
def test_numbers_of_positions_and_recurrences(target, nki, rng):
    def applied(x, y, start):
        places = nl.ndarray((20, 3, 5), nl.int32, buffer=nl.sbuf)
        nisa.iota(places, [[7, 3], [-2, 5]], offset=11, channel_multiplier=100)
        chosen = nl.ndarray((20, 15), nl.float32, buffer=nl.sbuf)
        nisa.affine_select(
            dst=chosen, pattern=[[1, 15]], channel_multiplier=-1, on_true_tile=nl.load(x), on_false_value=-9.0,
            offset=2, cmp_op=nl.less,
        )  # fmt: skip
        run_on = nl.ndarray((20, 15), nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=run_on,
            data0=nl.load(x),
            data1=nl.load(y),
            initial=nl.load(start),
            op0=nl.multiply,
            op1=nl.add,
        )
        return stored(places), stored(chosen), stored(run_on)

    x, y = signed(rng, (20, 15), "float32"), signed(rng, (20, 15), "float32")
    start = signed(rng, (20, 1), "float32")
    p, a, b = np.ix_(range(20), range(3), range(5))
    row, column = np.indices((20, 15))
    state, states = wide(start)[:, 0], []
    for step in range(15):
        state = wide(x)[:, step] * state + wide(y)[:, step]
        states.append(state)
    check(
        applied, (x, y, start),
        11 + 100 * p + 7 * a - 2 * b, np.where(2 - row + column < 0, x, -9), np.stack(states, axis=1),
        target=target, nki=nki, close=1e-4,
    )  # fmt: skip
