"""Tests that a read of memory that nothing wrote is reported where only the values of a run decide about it.

What is expected comes from a mask of booleans that each test keeps with plain NumPy indexing.
"""

from __future__ import annotations

import linecache
import warnings

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api.nki import simulate
from nki_lab.errors import AddressOutOfRange, UninitializedRead
from nki_lab.ir.definition.instruction import UPDATE, registry
from nki_lab.runtime import NkiWarning, jit, run
from nki_lab.source import Span
from tests.simulator.kernels import in_register, one, returned, tile_of

X = np.random.default_rng(2).standard_normal((8, 6)).astype(np.float32)
ROWS = np.array([[6], [1], [6], [3]], np.int32)


def told(result):
    return [f for f in result.findings if f.code == "NKI401"]


def line_text(error):
    span = Span.of(error.stack[0])
    return linecache.getline(span.filename, span.line).rstrip()


def the_one(result, what, count, size, first):
    (finding,) = told(result)
    some = "all" if count == size else f"{count} of {size}"
    assert f": {some} elements of {what}" in finding.message, finding.message
    assert f"never written, the first at index {[int(n) for n in first]}" in finding.message
    assert line_text(finding).endswith("# the read")
    return finding


# -- reads at addresses of the device ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [nl.float32, nl.int32])
def test_a_gather_from_hbm_that_nothing_wrote(dtype):
    def kernel(index):
        table = nl.ndarray((8, 6), dtype=dtype, buffer=nl.private_hbm)
        tile = nl.ndarray((4, 6), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.vector_select(0, tile_of(index)))  # the read
        return returned(tile)

    the_one(run(jit(kernel), ROWS), "src = `table`", 24, 24, (0, 0))


def test_values_that_look_like_unwritten_memory_are_data():
    def kernel(x, index):
        table = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(table[0:7], x[0:7])
        nisa.dma_copy(table[7:8], x[7:8])
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.vector_select(0, tile_of(index)))
        return returned(tile)

    for x in (np.full((8, 6), 4, np.int32), np.full((8, 6), np.nan, np.float32)):
        assert not told(run(jit(kernel), x, ROWS))


def test_a_gather_of_rows_of_which_some_were_scattered():
    def kernel(x, index, other):
        table = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(table.vector_select(0, tile_of(index)), tile_of(x[0:4]))
        tile = nl.ndarray((3, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.vector_select(0, tile_of(other)))  # the read
        return returned(tile)

    compiled = jit(kernel).compile(X, ROWS[[0, 1, 3, 3]], ROWS[:3])
    unique = np.array([[6], [1], [2], [3]], np.int32)
    bad = np.array([[1], [7], [3]], np.int32)
    the_one(compiled.launch(X, unique, bad), "src = `table`", 6, 18, (1, 0))
    assert not told(compiled.launch(X, unique, bad - np.array([[0], [1], [0]], np.int32)))
    the_one(compiled.launch(X, unique, bad), "src = `table`", 6, 18, (1, 0))


def test_the_first_index_counts_rows_that_are_skipped():
    def kernel(index):
        table = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(table[0:4], nl.zeros((4, 6), dtype=nl.float32))
        tile = nl.zeros((4, 6), dtype=nl.float32)
        rows = table.vector_select(0, tile_of(index))
        nisa.dma_copy(tile, rows, oob_mode=nisa.oob_mode.skip)  # the read
        return returned(tile)

    the_one(
        run(jit(kernel), np.array([[9], [0], [5], [-1]], np.int32)), "src = `table`", 6, 24, (2, 0)
    )


@pytest.mark.parametrize("memory", [nl.sbuf, nl.private_hbm])
@pytest.mark.parametrize("row", [1, 2])
def test_a_column_or_row_that_a_register_selects(memory, row):
    def kernel(x, index):
        at = in_register(tile_of(index))
        t = nl.ndarray((8, 6), dtype=x.dtype, buffer=memory)
        nisa.dma_copy(t[:, 0:2], x[:, 0:2])
        tile = nl.ndarray((8, 3), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, t[:, nl.ds(at, 3)])  # the read
        return returned(tile)

    missing = 8 * (3 - max(0, 2 - row))
    the_one(run(jit(kernel), X, one(row)), "src = `t`", missing, 24, (0, 2 - row))


def test_elements_that_a_tile_of_offsets_names():
    x = np.random.default_rng(1).standard_normal((32, 20)).astype(np.float32)
    index = np.random.default_rng(1).integers(0, 20, (32, 1)).astype(np.uint16)

    def kernel(x, index):
        t = nl.ndarray((32, 20), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t[:, 0:11], x[:, 0:11])
        tile = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t.indirect(tile_of(index)))  # the read
        return returned(tile)

    offsets = np.repeat([index[:16, 0], index[16:, 0]], 16, axis=0)
    missing = offsets >= 11
    first = np.argwhere(missing)[0]
    the_one(run(jit(kernel), x, index, target="trn3"), "src = `t`", missing.sum(), 512, first)


