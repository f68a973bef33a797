"""Mistakes of authors in the older dialect: each ends in an error that names it, never in Python's own."""

import re
from enum import Enum, EnumType

import numpy as np
import pytest

from nki_lab.api.beta1 import compiler as ncc
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.dialects.beta1 import BETA1
from nki_lab.dtypes import DType
from nki_lab.errors import (
    AddressConflict,
    KernelArgument,
    LoopControl,
    NkiError,
    OutOfBounds,
    TensorArgument,
    UnknownName,
    ViewError,
    WrongCall,
    WrongOperand,
)
from nki_lab.errors.beta1 import BadIndexing, BadMask, IndirectIndex, ReturnInLoop, TileTruth
from nki_lab.rewrite import call_of

X = np.random.default_rng(4).standard_normal((128, 64)).astype(np.float32)


def placed(**where):
    return nl.ndarray((2, nl.par_dim(128), 64), X.dtype, buffer=ncc.sbuf.mod_alloc(**where))


def blocks(*sizes):
    return nl.ndarray(sizes, X.dtype)


# What is written wrongly, as a function of a tile [128, 64]; the error; what it says, or its help or note.
MISTAKES = {
    "par_dim of a string": (lambda t: nl.par_dim("a"), WrongOperand, "nl.par_dim: the size"),
    "par_dim of a part": (lambda t: nl.par_dim(2.5), WrongOperand, "found float 2.5"),
    "par_dim twice": (lambda t: blocks(nl.par_dim(2), nl.par_dim(8), 4), TensorArgument, "2 partition axes"),
    "par_dim of too many": (lambda t: blocks(2, nl.par_dim(256), 4)[0], TensorArgument, "256 partitions"),
    "par_dim of none": (lambda t: blocks(nl.par_dim(0), 4), TensorArgument, "positive integers"),
    "a keyword by position": (lambda t: nisa.max8(t), WrongCall, r"call is nisa.max8\(\*, src, mask=None"),
    "a keyword of an instruction": (lambda t: nisa.iota(t, nl.int32, axis=1), WrongCall, "nisa.iota has no .* `axis`"),
    "an argument too few": (lambda t: nl.program_id(), WrongCall, r"the call is nl.program_id\(axis\)"),
    "an argument too much": (lambda t: nl.par_dim(2, 3), WrongCall, "nl.par_dim: takes 1 positional argument but 2"),
    "an argument twice": (lambda t: nl.expand_dims(t, data=t), WrongCall, "multiple values for argument 'data'"),
    "an argument too few, of many": (lambda t: nl.load(), WrongCall, r"call is nl.load\(src, \*, mask=None"),
    "a keyword of a loop": (lambda t: nl.static_range(2, directives=1), WrongCall, "argument 'directives'"),
    "a shape of nothing": (lambda t: nl.zeros_like("t"), WrongOperand, "call is nl.zeros_like"),
    "a tile as a dtype": (lambda t: nl.zeros_like(t, t), WrongOperand, "is no dtype of nki.language"),
    "a sum onto several blocks": (lambda t: blocks(2, nl.par_dim(128), 64).__iadd__(t), BadIndexing, "several blocks"),
    "a size of None": (lambda t: blocks(128, None), WrongOperand, "found NoneType None"),
    "a broken size": (lambda t: blocks(128, 4.5), WrongOperand, "found float 4.5"),
    "a size from a tile": (lambda t: blocks(128, t[0, 0]), WrongOperand, "only known at run time"),
    "a shape of letters": (lambda t: nl.ndarray("128", X.dtype), WrongOperand, "found str '128'"),
    "range of a tile": (lambda t: range(t), TileTruth, "Python's int, float and range"),
    "float of an element": (lambda t: float(t[0, 0]), TileTruth, r"\[1, 1\] float32 in sbuf"),
    "int of an element": (lambda t: int(t[0, 0]), TileTruth, "compute with tiles"),
    "a loop without a bound": (lambda t: list(nl.affine_range()), LoopControl, "takes 1 to 3 integers; found 0"),
    "a loop over letters": (lambda t: nl.sequential_range("a"), WrongOperand, "nl.sequential_range: a bound"),
    "a loop over a part": (lambda t: nl.affine_range(128 / 96), WrongOperand, "a bound must be an integer"),
    "a loop with step 0": (lambda t: nl.static_range(0, 4, 0), LoopControl, "the step is 0"),
    "a loop over a tile's value": (lambda t: nl.affine_range(t[0, 0]), LoopControl, "only known at run time"),
    "a loop over a tile": (lambda t: list(t), BadIndexing, "cannot be the range of a loop"),
    "an axis that is not there": (lambda t: nl.sum(t, axis=3), WrongOperand, "axis 3 of a tile with 2 axes"),
    "an axis of letters": (lambda t: nl.max(t, axis="x"), WrongOperand, "`axis` must be an integer"),
    "a mean along no axis": (lambda t: nl.mean(t, axis=None), WrongOperand, "found NoneType None"),
    "an integer beyond 64 bits": (lambda t: t + 10**40, WrongOperand, "more than 64 bits"),
    "an integer beyond its tile": (
        lambda t: nl.full((128, 4), 7, nl.int32) + 2**40, WrongOperand, "1099511627776 beside a tile of integers"
    ),
    "NaN in integers": (lambda t: nl.full((128, 4), float("nan"), nl.int8), WrongOperand, "cannot be filled with nan"),
    "a function of NumPy": (lambda t: np.exp(t), WrongCall, "such as nl.exp"),
    "a sum of NumPy": (lambda t: np.sum(t), WrongCall, "np.add of a tile"),
    "an array as operand": (lambda t: t + X, WrongOperand, "an array of shape"),
    "an array for a tile": (lambda t: nl.add(t, X), WrongOperand, r"an array of shape \[128, 64\]"),
    "an index as data": (lambda t: nl.add(t, nl.arange(64)[None, :]), WrongOperand, "make a tile of the index tensor"),
    "a method of arrays": (lambda t: t.sum(axis=1), UnknownName, r"write nl\.sum\(t, axis=1\)"),
    "an attribute of arrays": (lambda t: t.T, UnknownName, "nl.transpose"),
    "a method nobody has": (lambda t: t.smooth(), UnknownName, "tiles have shape, dtype"),
    "the operator @": (lambda t: t @ t, WrongCall, "write nl.matmul"),
    "shapes that differ": (lambda t: nl.add(t, t[:, 0:3]), ViewError, "do not have one shape"),
    "partitions that differ": (lambda t: t + t[0:64, :], ViewError, "err_num_partition_mismatch"),
    "operators with one row": (lambda t: t + t[0:1, :], ViewError, "operators repeat no partitions"),
    "rows along partitions": (
        lambda t: nl.add(blocks(128, 2, 8), t[0:2, 0:8]), ViewError, "move to other partitions"
    ),
    "reshape to other elements": (lambda t: t.reshape((128, 63)), ViewError, "has 8192 elements"),
    "reshape of partitions": (lambda t: t.reshape((64, 128)), ViewError, "move to other partitions"),
    "a new axis too far": (lambda t: t.expand_dims(7), WrongOperand, "a new axis can stand at 1 to 2"),
    "view without a dtype": (lambda t: t.view(), WrongCall, "t.view: missing 1 required"),
    "nl.arange of one axis": (
        lambda t: t[nl.arange(128), nl.arange(64)], BadIndexing, "err_1d_arange_not_supported"
    ),
    "nl.arange of one axis beside two": (
        lambda t: t[nl.arange(128)[:, None], nl.arange(64)], BadIndexing, "err_1d_arange_not_supported"
    ),
    "a mask of NumPy": (lambda t: nl.exp(t, mask=np.arange(64) < 9), BadMask, "found ndarray\n"),
    "an axis of no grid": (lambda t: nl.program_id(3), OutOfBounds, "axes are 0 to 0"),
    "a place by a function of one argument": (
        lambda t: ncc.sbuf.alloc(lambda at: (0, 0)), KernelArgument, "does not take three arguments"
    ),
    "a place by position": (lambda t: ncc.sbuf.mod_alloc(0), WrongCall, "nki.compiler.sbuf.mod_alloc: takes"),
    "a place that is no number": (lambda t: placed(base_addr="0"), WrongOperand, "`base_addr` must be an integer"),
    "one place per no block": (lambda t: placed(base_addr=0, num_free_tiles=(0,)), AddressConflict, "1 or more"),
    "places for two axes": (lambda t: placed(base_addr=0, num_free_tiles=(2, 2)), AddressConflict, "has 2 numbers"),
    "a bank that is no number": (lambda t: ncc.psum.mod_alloc(base_bank=None), WrongOperand, "`base_bank` must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_that_names_it(name):
    wrong, error, says = MISTAKES[name]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        wrong(t)
        nl.store(out, t)
        return out

    with pytest.raises(error) as caught:
        kernel[2](X)
    assert caught.value.code != "NKI109"
    said = f"{caught.value.message}\n{caught.value.help}\n" + "\n".join(caught.value.notes)
    assert re.search(says, said), said


def test_grids_that_are_too_large_or_no_integers_are_refused_and_errors_name_the_program():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:32, 0:64]
        nl.store(
            out[nl.program_id(0) * 32 + i_p, i_f], nl.load(x[nl.program_id(0) * 32 + i_p, i_f])
        )
        return out

    for grid in (1.5, "2", None):
        with pytest.raises(KernelArgument, match="made of positive integers"):
            kernel[grid]
    for grid in (2**40, (1000, 1000)):
        with pytest.raises(KernelArgument, match="at most 100,000 programs"):
            kernel[grid](X)
    with pytest.raises(OutOfBounds, match=r"index range \[128, 159\]") as caught:
        kernel[np.int64(5)](X)
    assert caught.value.notes[-1] == "in program [4] of the launch grid"


def test_integers_that_are_promoted_to_a_float_are_told():
    @nki.jit
    def kernel(x, dtype):
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + nl.load(x, dtype=dtype))
        return out

    x = np.full((4, 2), 2**24 + 1, np.int32)
    told = [f.message for f in kernel.launch(x, nl.uint32).findings if f.kind == "hazard"]
    assert told == [
        "nl.add: int32 and uint32 are promoted to float32, which rounds integers beyond 2**24"
    ]
    assert not [f for f in kernel.launch(x, nl.int32).findings if f.kind == "hazard"]


