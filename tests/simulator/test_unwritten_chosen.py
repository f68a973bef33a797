"""Tests that elements that masks or indices choose, and only those, are reported where nothing has written them.

What is expected comes from two masks of booleans: what is written, and what NumPy indexing or a comparison chooses.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import UninitializedRead
from nki_lab.ir.definition.instruction import registry
from nki_lab.runtime import jit, run
from tests.simulator.kernels import returned, tile_of
from tests.simulator.test_unwritten import told

P, N = 32, 12
FP32_MIN = float(np.finfo(np.float32).min)


def of_each_element(indices):
    chosen = np.zeros((P, N), bool)
    chosen[np.arange(P)[:, None], indices] = True
    return chosen


def gather(rng):
    indices = rng.integers(0, N, (P, 2)).astype(np.uint32)

    def use(t, given):
        dst = nl.ndarray((P, 2), dtype=t.dtype, buffer=nl.sbuf)
        nisa.nc_n_gather(dst, t, tile_of(given))
        return dst

    return "nc_n_gather", "data", use, indices, of_each_element(indices)


def gather_pieces(rng):
    indices = rng.integers(0, N - 1, (P, 1)).astype(np.uint16)

    def use(t, given):
        dst = nl.ndarray((P, 32), dtype=t.dtype, buffer=nl.sbuf)
        nisa.local_gather(dst, t, tile_of(given), num_elem_per_idx=2)
        return dst

    starts = np.repeat(indices.reshape(P // 16, 16), 16, axis=0)
    return (
        "local_gather",
        "src_buffer",
        use,
        indices,
        of_each_element(starts) | of_each_element(starts + 1),
    )


def masked(rng):
    mask = rng.integers(0, 2, (P, N)).astype(np.uint8)
    return mask, mask != 0


def copy_where(rng):
    mask, chosen = masked(rng)
    reverse = bool(rng.integers(2))

    def use(t, given):
        dst = nl.zeros((P, N), dtype=t.dtype)
        nisa.tensor_copy_predicated(dst, t, tile_of(given), reverse_pred=reverse)
        return dst

    return "tensor_copy_predicated", "src", use, mask, chosen != reverse


def select_in_place(rng):
    mask, chosen = masked(rng)

    def use(t, given):
        nisa.select_reduce(t, tile_of(given), t, 0.0)
        return t

    return "select_reduce", "on_true", use, mask, chosen


def select(rng):
    mask, chosen = masked(rng)

    def use(t, given):
        dst = nl.ndarray((P, N), dtype=nl.int8, buffer=nl.sbuf)
        nisa.select_reduce(dst, tile_of(given), t, 1.0, reverse_pred=True)
        return dst

    return "select_reduce", "on_true", use, mask, ~chosen


def select_range(rng):
    bounds = rng.integers(0, N, (P, 2)).astype(np.float32)
    position = np.arange(N)
    chosen = (position >= bounds[:, :1]) & (position < bounds[:, 1:])

    def use(t, given):
        bounds = tile_of(given)
        dst = nl.ndarray((P, N), dtype=t.dtype, buffer=nl.sbuf)
        nisa.range_select(
            dst,
            t,
            nl.greater_equal,
            nl.less,
            bounds[:, 0:1],
            bounds[:, 1:2],
            on_false_value=FP32_MIN,
        )
        return dst

    return "range_select", "on_true_tile", use, bounds, chosen


def select_triangle(rng):
    offset = int(rng.integers(-8, 8))
    chosen = np.arange(P)[:, None] - np.arange(N) + offset >= 0

    def use(t, given):
        dst = nl.ndarray((P, N), dtype=t.dtype, buffer=nl.sbuf)
        nisa.affine_select(
            dst, pattern=[[-1, N]], offset=offset, channel_multiplier=1, on_true_tile=t, on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )  # fmt: skip
        return dst

    return "affine_select", "on_true_tile", use, np.zeros((P, 1), np.float32), chosen


def shuffle(rng):
    mask = [int(m) for m in rng.choice([*range(6), 255], 32)]
    chosen = np.zeros((P, N), bool)
    chosen[[m for m in mask if m != 255]] = True

    def use(t, given):
        dst = nl.zeros((P, N), dtype=t.dtype)
        nisa.nc_stream_shuffle(dst, t, mask)
        return dst

    return "nc_stream_shuffle", "src", use, np.zeros((P, 1), np.float32), chosen


def value_per_partition(rng):
    mask = (rng.random((P, N)) < 0.9).astype(np.uint8)
    chosen = np.zeros((P, N), bool)
    chosen[:, 0] = (mask == 0).any(axis=1)

    def use(t, given):
        dst = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.select_reduce(dst, tile_of(given), nl.zeros((P, N), dtype=nl.float32), t[:, 0:1])
        return dst

    return "select_reduce", "on_false", use, mask, chosen


USES = {
    use.__name__: use
    for use in (
        gather, gather_pieces, copy_where, select_in_place, select, select_range, select_triangle, shuffle,
        value_per_partition,
    )
}  # fmt: skip


def test_every_operand_of_which_elements_are_chosen_is_tried():
    rng = np.random.default_rng(0)
    tried = {use(rng)[:2] for use in USES.values()}
    assert tried == {
        (d.name, name) for d in registry.values() for name, o in d.operands.items() if o.chosen
    }


@pytest.mark.parametrize("covers", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", USES)
def test_only_chosen_elements_count_as_read(name, seed, covers):
    rng = np.random.default_rng([seed, *name.encode()])
    instruction, operand, use, given, chosen = USES[name](rng)
    dtype = [nl.float32, nl.bfloat16][seed % 2]
    written = chosen.copy() if covers else rng.random((P, N)) < 0.5
    if name == "shuffle":
        written[:] = written[:, :1]
    if written.all():
        written[np.unravel_index(np.argmin(chosen), chosen.shape)] = chosen.all()
    x = rng.standard_normal((P, N)).astype(dtype.np)

    def kernel(x, given):
        t = nl.ndarray((P, N), dtype=dtype, buffer=nl.sbuf, name="t")
        for row in range(P):
            for column in np.flatnonzero(written[row]).tolist():
                at = slice(row, row + 1), slice(column, column + 1)
                nisa.dma_copy(t[at], x[at])
        return returned(use(t, given))

    found = told(run(jit(kernel), x, given, target="trn2"))
    expected = chosen & ~written
    size = P if operand == "on_false" else P * N
    count = int(expected.sum())
    if not count:
        assert not [f for f in found if f"of {operand} = " in f.message], found
        return
    (finding,) = (f for f in found if f"of {operand} = " in f.message)
    some = "all" if count == size else f"{count} of {size}"
    first = [int(n) for n in np.argwhere(expected)[0]]
    assert f"{instruction}: {some} elements of {operand} = `t`" in finding.message
    assert f"the first at index {first}" in finding.message


@pytest.mark.parametrize("column", [3, 4])
def test_the_maximum_that_goes_on_is_as_if_nobody_had_looked(column):
    rng = np.random.default_rng(5)
    x = -rng.random((8, 6)).astype(np.float32)
    mask = np.zeros((8, 6), np.uint8)
    mask[:, [0, column]] = 1

    def kernel(x, mask):
        t = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(t[:, 0:4], x[:, 0:4])
        dst, most = nl.zeros((8, 6), dtype=nl.float32), nl.zeros((8, 1), dtype=nl.float32)
        command = nisa.reduce_cmd
        nisa.select_reduce(dst, tile_of(mask), tile_of(x), -9.0, reduce_cmd=command.reset_reduce)
        nisa.select_reduce(dst, tile_of(mask), t, -9.0, reduce_res=most, reduce_cmd=command.reduce)
        return returned(most)

    result = run(jit(kernel), x, mask, target="trn2")
    if column < 4:
        assert not told(result)
        np.testing.assert_array_equal(result.outputs[0].ravel(), x[:, [0, column]].max(axis=1))
    else:
        (finding,) = told(result)
        assert "8 of 48 elements of on_true" in finding.message


@pytest.mark.parametrize("last", [3, 5])
def test_strict_runs_end_only_where_a_chosen_element_is_unwritten(last):
    indices = np.array([[0, 2, 1, last]] * 8, np.uint32)

    def kernel(x, indices):
        t = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(t[:, 0:4], x[:, 0:4])
        dst = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_n_gather(dst, t, tile_of(indices))
        return returned(dst)

    x = np.random.default_rng(6).standard_normal((8, 8)).astype(np.float32)
    if last < 4:
        result = run(jit(kernel), x, indices, strict=True)
        np.testing.assert_array_equal(result.outputs[0], x[:, [0, 2, 1, last]])
    else:
        with pytest.raises(UninitializedRead, match="8 of 64 elements of data"):
            run(jit(kernel), x, indices, strict=True)
