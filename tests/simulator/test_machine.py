"""Tests that a program gives the right values every time, in whatever memory its tiles are."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import KernelArgument
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import instruction, registry, updates
from nki_lab.runtime.jit import jit
from nki_lab.simulator import Program, simulate
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.spaces import SBUF
from tests.compiler.programs import compiled, scaled
from tests.simulator.kernels import EXAMPLES

SHARED = Choices(shared_bytes=True)
X = np.arange(128 * 6, dtype=np.float32).reshape(128, 6)


def as_numbers(array):
    return array.astype(np.float64) if array.dtype.kind not in "iu" else array.astype(np.int64)


@pytest.fixture(params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_values(example, target, rng):
    arrays = example.arrays(rng)
    expected = example.expected(*map(as_numbers, arrays))
    program = Program(compiled(example.kernel, *arrays, target=target).kernel)
    for found, right in zip(program.run([a.copy() for a in arrays]), expected, strict=True):
        assert found.shape == right.shape
        atol = example.rtol * np.abs(right).max()
        np.testing.assert_allclose(as_numbers(found), right, rtol=0, atol=atol)


def test_shared_bytes_give_the_same_bits(example, rng):
    arrays = example.arrays(rng)
    kernel = compiled(example.kernel, *arrays).kernel
    own = Program(kernel).run([a.copy() for a in arrays])
    shared = Program(kernel, SHARED).run([a.copy() for a in arrays])
    assert [a.tobytes() for a in own] == [a.tobytes() for a in shared]


def test_every_run_is_the_first(example, rng):
    """Later runs see nothing of earlier ones, and leave their results alone."""
    arrays, others = example.arrays(rng), example.arrays(rng)
    kernel = compiled(example.kernel, *arrays).kernel
    program = Program(kernel)
    first = program.run([a.copy() for a in arrays])
    kept = [a.copy() for a in first]
    with np.errstate(invalid="ignore"):
        program.run([np.full_like(a, 77) for a in others])
    again = program.run([a.copy() for a in arrays])
    for a, b, c in zip(first, kept, again, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
        assert not np.shares_memory(a, c)
    assert [a.tobytes() for a in Program(kernel).run([a.copy() for a in others])] == [
        a.tobytes() for a in program.run([a.copy() for a in others])
    ]


# -- arguments ----------------------------------------------------------------------------------------------------


def add_one(x):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    nl.store(x[:, 1:4], t[:, 1:4])
    return x


@pytest.mark.parametrize("options", [Choices(), SHARED])
def test_an_argument_is_updated_in_place(options):
    x = X.copy()
    program = Program(compiled(add_one, x).kernel, options)
    expected = X.copy()
    for _ in range(3):
        expected[:, 1:4] += 1
        (found,) = program.run([x])
        assert found is x
        np.testing.assert_array_equal(x, expected)


LAYOUTS = {
    "columns first": lambda a: np.asfortranarray(a),
    "stepped": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[:, ::-1].copy()[:, ::-1],
    "part of a larger one": lambda a: np.pad(a, 3)[3:-3, 3:-3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_of_any_layout(layout):
    x = LAYOUTS[layout](X)
    assert not x.flags.c_contiguous
    program = Program(compiled(add_one, x).kernel)
    (found,) = program.run([x])
    expected = X.copy()
    expected[:, 1:4] += 1
    assert found is x
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(jit(scaled)(LAYOUTS[layout](X), 3), X * 3)


def test_an_array_that_is_written_has_a_place_for_each_element():
    repeated = np.lib.stride_tricks.as_strided(X.copy(), X.shape, (0, X.strides[1]))
    with pytest.raises(KernelArgument, match="several elements of which are one place in memory"):
        Program(compiled(add_one, X).kernel).run([repeated])


def test_a_read_only_array_that_is_written_is_an_error():
    x = X.copy()
    x.flags.writeable = False
    program = Program(compiled(add_one, X).kernel)
    with pytest.raises(
        KernelArgument, match="writes its argument `x`, but the array is read-only"
    ) as caught:
        program.run([x])
    assert caught.value.help == "pass a copy: array.copy()"
    np.testing.assert_array_equal(jit(scaled)(x, 2), X * 2), "reading it is fine"


def add_to_first(x, y):
    t, u = nl.load(x), nl.load(y)
    nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)
    nl.store(x, t)
    return x


def test_arrays_that_share_memory_are_an_error_only_where_one_is_written():
    program = Program(compiled(add_to_first, X, X).kernel)
    with pytest.raises(KernelArgument, match="`x`, which shares memory with `y`"):
        program.run([x := X.copy(), x])
    base = np.zeros((128, 9), np.float32)
    with pytest.raises(KernelArgument, match="shares memory"):
        program.run([base[:, 0:6], base[:, 3:9]])
    np.testing.assert_array_equal(jit(lambda x, y: (scaled(x), scaled(y, 2)))(X, X)[1], 2 * X)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            X[:64],
            r"argument `x` is \[64, 6\] float32, the kernel was compiled for \[128, 6\] float32",
        ),
        (X.astype(np.float16), r"argument `x` is \[128, 6\] float16"),
    ],
)
def test_arrays_of_another_form_are_refused(array, said):
    program = Program(compiled(add_one, X).kernel)
    with pytest.raises(KernelArgument, match=said):
        program.run([array])
    with pytest.raises(KernelArgument, match="takes 1 arrays, found 2"):
        program.run([X.copy(), X.copy()])


def test_results_are_new_arrays():
    program = Program(compiled(scaled, X).kernel)
    (a,), (b,) = program.run([X]), program.run([X])
    a[...] = -1
    np.testing.assert_array_equal(b, X)
    np.testing.assert_array_equal(X, np.arange(128 * 6).reshape(128, 6))


def two_windows(x):
    """Return two results that are views of one tensor."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nl.store(out[0], t)
    nl.store(out[1], t)
    return out[0], out.permute((0, 2, 1))[1]


