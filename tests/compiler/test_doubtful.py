"""Tests that code whose meaning is hardly the intended one is reported at its line, and refused under strict."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import AddressConflict, KernelResult, TensorOperator
from nki_lab.runtime.jit import jit
from nki_lab.source import Span
from nki_lab.targets import TRN2, TRN3
from tests.compiler.programs import compiled, failing, line_of

X = np.random.default_rng(7).standard_normal((128, 48)).astype(np.float32)


def at(text):
    return line_of(__file__, text)


def copies(x, rows, columns):
    t = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)  # other grouping
    nisa.dma_copy(dst=out, src=t)
    return out


def test_a_copy_between_unrelated_shapes_names_both():
    x = np.arange(512 * 128, dtype=np.float32).reshape(512, 128)
    there, back = compiled(copies, x, 128, 512).findings
    assert there.kind == "portability" and Span.of(there.stack[0]).line == at("# other grouping")
    for part in (
        "dst = `t` [128, 512] float32 in sbuf",
        "src = `x` [512, 128] float32 in shared_hbm",
    ):
        assert part in there.message and there.help
    assert Span.of(back.stack[0]).line == at("# other grouping") + 1
    assert np.array_equal(jit(copies)(x, 128, 512), x)
    error = failing(copies, x, 128, 512, options=Choices(strict=True))
    assert "row-major" in str(error)


@pytest.mark.parametrize("shape", [(128, 4, 12), (1, 128, 48), (128, 48, 1), (128, 1, 48), (6144,)])
def test_axes_merged_or_split_are_no_finding(shape):
    assert compiled(copies, X.reshape(shape), 128, 48).findings == ()


def repeats(x):
    t = nl.ndarray((128, 48), dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray((1, 48), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out.broadcast(0, 128), src=t)  # again and again
    return out


def test_a_destination_of_stride_zero_is_a_hazard():
    (finding,) = compiled(repeats, X).findings
    assert finding.kind == "hazard" and Span.of(finding.stack[0]).line == at("# again and again")
    assert "`dst`" in finding.message and "stride 0" in finding.message
    with pytest.warns(match="stride 0"):
        assert np.array_equal(jit(repeats)(X), X[-1:])


def chooses(x, make):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    mask = make(t)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if mask:  # a question
        nisa.dma_copy(dst=out, src=t)
    return out


def compares(t):
    mask = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=mask, data=t, op0=nl.multiply, operand0=2.0, op1=nl.less, operand1=0.5)
    return mask


@pytest.mark.parametrize("make", [lambda t: nl.greater(t, 0.0), compares,
                                  lambda t: nl.logical_and(nl.less(t, 1.0), nl.greater(t, 0.0))])  # fmt: skip
def test_the_truth_of_a_comparison_is_refused(make):
    error = failing(chooses, X, make)
    assert isinstance(error, TensorOperator) and error.span.line == at("# a question")
    assert "nl.where" in error.help and "result of a comparison" in error.message


ONE = np.float32(1)


def asks_in_a_loop(x, before, inside):
    t = nl.load(x)
    mask = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    before(mask, t)

    def body(i):
        nl.fori_loop(0, 2, lambda j: inside(mask, t))
        if mask:  # in a loop
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 3, body)
    if mask:  # after the loop
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    return scaled_of(t)


def scaled_of(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def masks(mask, t):
    nisa.tensor_scalar(dst=mask, data=t, op0=nl.less, operand0=0.5)


def fills(mask, t):
    nisa.memset(dst=mask, value=1.0)


def rests(mask, t):
    pass


@pytest.mark.parametrize(
    ("before", "inside", "asked"),
    [(masks, rests, "# in a loop"), (fills, masks, "# in a loop"), (masks, fills, "")],
)
def test_a_comparison_outside_a_device_loop_is_known_inside_and_the_other_way_round(
    before, inside, asked
):
    if not asked:
        assert np.array_equal(jit(asks_in_a_loop)(X, before, inside), X + ONE + ONE + ONE + ONE)
        return
    error = failing(asks_in_a_loop, X, before, inside)
    assert isinstance(error, TensorOperator) and error.span.line == at(asked)


def test_a_comparison_made_in_a_device_loop_is_known_after_it():
    def kernel(x):
        t, mask = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nl.fori_loop(0, 2, lambda i: masks(mask, t))
        if mask:
            pass
        return scaled_of(t)

    assert isinstance(failing(kernel, X), TensorOperator)


def scales(t):
    made = compares(t)  # overwritten: its last values are no truth values
    nisa.tensor_scalar(dst=made, data=t, op0=nl.multiply, operand0=2.0)
    return made


@pytest.mark.parametrize("make", [lambda t: t, scales])
def test_other_tensors_are_asked_for_their_presence(make):
    assert np.array_equal(jit(chooses)(X, make), X)


def computes_nothing(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)  # never written
    nisa.dma_copy(dst=t, src=x)
    return out


def test_a_kernel_that_computes_nothing_is_an_error():
    error = failing(computes_nothing, X)
    assert isinstance(error, KernelResult) and error.span.line == at("# never written")
    assert "`out`" in error.notes[0] and "dma_copy" in error.help


def half(x):
    a, b = computes_nothing(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=b, src=x)
    return a, b


def test_one_result_of_two_left_out_is_a_finding():
    kinds = [f.kind for f in compiled(half, X).findings]
    assert kinds == ["uninitialized", "advice"]  # and the load nobody uses


@pytest.mark.parametrize("target", [TRN2, TRN3], ids=lambda t: t.name)
def test_the_reserved_top_of_sbuf_is_not_for_tiles(target):
    def placed(x, byte):
        t = nl.ndarray((128, 48), dtype=x.dtype, buffer=nl.sbuf, address=(0, byte))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=t, src=x)
        nisa.dma_copy(dst=out, src=t)
        return out

    last = target.sbuf_usable_bytes_per_partition - 48 * 4
    assert np.array_equal(nki_lab.run(placed, X, last, target=target).value, X)
    with pytest.raises(AddressConflict, match=f"at most {last}"):
        nki_lab.run(placed, X, last + 4, target=target)


def test_a_loop_body_may_be_the_call_of_an_instruction():
    def doubled(x):
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=t, src=x)
        nl.fori_loop(
            0, 3, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        )
        nisa.dma_copy(dst=out, src=t)
        return out

    assert np.array_equal(jit(doubled)(X), X * 8)
