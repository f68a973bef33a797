"""Tests that a kernel that runs while it is traced computes and shows what it computes when it is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import (
    AddressOutOfRange,
    KernelArgument,
    KernelRaised,
    NotModelled,
    RuleBroken,
    TensorOperator,
    UninitializedRead,
    UnwrittenRegister,
)
from nki_lab.runtime import jit, run
from nki_lab.simulator import EagerRun
from nki_lab.targets import TRN2
from tests.compiler.programs import integers, interpret
from tests.simulator.kernels import EXAMPLES, returned
from tests.simulator.test_random_programs import program

X = np.array([[1.5, -2.25, 0.0], [-4.0, 5.0, 1e-20]], np.float32)


@pytest.mark.parametrize("name", EXAMPLES)
def test_results_are_those_of_the_compiled_kernel(name):
    example = EXAMPLES[name]
    given, again = (example.arrays(np.random.default_rng(3)) for _ in range(2))
    seen = run(example.kernel, *given, debug=True)
    compiled = run(example.kernel, *again)
    for a, b in zip([*seen.outputs, *given], [*compiled.outputs, *again], strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    assert seen.execution.order == compiled.execution.order


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_with_device_loops_compute_what_unrolled_ones_do(seed):
    rng = np.random.default_rng(seed)
    arrays = [integers(rng), integers(rng)]
    expected = interpret(program(seed, TRN2, unrolled=True), arrays)
    watch = Following(TRN2, arrays)
    kernel = program(seed, TRN2, unrolled=False, watch=watch)
    np.testing.assert_array_equal(watch.end(kernel), expected)


class Following(EagerRun):
    """Begins with the first instruction: these programs make their arguments themselves."""

    begun = False

    def emitted(self, i):
        if not self.begun:
            self.begun = True
            self.begin(i.dst.storage.owner)
        super().emitted(i)


def test_printing_a_tile_shows_its_values_at_that_moment(capsys):
    def kernel(x):
        tile = nl.load(x)
        print(tile)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        print(f"{tile[:, 1:]}")
        return returned(tile)

    run(kernel, X, debug=True)
    assert capsys.readouterr().out == (
        "<tensor `tile` [2, 3] float32 in sbuf>\n"
        "[[ 1.50e+00 -2.25e+00  0.00e+00]\n"
        " [-4.00e+00  5.00e+00  1.00e-20]]\n"
        "<tensor `tile` [2, 2] float32 in sbuf>\n"
        "[[-4.5e+00  0.0e+00]\n"
        " [ 1.0e+01  2.0e-20]]\n"
    )


def test_unwritten_memory_is_seen_as_such(capsys):
    def kernel(x):
        print(nl.ndarray((1, 2), nl.bfloat16, nl.psum), nl.ndarray((1, 2), nl.int16, nl.sbuf))
        return returned(nl.load(x))

    run(kernel, X, debug=True)
    assert "[[nan nan]]" in (text := capsys.readouterr().out) and "[[4 4]]" in text


def test_values_are_gone_when_the_run_is_over():
    kept = []

    def kernel(x):
        tile = nl.load(x)
        kept.append(tile)
        return returned(tile)

    run(kernel, X, debug=True)
    assert repr(kept[0]) == "<tensor `tile` [2, 3] float32 in sbuf>"


def test_an_array_of_the_values_is_to_be_had_in_a_debug_run_only():
    seen = []

    @jit
    def kernel(x):
        tile = nl.load(x)
        seen.append(np.asarray(tile))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        seen.append(np.asarray(tile[1:2], np.float64))
        return returned(tile)

    result = run(kernel, X, debug=True)
    np.testing.assert_array_equal(seen[0], X)
    np.testing.assert_array_equal(seen[1], 2 * X[1:].astype(np.float64))
    assert seen[1].dtype == np.float64
    assert [f.kind for f in result.findings] == ["advice", "advice"]
    assert "only a debug run" in result.findings[0].message
    with pytest.raises(TensorOperator, match="run it with debug"):
        run(kernel, X)


def test_registers_show_their_values(capsys):
    def kernel(x):
        tile = nl.load(x)
        count = nisa.register_alloc()
        print(count)
        nisa.register_move(count, 3)
        print(count)

        def body(i):
            print(i)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)

        nl.fori_loop(1, count, body)
        return returned(tile)

    result = run(kernel, X, debug=True)
    assert (
        capsys.readouterr().out
        == "<register count = not set>\n<register count = 3>\n<register i = 1>\n"
    )
    np.testing.assert_array_equal(result.value, X + 1 + 1)
    assert result.execution.trips == (2,)


@pytest.mark.usefixtures("nki_0_6")
def test_a_loop_without_a_pass_runs_nothing(capsys):
    def kernel(x):
        tile = nl.load(x)
        zero = nisa.register_alloc(0)

        def inner(i):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)

        def body(i):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nl.fori_loop(0, 3, inner)
            print(tile)

        nl.fori_loop(5, 5, body)
        while zero:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return returned(tile)

    result = run(kernel, X, debug=True)
    np.testing.assert_array_equal(result.value, X)
    assert "-2.25" in capsys.readouterr().out
    assert result.execution.trips == (0, 0)


def test_tiles_made_in_a_loop_start_anew_in_each_pass():
    def kernel(x):
        out = nl.ndarray((3, 4), nl.float32, nl.shared_hbm)
        moving, ones = nl.load(x), nl.ones((2, 1), nl.float32)

        def body(i):
            acc = nl.ndarray((1, 4), nl.float32, nl.psum)
            nisa.nc_matmul(acc, ones, moving)
            nisa.nc_matmul(acc, ones, moving)
            nisa.dma_copy(out.select(0, i), nl.copy(acc))

        nl.fori_loop(0, 3, body)
        return out

    x = np.array([[1, 2, 3, 4], [10, 20, 30, -40]], np.float32)
    result = run(kernel, x, debug=True)
    np.testing.assert_array_equal(result.value, np.broadcast_to(2 * x.sum(0), (3, 4)))


def test_views_moved_by_values_of_the_device_show_where_they_point(capsys):
    def kernel(x, rows):
        index = nl.load(rows)
        at = nisa.register_alloc(1)
        print(x.select(0, at))
        print(x.vector_select(0, index))
        return returned(nl.load(x))

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    run(kernel, x, np.array([[3], [0]], np.int32), debug=True)
    assert "[3. 4. 5.]" in (text := capsys.readouterr().out)
    assert "[[ 9. 10. 11.]\n [ 0.  1.  2.]]" in text


def test_looking_through_an_index_out_of_range_is_an_error():
    def kernel(x):
        print(x.select(0, nisa.register_alloc(7)))

    with pytest.raises(AddressOutOfRange, match="values: index 7 is out of range"):
        run(kernel, X, debug=True)


def test_values_printed_on_the_device_are_printed_once(capsys):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("x", tile)
        return returned(tile)

    run(kernel, X, debug=True)
    assert capsys.readouterr().out.count("x: float32 [2, 3]") == 1


def test_an_instruction_that_breaks_a_rule_stops_the_trace_there():
    reached = []

    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_copy(dst=tile, src=tile[:, 0:2])
        reached.append(1)
        nisa.tensor_copy(dst=tile, src=x)

    with pytest.raises(RuleBroken) as found:
        run(kernel, X, debug=True)
    assert not reached
    assert found.value.stack


def test_a_mistake_found_while_running_leaves_the_kernels_frame_for_a_debugger():
    def kernel(x):
        tile = nl.load(x)
        count = nisa.register_alloc()
        nl.fori_loop(0, count, lambda i: nisa.tensor_scalar(tile, tile, nl.add, 1.0))
        return returned(tile)

    with pytest.raises(UnwrittenRegister) as found:
        run(kernel, X, debug=True)
    names = [entry.name for entry in found.traceback]
    assert "kernel" in names


def test_an_assertion_on_values_fails_in_the_kernel():
    def kernel(x):
        tile = nl.load(x)
        assert np.asarray(tile).min() >= 0, "negative"
        return returned(tile)

    with pytest.raises(KernelRaised, match="AssertionError: negative"):
        run(kernel, X, debug=True)


def test_arguments_are_updated_when_the_run_is_over_and_not_when_it_fails():
    def kernel(x, fails):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(x, tile)
        assert not fails
        return x

    given = X.copy()
    with pytest.raises(KernelRaised):
        run(kernel, given, True, debug=True)
    np.testing.assert_array_equal(given, X)
    assert run(kernel, given, False, debug=True).value is given
    np.testing.assert_array_equal(given, X + 1)
    given.flags.writeable = False
    with pytest.raises(KernelArgument, match="read-only"):
        run(kernel, given, False, debug=True)


def test_tiles_at_one_address_share_their_bytes(capsys):
    def kernel(x):
        a = nl.ndarray((2, 3), nl.float32, nl.sbuf, address=(0, 0))
        b = nl.ndarray((2, 3), nl.int32, nl.sbuf, address=(0, 0))
        nisa.dma_copy(a, x)
        out = returned(nl.copy(a))
        nisa.memset(b, 7)
        print(a)
        return out

    run(kernel, X, debug=True, capacity="finding")
    assert "1.e-44" in capsys.readouterr().out  # the bits of the integer 7 are a denormal float


def test_a_comparison_may_go_on_to_an_accumulator():
    """Which partitions the accumulator has is asked of the tensor, and not whether its values are true."""

    def kernel(x):
        tile, counts = nl.load(x), nl.ndarray((2, 1), nl.float32, nl.sbuf)
        nisa.tensor_scalar(tile, tile, nl.greater, 0.0)
        nisa.activation_reduce(tile, nl.copy, tile, nl.add, counts)
        return returned(counts)

    result = run(kernel, X, debug=True)
    np.testing.assert_array_equal(result.value, (X > 0).sum(axis=1, keepdims=True))
    assert result.findings == run(kernel, X).findings == ()


def test_floats_are_kept_wide_where_that_was_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    def kernel(x):
        tile = nl.load(x, dtype=nl.bfloat16)
        nisa.tensor_scalar(tile, tile, nl.add, 1e-3)
        print(tile)
        return returned(tile)

    run(kernel, X, debug=True)
    assert "1.501" in capsys.readouterr().out


def test_two_cores_and_meetings_are_refused():
    with pytest.raises(NotModelled, match="a debug run has one core"):
        run(jit(lambda x: returned(nl.load(x)))[2], X, target="trn2", debug=True)


def test_strict_acts_in_a_debug_run():
    def kernel(x):
        return returned(nl.ndarray((2, 3), nl.float32, nl.sbuf))

    with pytest.raises(UninitializedRead):
        run(kernel, X, debug=True, strict=True)


def test_the_environment_can_ask_for_a_debug_run(monkeypatch, capsys):
    @jit
    def kernel(x):
        tile = nl.load(x)
        print(tile)
        return returned(tile)

    monkeypatch.setenv("NKI_LAB_DEBUG", "1")
    kernel(X)
    assert "-2.25" in capsys.readouterr().out
    run(kernel, X, debug=False)
    assert "-2.25" not in capsys.readouterr().out