def test_two_results_of_one_tensor():
    first, second = Program(compiled(two_windows, X).kernel).run([X])
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X.T)


# -- what a run depends on ----------------------------------------------------------------------------------------

seen = []


@instruction(engine=(VECTOR,), dst=updates(SBUF))
def probe_observe(dst, name=None):
    """Look at the run from inside."""


@probe_observe.semantics
def _(out, dst):
    out[...] = dst + 1
    if seen and callable(seen[-1]):
        seen.append(seen.pop()())


@probe_observe.cost
def _(i, hw):
    yield MicroOp("PROBE", cycles=1)


registry.pop("probe_observe")


def observed(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    for _ in range(3):
        probe_observe(t)
    nl.store(x, t)
    nl.store(out, t)
    return out


@pytest.mark.parametrize("options", [Choices(), SHARED])
def test_an_interrupt_in_the_middle_leaves_the_program_usable(options):
    def interrupt():
        raise KeyboardInterrupt

    program = Program(compiled(observed, X).kernel, options)
    threads = [p["num_threads"] for p in threadpool_info()]
    seen.append(interrupt)
    x = X.copy()
    with pytest.raises(KeyboardInterrupt):
        program.run([x])
    seen.clear()
    np.testing.assert_array_equal(x, X)  # it was not stored yet
    (found,) = program.run([x])
    np.testing.assert_array_equal(found, X + 3)
    np.testing.assert_array_equal(x, X + 3)
    assert [p["num_threads"] for p in threadpool_info()] == threads


def test_tiles_are_computed_with_one_blas_thread():
    def blas_threads():
        return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

    program = Program(compiled(observed, X).kernel)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        seen.append(blas_threads)
        program.run([X.copy()])
        assert (seen.pop(), blas_threads()) == ({1}, before)
    assert before == {2}, "else this shows nothing"


def test_numpy_warnings_and_state_are_the_callers_own():
    with np.errstate(all="raise"):
        (found,) = Program(compiled(scaled, X, 1e38).kernel).run([X * 1e30])
        assert np.geterr()["over"] == "raise"
    assert np.isinf(found[1:]).all()


# -- NKI_PRECISE_FP=0 ---------------------------------------------------------------------------------------------


def rounds_twice(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    u = nl.ndarray(x.shape, dtype=nl.float8_e5m2, buffer=nl.sbuf)
    n = nl.ndarray(x.shape, dtype=nl.int8, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_copy(dst=u, src=t)
    nisa.tensor_copy(dst=n, src=u)
    wide = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=wide, data1=u, data2=n, op=nl.add)
    nisa.dma_copy(dst=out, src=wide)
    return out


def test_without_precise_fp_floats_are_not_rounded_and_integers_are(rng):
    x = (30 * rng.standard_normal((128, 9))).astype(np.float32)
    kernel = compiled(rounds_twice, x).kernel
    (wide,) = Program(kernel, Choices(precise_fp=False)).run([x])
    np.testing.assert_array_equal(wide, x + np.clip(np.rint(x), -128, 127).astype(np.float32))
    (narrow,) = Program(kernel).run([x])
    assert np.abs(narrow - wide).max() > 0.1


def test_a_program_alone_is_rank_0(rng):
    def chosen(x):
        out = nl.ndarray((1, x.shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x.select(0, ncc.rank_id()))
        return out

    x = rng.standard_normal((3, 1, 50)).astype(np.float32)
    kernel = compiled(chosen, x).kernel
    for (found,) in (Program(kernel).run([x]), simulate(kernel, [x])):
        np.testing.assert_array_equal(found, x[0])
