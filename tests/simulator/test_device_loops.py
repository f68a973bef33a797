"""Tests that loops that the device runs compute what Python's loops would, and refuse what they cannot do."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import KernelResult, LoopControl, NkiError, RegisterValue, UnwrittenRegister
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime import jit, run
from nki_lab.simulator import Program
from nki_lab.simulator.rendezvous import DeviceLoop
from nki_lab.source import Span, stack_in_cells
from tests.compiler.check_schedule import check_schedule
from tests.simulator.kernels import in_register, one, returned, tile_of

ROWS = np.random.default_rng(3).standard_normal((512, 64)).astype(np.float32)


def loaded(count):
    tile = tile_of(count)
    return in_register(tile), tile


def zeroed(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zero = nl.zeros((128, x.shape[1]), dtype=x.dtype)
    for k in range(x.shape[0] // 128):
        nisa.dma_copy(out[k * 128 : (k + 1) * 128], zero)
    return out


def double_rows(x, out, i):
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x.ap([[64, 128], [1, 64]], scalar_offset=i))
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out.ap([[64, 128], [1, 64]], scalar_offset=i), tile)


@jit
def counted(x, count):
    out = zeroed(x)
    stop, _ = loaded(count)
    nl.fori_loop(0, stop, lambda i: double_rows(x, out, i), step=128)
    return out


@jit
def ranged(x, count):
    out = zeroed(x)
    stop, _ = loaded(count)
    for i in nl.dynamic_range(0, stop, 128):
        double_rows(x, out, i)
    return out


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("kernel", [counted, ranged], ids=["fori_loop", "dynamic_range"])
@pytest.mark.parametrize("rows", [0, 128, 384, 512, -5])
def test_a_counted_loop_runs_as_often_as_its_bound_says(kernel, rows):
    result = run(kernel, ROWS, one(rows))
    expected = np.zeros_like(ROWS)
    expected[: max(rows, 0)] = 2 * ROWS[: max(rows, 0)]
    np.testing.assert_array_equal(result.value, expected)
    assert result.execution.trips == (max(rows, 0) // 128,)
    body = next(n for n in result.kernel.body if isinstance(n, Loop)).body
    static = len(result.kernel.instructions) - len(body)
    assert len(result.execution.order) == static + len(body) * result.execution.trips[0]


def test_a_compiled_loop_runs_again_with_another_bound():
    compiled = counted.compile(ROWS, one(0))
    for rows in (256, 0, 512):
        expected = np.zeros_like(ROWS)
        expected[:rows] = 2 * ROWS[:rows]
        np.testing.assert_array_equal(compiled(ROWS, one(rows)), expected)


@pytest.mark.usefixtures("nki_0_6")
def test_deprecated_loops_are_found():
    found = run(ranged, ROWS, one(128)).findings
    assert [(f.kind, "fori_loop" in f.help) for f in found] == [("deprecation", True)]
    assert not run(counted, ROWS, one(128)).findings


def steps():
    total = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(total, 0)
    least = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(least, 1)
    return total, least


@jit
def summed_while(count):
    register, left = loaded(count)
    total, least = steps()

    def body(condition):
        nisa.tensor_tensor(total, total, left, nl.add)
        nisa.tensor_tensor(left, left, least, nl.subtract)
        nisa.register_load(condition, left)
        return condition

    nl.while_loop(register, body)
    return returned(total)


@jit
def summed_bare_while(count):
    register, left = loaded(count)
    total, least = steps()
    while register:
        nisa.tensor_tensor(total, total, left, nl.add)
        nisa.tensor_tensor(left, left, least, nl.subtract)
        nisa.register_load(register, left)
    return returned(total)


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("kernel", [summed_while, summed_bare_while], ids=["while_loop", "while"])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_while_loop_tests_before_each_pass(kernel, count):
    result = run(kernel, one(count))
    assert result.value.item() == count * (count + 1) // 2
    assert result.execution.trips == (count,)


@jit
def nested(count):
    rows, _ = loaded(count)
    total, least = steps()

    def inner(j):
        nisa.tensor_tensor(total, total, least, nl.add)

    def outer(i):
        nl.fori_loop(0, i, inner)

    nl.fori_loop(0, rows, outer)
    return returned(total)


def test_loops_nest_and_the_inner_bound_may_be_the_outer_register():
    result = run(nested, one(5))
    assert result.value.item() == 0 + 1 + 2 + 3 + 4
    assert result.execution.trips == (5, 0, 1, 2, 3, 4)


def test_a_loop_stays_a_loop_in_the_text_and_comes_back_from_it():
    result = run(nested, one(3))
    text = result.ir["insert_waits"]
    assert text.count("for $") == 2
    again = read_kernel(print_kernel(result.kernel))
    assert print_kernel(again, comments=False) == print_kernel(result.kernel, comments=False)


@jit
def accumulated(x, w, count):
    """One accumulator made before the loop, one made in each pass."""
    out = nl.ndarray((2, 8, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    moving = nl.load(x)
    weights = nl.load(w)
    stop, _ = loaded(count)
    kept = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.psum)
    last = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)

    def body(i):
        fresh = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(fresh, weights, moving)
        nisa.nc_matmul(kept, weights, moving)
        nisa.tensor_copy(last, fresh)

    nl.fori_loop(0, stop, body)
    both = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(both, kept)
    nisa.dma_copy(out[0], both)
    nisa.dma_copy(out[1], last)
    return out


@pytest.mark.parametrize("shared_bytes", [False, True])
def test_a_tile_of_an_outer_loop_starts_anew_in_each_of_its_passes(rng, shared_bytes):
    """Its first use is in an inner loop, whose products add up to one value per outer pass."""

    def kernel(x, w):
        out = nl.ndarray((3, 64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        weights = nl.load(w)

        def outer(i):
            result = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=result, value=0.0)  # the inner loop is not the first of the body
            total = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)

            def inner(j):
                rows = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=rows, src=x.ap([[128, 32], [1, 128]], scalar_offset=j))
                nisa.nc_matmul(dst=total, stationary=weights, moving=rows)

            nl.fori_loop(0, 4, inner)
            nisa.tensor_copy(dst=result, src=total)
            place = out.ap([[128, 64], [1, 128]], scalar_offset=i, indirect_dim=0)
            nisa.dma_copy(dst=place, src=result)

        nl.fori_loop(0, 3, outer)
        return out

    x = rng.integers(-3, 4, (36, 128)).astype(np.float32)
    w = rng.integers(-3, 4, (32, 64)).astype(np.float32)
    expected = sum(w.T.astype(float) @ x[j : j + 32] for j in range(4))
    compiled = jit(kernel).compile(x, w).compiled.kernel
    (found,) = Program(compiled, Choices(shared_bytes=shared_bytes)).run([x, w])
    np.testing.assert_array_equal(found, np.stack([expected] * 3))


def test_the_tiles_of_a_body_take_turns(rng):
    """Twelve accumulators one after the other fit into eight banks, in a loop as outside."""

    def kernel(x, w):
        out = nl.ndarray((3, 12, 64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        weights = nl.load(w)

        def body(i):
            for k in range(12):
                rows = nl.ndarray((32, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=rows, src=x[k])
                total = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=total, stationary=weights, moving=rows)
                result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=result, src=total)
                rest = [[512, 64], [1, 512]]
                at = out.ap(rest, offset=k * 64 * 512, scalar_offset=i, indirect_dim=0)
                nisa.dma_copy(dst=at, src=result)

        nl.fori_loop(0, 3, body)
        return out

    x = rng.integers(-3, 4, (12, 32, 512)).astype(np.float32)
    w = rng.integers(-3, 4, (32, 64)).astype(np.float32)
    result = run(jit(kernel), x, w, target="trn2")
    expected = np.stack([np.stack([w.T.astype(float) @ rows for rows in x])] * 3)
    np.testing.assert_array_equal(result.outputs[0], expected)
    compiled = result.compiled
    assert check_schedule(compiled.stages[0][1], compiled.kernel) == []
    (again,) = Program(compiled.kernel, Choices(shared_bytes=True)).run([x, w])
    np.testing.assert_array_equal(again, expected)
    banks = result.profile.table("PsumUsage")
    assert max(max(banks[f"bank_{n}_util_percent"]) for n in range(8)) <= 100


def test_what_a_pass_leaves_for_the_next_keeps_its_bytes(rng):
    """A tile of the body that is read before it is written has no turn to take: it is in use all the time."""

    def kernel(x):
        out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)

        def body(i):
            first = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=first, src=x)
            nisa.dma_copy(dst=out, src=first)
            kept = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=out, src=kept)
            nisa.memset(dst=kept, value=1.0)

        nl.fori_loop(0, 3, body)
        return out

    compiled = jit(kernel).compile(np.ones((4, 8), np.float32)).compiled.kernel
    (kept,) = (s.id for s in compiled.storages if s.name == "kept")
    assert kept in compiled.poisoned
    (loop,) = compiled.loops
    assert compiled.lifetimes[kept] == (loop.first, loop.end - 1)


def test_the_first_write_belongs_to_the_tensor_in_every_pass():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((32, 16)), rng.standard_normal((32, 8))
    x, w = x.astype(np.float32), w.astype(np.float32)
    product = w.astype(float).T @ x.astype(float)
    found = run(accumulated, x, w, one(3)).value
    np.testing.assert_allclose(found[0], 3 * product, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], 2 * product, rtol=1e-5, atol=1e-5)
    assert np.isnan(run(accumulated, x, w, one(0)).value).all(), "nothing has run, nothing is known"


# -- what registers and loops cannot do ------------------------------------------------------------------------------


def refused(body, error, message):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        body(nisa.register_alloc(3), out)
        return out

    with pytest.raises(error, match=message) as caught:
        run(jit(kernel), ROWS)
    assert caught.value.span.file_label == "test_device_loops.py"
    return caught.value


def branching(register, out):
    if register:
        pass


def breaking(register, out):
    for _ in nl.dynamic_range(register):
        if out is not None:
            break


def continuing(register, out):
    while register:
        for _ in range(3):
            continue
        if out is None:
            continue
        nisa.register_move(register, 0)


def returning(register, out):
    for _ in nl.dynamic_range(register):
        return


def ending_otherwise(register, out):
    for _ in nl.dynamic_range(register):
        nisa.register_move(register, 0)
    else:
        pass


def using_outside(register, out):
    made = []
    nl.fori_loop(0, register, lambda i: made.append(nl.zeros((4, 4), dtype=nl.float32)))
    nisa.tensor_copy(made[0], made[0])


def ordered(register, out):
    with nl.no_reorder():
        nl.fori_loop(0, register, lambda i: None)


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda r, out: bool(r), RegisterValue, "`if` cannot test it"),
        (branching, RegisterValue, "`if` cannot test it"),
        (lambda r, out: int(r), RegisterValue, "only known at run time"),
        (lambda r, out: r + 1, RegisterValue, "only known at run time"),
        (lambda r, out: r == 1, RegisterValue, "only known at run time"),
        (lambda r, out: range(r), RegisterValue, "only known at run time"),
        (lambda r, out: out[0:r], NkiError, "known while the kernel is traced"),
        (breaking, LoopControl, "`break` is not allowed"),
        (continuing, LoopControl, "`continue` is not allowed"),
        (returning, LoopControl, "`return` is not allowed"),
        (ending_otherwise, LoopControl, "`else` is not allowed"),
        (using_outside, LoopControl, "was made in a device loop that has ended"),
        (ordered, LoopControl, "no_reorder"),
        (lambda r, out: nl.fori_loop(0, 1.5, print), LoopControl, "upper bound must be an integer"),
        (lambda r, out: nl.fori_loop(0, 1 << 31, print), LoopControl, "signed and of 32 bits"),
        (lambda r, out: nl.fori_loop(0, r, print, step=r), LoopControl, "step must be a positive"),
        (lambda r, out: nl.fori_loop(0, r, lambda i: i), LoopControl, "must return nothing"),
        (lambda r, out: nl.while_loop(3, print), LoopControl, "condition must be a register"),
        (lambda r, out: nl.while_loop(r, lambda c: 3), LoopControl, "must return the next"),
        (
            lambda r, out: [nisa.register_move(i, 3) for i in nl.dynamic_range(r)],
            RegisterValue,
            "induction variable",
        ),
        (lambda r, out: nisa.register_alloc(1.5), TypeError, "integer of 32 bits"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(body, error, message):
    refused(body, error, message)


def test_a_counter_in_arithmetic_is_told_what_to_write():
    def body(i):
        nisa.memset(dst=nl.ndarray((128, 4), nl.float32)[:, i : i + 1], value=0.0)

    def counted(r, out):
        nl.fori_loop(0, nisa.register_alloc(4), body)

    error = refused(counted, RegisterValue, "register `i` is only known at run time")
    assert "slice with nl.ds(i, n)" in error.help


def test_a_register_made_from_a_tensor_holds_its_value_and_is_found():
    """As published kernels write it; the documentation has integers only."""

    def kernel(count):
        tile = nl.load(count)
        total, least = steps()

        def body(i):
            nisa.tensor_tensor(total, total, least, nl.add)

        nl.fori_loop(0, nisa.register_alloc(tile), body)
        return returned(total)

    result = run(jit(kernel), one(4))
    assert result.value.item() == 4
    (finding,) = result.findings
    assert finding.kind == "portability" and "register_load" in finding.help


def test_a_register_nobody_set_is_an_error_when_it_is_read():
    def kernel(x):
        nl.fori_loop(0, nisa.register_alloc(), lambda i: None)
        nisa.register_move(nisa.register_alloc(), nisa.register_alloc())
        return x

    with pytest.raises(UnwrittenRegister, match="was never set"):
        run(jit(kernel), ROWS)


def test_a_kernel_may_return_nothing_when_a_loop_updates_its_argument():
    def kernel(x):
        def body(i):
            tile = nl.load(x)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.dma_copy(x, tile)

        nl.fori_loop(0, 3, body)

    given = np.array([[1.0, -2.0, 0.5]], np.float32)
    run(kernel, given)
    np.testing.assert_array_equal(given, [[4.0, 1.0, 3.5]])


def test_a_result_made_in_a_loop_is_refused_whether_or_not_the_loop_runs():
    def kernel(count):
        made = []

        def body(i):
            made.append(nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm))
            nisa.dma_copy(made[0], count)

        nl.fori_loop(0, nisa.register_alloc(2), body)
        return made[0]

    with pytest.raises(LoopControl, match=r"returns `.*made in a device loop that has ended"):
        run(jit(kernel), one(4))


def test_a_result_whose_place_the_device_chooses_is_refused():
    def kernel(rows):
        out = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, rows)
        return out.select(0, nisa.register_alloc(3))

    with pytest.raises(KernelResult, match="whose address is only known at run time"):
        run(jit(kernel), ROWS)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
@pytest.mark.parametrize("value", [300, -1, -(1 << 31), (1 << 32) - 1, 40_000, 128])
def test_a_register_is_stored_by_its_low_bits(dtype, value):
    def kernel(like):
        out = nl.ndarray(like.shape, dtype=like.dtype, buffer=nl.shared_hbm)
        nisa.register_store(out, nisa.register_alloc(value))
        return out

    low = (value % (1 << 32)).to_bytes(4, "little")[: np.dtype(dtype).itemsize]
    assert run(jit(kernel), np.zeros((1, 1), dtype)).value.tobytes() == low


def test_writing_the_register_of_a_fori_loop_changes_its_body_only():
    """The body gets the value in a register of its own (nki/api/nki/language/__init__.py, fori_loop)."""

    def kernel(x):
        out = nl.ndarray((3, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros((1, 4), nl.float32)

        def body(i):
            nisa.dma_copy(out.select(0, i), tile)
            nisa.register_move(i, 0)
            nisa.dma_copy(out.select(0, i), nl.load(x))

        nl.fori_loop(0, nisa.register_alloc(3), body)
        return out

    x = np.array([[1.0, -2.0, 3.0, 0.5]], np.float32)
    result = run(kernel, x)
    np.testing.assert_array_equal(result.value, [x[0], [0] * 4, [0] * 4])
    assert result.execution.trips == (3,)
    assert [f.kind for f in result.findings if "no effect on its loop" in f.message] == [
        "portability"
    ]


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_between_two_passes_has_the_line_of_the_loop(
    cores: int, monkeypatch: pytest.MonkeyPatch
):
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[:128])
        for _ in nl.dynamic_range(4):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        if nl.program_id(0) == 0:
            nl.store(out, tile)
        return out

    begins = DeviceLoop.begins
    monkeypatch.setattr(DeviceLoop, "begins", lambda loop, p: begins(loop, p) and _second(loop))
    with pytest.raises(KeyboardInterrupt) as error:
        run(jit(kernel)[cores], ROWS)
    first = kernel.__code__.co_firstlineno
    assert next(Span.of(p).line for p in stack_in_cells(error.value)) == first + 3


def _second(loop: DeviceLoop) -> bool:
    if loop.program.trips[-1] == 2:
        raise KeyboardInterrupt
    return True
