"""Tests that observers of a run get exactly the elements that NumPy indexing reaches."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import use_target
from nki_lab.ir.definition.instruction import READ
from nki_lab.runtime import jit
from nki_lab.simulator import Program
from tests.simulator.kernels import in_register, one, reading, returned, tile_of
from tests.simulator.test_dynamic_addresses import SCALARS

RNG = np.random.default_rng(23)
TABLE = RNG.standard_normal((40, 6, 10)).astype(np.float32)


class Recorder:
    """Marks the bytes of one tensor that are read and written."""

    def __init__(self, name: str, nbytes: int) -> None:
        self.name = name
        self.marks = {is_written: np.zeros(nbytes, bool) for is_written in (False, True)}

    def wants(self, i):
        return any(v.storage.name == self.name for v in (*i.read(), *i.written()))

    def before(self, i, accesses):
        for access in accesses:
            if access.view.storage.name == self.name:
                access.elements.mark(self.marks[access.role != READ], 1)


def marked(kernel, arrays, name, array):
    """Return which elements of a tensor are read and written, in the shape of `array`."""
    with use_target("trn3"):
        compiled = jit(kernel).compile(*arrays)
    recorder = Recorder(name, array.nbytes)
    Program(compiled.compiled.kernel, observers=[recorder]).run(compiled.inputs(*arrays))
    marks = [m.reshape(*array.shape, array.itemsize) for m in recorder.marks.values()]
    assert all((m.all(-1) == m.any(-1)).all() for m in marks)  # whole elements
    return [m.all(-1) for m in marks]


def expected_of(array, pick):
    """Return which elements of `array` a NumPy expression picks."""
    numbers = np.arange(array.size).reshape(array.shape)
    mask = np.zeros(array.size, bool)
    mask[np.asarray(pick(numbers)).reshape(-1)] = True
    return mask.reshape(array.shape)


@pytest.mark.parametrize("by", ["tile", "register"])
@pytest.mark.parametrize("index", [0, 1, 4])
@pytest.mark.parametrize("name", [n for n in SCALARS if "dtype" not in n])
def test_elements_of_a_view_that_one_value_moves(name, index, by):
    view, oracle = SCALARS[name]
    read, written = marked(reading(view, by), (TABLE, one(index)), "table", TABLE)
    np.testing.assert_array_equal(read, expected_of(TABLE, lambda t: oracle(t, index)))
    assert not written.any()


def test_bytes_of_a_view_of_another_dtype():
    def kernel(table, index):
        at = in_register(tile_of(index))
        tile = nl.ndarray((8, 5), dtype=nl.uint16, buffer=nl.sbuf)
        nisa.dma_copy(tile, table.ap([[120, 8], [1, 5]], scalar_offset=at, dtype=nl.uint16))
        return returned(tile)

    index = np.array([[3]], np.int32)
    compiled = jit(kernel).compile(TABLE, index)
    recorder = Recorder("table", TABLE.nbytes)
    Program(compiled.compiled.kernel, observers=[recorder]).run(compiled.inputs(TABLE, index))
    expected = np.zeros((40, 240), bool)  # a row has 60 elements of four bytes
    expected[3:11, :10] = True
    np.testing.assert_array_equal(recorder.marks[False].reshape(40, 240), expected)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("way", ["gather", "scatter"])
def test_rows_that_a_tile_of_indices_names(way, skip):
    index = RNG.permutation(40)[:24].reshape(24, 1).astype(np.int32)
    if skip:
        index[[2, 7]] = [[40], [-3]]
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error

    def gather(table, index):
        tile = nl.zeros((24, 6, 4), dtype=table.dtype, buffer=nl.sbuf)
        rows = table[:, :, 3:7].vector_select(0, tile_of(index))
        nisa.dma_copy(tile, rows, oob_mode=mode)
        return returned(tile)

    def scatter(table, index):
        tile = nl.zeros((24, 6, 4), dtype=table.dtype, buffer=nl.sbuf)
        rows = table[:, :, 3:7].vector_select(0, tile_of(index))
        nisa.dma_copy(rows, tile, oob_mode=mode)
        return table

    kernel = gather if way == "gather" else scatter
    valid = index[(index >= 0) & (index < 40)]
    read, written = marked(kernel, (TABLE.copy(), index), "table", TABLE)
    expected = expected_of(TABLE, lambda t: t[valid][:, :, 3:7])
    np.testing.assert_array_equal(read if way == "gather" else written, expected)
    assert not (written if way == "gather" else read).any()


def test_rows_that_keep_their_values_because_their_source_is_skipped():
    index = RNG.permutation(40)[:16].reshape(16, 1).astype(np.int32)
    index[[3, 9]] = 77

    def kernel(table, index, out):
        nisa.dma_copy(out, table.vector_select(0, tile_of(index)), oob_mode=nisa.oob_mode.skip)
        return out

    out = np.zeros((16, 6, 10), np.float32)
    _, written = marked(kernel, (TABLE, index, out.copy()), "out", out)
    expected = np.ones(out.shape, bool)
    expected[[3, 9]] = False
    np.testing.assert_array_equal(written, expected)


def test_elements_that_a_tile_of_offsets_names():
    """Offset n of each group of 16 partitions is that of partition n % 16 in column n // 16."""
    x = RNG.standard_normal((32, 50)).astype(np.float32)
    index = RNG.integers(0, 40, (32, 2)).astype(np.uint16)

    def kernel(x, index, found):
        held = nl.ndarray((32, 50), dtype=x.dtype, buffer=nl.sbuf, name="held")
        nisa.dma_copy(held, x)
        tile = nl.ndarray((32, 20), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, held[:, 5:45].indirect(tile_of(index), num_elem=20))
        return returned(tile)

    read, written = marked(kernel, (x, index, x), "held", x)
    expected = np.zeros(x.shape, bool)
    for partition in range(32):
        group = index[partition // 16 * 16 :][:16]
        for n in range(20):
            expected[partition, 5 + int(group[n % 16, n // 16])] = True
    np.testing.assert_array_equal(read, expected)
    assert written.all()


def test_passes_of_a_loop_are_told_one_by_one():
    told = []

    class Rows:
        def wants(self, i):
            return i.form.dynamic

        def before(self, i, accesses):
            marks = np.zeros(TABLE.size, bool)
            for access in accesses:
                if access.view.storage.name == "table":
                    access.elements.mark(marks, 4)
            told.append(np.unique(np.flatnonzero(marks) // 60).tolist())

    def kernel(table, count):
        stop = in_register(tile_of(count))

        def body(i):
            tile = nl.ndarray((1, 60), dtype=table.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, table.ap([[60, 1], [1, 60]], scalar_offset=i))

        nl.fori_loop(4, stop, body, step=3)
        return table

    count = np.array([[14]], np.int32)
    compiled = jit(kernel).compile(TABLE, count)
    program = Program(compiled.compiled.kernel, observers=[Rows()])
    program.run(compiled.inputs(TABLE, count))
    assert told == [[4], [7], [10], [13]]
