"""Tests the steps of a run, also of one that writes its arguments, and that a later change of them is noticed."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import AddressOutOfRange, NotModelled
from nki_lab.runtime import jit, launch, run, step
from nki_lab.runtime.steps import KEPT_BYTES, kept_inputs
from nki_lab.views.registry import Parts
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import unpack
from tests.simulator.kernels import one
from tests.simulator.test_device_loops import ROWS, counted, loaded
from tests.simulator.test_stepping import logarithms, too_far


@jit
def halved(x):
    """Halve the argument in place and return its sum along rows."""
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.dma_copy(x, tile)
    nisa.dma_copy(out, total)
    return out


def test_values_are_those_of_numpy() -> None:
    x = np.array([[1.0, -2.0, 8.0], [0.5, 4.0, -16.0]], np.float32)
    original = x.copy()
    result = run(halved, x, target="trn2", skip_passes="schedule")
    np.testing.assert_array_equal(x, original / 2)  # the caller's array was written
    steps = result.steps
    assert steps.problem == "" and len(steps.order) == 5
    load, scale, total, store, back = (steps.at(n) for n in range(5))
    assert [o.way for o in load.operands] == ["writes", "reads"]
    np.testing.assert_array_equal(load.operands[0].after, original)
    np.testing.assert_array_equal(scale.operands[0].after, original / 2)
    np.testing.assert_array_equal(total.operands[0].after, original.sum(1, keepdims=True) / 2)
    np.testing.assert_array_equal(store.operands[0].before, original)
    np.testing.assert_array_equal(store.operands[0].after, original / 2)
    assert back.operands[0].before is None  # nothing had written the result
    assert load.operands[1].text == "%x" and load.operands[1].memory == "shared_hbm"


@pytest.mark.parametrize("debug", [False, True])
def test_looking_changes_nothing_of_the_run(debug) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    result = run(halved, x, target="trn2", debug=debug)
    after = x.copy()
    for number in (4, 0, 2):
        result.steps.at(number)
    np.testing.assert_array_equal(x, after)
    np.testing.assert_array_equal(result.outputs[0], after.sum(1, keepdims=True))


def test_arrays_that_were_changed_since_are_noticed() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = run(logarithms, x, target="trn2")
    x[0, 0] = -1.0  # gives NaN
    assert "its arrays have changed since" in result.steps.problem
    assert len(result.steps.order) == 0
    again = run(logarithms, x, target="trn2")
    assert again.steps.problem == ""


def test_results_with_nan_are_the_same_as_themselves() -> None:
    x = np.array([[-1.0, 2.0]], np.float32)
    assert run(logarithms, x, target="trn2").steps.problem == ""


def test_arguments_that_are_too_large_to_be_kept_are_told() -> None:
    result = run(halved, np.ones((2, 4), np.float32), target="trn2")
    large = [np.broadcast_to(np.float32(0), (KEPT_BYTES // 4 + 1,))]
    assert kept_inputs(result.kernel, large) is None
    assert kept_inputs(result.kernel, [np.ones(3)])[0].tolist() == [1, 1, 1]


def test_ranks_and_cores_are_not_gone_through_and_it_is_said() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    results = launch(logarithms, ranks=2, inputs=(x,), target="trn2")
    assert "ran as 2 ranks" in results[0].steps.problem
    result = run(logarithms[2], x, target="trn2")
    assert (
        "a stepper follows one core" in result.steps.problem and "kernel[1]" in result.steps.problem
    )
    with pytest.raises(NotModelled, match="a stepper follows one core"):
        step(logarithms[2], x, target="trn2")


def test_a_kernel_is_gone_through_without_running_it_before() -> None:
    x = np.array([[2.0, -4.0]], np.float32)
    steps = nki_lab.step(halved, x, target="trn2")
    np.testing.assert_array_equal(x, [[2.0, -4.0]])
    assert steps.outputs[0].tolist() == [[-1.0]]
    assert steps.error is None


def test_a_kernel_that_fails_is_gone_through_up_to_its_mistake() -> None:
    x = np.ones((4, 6), np.float32)
    steps = nki_lab.step(too_far, x, one(9), target="trn2")
    assert isinstance(steps.error, AddressOutOfRange)
    last = steps.at(len(steps.order) - 1)
    assert "index 9 is out of range" in last.error
    assert steps.at(0).operands[0].after.tolist() == [[9]]


def test_steps_of_a_loop_name_their_pass_and_line() -> None:
    steps = run(counted, ROWS, one(256), target="trn2").steps
    inside = [s for s in map(steps.at, range(len(steps.order))) if s.passes]
    assert [(s.passes[0].number, s.passes[0].total) for s in inside] == [(0, 2)] * 3 + [(1, 2)] * 3
    assert {s.passes[0].value for s in inside} == {0, 128}
    assert inside[0].passes[0].place.text.strip().startswith("nl.fori_loop(0, stop")


def test_a_tensor_is_watched_by_its_number() -> None:
    result = run(halved, np.ones((2, 4), np.float32), target="trn2", skip_passes="schedule")
    tile = next(n for n, t in enumerate(result.view_data.tensors) if t.name == "tile")
    assert result.steps.touching(tile).tolist() == [0, 1]
    assert result.steps.touching(tile, writes=False, reads=True).tolist() == [1, 2, 3]


@jit
def overrun(x, count):
    """Read rows further and further down, until one is past the end."""
    out = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    stop, _ = loaded(count)

    def body(i):
        tile = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.select(0, i).reshape((1, 6)))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.dma_copy(out, tile)

    nl.fori_loop(0, stop, body)
    return out


@pytest.mark.parametrize(("kernel", "bound"), [(too_far, 9), (overrun, 7)])
def test_a_run_that_fails_is_shown_up_to_its_mistake(kernel, bound) -> None:
    x = np.ones((4, 6), np.float32)
    steps = nki_lab.step(kernel, x, one(bound), target="trn2")
    assert "and the last one fails: dma_copy: index" in repr(steps)
    shown = steps.show()
    assert shown.tabs == ("stepper", "memory")
    last = view_text(steps.view_data, "stepper").splitlines()
    assert len(steps.order) == (3 if kernel is too_far else 2 + 4 * 3 + 1)
    assert "failed" in last[-2]
    assert steps.view_data.profile.total_ns > 0
    assert (
        "is out of range"
        in unpack(next(Parts(steps.view_data).make(f"stepper/at/{len(steps.order) - 1}")))[0][
            "error"
        ]
    )
