"""Functions of the older nki.isa that accumulate, number positions, or move: values from NumPy, masks included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.runtime.run import run
from tests.beta1.test_isa import LOWEST, TRUTH, C, F, P, X, Y, bf16, rng, signed

# -- accumulators -------------------------------------------------------------------------------------------------


def reduced_of(call: Callable[..., Any], *arrays: np.ndarray, columns: int = 1) -> list[np.ndarray]:
    """Run a call that returns one tile and writes others of one value per partition; return all of them."""

    @nki.jit
    def kernel(*tensors: Any) -> Any:
        tiles = [nl.load(t) for t in tensors]
        results = [nl.ndarray((tiles[0].shape[0], 1), nl.float32) for _ in range(columns)]
        return (call(*tiles, *results), *results)

    return list(kernel(*arrays))


def test_activation_reduce_writes_the_sum_beside_the_result():
    value, total = reduced_of(
        lambda x, r: nisa.activation_reduce(nl.copy, x, reduce_op=np.add, reduce_res=r[:, 0], scale=0.5), X
    )  # fmt: skip
    np.testing.assert_array_equal(value, X * np.float32(0.5))
    np.testing.assert_allclose(total, (X / 2).sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_result_without_a_command_is_reduced_by_this_call_alone():
    def call(x, first, second):
        nisa.activation(nl.square, x, reduce_op=np.add, reduce_res=first)
        return nisa.activation(nl.copy, x, reduce_op=nl.add, reduce_res=second)

    _, squares, total = reduced_of(call, X, columns=2)
    np.testing.assert_allclose(squares, np.square(X).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(total, X.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_commands_carry_the_accumulator_from_call_to_call():
    def call(x, total):
        nisa.activation(nl.copy, x, reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(nl.square, x, reduce_op=np.add, reduce_cmd=2)  # the number of `reduce`
        return nisa.activation(
            nl.abs, x, reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=total
        )

    _, total = reduced_of(call, X)
    expected = (X + X * X + np.abs(X)).sum(1, keepdims=True)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-4)


def test_tensor_scalar_reduce():
    value, largest = reduced_of(
        lambda x, r: nisa.tensor_scalar_reduce(data=x, op0=np.multiply, operand0=-2.0, reduce_op=np.max, reduce_res=r),
        X,
    )  # fmt: skip
    np.testing.assert_array_equal(value, -2 * X)
    np.testing.assert_array_equal(largest, (-2 * X).max(1, keepdims=True))


def test_range_select_keeps_positions_between_bounds():
    low, high = (rng.integers(*r, (P, 1)).astype(np.float32) for r in ((100, 108), (110, 118)))
    value, largest = reduced_of(
        lambda x, a, b, r: nisa.range_select(
            on_true_tile=x, comp_op0=np.greater_equal, comp_op1=np.less, bound0=a, bound1=b, range_start=100,
            reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=r, reduce_op=np.max,
        ),
        X, low, high,
    )  # fmt: skip
    position = 100 + np.arange(F)
    expected = np.where((position >= low) & (position < high), X, np.float32(LOWEST))
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(largest, expected.max(1, keepdims=True))


def test_select_reduce_writes_into_its_first_operand():
    @nki.jit
    def kernel(x, truth, c):
        dst, largest = nl.full((P, F), 7, np.float32), nl.ndarray((P, 1), np.float32)
        p = nl.mgrid[0:P, 0:F].p
        nisa.select_reduce(
            dst=dst, predicate=nl.load(truth), on_true=nl.load(x), on_false=nl.load(c), reduce_res=largest,
            reduce_op=np.max, reverse_pred=True, mask=p < 40,
        )  # fmt: skip
        return dst, largest[0:40, 0:1]

    value, largest = kernel(X, TRUTH, C)
    expected = np.where(TRUTH == 0, X, C)
    np.testing.assert_array_equal(value[:40], expected[:40])
    assert (value[40:] == 7).all()
    np.testing.assert_array_equal(largest, expected[:40].max(1, keepdims=True))


def test_a_running_reduction_starts_with_what_is_loaded():
    @nki.jit
    def kernel(x, first):
        dst = nl.full((P, F), 7, np.float32)
        p = nl.mgrid[0:P, 0:F].p
        nisa.tensor_scalar_cumulative(
            src=nl.load(x), dst=dst, op0=nl.multiply, op1=np.add, imm0=2.0, imm1=nl.load(first),
            reduce_cmd=nisa.reduce_cmd.load_reduce, mask=p < 40,
        )  # fmt: skip
        return dst

    value = kernel(X, C)
    expected = np.add.accumulate(2 * X, axis=1) + C
    np.testing.assert_allclose(value[:40], expected[:40], rtol=1e-4, atol=1e-4)
    assert (value[40:] == 7).all()


# -- positions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "formula"),
    [
        (lambda p, f: f < p, lambda p, f: f < p),
        (lambda p, f: 3 * f + 2 >= p, lambda p, f: 3 * f + 2 >= p),
        (lambda p, f: p == 2 * f, lambda p, f: p == 2 * f),
        (lambda p, f: p != 2 * f, lambda p, f: p != 2 * f),
        (lambda p, f: p <= 7, lambda p, f: p <= 7),
        (lambda p, f: True, lambda p, f: p >= 0),
        (lambda p, f: False, lambda p, f: p < 0),
    ],
)
def test_affine_select_evaluates_a_comparison_at_each_position(condition, formula):
    @nki.jit
    def kernel(x):
        p, f = nl.mgrid[0:P, 0:F]
        tile = nl.load(x)
        part = nl.full((P, F), 7, np.float32)
        part[...] = nisa.affine_select(
            pred=condition(p, f), on_true_tile=tile[p, f], on_false_value=nisa.fp32.min, mask=(p >= 32) & (f < 9)
        )  # fmt: skip
        return nisa.affine_select(condition(p, f), tile, -1.5, dtype=nl.bfloat16), part

    value, part = kernel(X)
    chosen = formula(*np.indices((P, F)))
    np.testing.assert_array_equal(value, np.where(chosen, X, -1.5).astype(bf16))
    expected = np.full((P, F), 7, np.float32)
    expected[32:, :9] = np.where(chosen, X, np.float32(LOWEST))[32:, :9]
    np.testing.assert_array_equal(part, expected)


def test_iota_gives_the_values_of_an_index_tensor():
    @nki.jit
    def kernel():
        p, f, g = (
            nl.arange(P)[:, None, None],
            nl.arange(3)[None, :, None],
            nl.arange(4)[None, None, :],
        )
        part = nl.full((P, 3, 4), 7, nl.float32)
        part[...] = nisa.iota(p - 2 * f + 10 * g, nl.float32, mask=(p >= 32) & (g < 2))
        row = nisa.iota(nl.arange(0, 512)[None, :] * -1, dtype=nl.int32)
        return nisa.iota(5 + p - 2 * f + 10 * g, dtype=nl.int32), part, row

    value, part, row = kernel()
    p, f, g = np.indices((P, 3, 4))
    np.testing.assert_array_equal(value, 5 + p - 2 * f + 10 * g)
    np.testing.assert_array_equal(part, np.where((p >= 32) & (g < 2), p - 2 * f + 10 * g, 7))
    np.testing.assert_array_equal(row, [-np.arange(512)])


def test_memset_fills_a_new_tile():
    @nki.jit
    def kernel():
        p, f = nl.mgrid[0:P, 0:F]
        part = nl.full((P, F), 7, nl.int32)
        part[...] = nisa.memset(
            (P, F), 3, nl.int32, mask=(p < 9) & (f > 4), engine=nisa.gpsimd_engine
        )
        return nisa.memset(shape=(nl.par_dim(P), F), value=-0.2, dtype=nl.bfloat16), part

    value, part = kernel()
    np.testing.assert_array_equal(value, np.full((P, F), -0.2).astype(bf16))
    p, f = np.indices((P, F))
    np.testing.assert_array_equal(part, np.where((p < 9) & (f > 4), 3, 7))


# -- moving -------------------------------------------------------------------------------------------------------


def test_dma_copy_moves_what_a_mask_leaves():
    @nki.jit
    def kernel(x, y):
        tile = nl.load(y)
        p, f = nl.mgrid[0:P, 0:F]
        nisa.dma_copy(dst=tile, src=x, mask=(p < 11) & (f >= 5), dge_mode=nisa.dge_mode.unknown)
        return tile

    result = run(kernel, X, Y)
    expected = Y.copy()
    expected[:11, 5:] = X[:11, 5:]
    np.testing.assert_array_equal(result.value, expected)
    moved = [i for i in result.compiled.kernel.body if i.definition.name == "dma_copy"][1]
    assert (moved.dst.shape, moved.src.shape) == ((11, 15), (11, 15))


def test_dma_copy_adds_to_what_is_there():
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((P, F), np.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        nisa.dma_copy(dst=out, src=nl.load(y), dst_rmw_op=np.add)
        return out

    np.testing.assert_array_equal(kernel(X, Y), X + Y)


@pytest.mark.parametrize("shape", [(48, 20), (20, 3, 8), (5, 6, 7, 9)])
def test_dma_transpose_permutes_axes(shape):
    @nki.jit
    def kernel(x):
        return nisa.dma_transpose(x), nisa.dma_transpose(nl.load(x))

    x = signed(*shape)
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    for value in kernel(x):
        np.testing.assert_array_equal(value, x.transpose(axes))


def test_dropout_zeroes_all_or_none_at_the_ends():
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        return nisa.dropout(tile, prob=1.0), nisa.dropout(tile, 0.0), nisa.dropout(tile, 0.5)

    none, all_, half = kernel(X)
    assert not none.any()
    np.testing.assert_array_equal(all_, X)
    assert set((half != 0).sum(1)) - {0, F}, "some elements of a row stay, some do not"
    assert (half[half != 0] == X[half != 0]).all()


def test_local_gather_takes_indices_of_its_group_of_partitions():
    src, index = signed(32, 24), rng.integers(0, 24, (32, 3)).astype(np.uint16)

    @nki.jit
    def kernel(x, n):
        tile, places = nl.load(x), nl.load(n)
        return nisa.local_gather(tile, places), nisa.local_gather(tile, places, 1, 40)

    whole, valid = kernel(src, index)
    for core in (0, 1):
        rows = slice(16 * core, 16 * core + 16)
        order = index[rows].flatten(order="F")
        np.testing.assert_array_equal(whole[rows].reshape(16, 48), src[rows][:, order])
        np.testing.assert_array_equal(valid[rows].reshape(16, 40), src[rows][:, order[:40]])


def test_stream_shuffle_moves_rows_in_place_and_keeps_what_is_masked_off():
    order = [(7 * k) % 32 for k in range(32)]

    @nki.jit
    def kernel(x):
        a, b = nl.load(x), nl.load(x)
        p, f = nl.mgrid[0:32, 0:F]
        nisa.nc_stream_shuffle(src=a[p, f], dst=a[p, f], shuffle_mask=order)
        nisa.nc_stream_shuffle(b[0, nl.arange(F)[None, :]], b[p, f], [0] * 32)
        return a, b

    x = X[:32]
    moved, row = kernel(x)
    np.testing.assert_array_equal(moved, x[order])
    np.testing.assert_array_equal(row, np.broadcast_to(x[0], x.shape))


def test_sequence_bounds_finds_the_ends_of_segments():
    @nki.jit
    def kernel(ids):
        return nisa.sequence_bounds(segment_ids=nl.load(ids))

    value = kernel(np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32))
    first, last = [9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]
    np.testing.assert_array_equal(value, [[first, last]])


@pytest.mark.parametrize(
    "truth", [TRUTH, TRUTH.astype(np.float32), TRUTH.astype(np.int32), TRUTH.astype(bool)]
)
def test_copy_predicated_writes_where_a_predicate_holds(truth):
    @nki.jit
    def kernel(x, y, t):
        into, number = nl.load(y), nl.load(y)
        p = nl.mgrid[0:P, 0:F].p
        predicate = nl.load(t)
        nisa.tensor_copy_predicated(src=nl.load(x), dst=into, predicate=predicate, mask=p >= 32)
        nisa.tensor_copy_predicated(src=-3.0, dst=number, predicate=predicate, reverse_pred=True)
        return into, number

    into, number = kernel(X, Y, truth)
    rows = np.arange(P)[:, None] >= 32
    np.testing.assert_array_equal(into, np.where(rows & (truth != 0), X, Y))
    np.testing.assert_array_equal(number, np.where(truth == 0, np.float32(-3), Y))


def test_a_value_in_sbuf_says_where_a_copy_reads_and_writes():
    @nki.jit
    def kernel(x, places):
        tile, at = nl.load(x), nl.load(places)
        out = nl.full((P, F), 7, np.float32)
        p, f = nl.mgrid[0:P, 0:1]
        for k in nl.affine_range(4):
            out[p, k] = nisa.tensor_copy_dynamic_src(tile[p, at[0, k] + f])
        written = nl.full((P, F), 7, np.float32)
        nisa.tensor_copy_dynamic_dst(dst=written[p, at[0, 1] + f], src=tile[p, f])
        return out, written

    places = np.array([[9, 4, 17, 0]], np.int32)
    out, written = kernel(X, places)
    np.testing.assert_array_equal(out[:, :4], X[:, places[0]])
    assert (out[:, 4:] == 7).all()
    expected = np.full((P, F), 7, np.float32)
    expected[:, 4] = X[:, 0]
    np.testing.assert_array_equal(written, expected)


def test_a_transpose_by_hardware_descriptors_takes_the_mode_of_its_page():
    @nki.jit
    def kernel(x):
        return nisa.dma_transpose(x, dge_mode=nisa.dge_mode.hwdge)

    x = signed(16, 64, dtype=bf16)
    result = run(kernel, x)
    np.testing.assert_array_equal(result.value, x.T)
    assert result.compiled.kernel.body[0].dge_mode.name == "hwdge"
