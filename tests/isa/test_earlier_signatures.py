"""Kernels that are written with the signatures of an earlier version give the values that they gave (NumPy)."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import (
    KernelResult,
    NkiError,
    RuleBroken,
    TensorArgument,
    WrongCall,
    WrongOperand,
)
from nki_lab.runtime import run

RNG = np.random.default_rng(23)
X = RNG.integers(-50, 50, (64, 12)).astype(np.float32)
Y = RNG.integers(-50, 50, (64, 12)).astype(np.float32)


def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def added_by_position(x, y):
    a, b, c = (nl.ndarray(x.shape, x.dtype) for _ in range(3))
    nisa.dma_copy(a, x)
    nisa.dma_copy(b, y)
    nisa.dma_compute(c, [a, b], [1.0, 1.0], nl.add)
    return stored(c)


def read_modify_write(x, y):
    a, b = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(a, x)
    nisa.dma_copy(b, y)
    nisa.dma_copy(dst=b, src=a, dst_rmw_op=nl.add, unique_indices=True)
    return stored(b)


def from_psum(x, y):
    a, p = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.dma_copy(a, x)
    nisa.tensor_copy(dst=p, src=a)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=p[:, 0:12])
    return out


def integers_of_floats(x, y):
    t = nl.ndarray(x.shape, nl.uint32)
    nisa.memset(dst=t, value=0.0)
    nisa.memset(dst=t[:, 0:3], value=7.0)
    return stored(t)


def select_by_position(x, y):
    a, b = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(a, x)
    # keeps where 5 + row - column >= 0
    nisa.affine_select(b, [[-1, 12]], 5, 1, a, -1.0, nl.greater_equal)
    return stored(b)


def private_result(x, y):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def string_buffer(x, y):
    t = nl.ndarray(x.shape, x.dtype, buffer="sbuf")
    nisa.dma_copy(t, x)
    return stored(t)


def moved_immediate(x, y):
    r = nisa.register_alloc(3)
    nisa.register_move(r, imm=1)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(t, x)

    while r:
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nisa.register_move(r, imm=0)
    return stored(t)


SEVEN = np.zeros(X.shape, np.uint32)
SEVEN[:, 0:3] = 7
rows, columns = np.indices(X.shape)

BEFORE_0_3 = [
    (added_by_position, X + Y, NkiError, "scales|reduce_op"),
    (read_modify_write, X + Y, WrongCall, "dst_rmw_op"),
    (from_psum, X, WrongOperand, "psum"),
    (integers_of_floats, SEVEN, NkiError, "a number that the dtype of `dst` holds"),
    (select_by_position, np.where(5 + rows - columns >= 0, X, -1), NkiError, "affine_select"),
    (private_result, X, KernelResult, "must be in shared_hbm"),
    (string_buffer, X, TensorArgument, "refused since NKI 0"),
    (moved_immediate, X + 1, WrongCall, "imm"),
]


@pytest.mark.parametrize("nki", ["0.1", "0.2"])
@pytest.mark.parametrize(("kernel", "expected"), [case[:2] for case in BEFORE_0_3])
def test_before_0_3(kernel, expected, nki):
    np.testing.assert_array_equal(run(kernel, X, Y, nki=nki).outputs[0], expected)


@pytest.mark.parametrize("nki", ["0.3", "0.6", "0.7"])
@pytest.mark.parametrize(("kernel", "kind", "words"), [(c[0], *c[2:]) for c in BEFORE_0_3])
def test_since_0_3_it_is_an_error(kernel, kind, words, nki):
    with pytest.raises(kind, match=words):
        run(kernel, X, Y, nki=nki)


def test_what_no_page_says_stays_an_error():
    def kernel(x):
        t = nl.ndarray(x.shape, nl.int32)
        nisa.memset(dst=t, value=2.5)
        return stored(t)

    with pytest.raises(RuleBroken, match="`value` must be"):
        run(kernel, X, nki="0.2")


def copies_with_dtype(x):
    a, b = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(a, x)
    nisa.tensor_copy(b, a, dtype=nl.float32)
    return stored(b)


def test_unknown_keywords_were_ignored_by_0_1_alone():
    result = run(copies_with_dtype, X, nki="0.1")
    np.testing.assert_array_equal(result.outputs[0], X)
    (finding,) = result.findings
    assert "`dtype`" in finding.message and finding.kind == "deprecation"
    for nki in ("0.2", "0.7"):
        with pytest.raises(WrongCall, match="dtype"):
            run(copies_with_dtype, X, nki=nki)


@pytest.mark.parametrize("nki", ["0.3", "0.4"])
def test_a_priority_came_between_in_0_4(nki):
    def kernel(x):
        t = nl.ndarray(x.shape, x.dtype)
        if nki == "0.3":
            nisa.dma_copy(t, x, nisa.oob_mode.error, nisa.dge_mode.swdge)
        else:
            nisa.dma_copy(t, x, 3, nisa.oob_mode.error, nisa.dge_mode.swdge)
        return stored(t)

    result = run(kernel, X, nki=nki)
    np.testing.assert_array_equal(result.outputs[0], X)
    copy = result.compiled.kernel.instructions[0]
    assert (copy.priority, copy.dge_mode.name) == ({"0.3": None, "0.4": 3}[nki], "swdge")


def test_a_wrong_call_names_what_the_version_has():
    def kernel(x):
        t = nl.ndarray(x.shape, x.dtype)
        nisa.dma_compute(t, [x])
        return stored(t)

    with pytest.raises(
        WrongCall, match="missing 2 required positional arguments: 'scales' and 'reduce_op'"
    ):
        run(kernel, X, nki="0.2")


def test_composites_are_not_bound_by_earlier_signatures():
    def kernel(x):
        t = nl.load(x)
        return stored(nl.copy(nl.transpose(nl.add(t, t))))

    for nki in ("0.3", "0.5"):
        np.testing.assert_array_equal(run(kernel, X, nki=nki).outputs[0], (X + X).T)
