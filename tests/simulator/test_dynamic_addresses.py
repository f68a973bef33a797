"""Tests that addresses by registers and tiles of indices reach what NumPy indexing reaches."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import AddressOutOfRange, NkiError, NotModelled, OutOfBounds, ViewError
from nki_lab.ir.program.verify import verify
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime import jit, run
from tests.simulator.kernels import in_register, reading, returned, tile_of

RNG = np.random.default_rng(11)
TABLE = RNG.standard_normal((40, 6, 10)).astype(np.float32)


SCALARS = {
    "select": (lambda t, i: t.select(0, i), lambda t, i: t[i]),
    "select in the middle": (lambda t, i: t.select(1, i), lambda t, i: t[:, i]),
    "index": (lambda t, i: t[3:20, i, 2:9], lambda t, i: t[3:20, i, 2:9]),
    "ds": (lambda t, i: t[nl.ds(i, 5)], lambda t, i: t[i : i + 5]),
    "ds behind": (lambda t, i: t[0:7, 2, nl.ds(i, 4)], lambda t, i: t[0:7, 2, i : i + 4]),
    "slice after": (lambda t, i: t.select(0, i)[1:3], lambda t, i: t[i, 1:3]),
    "ap": (
        lambda t, i: t.ap([[60, 8], [1, 10]], offset=20, scalar_offset=i),
        lambda t, i: t[i : i + 8, 2],
    ),
    "ap by the middle axis": (
        lambda t, i: t.ap([[60, 8], [1, 10]], scalar_offset=i, indirect_dim=1),
        lambda t, i: t[0:8, i],
    ),
    "ap of another dtype": (
        lambda t, i: t.ap([[120, 8], [1, 20]], scalar_offset=i, dtype=nl.uint16),
        lambda t, i: t.view(np.uint16)[i : i + 8, 0],
    ),
}


@pytest.mark.parametrize("by", ["tile", "register"])
@pytest.mark.parametrize("index", [0, 1, 4])
@pytest.mark.parametrize("name", SCALARS)
def test_one_value_moves_a_view(name, index, by):
    view, oracle = SCALARS[name]
    result = run(jit(reading(view, by)), TABLE, np.array([[index]], np.int32))
    expected = oracle(TABLE, index)
    np.testing.assert_array_equal(result.value.reshape(expected.shape), expected)
    text = print_kernel(result.kernel, comments=False)
    assert " by scalar " in text
    assert print_kernel(read_kernel(text), comments=False) == text


@pytest.mark.parametrize("index", [0, 3])
def test_one_value_moves_a_view_on_chip(index):
    def shift(x, index):
        held = tile_of(x)
        at = in_register(tile_of(index))
        out = nl.zeros((32, 12), dtype=nl.float32)
        nisa.tensor_scalar(out[:, nl.ds(at, 8)], held[:, nl.ds(at, 8)], nl.add, 1.0)
        return returned(out)

    x = RNG.standard_normal((32, 12)).astype(np.float32)
    expected = np.zeros_like(x)
    expected[:, index : index + 8] = x[:, index : index + 8] + 1
    found = run(jit(shift), x, np.array([[index]], np.int32)).value
    np.testing.assert_array_equal(found, expected)


@jit
def gathered(table, index, skip):
    held = tile_of(index)
    tile = nl.ndarray((held.shape[0], 6, 10), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(tile, -1.0)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(tile, table.vector_select(0, held), oob_mode=mode)
    return returned(tile)


@jit
def gathered_by_pattern(table, index, skip):
    held = tile_of(index)
    tile = nl.ndarray((held.shape[0], 10), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(tile, -1.0)
    # The leading stride is ignored: rows of the base tensor are chosen.
    view = table.ap([[7, held.shape[0]], [1, 10]], offset=30, vector_offset=held)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(tile, view, oob_mode=mode)
    return returned(tile)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_a_tile_of_indices_gathers_rows(dtype):
    index = RNG.integers(0, 40, (24, 1)).astype(dtype)
    rows = index[:, 0].astype(int)
    np.testing.assert_array_equal(run(gathered, TABLE, index, False).value, TABLE[rows])
    found = run(gathered_by_pattern, TABLE, index, False).value
    np.testing.assert_array_equal(found, TABLE[rows, 3])


@pytest.mark.parametrize(("bad", "dtype"), [(40, np.int32), (-1, np.int32), (2**32 - 1, np.uint32)])
def test_rows_out_of_range_are_an_error_or_left_alone(bad, dtype):
    index = RNG.integers(0, 40, (24, 1)).astype(dtype)
    index[5] = bad
    with pytest.raises(
        AddressOutOfRange, match=rf"index {bad} for partition 5 .*valid are 0 to 39"
    ):
        run(gathered, TABLE, index, False)
    expected = TABLE[np.where(index[:, 0] < 40, index[:, 0], 0).astype(int)]
    expected[5] = -1
    np.testing.assert_array_equal(run(gathered, TABLE, index, True).value, expected)


@jit
def scattered(rows, index, out, skip):
    held = tile_of(index)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(out.vector_select(0, held), tile_of(rows), oob_mode=mode)
    return out


def test_a_tile_of_indices_scatters_rows():
    rows = RNG.standard_normal((16, 6, 10)).astype(np.float32)
    index = RNG.permutation(40)[:16].reshape(16, 1).astype(np.int32)
    expected = TABLE.copy()
    expected[index[:, 0]] = rows
    np.testing.assert_array_equal(run(scattered, rows, index, TABLE.copy(), False).value, expected)
    skipped = index.copy()
    skipped[3] = 1000
    expected[index[3, 0]] = TABLE[index[3, 0]]
    np.testing.assert_array_equal(run(scattered, rows, skipped, TABLE.copy(), True).value, expected)
    untouched = TABLE.copy()
    with pytest.raises(AddressOutOfRange, match="index 1000 for partition 3"):
        run(scattered, rows, skipped, untouched, False)


def test_a_scalar_out_of_range_is_an_error_and_the_next_run_works():
    def read(table, index):
        tile = nl.ndarray((6, 10), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.select(0, tile_of(index)))
        return returned(tile)

    compiled = jit(read).compile(TABLE, np.array([[0]], np.int32))
    with pytest.raises(AddressOutOfRange, match="index 40 is out of range"):
        compiled(TABLE, np.array([[40]], np.int32))
    np.testing.assert_array_equal(compiled(TABLE, np.array([[39]], np.int32)), TABLE[39])


def snake(index: np.ndarray, group: int, count: int) -> np.ndarray:
    """Return the offsets of each partition, by the formula of the documentation."""
    return np.array(
        [
            [index[p // group * group + i % group, i // group] for i in range(count)]
            for p in range(len(index))
        ]
    )


def test_more_elements_may_be_gathered_than_there_are():
    x = RNG.standard_normal((32, 4)).astype(np.float32)
    index = RNG.integers(0, 4, (32, 2)).astype(np.uint16)

    def kernel(x, index):
        out = nl.ndarray((32, 30), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out, tile_of(x).indirect(tile_of(index), 30))
        return returned(out)

    result = run(jit(kernel), x, index, target="trn3")
    offsets = snake(index, 16, 30).astype(int)
    np.testing.assert_array_equal(result.value, np.take_along_axis(x, offsets, axis=1))
    assert verify(result.compiled.kernel) == []  # it can be read from a file, too


def test_elements_are_gathered_and_scattered_along_the_free_axis():
    x = RNG.standard_normal((32, 50)).astype(np.float32)
    index = np.stack([RNG.permutation(50)[:32].reshape(2, 16).T for _ in range(2)]).reshape(32, 2)
    index = index.astype(np.uint16)

    def pick(x, index):
        held = tile_of(x)
        out = nl.ndarray((32, 30), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out, held.indirect(tile_of(index), 30))
        return returned(out)

    def put(x, index):
        out = nl.zeros((32, 50), dtype=nl.float32)
        nisa.tensor_copy(out.indirect(tile_of(index)), tile_of(x)[:, 0:32])
        return returned(out)

    offsets = snake(index, 16, 32).astype(int)
    found = run(jit(pick), x, index, target="trn3").value
    np.testing.assert_array_equal(found, np.take_along_axis(x, offsets[:, :30], axis=1))
    expected = np.zeros_like(x)
    np.put_along_axis(expected, offsets, x[:, :32], axis=1)
    np.testing.assert_array_equal(run(jit(put), x, index, target="trn3").value, expected)


def test_sums_on_the_way_are_those_of_the_partitions_that_are_gathered():
    """The second instruction reads the accumulator of its own partitions, 32 to 63."""
    x = np.abs(RNG.standard_normal((64, 40))).astype(np.float32)
    index = RNG.integers(0, 40, (64, 2)).astype(np.uint16)

    def summed(x, index):
        held, at = tile_of(x), tile_of(index)
        out = nl.zeros((64, 32), dtype=nl.float32)
        sums = nl.zeros((64, 1), dtype=nl.float32)
        for part in (slice(0, 32), slice(32, 64)):
            gathered = held[part].indirect(at[part])
            nisa.activation(
                out[part],
                nl.copy,
                gathered,
                reduce_op=nl.add,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
        for part in (slice(0, 32), slice(32, 64)):
            nisa.activation(out[part], nl.copy, out[part], reduce_res=sums[part])
        return returned(sums)

    expected = np.take_along_axis(x, snake(index, 16, 32).astype(int), 1).sum(axis=1, keepdims=True)
    found = run(jit(summed), x, index, target="trn3").value
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("times", [1, 3])
def test_the_first_product_scattered_to_a_place_overwrites_it(times):
    """accumulate=None looks at each element: what no product has reached is unwritten."""
    left = RNG.integers(-4, 5, (32, 32)).astype(np.float16)
    right = RNG.integers(-4, 5, (32, 20)).astype(np.float16)
    index = RNG.permutation(60)[:32].reshape(32, 1).astype(np.uint16)

    def multiplied(left, right, index):
        stationary, moving, at = tile_of(left), tile_of(right), tile_of(index)
        sums = nl.ndarray((32, 60), dtype=nl.float32, buffer=nl.psum)
        for _ in range(times):
            nisa.nc_matmul(sums.indirect(at, 20), stationary, moving)
        out = nl.ndarray((32, 60), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out, sums)
        return returned(out)

    expected = np.full((32, 60), np.nan)
    product = times * left.T.astype(float) @ right.astype(float)
    np.put_along_axis(expected, snake(index, 32, 20).astype(int), product, axis=1)
    found = run(jit(multiplied), left, right, index, target="trn3").value
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_rows_keep_the_order_of_their_axes(order):
    """What NumPy gathers from a view with swapped axes may lie in another order in memory."""

    def read(table, index):
        rows = table.vector_select(0, tile_of(index)).permute(order)
        tile = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, rows)
        return returned(tile)

    index = RNG.integers(0, 40, (9, 1)).astype(np.int32)
    expected = TABLE[index[:, 0]].transpose(order)
    np.testing.assert_array_equal(run(jit(read), TABLE, index).value, expected)


@jit
def gathered_into_nothing(table, index):
    tile = nl.ndarray((index.shape[0], 6, 10), dtype=table.dtype, buffer=nl.sbuf)
    rows = table.vector_select(0, tile_of(index))
    nisa.dma_copy(tile, rows, oob_mode=nisa.oob_mode.skip)
    return returned(tile)


def test_a_skipped_row_that_nothing_wrote_is_nan_and_a_finding_where_it_is_read():
    index = np.array([[3], [40], [7]], np.int32)
    result = run(gathered_into_nothing, TABLE, index)
    (finding,) = result.findings
    assert finding.code == "NKI401"
    assert "dma_copy: 60 of 180 elements of src = `tile`" in finding.message
    assert finding.message.endswith("the first at index [1, 0, 0]")
    expected = TABLE[[3, 0, 7]]
    expected[1] = np.nan
    np.testing.assert_array_equal(result.value, expected)


def test_the_profile_says_from_where_rows_that_may_be_skipped_come():
    result = run(gathered_into_nothing, TABLE, np.array([[3], [4], [7]], np.int32))
    table = result.profile.table("DmaPacketAggregated")
    gathers = [n for n, kind in enumerate(table["queue_type"]) if kind == "software_dynamic"]
    assert [(table["source"][n], table["dest"][n]) for n in gathers] == [("[INPUT]", "[SB]")]


@jit
def added_to_rows(rows, index, out):
    view = out.vector_select(0, tile_of(index))
    nisa.dma_compute(view, [view, tile_of(rows)], nl.add)
    return out


def test_a_row_named_twice_by_a_sum_is_an_error():
    rows = RNG.standard_normal((16, 6, 10)).astype(np.float32)
    index = RNG.permutation(40)[:16].reshape(16, 1).astype(np.int32)
    expected = TABLE.copy()
    expected[index[:, 0]] += rows
    np.testing.assert_array_equal(run(added_to_rows, rows, index, TABLE.copy()).value, expected)
    index[3] = index[9]
    with pytest.raises(
        AddressOutOfRange, match=f"index {index[3, 0]} names a row .* more than once"
    ):
        run(added_to_rows, rows, index, TABLE.copy())


@pytest.mark.parametrize(("rows", "count", "fine"), [(24, 8, True), (24, 9, False), (8, 8, True)])
def test_the_last_group_must_hold_the_offsets_in_use(rows, count, fine):
    x = RNG.standard_normal((rows, 30)).astype(np.float32)
    index = RNG.integers(0, 30, (rows, 2)).astype(np.uint16)

    def pick(x, index):
        out = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out, tile_of(x).indirect(tile_of(index), count))
        return returned(out)

    if fine:
        expected = np.take_along_axis(x, snake(index, 16, count).astype(int), axis=1)
        np.testing.assert_array_equal(run(jit(pick), x, index, target="trn3").value, expected)
    else:
        with pytest.raises(AddressOutOfRange, match="the last group has only 8 of 16 partitions"):
            run(jit(pick), x, index, target="trn3")


def test_an_index_of_another_kernel_is_refused():
    kept = []

    def first(table, index):
        kept.append(tile_of(index))
        nisa.dma_copy(table[0:3], table.vector_select(0, kept[0]))
        return table

    def second(table, index):
        nisa.dma_copy(table[0:3], table.vector_select(0, kept[0]))
        return table

    index = np.array([[3], [4], [7]], np.int32)
    run(jit(first), TABLE.copy(), index)
    with pytest.raises(NkiError, match=r"`tile` .* was made by another kernel call"):
        run(jit(second), TABLE.copy(), index)


def test_several_columns_of_indices_are_for_a_transpose_only():
    def read(table, index):
        table.vector_select(0, tile_of(index))
        return table

    with pytest.raises(ViewError, match="one element per partition"):
        run(jit(read), TABLE, np.zeros((8, 2), np.int32))


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (lambda t, i: t.select(0, i).select(0, i), "is already computed at run time"),
        (lambda t, i: t.vector_select(0, i).vector_select(0, i), "is already computed at run time"),
        (lambda t, i: t.vector_select(1, i), "along axis 0 of an HBM tensor"),
        (lambda t, i: t.select(0, i).view(nl.uint8), "only known at run time"),
        (
            lambda t, i: t.select(0, i).ap([[1, 4]]),
            "ap of `table` .* is already computed at run time",
        ),
        (
            lambda t, i: t.vector_select(0, i).ap([[60, 1], [1, 4]]),
            "is already computed at run time",
        ),
        (
            lambda t, i: t[nl.ds(i, 2)].ap([[1, 4]], scalar_offset=i),
            "is already computed at run time",
        ),
        (lambda t, i: t.ap([[60, 1], [1, 10]], scalar_offset=i, vector_offset=i), "not both"),
    ],
)
def test_views_that_cannot_be_are_refused(view, message):
    def read(table, index):
        view(table, tile_of(index))
        return table

    with pytest.raises(ViewError, match=message):
        run(jit(read), TABLE, np.array([[1]], np.int32))


def test_an_axis_addressed_by_a_tile_of_indices_cannot_be_cut_again():
    def read(table, index):
        table.vector_select(0, tile_of(index))[0:3]
        return table

    with pytest.raises(ViewError, match="cannot be sliced or selected again"):
        run(jit(read), TABLE, np.arange(8, dtype=np.int32).reshape(8, 1))


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.reshape((32, 4, 4)),
        lambda t: t.reshape_dim(1, (4, 4)),
        lambda t: t.expand_dim(1),
        lambda t: t.expand_dim(2).broadcast(2, 3),
        lambda t: t.permute((0, 1)),
        lambda t: t.flatten_dims(1, 1),
        lambda t: t[:, 0:4],
        lambda t: t[0:16],
        lambda t: t.select(1, 0),
        lambda t: t.slice(1, 0, 4),
        lambda t: t.view(nl.int32),
        lambda t: t.ap([[40, 32], [1, 4]]),
        lambda t: t.indirect(t),
    ],
)
def test_a_view_of_gathered_elements_is_refused(view):
    def read(x, index):
        picked = view(tile_of(x).indirect(tile_of(index), 16))
        out = nl.ndarray(picked.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out, picked)
        return returned(out)

    with pytest.raises(ViewError):
        run(jit(read), np.zeros((32, 40), np.float32), np.zeros((32, 1), np.uint16), target="trn3")


def test_gathered_elements_go_into_another_shape():
    def read(x, index):
        out = nl.ndarray((32, 2, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(out.permute((0, 2, 1)), tile_of(x).indirect(tile_of(index), 16))
        return returned(out)

    x = RNG.standard_normal((32, 40)).astype(np.float32)
    index = RNG.integers(0, 40, (32, 1)).astype(np.uint16)
    picked = np.take_along_axis(x, snake(index, 16, 16).astype(int), axis=1)
    found = run(jit(read), x, index, target="trn3").value
    np.testing.assert_array_equal(found, picked.reshape(32, 8, 2).transpose(0, 2, 1))


@pytest.mark.parametrize(
    "view",
    [
        lambda t, i, at: t.select(0, i[:, nl.ds(at, 1)]),
        lambda t, i, at: t[nl.ds(i.select(1, at), 2)],
        lambda t, i, at: t.ap([[1, 4]], scalar_offset=i.select(1, at)),
        lambda t, i, at: t.vector_select(0, i[:, nl.ds(at, 1)]),
        lambda t, i, at: t.ap([[60, 1], [1, 4]], vector_offset=i.select(1, at)),
        lambda t, i, at: tile_of(t[:, 0]).indirect(i[:, nl.ds(at, 1)]),
    ],
)
def test_an_index_whose_own_place_the_device_chooses_is_refused(view):
    def read(table, index):
        view(table, tile_of(index), nisa.register_alloc(1))
        return table

    index = np.zeros((1, 4), np.int32)
    with pytest.raises(
        NotModelled, match="the position of the index itself is only known at run time"
    ):
        run(jit(read), TABLE[:1], index, target="trn3")


def test_the_address_of_an_operand_that_is_not_touched_is_not_asked_for():
    """Nothing waits for its register, which may not be set yet."""

    def kernel(x, op):
        tile, scales = nl.load(x), nl.load(x)
        column = nisa.register_alloc()
        if op is not nl.bypass:
            nisa.register_move(column, 2)
        scale = scales.ap([[5, 4], [1, 1]], scalar_offset=column, indirect_dim=1)
        nisa.activate2(tile, nl.relu, tile, scale, 0.0, op0=op, op1=nl.bypass)
        out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, x, nl.bypass, target="trn3").value, np.maximum(x, 0))
    found = run(kernel, x, nl.multiply, target="trn3").value
    np.testing.assert_allclose(found, np.maximum(x * x[:, 2:3], 0), rtol=1e-6)


# -- what an index out of range is told -------------------------------------------------------------------------------


@jit
def _by_pattern(x, index, pattern, offset, named):
    """Read an access pattern that an index moves: one value for all of it, or one for each row."""
    rows = tile_of(index)
    how = {"vector_offset": rows} if named else {"scalar_offset": in_register(rows[0:1, 0:1])}
    tile = nl.ndarray([n for _, n in pattern], x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x.ap(pattern=pattern, offset=offset, indirect_dim=0, **how))
    return returned(tile)


@jit
def _by_register(x, index, start, width):
    """Read columns of a tile from a register on."""
    tile = tile_of(x)
    part = nl.ndarray((x.shape[0], width), x.dtype, buffer=nl.sbuf)
    moved = tile[:, start:].ap(
        [[x.shape[1], x.shape[0]], [1, width]],
        scalar_offset=in_register(tile_of(index)),
        indirect_dim=1,
    )
    nisa.tensor_copy(part, moved)
    return returned(part)


def _accepted(kernel, x, indices, *others):
    """Return the indices with which a kernel runs, and the ranges that its errors name for the rest."""
    accepted, told = [], set()
    for value in indices:
        index = np.full((others[0][0][1] if type(others[0]) is tuple else 1, 1), value, np.int32)
        try:
            kernel(x, index, *others)
            accepted.append(value)
        except AddressOutOfRange as error:
            told.add(error.message.rpartition(": ")[2])
    return accepted, told


def _range_text(values):
    if not values:
        return "no index is valid"
    return (
        f"only {values[0]} is valid"
        if len(values) == 1
        else f"valid are {values[0]} to {values[-1]}"
    )


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("pattern", "offset"),
    [
        (((12, 3), (1, 12)), 0),
        (((12, 3), (1, 12)), 24),
        (((12, 3), (2, 5)), 40),
        (((12, 2), (-1, 4)), 15),
        (((12, 2), (1, 12)), 60),
    ],
)
def test_the_valid_range_is_the_one_that_runs(pattern, offset, named):
    """Enumerated: which rows of 12 elements keep each element inside the 72 that there are."""
    x = RNG.standard_normal((6, 12)).astype(np.float32)
    (_, rows), (step, count) = pattern
    if not named and offset + 12 * (rows - 1) + (count - 1) * max(step, 0) >= 72:
        with pytest.raises(
            OutOfBounds, match="reaches elements"
        ):  # a pattern has to fit where nothing moves it
            _by_pattern(x, np.zeros((rows, 1), np.int32), pattern, offset, named)
        return
    reached = np.add.outer([0] if named else np.arange(rows) * 12, np.arange(count) * step) + offset
    inside = [
        v
        for v in range(0 if named else -6, 9)
        if ((reached + 12 * v >= 0) & (reached + 12 * v < 72)).all()
    ]
    accepted, told = _accepted(_by_pattern, x, range(-6, 9), pattern, offset, named)
    assert accepted == inside
    assert told == {_range_text(inside)}


def test_the_valid_range_on_chip_ends_with_the_partition():
    x = RNG.standard_normal((4, 10)).astype(np.float32)
    accepted, told = _accepted(_by_register, x, range(-5, 12), 3, 2)
    inside = [v for v in range(-5, 12) if 3 + v >= 0 and 3 + v + 2 <= 10]
    assert (accepted, told) == (inside, {_range_text(inside)})


def test_an_index_out_of_range_tells_where_counting_starts():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    index = np.array([[0], [1], [2], [3]], np.int32)
    with pytest.raises(
        AddressOutOfRange,
        match=r"index 3 for partition 3 .*counted from element 8 on: valid are 0 to 2",
    ):
        _by_pattern(x, index, ((8, 4), (1, 8)), 8, True)
