"""Tests that the values of a view are those of the run, and that NaN and infinities are counted."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.runtime import run
from nki_lab.views.layout import values as values_model
from nki_lab.views.layout.values import (
    EXACT_ELEMENTS,
    INFINITE,
    NAN,
    coarse,
    histogram,
    statistics,
    values_parts,
)
from nki_lab.views.run import Held, Tensor, ViewData
from nki_lab.widgets.packing import unpack
from tests.views.runs import add_halves, added, by_hand
from tests.views.test_access_model import in_a_loop


def holding(values: np.ndarray) -> ViewData:
    """Return a run with one tensor, which holds these values."""
    tensor = Tensor("t", "sbuf", values.shape, str(values.dtype), values.itemsize, "input", True)
    return by_hand(tensors=[tensor], held=lambda *_: Held(values, "now"))


def number_of(data, name: str) -> int:
    return next(n for n, t in enumerate(data.tensors) if t.name == name)


def test_arguments_and_results_are_sent_element_by_element() -> None:
    result = added()
    data = result.view_data
    for name, array in (("x", result.inputs[0]), ("result", result.outputs[0])):
        meta, arrays = unpack(values_parts(data, number_of(data, name), None, True))
        assert meta["exact"] and meta["known"] and "as it is now" in meta["note"]
        np.testing.assert_array_equal(arrays["cells"].reshape(96, 600), array)
        assert not arrays["marks"].any()


def test_a_tile_holds_what_numpy_computes_before_and_after_an_instruction() -> None:
    result = added()
    data = result.view_data
    x, y = result.inputs
    adds = [p for p, o in enumerate(data.operations) if o.name == "tensor_tensor"]
    for half, position in enumerate(adds):
        columns = slice(300 * half, 300 * half + 300)
        by_name = {a.operand: a.tensor for a in data.accesses(position)}
        expected = {
            "data1": x[:, columns],
            "data2": y[:, columns],
            "dst": x[:, columns] + y[:, columns],
        }
        for operand, values in expected.items():
            held = data.held(by_name[operand], position, operand == "dst")
            np.testing.assert_array_equal(held.values, values)
        before = data.held(by_name["dst"], position, False)
        assert before.values is None and "holds nothing before" in before.note


def test_what_is_no_number_is_counted_and_marked() -> None:
    values = np.array([[1.5, np.nan, -2.0], [np.inf, 0.0, -np.inf]], np.float32)
    meta, arrays = unpack(values_parts(holding(values), 0, None, True))
    assert (meta["nan"], meta["inf"], meta["zero"], meta["count"]) == (1, 2, 1, 6)
    assert (meta["least"], meta["most"]) == (-2.0, 1.5)
    assert arrays["marks"].tolist() == [0, NAN, 0, INFINITE, 0, INFINITE]
    assert arrays["cells"].tolist() == [1.5, 0, -2.0, 0, 0, 0]


def test_a_histogram_counts_every_finite_value(rng) -> None:
    values = rng.standard_normal(1000) * 1e30
    values[::100] = np.nan
    counts, edges = histogram(values)
    assert counts.sum() == 990 and len(edges) == len(counts) + 1
    finite = values[np.isfinite(values)]
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        inside = (finite >= low) & ((finite < high) | (high == edges[-1]))
        assert inside.sum() == count
    assert histogram(np.full(7, 3.0))[0].tolist() == [7]
    assert histogram(np.array([np.nan]))[1] == []
    extremes, ends = histogram(np.array([-1.7e308, 1.7e308, 0.0]))
    assert extremes.sum() == 3 and np.isfinite(ends).all()


def test_a_large_tensor_is_sent_as_means_of_its_blocks(rng) -> None:
    grid = rng.standard_normal((1000, 700))
    grid[10, 20], grid[999, 699] = np.nan, np.inf
    cells, marks = coarse(grid)
    assert cells.shape == (256, 512) and grid.size > EXACT_ELEMENTS
    rows = (np.arange(257) * 1000) // 256
    columns = (np.arange(513) * 700) // 512
    for r, c in ((0, 0), (2, 14), (255, 511), (100, 300)):
        block = grid[rows[r] : rows[r + 1], columns[c] : columns[c + 1]]
        finite = block[np.isfinite(block)]
        assert cells[r, c] == pytest.approx(finite.mean() if finite.size else 0.0)
        assert bool(marks[r, c] & NAN) == np.isnan(block).any()
        assert bool(marks[r, c] & INFINITE) == np.isinf(block).any()
    assert (marks & NAN).sum() == NAN and (marks & INFINITE).sum() == INFINITE


def test_figures_of_many_chunks_are_those_of_all_values(rng, monkeypatch) -> None:
    values = (rng.standard_normal((37, 500)) * 100 + 7).astype(np.float32)
    values[3, 4], values[5, 6], values[7, :20] = np.nan, -np.inf, 0
    whole = statistics(values), histogram(values)
    monkeypatch.setattr(values_model, "_CHUNK", 999)
    found = statistics(values)
    assert found == pytest.approx(whole[0])
    finite = values[np.isfinite(values)].astype(np.float64)
    assert (found["mean"], found["deviation"]) == pytest.approx((finite.mean(), finite.std()))
    assert (found["nan"], found["inf"], found["zero"]) == (1, 1, 20)
    assert histogram(values)[0].tolist() == whole[1][0].tolist()


def test_large_whole_numbers_keep_their_last_digit() -> None:
    values = np.array([[2**31 - 1, 5, -(2**31)], [16_777_217, 0, 1]], np.int32)
    _, arrays = unpack(values_parts(holding(values), 0, None, True))
    assert arrays["cells"].tolist() == values.reshape(-1).tolist()


def test_narrow_floats_are_shown_as_their_values() -> None:
    values = np.array([[0.1, -2.5, 448], [1, 2, 3]], ml_dtypes.bfloat16)
    meta, arrays = unpack(values_parts(holding(values), 0, None, True))
    assert arrays["cells"].tolist() == values.astype(np.float32).reshape(-1).tolist()
    assert statistics(values.astype(np.float64))["most"] == meta["most"] == 448


def test_where_values_are_not_known_this_is_said() -> None:
    meta, arrays = unpack(values_parts(by_hand(), 0, None, True))
    assert not meta["known"] and meta["note"] == "the values of this run are not known"
    assert arrays == {}


@pytest.mark.usefixtures("nki_0_6")
def test_a_tile_of_a_loop_holds_what_its_first_or_last_pass_gave(rng) -> None:
    x = rng.standard_normal((128, 64)).astype(np.float32)
    data = run(in_a_loop, x, target="trn2").view_data
    position = next(p for p, o in enumerate(data.operations) if o.name == "tensor_tensor")
    tile = next(a.tensor for a in data.accesses(position) if a.way == "writes")
    first = data.held(tile, position, True)
    np.testing.assert_array_equal(first.values, 2 * x[:, :16])
    assert "in the first of its 4 passes" in first.note
    np.testing.assert_array_equal(data.held(tile, None, True).values, 2 * x[:, 48:])


def test_the_tiles_of_a_kernel_that_writes_its_argument_are_those_of_its_run(rng) -> None:
    def update(x):
        """Double x in place."""
        tile = nl.load(x)
        nl.store(x, nl.add(tile, tile))
        return x

    x = rng.standard_normal((128, 8)).astype(np.float32)
    before = x.copy()
    data = run(update, x, target="trn2").view_data
    tile = next(n for n, t in enumerate(data.tensors) if t.on_chip)
    np.testing.assert_array_equal(data.held(tile, 0, True).values, before)
    np.testing.assert_array_equal(data.held(0, None, True).values, 2 * before)


def test_arrays_that_were_changed_since_give_no_values() -> None:
    x = np.ones((96, 600), np.float32)
    data = run(add_halves, x, x, target="trn2").view_data
    x[:] = 3
    tile = next(a.tensor for a in data.accesses(0) if a.way == "writes")
    held = data.held(tile, 0, True)
    assert held.values is None and "have changed since" in held.note