def test_bytes_written_as_another_dtype_count_as_bytes():
    def kernel(index):
        at = in_register(tile_of(index))
        t = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf)
        halves = t.view(nl.uint16)
        nisa.memset(halves[:, 0:7], 0)  # three elements and a half
        tile = nl.ndarray((4, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t[:, nl.ds(at, 2)])  # the read
        return returned(tile)

    assert not told(run(jit(kernel), one(1)))
    the_one(run(jit(kernel), one(2)), "src = `t`", 4, 8, (0, 1))
    the_one(run(jit(kernel), one(3)), "src = `t`", 8, 8, (0, 0))


# -- loops of the device ----------------------------------------------------------------------------------------------


def looped(x, start, stop):
    t = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.private_hbm)
    low, high = in_register(tile_of(start)), in_register(tile_of(stop))
    nl.fori_loop(low, high, lambda i: nisa.dma_copy(t.select(0, i), x.select(0, i)) and None)
    return returned(tile_of(t))


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (0, 2), (1, 3), (3, 4), (2, 2)])
def test_rows_that_a_loop_left_out(start, stop):
    result = run(jit(looped), X, one(start), one(stop))
    written = np.zeros((4, 6), bool)
    written[start:stop] = True
    if written.all():
        assert not told(result)
        return
    (finding,) = told(result)
    missing = 24 - written.sum()
    some = "all" if missing == 24 else f"{missing} of 24"
    assert f"dma_copy: {some} elements of src = `t`" in finding.message
    assert f"the first at index [{0 if start or start == stop else stop}, 0]" in finding.message
    assert finding.message.endswith("ran no time") == (start == stop)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_loop_whose_number_of_passes_is_fixed(stop):
    """It certainly runs, or certainly does not: nothing is left to a run."""

    def kernel(x):
        t = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nl.fori_loop(0, stop, lambda i: nisa.dma_copy(t, x[0:4]) and None)
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t)  # the read
        return returned(tile)

    result = run(jit(kernel), X)
    assert not result.kernel.tracked
    if stop:
        assert not told(result)
    else:
        the_one(result, "src = `t`", 24, 24, (0, 0))


def test_a_tensor_made_in_a_loop_is_unwritten_in_each_pass():
    def kernel(x, count, limit):
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        stop = in_register(tile_of(count))
        inner = in_register(tile_of(limit))

        def body(i):
            t = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.sbuf)
            # Writes nothing from the second pass on.
            nl.fori_loop(i, inner, lambda k: nisa.dma_copy(t, x.ap([[6, 1], [1, 6]])) and None)
            nisa.dma_copy(out.ap([[6, 1], [1, 6]], scalar_offset=i), t)  # the read

        nl.fori_loop(0, stop, body)
        return out

    finding = told(run(jit(kernel), X, one(8), one(1)))[0]
    assert "dma_copy: all elements of src = `t`" in finding.message
    assert "(and 6 more times at this line)" in finding.message
    assert not told(run(jit(kernel), X, one(8), one(8)))


