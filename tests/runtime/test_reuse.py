"""Tests that what was compiled and bound before is used again exactly where nothing has changed."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.backends import simulated
from nki_lab.choices import use_target
from nki_lab.compiler.reuse import reuse
from nki_lab.errors import AddressOutOfRange, KernelArgument, OverCapacity
from nki_lab.runtime import jit, run
from nki_lab.runtime.jit import KernelFunction
from nki_lab.source import Span
from tests.simulator.kernels import EXAMPLES

X = np.random.default_rng(6).standard_normal((4, 6)).astype(np.float32)
FACTOR = 2.0


def times(t):
    return nl.multiply(t, FACTOR)


@jit
def scaled(x, shift=0.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(times(nl.load(x)), shift))
    return out


@pytest.fixture(autouse=True)
def _fresh(monkeypatch) -> None:
    module = sys.modules[KernelFunction.__module__]
    monkeypatch.setattr(module, "snapshot", lambda *_: None)  # trace in every call
    reuse.clear()
    reuse.hits = 0
    simulated._free.clear()


def test_the_same_call_compiles_once_and_gives_results_of_its_own():
    first = scaled(X)
    second = scaled(2 * X)
    assert reuse.hits == 1
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 4 * X)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_second_run_computes_what_the_first_one_did(name):
    example = EXAMPLES[name]
    kernel = jit(example.kernel)
    arrays = [example.arrays(np.random.default_rng(3)) for _ in range(2)]
    found = [kernel.launch(*given) for given in arrays]
    assert reuse.hits == 1
    for a, b in zip([*found[0].outputs, *arrays[0]], [*found[1].outputs, *arrays[1]], strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def test_a_changed_global_helper_or_constant_is_seen(monkeypatch):
    np.testing.assert_array_equal(scaled(X), 2 * X)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    np.testing.assert_array_equal(scaled(X), 3 * X)
    monkeypatch.setitem(globals(), "times", lambda t: nl.add(t, 1.0))
    np.testing.assert_array_equal(scaled(X), X + 1)
    np.testing.assert_array_equal(scaled(X, shift=-0.5), X + 1 - np.float32(0.5))
    assert reuse.hits == 0


def test_constants_are_compared_bit_for_bit():
    def filled(x, value):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(tile, value)
        nisa.dma_copy(out, tile)
        return out

    kernel = jit(filled)
    for value in (0.0, -0.0, float("nan"), float("nan")):
        found = kernel(X, value)
        np.testing.assert_array_equal(found.view(np.uint32), np.full_like(X, value).view(np.uint32))
    assert reuse.hits == 1  # the second NaN


def test_arrays_inside_the_program_are_compared():
    table = np.arange(24, dtype=np.float32).reshape(4, 6)

    @jit
    def added(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(nl.shared_constant(table))))
        return out

    np.testing.assert_array_equal(added(X), X + table)
    table[1, 2] = -7.0
    np.testing.assert_array_equal(added(X), X + table)
    assert reuse.hits == 0


def test_targets_and_choices_are_compared():
    results = []
    for target in ("trn1", "trn2", "trn2"):
        with use_target(target):
            results.append(scaled.launch(X))
    assert [r.kernel.target.name for r in results] == ["trn1", "trn2", "trn2"]
    assert reuse.hits == 1

    def large(x):
        tile = nl.ndarray((128, 1 << 20), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 1.0)
        nisa.dma_copy(x, tile[0:4, 0:6])

    kernel = jit(large)
    run(kernel, X.copy(), capacity="finding")
    with pytest.raises(OverCapacity):
        run(kernel, X.copy())


def test_an_error_of_a_second_run_names_the_line_of_its_own_kernel():
    text = """
def chosen(x, row):
    {gap}
    out = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x.ap([[6, 1], [1, 6]], scalar_offset=nl.load(row), indirect_dim=0))
    return out