def test_every_function_has_a_name_and_a_call_for_errors():
    """Errors of what Python could not match with parameters are found by it."""
    for short, module in (("nl", nl), ("nisa", nisa)):
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, (Enum, EnumType, DType)):
                assert BETA1.name_of(function) == f"{short}.{name}"
                assert re.match(rf"{short}.{name}\(.*\)$", call_of(f"{short}.{name}", function))


def test_a_return_in_a_loop_is_told_at_its_line():
    @nki.jit
    def kernel(x, ranges, trips):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for p in ranges(trips):
            i_p, i_f = p * 32 + nl.arange(32)[:, None], nl.arange(64)[None, :]
            nl.store(out[i_p, i_f], nl.load(x[i_p, i_f]))
            return out

    for ranges in (nl.affine_range, nl.sequential_range, nl.static_range):
        with pytest.raises(ReturnInLoop, match="3 of 4 trips are never run") as caught:
            kernel(X, ranges, 4)
        assert caught.value.stack[0].line == kernel.func.__code__.co_firstlineno + 6
    np.testing.assert_array_equal(kernel(X[:32], nl.affine_range, 1), X[:32])


def test_a_return_in_a_loop_of_a_function_that_is_called_is_told_and_break_is_not():
    def first(x, out):
        for i in nl.affine_range(4):
            nl.store(out[i], nl.load(x))
            return i
        return None

    @nki.jit
    def kernel(x, left):
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        if left:
            first(x, out)
        for i in nl.affine_range(4):
            nl.store(out[i], nl.load(x) * float(i))
            if i == 2:
                break
        nl.store(out[3], nl.load(x))
        return out

    with pytest.raises(ReturnInLoop):
        kernel(X, True)
    np.testing.assert_array_equal(kernel(X, False), np.stack([0 * X, X, 2 * X, X]))


