"""Tests that the stepper shows the values that NumPy computes, and that no NaN gets lost in a picture."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import Result, jit, run
from nki_lab.views.registry import Parts
from nki_lab.views.run import NOT_KNOWN, NoSteps
from nki_lab.views.stepper import model as stepper_model
from nki_lab.views.stepper import summary as value_summary
from nki_lab.views.stepper.view import STEPS_RECORDED
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.simulator.kernels import one
from tests.simulator.test_device_loops import ROWS, counted
from tests.simulator.test_stepping import logarithms
from tests.views.runs import added, by_hand


@jit
def scaled(x):
    """Scale a wide tile and add up its rows."""
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 300), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.dma_copy(out, total)
    return out


def wide() -> np.ndarray:
    x = np.random.default_rng(4).standard_normal((128, 300)).astype(np.float32)
    x[77, 299] = np.nan
    x[3, 4] = -np.inf
    return x


@cache
def scaled_run() -> Result:
    return run(scaled, wide(), target="trn2", skip_passes="schedule")


def part(result: Result, name: str):
    (block,) = Parts(result.view_data).make(name)
    return unpack(block)


def test_the_overview_holds_what_one_searches_by() -> None:
    result = run(counted, ROWS, one(384), target="trn2")
    meta, arrays = part(result, "stepper")
    assert meta["problem"] == "" and meta["searchable"]
    assert arrays["order"].tolist() == list(result.execution.order)
    for position, i in enumerate(result.kernel.instructions):
        heading, text = meta["places"][arrays["line"][position] - 1]
        operation = result.view_data.operations[position]
        assert (heading, text) == (operation.place.heading, operation.place.text)
        here = arrays["touchPosition"] == position
        writes = arrays["touchWrites"] == 1
        written = {v.storage.id for v in i.written()}
        assert set(arrays["touchTensor"][here & writes].tolist()) == written
    assert [t["name"] for t in meta["tensors"]] == [s.name for s in result.kernel.storages]


def test_a_small_operand_is_a_table_of_its_values() -> None:
    x = np.array([[1.5, -2.0, 4.0]], np.float32)
    result = run(logarithms, x, target="trn2", skip_passes="schedule")
    meta, arrays = part(result, "stepper/at/2")
    assert (meta["name"], meta["number"]) == ("reciprocal", 2)
    dst, src = meta["operands"]
    assert (dst["way"], src["way"], src["after"]) == ("writes", "reads", None)
    assert dst["after"]["picture"] is None
    np.testing.assert_array_equal(arrays[f"{src['before']['key']}.cells"], x[0] + 1)
    np.testing.assert_array_equal(
        arrays[f"{dst['after']['key']}.cells"].astype(np.float32), np.float32(1) / (x[0] + 1)
    )
    assert (dst["before"]["least"], dst["before"]["most"]) == (-1, 5)
    assert dst["changed"] == 2  # 1 / -1 is -1


def test_a_picture_shows_means_and_loses_no_nan() -> None:
    meta, arrays = part(scaled_run(), "stepper/at/1")
    values = meta["operands"][0]["after"]
    assert (values["rows"], values["columns"], values["nan"], values["infinite"]) == (
        128,
        300,
        1,
        1,
    )
    down, across = values["picture"]
    assert (down, across) == (stepper_model.PICTURE_ROWS, stepper_model.PICTURE_COLUMNS)
    marks = arrays[f"{values['key']}.marks"].reshape(down, across)
    levels = arrays[f"{values['key']}.cells"].reshape(down, across)
    expected = wide() / 2
    seen = (levels / stepper_model.LEVELS - 1) * values["scale"]
    for row in range(down):
        rows = slice(row * 128 // down, (row + 1) * 128 // down)
        for column in range(across):
            columns = slice(column * 300 // across, (column + 1) * 300 // across)
            block = expected[rows, columns].astype(np.float64)
            wanted = np.isnan(block).any() * 1 + np.isinf(block).any() * 2
            assert marks[row, column] == wanted
            finite = block[np.isfinite(block)]
            assert seen[row, column] == pytest.approx(finite.mean(), abs=values["scale"] / 30_000)


@pytest.mark.parametrize("together", [50, 1_000, 20_000])
def test_large_operands_are_looked_at_part_by_part_and_are_told_alike(
    monkeypatch, together
) -> None:
    names = [f"stepper/at/{n}" for n in range(4)]
    whole = [part(scaled_run(), name) for name in names]
    for module in (value_summary, stepper_model):
        monkeypatch.setattr(module, "TOGETHER", together)
    for (meta, arrays), (again, others) in zip(
        whole, map(partial(part, scaled_run()), names), strict=True
    ):
        scales = [
            o[when]["scale"]
            for o in meta["operands"]
            for when in ("before", "after")
            if o[when] and "scale" in o[when]
        ]
        found = [
            o[when]["scale"]
            for o in again["operands"]
            for when in ("before", "after")
            if o[when] and "scale" in o[when]
        ]
        assert found == pytest.approx(scales)
        assert _without(meta, "scale") == _without(again, "scale")
        for key, array in arrays.items():
            np.testing.assert_allclose(others[key].astype(float), array.astype(float), atol=1)


def _without(value, key):
    """Return plain data without one key, wherever it is."""
    if isinstance(value, dict):
        return {k: _without(v, key) for k, v in value.items() if k != key}
    return [_without(v, key) for v in value] if isinstance(value, list) else value


def test_a_window_holds_the_exact_elements() -> None:
    meta, arrays = part(scaled_run(), "stepper/window/1/0/after/72/296")
    assert (meta["rows"], meta["columns"], meta["row"], meta["column"]) == (8, 4, 72, 296)
    expected = (wide() / 2)[72:80, 296:300]
    marks = arrays["marks"].reshape(8, 4)
    assert (marks == np.isnan(expected)).all() and marks.sum() == 1
    found = arrays["cells"].reshape(8, 4)
    np.testing.assert_array_equal(found[marks == 0], expected[marks == 0].astype(np.float64))
    assert part(scaled_run(), "stepper/window/0/0/before/0/0")[0]["rows"] == 0
    assert part(scaled_run(), "stepper/window/0/0/after/500/0")[0]["rows"] == 0


def test_a_search_says_how_far_it_has_looked(monkeypatch) -> None:
    assert part(scaled_run(), "stepper/not_finite/0")[0] == {"number": 0, "looked": 1, "count": 4}
    fine = run(counted, ROWS, one(256), target="trn2")
    count = len(fine.execution.order)
    assert part(fine, "stepper/not_finite/0")[0] == {
        "number": None,
        "looked": count,
        "count": count,
    }
    monkeypatch.setattr(stepper_model, "SEARCH_SECONDS", 0)
    monkeypatch.setattr(stepper_model, "_SEARCHED_TOGETHER", 2)
    assert part(fine, "stepper/not_finite/1")[0]["looked"] == 3
    assert part(fine, f"stepper/not_finite/{count}")[0]["number"] is None


def test_passes_and_neighbours_are_named() -> None:
    result = run(counted, ROWS, one(384), target="trn2")
    inside = [n for n, p in enumerate(result.execution.order) if result.kernel.loop_numbers[p]]
    meta, _ = part(result, f"stepper/at/{inside[4]}")
    assert [(p["number"], p["total"], p["value"]) for p in meta["passes"]] == [(1, 3, 128)]
    assert "nl.fori_loop(0, stop" in meta["passes"][0]["source"]
    numbers = [i["number"] for i in meta["around"]]
    assert numbers[0] == max(0, inside[4] - stepper_model.BEFORE) and inside[4] in numbers
    assert all(i["position"] == result.execution.order[i["number"]] for i in meta["around"])


@pytest.mark.parametrize(
    "name",
    ["at/4", "at/-1", "at", "at/1/2", "window/0/9/after/0/0", "window/0/0/later/0/0", "not_finite/5", "to/1", "at/1e1"],
)  # fmt: skip
def test_what_does_not_exist_is_refused(name) -> None:
    with pytest.raises(UnknownPart):
        part(scaled_run(), f"stepper/{name}")


def test_a_run_that_cannot_be_gone_through_says_why() -> None:
    meta, arrays = unpack(next(Parts(by_hand()).make("stepper")))
    assert (meta["problem"], meta["count"], arrays) == (NOT_KNOWN, 0, {})
    assert view_text(by_hand(), "stepper") == f"not gone through: {NOT_KNOWN}"
    with pytest.raises(UnknownPart):
        list(Parts(by_hand()).make("stepper/at/0"))
    with pytest.raises(IndexError, match="only the outcome is known"):
        NoSteps().at(0)


def test_the_text_tells_what_each_instruction_writes() -> None:
    lines = view_text(scaled_run().view_data, "stepper").splitlines()
    assert lines[0] == "4 instructions ran"
    finite = wide()[np.isfinite(wide())]
    assert lines[2].split() == [
        *("0", "dma_copy", "test_stepper_model.py,", "line"), lines[2].split()[4], "%tile",
        f"{finite.min():.4g}", f"{finite.max():.4g}", "1", "NaN,", "1", "Inf",
    ]  # fmt: skip
    assert lines[-1].startswith(
        "first NaN or infinity: step 0, dma_copy (test_stepper_model.py, line"
    )
    assert lines[-1].endswith("of values that are not finite either")
    x = np.full((2, 2), -1.0, np.float32)
    text = view_text(run(logarithms, x, target="trn2").view_data, "stepper", 40)
    assert "reciprocal" in text.splitlines()[-1] and text.endswith("of finite values")


def test_the_text_is_short_however_much_ran() -> None:
    result = run(counted, ROWS, one(512), target="trn2")
    for limit in (10, 40):
        lines = view_text(result.view_data, "stepper", limit).splitlines()
        assert len(lines) <= limit
        assert lines[-1] == "no instruction writes a NaN or an infinity"
    assert "pass 4 of 4, " in view_text(result.view_data, "stepper")


def test_nothing_runs_before_somebody_looks() -> None:
    data = added().view_data
    fresh = run(scaled, wide(), target="trn2").view_data
    stored = Parts(fresh).stored(("report", "stepper"))
    assert "stepper" not in stored and "steps" not in vars(fresh)
    names = list(Parts(data).names("stepper"))
    count = min(len(data.steps.order), STEPS_RECORDED)
    steps = [f"stepper/at/{n}" for n in range(count)]
    assert names == ["stepper", "memory", "stepper/not_finite/0", *steps]