"""
    lines = []
    for gap in ("pass", "pass; pass", "pass\n    pass"):
        scope = {"nl": nl, "nisa": nisa}
        exec(compile(text.format(gap=gap), "chosen.py", "exec"), scope)
        with pytest.raises(AddressOutOfRange) as found:
            jit(scope["chosen"])(X, np.array([[9]], np.int32))
        lines.append(str(found.value).split("line ")[1].splitlines()[0])
    assert lines == ["5", "5", "6"]
    # The second text has its instructions at other places of the code, the same line notwithstanding.
    assert reuse.hits == 0


def test_loops_of_the_device_and_what_they_hold_are_compared():
    def looped(x, count, inside):
        tile = nl.load(x)
        nl.fori_loop(0, count, lambda i: nisa.tensor_scalar(tile, tile, nl.add, inside))
        nisa.dma_copy(x, tile)

    kernel = jit(looped)
    for count, inside in ((2, 1.0), (3, 1.0), (3, 2.0), (3, 2.0)):
        given = np.zeros_like(X)
        kernel(given, count, inside)
        np.testing.assert_array_equal(given, np.full_like(X, count * inside))
    assert reuse.hits == 1


def test_two_cores_are_compared_both():
    def both(x, value):
        core = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.multiply(nl.load(x), value if core == 1 else 1.0)
        nisa.dma_copy(out[core], tile)
        return out

    kernel = jit(both)[2]
    for value in (2.0, 3.0, 3.0):
        np.testing.assert_array_equal(kernel(X, value), np.stack([X, value * X]))
    assert reuse.hits == 1


def test_arrays_of_the_caller_are_not_kept():
    given = X.copy()
    result = scaled(given)
    gone = [weakref.ref(given), weakref.ref(result)]
    del given, result
    gc.collect()
    assert [r() for r in gone] == [None, None]
    assert simulated._free


def test_threads_do_not_share_a_binding():
    arrays = [np.full((64, 512), n, np.float32) for n in range(8)]
    found: dict[int, np.ndarray] = {}
    compiled = scaled.compile(arrays[0])

    def work(n: int) -> None:
        for _ in range(5):
            found[n] = compiled(arrays[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        np.testing.assert_array_equal(found[n], 2 * arrays[n])


def test_a_run_that_failed_does_not_spoil_the_next():
    def row(x, index):
        out = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x.ap([[6, 1], [1, 6]], scalar_offset=nl.load(index), indirect_dim=0))
        return out

    kernel = jit(row)
    for index in (1, 9, 2):
        if index == 9:
            with pytest.raises(AddressOutOfRange):
                kernel(X, np.array([[index]], np.int32))
        else:
            np.testing.assert_array_equal(kernel(X, np.array([[index]], np.int32))[0], X[index])


def test_a_kernel_keeps_its_latest_programs_and_they_go_with_it():
    @jit
    def negated(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.negative(nl.load(x)))
        return out

    shapes = [(n, 3) for n in range(1, 7)]
    for shape in (*shapes, *shapes[-4:]):
        negated(np.ones(shape, np.float32))
    assert reuse.hits == 4
    negated(np.ones(shapes[0], np.float32))
    assert reuse.hits == 4, "the programs of six calls ago are gone"
    assert len(reuse._alive) == len(simulated._free) == 4
    gc.disable()
    try:
        del negated
        assert not reuse._alive and not simulated._free
    finally:
        gc.enable()


def test_memories_of_few_programs_are_kept():
    results = [run(scaled.func, np.ones((n, 3), np.float32)) for n in range(1, 12)]
    assert len(reuse._alive) == len(results)
    assert len(simulated._free) == simulated.KEPT


def test_equal_programs_of_two_kernels_keep_what_their_kernels_say():
    """A closure gives two kernels of one text other defaults: their programs are equal, what they accept is not."""

    def scaled_by(factor):
        @jit
        def kernel(x, by=factor):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.multiply(nl.load(x), by))
            return out

        return kernel

    twice, thrice = scaled_by(2.0), scaled_by(3.0)
    first, second = twice.compile(X), thrice.compile(X, by=2.0)
    assert reuse.hits == 1
    np.testing.assert_array_equal(first(X), 2 * X)
    with pytest.raises(KernelArgument, match="by"):
        second(X)  # its default is 3
    np.testing.assert_array_equal(second(X, 2.0), 2 * X)
    assert second.compiled.source is thrice.source


def test_equal_texts_of_two_files_keep_their_lines(tmp_path):
    """Code objects of equal text are equal, whatever their files are called."""
    text = inspect.getsource(scaled.func).replace("@jit\n", "")
    shown = []
    for name in ("one.py", "two.py"):
        file = tmp_path / name
        file.write_text(text)
        scope = {"nl": nl, "times": times}
        exec(compile(text, str(file), "exec"), scope)
        result = run(scope["scaled"], X)
        shown.append({Span.of(i.stack[0]).file_label for i in result.kernel.instructions})
    assert shown == [{"one.py", "test_reuse.py"}, {"two.py", "test_reuse.py"}]