# -- writes that leave elements alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [nl.float32, nl.int32, nl.uint8, nl.bfloat16])
@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_elements_that_a_predicate_leaves_out(dtype, number, reverse):
    x = np.full((8, 6), 4).astype(dtype.np)  # what unwritten integers show
    mask = (np.random.default_rng(5).random((8, 6)) < 0.7).astype(np.uint8)

    def kernel(x, mask):
        t = nl.ndarray((8, 6), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(t[:, 4:6], 0)
        src = 4 if number else tile_of(x)
        nisa.tensor_copy_predicated(t, src, tile_of(mask), reverse_pred=reverse)
        tile = nl.ndarray((8, 6), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t)  # the read
        return returned(tile)

    missing = mask.astype(bool) if reverse else mask == 0
    missing[:, 4:6] = False
    result = run(jit(kernel), x, mask)
    the_one(result, "src = `t`", missing.sum(), 48, np.argwhere(missing)[0])
    assert not told(run(jit(kernel), x, np.full((8, 6), not reverse, np.uint8)))


def test_partitions_that_a_shuffle_leaves_alone():
    x = np.random.default_rng(6).standard_normal((32, 6)).astype(np.float32)
    mask = [k if k % 3 else 255 for k in range(32)]

    def kernel(x):
        t = nl.ndarray((32, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_stream_shuffle(t, tile_of(x), mask)
        tile = nl.ndarray((32, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t)  # the read
        return returned(tile)

    the_one(run(jit(kernel), x), "src = `t`", 11 * 6, 32 * 6, (0, 0))


def test_rows_that_a_scatter_skips():
    def kernel(x, index):
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.memset(nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf), 0.0)
        rows = out.vector_select(0, tile_of(index))
        nisa.dma_copy(rows, tile_of(x), oob_mode=nisa.oob_mode.skip)
        return out

    index = np.random.default_rng(8).permutation(8)[:, None].astype(np.int32)
    assert not told(run(jit(kernel), X, index))
    index[index > 5] = 99
    (finding,) = told(run(jit(kernel), X, index))
    assert "12 of 48 elements of the result `out` [8, 6] float32" in finding.message


def test_what_a_masked_select_writes_is_written_everywhere():
    def kernel(x, index):
        at = in_register(tile_of(index))
        t = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.affine_select(t[:, nl.ds(at, 5)], pattern=[[1, 5]], offset=0, channel_multiplier=-1,
                           on_true_tile=tile_of(x[:, 0:5]), on_false_value=0.0, cmp_op=nl.greater_equal)  # fmt: skip
        tile = nl.ndarray((8, 5), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, t[:, nl.ds(at, 5)])
        return returned(tile)

    assert not told(run(jit(kernel), X, one(1)))


# -- accumulators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [None, True])
@pytest.mark.parametrize("count", [0, 1])
def test_a_product_added_to_what_a_loop_may_have_written(accumulate, count):
    x = np.eye(8, 6, dtype=np.float32)

    def kernel(x, count):
        stop = in_register(tile_of(count))
        t = tile_of(x)
        product = nl.ndarray((6, 6), dtype=nl.float32, buffer=nl.psum)
        nl.fori_loop(0, stop, lambda i: nisa.memset(product, 1.0) and None)
        nisa.nc_matmul(product, t, t, accumulate=accumulate)  # the read
        return returned(nl.copy(product))

    result = run(jit(kernel), x, one(count))
    if count or accumulate is None:
        assert not told(result)
    else:
        the_one(result, "dst = `product`", 36, 36, (0, 0))


@pytest.mark.parametrize("count", [0, 2])
def test_an_accumulator_that_only_a_loop_resets(count):
    def kernel(x, count):
        stop = in_register(tile_of(count))
        t, total = tile_of(x), nl.ndarray((8, 1), dtype=x.dtype, buffer=nl.sbuf)
        scratch = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        reset, add = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
        nl.fori_loop(0, stop, lambda i: nisa.activation(
            scratch, nl.copy, t, reduce_op=nl.add, reduce_res=total, reduce_cmd=reset) and None)  # fmt: skip
        nisa.activation(
            scratch, nl.copy, t, reduce_op=nl.add, reduce_res=total, reduce_cmd=add
        )  # the read
        return returned(total)

    found = told(run(jit(kernel), X, one(count)))
    assert [("the accumulator of Scalar is read" in f.message) for f in found] == [True] * (
        not count
    )
    assert all(f.message.endswith("ran no time") for f in found)


# -- results, cores ---------------------------------------------------------------------------------------------------


def two_cores(x, index):
    out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    at = in_register(tile_of(index[nl.program_id(0) : nl.program_id(0) + 1]))
    tile = tile_of(x[0:3])
    nisa.dma_copy(out.ap([[6, 3], [1, 6]], scalar_offset=at), tile)
    return out


@pytest.mark.parametrize(("low", "high"), [(0, 3), (0, 5), (2, 5)])
def test_result_rows_that_neither_of_two_cores_wrote(low, high):
    result = run(jit(two_cores)[2], X, np.array([[low], [high]], np.int32), target="trn2")
    written = np.zeros(8, bool)
    written[low : low + 3] = written[high : high + 3] = True
    (finding,) = told(result)
    assert f"{6 * (~written).sum()} of 48 elements of the result `out`" in finding.message


def test_two_cores_that_write_all_together():
    def kernel(x, index):
        out = nl.ndarray((6, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        at = in_register(tile_of(index[nl.program_id(0) : nl.program_id(0) + 1]))
        nisa.dma_copy(out.ap([[6, 3], [1, 6]], scalar_offset=at), tile_of(x[0:3]))
        nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(x[0:6], out)
        return out

    index = np.array([[3], [0]], np.int32)
    assert not told(run(jit(kernel)[2], X.copy(), index, target="trn2"))
    (read, result) = told(run(jit(kernel)[2], X.copy(), index[[0, 0]], target="trn2"))
    assert "dma_copy: 18 of 36 elements of src = `out`" in read.message
    assert "18 of 36 elements of the result" in result.message


def test_what_neither_core_writes_of_a_shared_tensor_is_told_without_a_run():
    def kernel(x):
        table = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        k = nl.program_id(0)
        nisa.dma_copy(table[3 * k : 3 * k + 3], tile_of(x[0:3]))
        nisa.core_barrier(table, (0, 1))
        nisa.dma_copy(out[4 * k : 4 * k + 4], tile_of(table[4 * k : 4 * k + 4]))
        return out

    compiled = jit(kernel)[2].compile
    with nki_lab.use_target("trn2"):
        kernels = compiled(X).compiled
    (finding,) = [f for f in kernels.findings if f.code == "NKI401"]
    assert "dma_copy: 12 of 24 elements of src = `table`" in finding.message
    assert not kernels.kernel.tracked


@pytest.mark.parametrize("dtype", [nl.int32, nl.float32])
def test_what_only_the_second_core_reads_is_what_unwritten_memory_shows(dtype):
    def kernel(x):
        table = nl.ndarray((8, 6), dtype=dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((8, 6), dtype=dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(table[0:2], x[0:2])
        nisa.core_barrier(table, (0, 1))
        if nl.program_id(0) == 1:
            nisa.dma_copy(out, tile_of(table))
        return out

    x = np.full((8, 6), 9, dtype.np)
    expected = x.copy()
    expected[2:] = 4 if dtype is nl.int32 else np.nan
    result = run(jit(kernel)[2], x, target="trn2")
    np.testing.assert_array_equal(result.value, expected)
    (finding,) = told(result)
    assert "dma_copy: 36 of 48 elements of src = `table`" in finding.message


def test_ranks_have_masks_of_their_own():
    def kernel(x, index):
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        at = in_register(tile_of(index))
        nisa.dma_copy(out.ap([[6, 5], [1, 6]], scalar_offset=at), tile_of(x[0:5]))
        nisa.dma_copy(out[0:4], tile_of(x[0:4]))
        return out

    inputs = [(X, one(3)), (X, one(2))]
    results = nki_lab.launch(jit(kernel), ranks=2, inputs=inputs)
    assert [len(told(r)) for r in results] == [0, 1]
    assert "6 of 48 elements of the result" in told(results[1])[0].message


# -- doors ------------------------------------------------------------------------------------------------------------


def by_run(*args):
    return [f.message for f in told(run(jit(looped), *args))]


def by_warning(call):
    def door(*args):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NkiWarning)
            call(*args)
        return [str(w.message) for w in caught if issubclass(w.category, NkiWarning)]

    return door


def by_tracing(*args):
    return [f.message for f in told(jit(looped, debug=True).launch(*args))]


def by_steps(*args):
    steps = nki_lab.step(jit(looped), *args)
    steps.at(steps._stepper.count - 1)
    steps.at(1)
    steps.at(steps._stepper.count - 1)
    return [f.message for f in steps.findings if f.code == "NKI401"]


DOORS = {
    "run": by_run,
    "call": by_warning(lambda *args: jit(looped)(*args)),
    "simulate": by_warning(lambda *args: simulate(looped)(*args)),
    "benchmark": by_warning(lambda *args: nki_lab.benchmark(jit(looped), *args)),
    "tracing": by_tracing,
    "steps": by_steps,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_tells_the_same(door):
    (message,) = DOORS[door](X, one(0), one(2))
    assert (
        "dma_copy: 12 of 24 elements of src = `t` [4, 6] float32 in private_hbm are read" in message
    )
    assert "the first at index [2, 0]" in message
    assert not DOORS[door](X, one(0), one(4))


def test_a_benchmark_runs_what_only_values_decide():
    def kernel(index):
        table = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.private_hbm)
        tile = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.vector_select(0, tile_of(index)))
        return returned(tile)

    (message,) = by_warning(lambda *args: nki_lab.benchmark(jit(kernel), *args))(ROWS)
    assert "dma_copy: all elements of src = `table`" in message


def test_timing_without_values_says_what_it_did_not_check():
    def kernel(x, index, width=6):
        at = in_register(tile_of(index))
        t = nl.ndarray((8, 2 * width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t[:, nl.ds(at, 6)], x)
        return returned(t)

    varied = nki_lab.vary(jit(kernel), X, one(1), width=[3, 6])
    (finding,) = [f for f in varied.view_data.findings if "not checked" in f.message]
    assert "elements of `t` are read before they are written" in finding.message


def test_it_is_an_error_under_strict(monkeypatch):
    monkeypatch.setenv("NKI_LAB_STRICT", "1")
    with pytest.raises(UninitializedRead, match="12 of 24 elements") as caught:
        run(jit(looped), X, one(0), one(2))
    assert line_text(caught.value) == "    nisa.dma_copy(tile, source)"
    run(jit(looped), X, one(0), one(4))


def test_a_program_without_doubt_tracks_nothing():
    def kernel(x, index):
        tile = tile_of(x)
        at = in_register(tile_of(index))
        nisa.tensor_scalar(tile[:, nl.ds(at, 2)], tile[:, nl.ds(at, 2)], nl.add, 1.0)
        return returned(tile)

    result = run(jit(kernel), X, one(3))
    assert not result.kernel.tracked and not told(result)


def test_an_error_tells_what_was_read_unwritten_before_it():
    """The index is 4, which unwritten integers show: the error alone does not say where it comes from."""

    def kernel(x, count, scale):
        held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        stop = in_register(tile_of(count))
        nl.fori_loop(0, stop, lambda i: nisa.memset(held, 0) and None)
        at = in_register(held)
        return returned(tile_of(x[:, nl.ds(at, 3)]))

    assert not told(run(jit(kernel), X, one(1), one(2)))
    with pytest.raises(AddressOutOfRange, match="index 4 is out of range") as caught:
        run(jit(kernel), X, one(0), one(2))
    assert any("register_load: all elements of src = `held`" in n for n in caught.value.notes)


def test_what_keeps_elements_needs_no_hidden_register():
    """`Late.kept` runs such an instruction twice more, which must change nothing but its operand."""
    for definition in registry.values():
        keeps = any(
            not operand.part and (callable(operand.role) or operand.role == UPDATE)
            for name, operand in definition.operands.items()
            if "dst" in name
        )
        if keeps and "accumulate" not in definition.position:
            assert not definition.state and not definition.sets, definition.name


# -- random programs --------------------------------------------------------------------------------------------------

P, N = 8, 12
WRITES = {
    "hbm": ("rows", "columns", "register rows", "register columns", "scatter", "loop"),
    "sbuf": ("rows", "columns", "register columns", "predicated"),
}
READS = {
    "hbm": ("whole", "block", "register rows", "register columns", "gather"),
    "sbuf": ("whole", "block", "register columns"),
}


def numbers_of(kind, rng):
    def part(most):
        start = int(rng.integers(0, most))
        return start, int(rng.integers(start + 1, most + 1))

    if kind == "columns":
        return (*part(N), int(rng.integers(1, 4)))
    if kind == "block":
        return *part(P), *part(N)
    if kind in ("rows", "loop", "register rows"):
        return part(P)
    if kind == "register columns":
        return part(N)
    if kind in ("scatter", "gather"):
        rows = rng.permutation(P)[: int(rng.integers(1, P + 1))]
        return tuple(int(r) if rng.random() < 0.8 else P + 3 for r in rows)
    if kind == "predicated":
        return tuple((rng.random((P, N)) < rng.random()).reshape(-1).tolist())
    return ()


def part_of(kind, numbers):
    """Return what a step of a plan touches, as an index of NumPy."""
    if kind in ("rows", "register rows", "loop"):
        return (slice(*numbers),)
    if kind in ("columns", "register columns"):
        return slice(None), slice(*numbers)
    if kind == "block":
        return slice(*numbers[:2]), slice(*numbers[2:])
    if kind in ("scatter", "gather"):
        return ([r for r in numbers if r < P],)
    return (np.reshape(numbers, (P, N)) if kind == "predicated" else slice(None),)


def expected_of(writes, read):
    """Return how many elements the read meets that are not written, of how many, and the first index."""
    mask, (kind, numbers) = np.zeros((P, N), bool), read
    for step in writes:
        mask[part_of(*step)] = True
    seen = mask[part_of(*read)]
    if seen.all():
        return None
    row, column = map(int, np.argwhere(~seen)[0])
    if kind == "gather":
        row = [k for k, r in enumerate(numbers) if r < P][row]
    size = len(numbers) * N if kind == "gather" else seen.size
    return int((~seen).sum()), size, (row, column)


def program_of(memory, writes, read, dtype):
    """Return the kernel of a plan, which takes an array of its size, the numbers of each step, and the masks."""

    def dynamic(t, kind, n, held):
        if kind == "register columns":
            return t[:, nl.ds(in_register(tile_of(held[0:1])), n[1] - n[0])]
        if kind == "register rows":
            at = in_register(tile_of(held[0:1]))
            return t.ap([[N, n[1] - n[0]], [1, N]], scalar_offset=at)
        return t.vector_select(0, tile_of(held))

    def write(t, x, kind, n, held, mask):
        if kind in ("rows", "columns"):
            nisa.dma_copy(t[part_of(kind, n)], x[part_of(kind, n)])
        elif kind == "loop":
            low, high = in_register(tile_of(held[0:1])), in_register(tile_of(held[1:2]))

            def body(i):
                nisa.dma_copy(t.ap([[N, 1], [1, N]], scalar_offset=i), x[0:1])

            nl.fori_loop(low, high, body)
        elif kind == "predicated":
            nisa.tensor_copy_predicated(t, tile_of(x), tile_of(mask))
        else:
            view = dynamic(t, kind, n, held)
            nisa.dma_copy(
                view, tile_of(x[0 : view.shape[0], 0 : view.shape[1]]), oob_mode=nisa.oob_mode.skip
            )

    def kernel(x, values, masks):
        t = nl.ndarray(
            (P, N), dtype=dtype, buffer=nl.sbuf if memory == "sbuf" else nl.private_hbm, name="t"
        )
        for (kind, n), held, mask in zip(writes, values, masks, strict=False):
            write(t, x, kind, n, held, mask)
        kind, n = read
        view = (
            t[part_of(kind, n)] if kind in ("whole", "block") else dynamic(t, kind, n, values[-1])
        )
        tile = nl.zeros(view.shape, dtype=dtype)
        nisa.dma_copy(tile, view, oob_mode=nisa.oob_mode.skip)  # the random read
        return returned(tile)

    values = [np.array(n or (0,), np.int32).reshape(-1, 1) for _, n in (*writes, read)]
    masks = [
        np.reshape(n if k == "predicated" else (0,), (-1, 1)).astype(np.uint8) for k, n in writes
    ]
    masks = [m.reshape(P, N) if m.size > 1 else m for m in masks]
    return kernel, values, masks


@pytest.mark.parametrize("memory", ["hbm", "sbuf"])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs(memory, seed):
    rng = np.random.default_rng(seed)
    writes = [str(rng.choice(WRITES[memory])) for _ in range(int(rng.integers(0, 6)))]
    writes = [(kind, numbers_of(kind, rng)) for kind in writes]
    read = str(rng.choice(READS[memory]))
    read = read, numbers_of(read, rng)
    dtype = [nl.float32, nl.int32, nl.bfloat16, nl.uint8][seed % 4]
    kernel, values, masks = program_of(memory, writes, read, dtype)
    result = run(jit(kernel), np.full((P, N), 4, dtype.np), values, masks, target="trn2")
    expected, found = expected_of(writes, read), told(result)
    if expected is None:
        assert not found
        return
    (finding,) = found
    count, size, first = expected
    if not (
        read[0] == "gather" and count == size
    ):  # rows that are skipped are elements of the view, too
        some = "all" if count == size else f"{count} of {size}"
        assert f"dma_copy: {some} elements of src = `t`" in finding.message
    assert f"the first at index {list(first)}" in finding.message
    assert line_text(finding).endswith("# the random read")