def test_a_kernel_inside_a_kernel_has_no_grid():
    @nki.trace
    def inner(x):
        return nl.load(x) * 2.0

    @nki.jit
    def kernel(x, grid):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, inner[4, 4](x) if grid else inner(x))
        return out

    np.testing.assert_array_equal(kernel(X, False), 2 * X)
    with pytest.raises(KernelArgument, match=r"launch grid \[4, 4\] inside another kernel"):
        kernel(X, True)


def test_scalars_of_numpy_are_operands():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, *x.shape), x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        nl.store(out[0], np.float32(1.5) - t)
        nl.store(out[1], np.float32(2.0) / (t * np.float32(2.0)))
        nl.store(out[2], nl.where(np.float32(0.0) < t, t, 0.0))
        return out

    expected = np.stack([1.5 - X, 1 / X, np.maximum(X, 0)])
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-6)


@nki.jit
def gathered(x, rows, mode):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    back = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    index = nl.load(rows)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
    t = nl.zeros(x.shape, x.dtype)
    t[i_p, i_f] = nl.load(x[index[i_p, 0], i_f], mode=mode)
    nl.store(out, t)
    nl.store(back, 0.0)
    nl.store(back[index[i_p, 0], i_f], t * -1.0, mode=mode)
    return out, back


def test_rows_outside_a_tensor_are_skipped_where_mode_says_so():
    rows = np.random.default_rng(6).permutation(128).astype(np.int32)[:, None]
    rows[::5] = 128 + rows[::5]
    inside = rows[:, 0] < 128
    out, back = gathered(X, rows, nisa.oob_mode.skip)
    expected = np.zeros_like(X)
    expected[rows[inside, 0]] = -X[rows[inside, 0]]
    np.testing.assert_array_equal(out[inside], X[rows[inside, 0]])
    np.testing.assert_array_equal(back, expected)
    for mode in (None, nisa.oob_mode.error):
        with pytest.raises(NkiError, match="128"):
            gathered(X, rows, mode)
    with pytest.raises(
        WrongOperand, match=r"nl\.load: mode='skip' is not a member of nisa\.oob_mode"
    ):
        gathered(X, rows, "skip")


def test_rows_that_a_tile_names_are_not_transposed_while_they_are_loaded():
    @nki.jit
    def kernel(x, rows):
        index = nl.load(rows)
        return nl.load_transpose2d(x[index[nl.arange(128)[:, None], 0], nl.arange(64)[None, :]])

    with pytest.raises(IndirectIndex) as caught:
        kernel(X, np.arange(128, dtype=np.int32)[:, None])
    assert "err_indirect_indices_are_not_supported_with_nki_api" in caught.value.notes[0]
