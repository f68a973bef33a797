"""Programs of a launch grid: what they share, races between them, and reductions over trips and programs."""

import asyncio

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.beta1.language import all_reduce, loop_reduce
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import MissingPartner, NotModelled, RuleBroken, WrongOperand
from nki_lab.source import Span
from tests.beta1.test_kernels import scaled_sum

X = np.random.default_rng(8).integers(-9, 9, (128, 24)).astype(np.float32)


@nki.jit
def placed(x, row, neighbour):
    out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    nl.store(scratch[i], nl.load(x) * float(1 + i))
    nl.store(out[row(i)], nl.load(scratch[neighbour(i)]))
    return out


def hazards(*arguments):
    result = nki_lab.run(placed[3], X, *arguments)
    return result.value, [f.message for f in result.findings if f.kind == "hazard"]


def test_programs_that_keep_apart_are_no_race():
    value, found = hazards(lambda i: i, lambda i: i)
    np.testing.assert_array_equal(value[:3], np.stack([X, 2 * X, 3 * X]))
    assert not found


def test_a_part_that_two_programs_write_or_one_reads_is_a_race():
    value, found = hazards(lambda i: 0, lambda i: i)
    np.testing.assert_array_equal(value[0], 3 * X)
    assert any("program [1] writes the part of `out` that program [0] writes" in m for m in found)
    value, found = hazards(lambda i: i, lambda i: max(0, i - 1))
    np.testing.assert_array_equal(value[:3], np.stack([X, X, 2 * X]))
    assert any(
        "program [1] reads the part of `scratch` that program [0] writes" in m for m in found
    )


def test_one_mistake_of_all_programs_is_told_once():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 600), x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        nl.store(out, nl.matmul(t[:, 0:128], t, transpose_x=True))
        return out

    wide = np.ones((128, 600), np.float32)
    with pytest.raises(RuleBroken, match="`moving` must not exceed 512"):
        nki_lab.run(kernel[4], wide, target="trn2")


def test_a_tile_is_combined_over_the_trips_of_the_loops_that_are_named():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, *x.shape), nl.float32, buffer=nl.shared_hbm)
        for k in nl.sequential_range(2):
            total = nl.ndarray(x.shape, nl.float32)
            for i in nl.sequential_range(3):
                total[...] = loop_reduce(nl.load(x) * float(i + 10 * k), np.add, [i])
            nl.store(out[k], total)
        return out

    np.testing.assert_array_equal(kernel(X), np.stack([3 * X, 33 * X]))

    @nki.jit
    def wrong(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        total = nl.load(x)
        total[...] = loop_reduce(total, np.add, [3])
        nl.store(out, total)
        return out

    with pytest.raises(WrongOperand, match="no variable of a loop"):
        wrong(X)


def test_a_tensor_that_holds_something_is_an_operand_of_the_reduction_over_trips():
    """As the page of nl.loop_reduce says of its example, which assigns to a name."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, *x.shape), nl.float32, buffer=nl.shared_hbm)
        b = nl.zeros(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        filled = nl.full(x.shape, 4.0, nl.float32)
        for k in nl.sequential_range(2):
            filled[...] = loop_reduce(nl.load(x) * float(1 + k), np.max, loop_indices=k)
            b = loop_reduce(
                nl.load(x) * float(1 + k), op=np.max, loop_indices=[k], dtype=nl.float32
            )
            new = loop_reduce(nl.load(x) * float(1 + k), op=np.max, loop_indices=[k])
            nl.store(out[2], new)
        nl.store(out[0], b)
        nl.store(out[1], filled)
        return out

    largest = np.maximum(X, 2 * X)
    expected = np.stack([np.maximum(largest, 0), np.maximum(largest, 4), largest])
    np.testing.assert_array_equal(kernel(X), expected)


Y = np.random.default_rng(9).standard_normal((2, 3, 2, 40, 6)).astype(np.float32)


@nki.jit
def reduced(x, rows):
    """Subtract the largest of a row of programs, in a loop, and the sum over all of what is left of the first rows."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    row, column = nl.program_id(0), nl.program_id(1)
    nl.store(out[row, column], value=0.5)
    i_p, i_f = nl.mgrid[0:40, 0:6]
    for i in nl.affine_range(2):
        t = nl.load(x[row, column, i])
        t -= nl.all_reduce(t, np.max, program_axes=[column])
        total = nl.all_reduce(t, op=nl.add, program_axes=(0, 1), mask=i_p < rows)
        total = nl.multiply(total, float(1 + column + 10 * row), mask=i_p < rows)
        nl.store(out[row, column, i, i_p, i_f], total, mask=i_p < rows)
    return out


def test_programs_wait_for_each_other_where_they_reduce():
    result = nki_lab.run(reduced[2, 3], Y, 33, target="trn2")
    scale = (1 + np.arange(3) + 10 * np.arange(2)[:, None])[..., None, None, None]
    total = (Y - Y.max(axis=1, keepdims=True)).sum(axis=(0, 1), keepdims=True)
    np.testing.assert_allclose(result.value[..., :33, :], (total * scale)[..., :33, :], rtol=1e-5)
    assert (result.value[..., 33:, :] == 0.5).all()
    assert not [f for f in result.findings if f.kind in ("hazard", "uninitialized")]


def test_a_reduction_over_programs_rounds_once():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[i], nl.all_reduce(nl.load(x[i]), np.add, program_axes=0))
        return out

    # In bfloat16, 256 + 1 is 256.
    x = np.stack([np.full((4, 2), v, np.float32) for v in (256, 1, 1, 2)]).astype(nl.bfloat16)
    assert (kernel[4](x).astype(np.float32) == 260).all()
    ones = kernel[1](x[:1]).astype(np.float32)
    assert (ones == 256).all()


