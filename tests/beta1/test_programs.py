"""Programs of a launch grid: what they share, races between them, and reductions over trips and programs."""

import asyncio

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.beta1.language import all_reduce, loop_reduce
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import NotModelled, RuleBroken, WrongOperand
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


def test_a_reduction_over_programs_needs_one_of_them():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        t = all_reduce(nl.load(x), np.add, program_axes=[1])
        nl.store(out[nl.program_id(0)], t)
        return out

    np.testing.assert_array_equal(kernel[2, 1](X)[:2], np.stack([X, X]))
    with pytest.raises(NotModelled, match=r"nl\.all_reduce over 3 programs"):
        kernel[2, 3](X)


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