def test_what_is_wrong_with_a_reduction_over_programs_is_told():
    def kernel(x, case):
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        t, i = nl.load(x), nl.program_id(0)
        if case == "alone" and i != 1:
            t = all_reduce(t, np.add, 0)
        if case == "other":
            t = all_reduce(t, np.add if i else np.max, 0)
        if case == "axes":
            t = all_reduce(t, np.add, (i + nl.program_id(1)) % 2)
        if case == "fails":
            t = all_reduce(t, np.add, 0)
            if i == 2:
                t = nl.matmul(t, X[0])
        if case == "later":
            t = all_reduce(t, np.add, 0, asynchronous=True)
        nl.store(out[i], t)
        return out

    for case, grid, error, message in (
        ("alone", 3, MissingPartner, r"program \[0\] waits in nl.all_reduce along axes \[0\] for program \[1\], which"),
        ("other", 2, WrongOperand, r"program \[1\] has op add, that of program \[0\] has maximum"),
        ("axes", (2, 2), MissingPartner, r"for program \[1, 0\], which waits at .* along other axes, \[1\]"),
        ("fails", 3, WrongOperand, "nl.matmul"),
        ("later", 2, NotModelled, "nki.sync_thread"),
    ):  # fmt: skip
        with pytest.raises(error, match=message) as told:
            nki.jit(kernel)[grid](X, case)
        assert told.value.span.filename == __file__, case


def test_a_kernel_that_does_not_fit_runs_and_says_that_its_times_mean_nothing():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 24), x.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((40, nl.par_dim(128), 2048), x.dtype)
        for i in nl.affine_range(40):
            held[i] = nl.load(x[:, 24 * i : 24 * i + 2048])
        total = nl.zeros((128, 24), nl.float32)
        for i in nl.affine_range(40):
            total += held[i][:, 0:24]
        nl.store(out, total)
        return out

    x = np.random.default_rng(2).integers(-9, 9, (128, 3008)).astype(np.float32)
    result = nki_lab.run(kernel, x, target="trn2")
    np.testing.assert_array_equal(result.value, sum(x[:, 24 * i : 24 * i + 24] for i in range(40)))
    finding = next(f for f in result.findings if f.kind == "capacity")
    assert "`held" in finding.message
    told = [row["message"] for row in result.profile.records("Warning")]
    assert any("its times mean nothing" in message for message in told)
    assert any("is timed so: each call" in message for message in told)


def test_a_tile_that_is_returned_is_stored_at_the_return_whatever_calls_the_kernel():
    """In a notebook the frames of callers are coroutines, which no kernel may be."""

    @nki.jit
    def kernel(x):
        return nl.load(x) * 2.0

    async def cell():
        return nki_lab.run(kernel, X)

    result = asyncio.run(cell())
    np.testing.assert_array_equal(result.value, 2 * X)
    stored = result.compiled.kernel.body[-1]
    assert [Span.of(place).line for place in stored.stack] == [
        kernel.func.__code__.co_firstlineno + 2
    ]


def test_a_program_that_was_saved_still_says_how_it_is_timed(tmp_path, rng):
    compiled = nki_lab.run(scaled_sum, *rng.random((2, 128, 64), np.float32)).compiled
    compiled.save(tmp_path / "program.nkic")
    loaded = nki_lab.load(tmp_path / "program.nkic").compiled.kernel
    assert loaded.timed == compiled.kernel.timed == BETA1.timed != ""
