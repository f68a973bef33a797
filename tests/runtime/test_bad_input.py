"""Tests that each mistake of kernel authors is reported with its code, the place, and what to write instead.

One row per mistake; the text that must be marked is part of the row, so that the place is checked to the column.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import NkiError
from nki_lab.ir.tensor.trace import active
from nki_lab.runtime import jit, run

X = np.random.default_rng(5).standard_normal((128, 6)).astype(np.float32)
#: A row for each partition, one of them beyond the 128 rows of X.
ROWS = np.arange(128, dtype=np.int32)[:, None].copy()
ROWS[77] = 200
BAD = X.shape[1] + 3


def result_of(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def failing(kernel, *arrays, target="trn3"):
    with pytest.raises(NkiError) as caught:
        run(jit(kernel), *(arrays or (X,)), target=target)
    return caught.value


def marked(error):
    span = error.span
    return span.text[span.column : span.end_column]


def check(error, code, message, mark, help):
    assert error.code == code, str(error)
    assert message in error.message
    assert marked(error) == mark
    assert help in error.help


# -- addresses ------------------------------------------------------------------------------------------------------


def index(x):
    t = nl.load(x)
    return result_of(t[:, 6])


def negative_index(x):
    t = nl.load(x)
    return result_of(t[:, -7])


def slice_beyond_the_end(x):
    t = nl.load(x)
    return result_of(t[:, 2:7])


def ds_beyond_the_end(x):
    t = nl.load(x)
    return result_of(t[:, nl.ds(4, 3)])


def too_many_indices(x):
    t = nl.load(x)
    return result_of(t[0, 0, 0])


def select(x):
    return result_of(x.select(0, 128))


def pattern(x):
    t = nl.load(x)
    return result_of(t.ap([[6, 128], [1, 7]]))


@pytest.mark.parametrize(
    ("kernel", "message", "mark", "help"),
    [
        (index, "index 6 on axis 1 of `t` [128, 6] float32 in sbuf: valid are 0 to 5", "t[:, 6]", ""),
        (negative_index, "index -7 on axis 1 of `t`", "t[:, -7]", ""),
        (slice_beyond_the_end, "slice 2:7 on axis 1 of `t`", "t[:, 2:7]", "min("),
        (ds_beyond_the_end, "slice 4:7 on axis 1 of `t`", "t[:, nl.ds(4, 3)]", "min("),
        (too_many_indices, "3 indices for `t` [128, 6] float32 in sbuf", "t[0, 0, 0]", "one entry per axis"),
        (select, "select(0, 128) of `x` [128, 6] float32 in shared_hbm: valid are 0 to 127", "x.select(0, 128)", ""),
        (pattern, "`t` [128, 6]", "t.ap([[6, 128], [1, 7]])", ""),
    ],
)  # fmt: skip
def test_a_static_index_out_of_range(kernel, message, mark, help):
    check(failing(kernel), "NKI106", message, mark, help)


def by_register(x):
    t = nl.load(x)
    column = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(column, t.select(1, nisa.register_alloc(BAD)))
    return result_of(column)


def by_tile(x, rows):
    got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(got, x.vector_select(0, nl.load(rows)))
    return result_of(got)


def by_elements(x, offsets):
    got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    t = nl.load(x)
    nisa.tensor_copy(got, t.indirect(nl.load(offsets), 6))
    return result_of(got)


def gathered(x, indices):
    got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(got, nl.load(x), nl.load(indices))
    return result_of(got)


def gathered_by_groups(x, index):
    got = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.local_gather(got, nl.load(x), nl.load(index))
    return result_of(got)


def test_a_register_out_of_range():
    error = failing(by_register)
    mark = "nisa.tensor_copy(column, t.select(1, nisa.register_alloc(BAD)))"
    check(error, "NKI402", "tensor_copy: index 9 is out of range for `t` [128, 6]", mark, "clip")


def test_a_tile_of_rows_out_of_range():
    error = failing(by_tile, X, ROWS)
    message = "dma_copy: index 200 for partition 77 is out of range for `x` [128, 6] float32"
    mark = "nisa.dma_copy(got, x.vector_select(0, nl.load(rows)))"
    check(error, "NKI402", message, mark, "oob_mode=nisa.oob_mode.skip")
    assert "valid are 0 to 127" in error.message


def test_offsets_along_the_free_axis_out_of_range():
    offsets = np.zeros((128, 1), np.uint16)
    offsets[16 * 3 + 2] = BAD
    error = failing(by_elements, X, offsets)
    message = "tensor_copy: index 9 for partition 48 is out of range for `t` [128, 6] float32"
    check(
        error, "NKI402", message, "nisa.tensor_copy(got, t.indirect(nl.load(offsets), 6))", "clip"
    )


@pytest.mark.parametrize(
    ("kernel", "indices", "message", "mark"),
    [
        (
            gathered,
            np.where(np.arange(128 * 6).reshape(128, 6) == 77 * 6 + 4, BAD, 0).astype(np.uint32),
            "nc_n_gather: index 9 in partition 77",
            "nisa.nc_n_gather(got, nl.load(x), nl.load(indices))",
        ),
        (
            gathered_by_groups,
            np.where(np.arange(128) == 34, BAD, 0).astype(np.uint16)[:, None],
            "local_gather: index 9 in partition 34",
            "nisa.local_gather(got, nl.load(x), nl.load(index))",
        ),
    ],
)
def test_an_index_that_a_gather_reads_out_of_range(kernel, indices, message, mark):
    error = failing(kernel, X, indices)
    check(error, "NKI400", message, mark, "clip")
    assert any(note.startswith(("data = `", "src_buffer = `")) for note in error.notes)


def test_a_gather_in_a_device_loop_is_told_at_its_line_too():
    def looped(x, indices):
        got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        t, places = nl.load(x), nl.load(indices)
        nl.fori_loop(0, 2, lambda i: nisa.nc_n_gather(got, t, places) and None)
        return result_of(got)

    error = failing(looped, X, np.full((128, 6), BAD, np.uint32))
    assert marked(error) == "nisa.nc_n_gather(got, t, places)"


@pytest.mark.parametrize(
    ("kernel", "indices", "code", "message", "mark"),
    [
        (by_tile, ROWS.astype(np.float32), "NKI105", "the index must be integers", "x.vector_select(0, nl.load(rows))"),
        (by_elements, np.zeros((128, 1), np.float32), "NKI105", "hold integers", "t.indirect(nl.load(offsets), 6)"),
        (gathered, np.zeros((128, 6), np.int32), "NKI203", "`indices` must have dtype uint32", "nl.load(indices)"),
        (gathered_by_groups, np.zeros((128, 1), np.int32), "NKI203", "must have dtype uint16", "nl.load(index)"),
    ],
)  # fmt: skip
def test_an_index_of_a_wrong_dtype(kernel, indices, code, message, mark):
    check(failing(kernel, X, indices), code, message, mark, "")


# -- named choices and dtypes ---------------------------------------------------------------------------------------


def unknown_member(x):
    t = nl.load(x)
    nisa.tensor_copy(t, t, engine=nisa.engine.vectr)
    return result_of(t)


def unknown_value(x):
    t = nl.load(x)
    nisa.dma_copy(t, x, dge_mode=7)
    return result_of(t)


def value_of_another_choice(x):
    t = nl.load(x)
    nisa.activation(t, nl.exp, t, reduce_cmd=nisa.oob_mode.skip)
    return result_of(t)


def function_of_numpy(x):
    t = nl.load(x)
    nisa.tensor_tensor(t, t, t, np.add)
    return result_of(t)


@pytest.mark.parametrize(
    ("kernel", "code", "message", "mark", "help"),
    [
        (unknown_member, "NKI108", "nisa.engine has no `vectr`", "nisa.engine.vectr", "did you mean `vector`"),
        (unknown_value, "NKI202", "`dge_mode` must be nisa.dge_mode.unknown", "7", "dge_mode=nisa.dge_mode."),
        (value_of_another_choice, "NKI202", "`reduce_cmd` must be nisa.", "nisa.oob_mode.skip", "nisa.reduce_cmd."),
        (function_of_numpy, "NKI202", "`op` must be", "np.add", "op=nl.add"),
    ],
)  # fmt: skip
def test_what_is_no_member_of_a_choice(kernel, code, message, mark, help):
    check(failing(kernel), code, message, mark, help)


def raw_number(x):
    t = nl.load(x)
    nisa.dma_copy(t, x, dge_mode=3)
    return result_of(t)


def test_a_raw_number_for_a_member_is_an_error():
    check(
        failing(raw_number),
        "NKI206",
        "dge_mode=3, a raw value of dge_mode, is refused since NKI 0.3",
        "3",
        "write dge_mode=nisa.dge_mode.none",
    )


@pytest.mark.parametrize(
    ("dtype", "said", "help"),
    [
        (np.float32, "np.float32", "write nl.float32"),
        (np.dtype(np.int8), "dtype('int8')", "write nl.int8"),
        (np.bool_, "np.bool", "write nl.bool_"),
        (ml_dtypes.bfloat16, "ml_dtypes.bfloat16", "write nl.bfloat16"),
        (np.float64, "np.float64", "write nl.float32"),
        (np.int64, "np.int64", "write nl.int32"),
        (float, "float", "write nl.float32"),
        ("float23", "'float23'", "did you mean `float32`"),
        (np.complex64, "np.complex64", "nl.float32"),
        (3, "3", "nl.float32"),
    ],
)
def test_a_dtype_of_numpy_names_the_one_to_write(dtype, said, help):
    def made(x):
        return nl.ndarray((128, 6), dtype=dtype, buffer=nl.shared_hbm)

    check(failing(made), "NKI107", f"dtype {said}", "dtype", help)


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda t: nl.copy(t, dtype=np.float16), "NKI107"),
        (lambda t: nl.zeros((128, 6), np.float16), "NKI107"),
        (lambda t: t.view(np.float16), "NKI105"),
        (lambda t: t.ap([[6, 128], [1, 6]], dtype=np.float16), "NKI105"),
    ],
)
def test_a_dtype_of_numpy_is_refused_wherever_one_is_asked_for(use, code):
    error = failing(lambda x: result_of(use(nl.load(x))))
    assert (error.code, error.help) == (code, "write nl.float16")


# -- results --------------------------------------------------------------------------------------------------------


def in_sbuf(x):
    t = nl.load(x)
    return t


def in_hbm(x):
    """As in both examples of nki/guides/how-to-scheduling-apis.rst."""
    t = nl.load(x)
    out = nl.ndarray(t.shape, t.dtype, buffer=nl.hbm)
    nisa.dma_copy(out, t)
    return out


def several_in_hbm(x):
    outs = []
    for k in range(3):
        t = nl.load(x[:, 2 * k : 2 * k + 2])
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.hbm)
        nisa.dma_copy(out, t)
        outs.append(out)
    return tuple(outs)


@pytest.mark.parametrize(
    ("kernel", "message", "mark"),
    [
        (in_sbuf, "in_sbuf returns `t` [128, 6] float32 in sbuf", "return t"),
        (in_hbm, "in_hbm returns `out` [128, 6] float32 in private_hbm", "return out"),
        (several_in_hbm, "several_in_hbm returns `out` [128, 2]", "return tuple(outs)"),
    ],
)
def test_a_result_that_is_not_in_shared_hbm(kernel, message, mark):
    error = failing(kernel)
    check(error, "NKI111", message, mark, "buffer=nl.shared_hbm")
    assert "a result must be in shared_hbm" in error.message
    assert "nki/migration/index.rst" in error.notes[0]


# -- operators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "mark", "help"),
    [
        (lambda t, u: t + u, "t + u", "write nl.add(t, u), or nisa.tensor_tensor(dst, t, u, op=nl.add)"),
        (lambda t, u: t - u, "t - u", "nl.subtract(t, u)"),
        (lambda t, u: 2.0 * t, "2.0 * t", "nisa.tensor_scalar(dst, t, operand0=2.0, reverse0=True, op0=nl.multiply)"),
        (lambda t, u: t / u, "t / u", "nl.reciprocal(u)"),
        (lambda t, u: t @ u, "t @ u", "nisa.nc_matmul(dst, stationary, moving)"),
        (lambda t, u: t == u, "t == u", "write nl.equal(t, u), or `t is u`"),
        (lambda t, u: t != u, "t != u", "write nl.not_equal(t, u)"),
        (lambda t, u: t < u, "t < u", "write nl.less(t, u)"),
        (lambda t, u: t >= 0, "t >= 0", "write nl.greater_equal(t, 0)"),
        (lambda t, u: -t, "-t", "write nl.negative(t)"),
    ],
)  # fmt: skip
def test_an_operator_names_the_call_to_write(use, mark, help):
    def kernel(x):
        t = nl.load(x)
        u = nl.load(x)
        return result_of(use(t, u))

    check(
        failing(kernel), "NKI103", f"`{mark}`: Python operators do not work on tensors", mark, help
    )


# -- arguments of former versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "message", "help"),
    [
        (lambda t: nisa.tensor_copy(t, t, mask=None), "tensor_copy: got an unexpected", "slice the operands"),
        (lambda t: nl.load(t, mask=None), "nl.load: got an unexpected keyword argument 'mask'", "slice the operands"),
        (lambda t: nl.add(t, t, mask=None), "nl.add: got an unexpected keyword argument 'mask'", "slice the operands"),
        (lambda t: nisa.activation(t, nl.exp, t, dtype=nl.float32), "'dtype'", "the dtype of `dst`"),
        (lambda t: nisa.dma_copy(t, t, dst_rmw_op=nl.add), "'dst_rmw_op'", "nisa.dma_compute"),
        (lambda t: nisa.memset(shape=(128, 6), value=0.0), "'shape'", "dst="),
        (lambda t: nisa.iota(expr=None), "'expr'", "pattern="),
        (lambda t: nisa.affine_select(pred=None, on_true_tile=t), "'pred'", "cmp_op="),
        (lambda t: nisa.register_move(nisa.register_alloc(), imm=3), "'imm'", "src="),
        (lambda t: nl.device_print("t", x=t), "'x'", "tensor="),
        (lambda t: nl.softmax(t, axis=1, compute_dtype=nl.float32), "'compute_dtype'", "float32"),
    ],
)  # fmt: skip
def test_an_argument_of_the_older_dialect_names_its_replacement(use, message, help):
    error = failing(lambda x: use(nl.load(x)))
    assert error.code == "NKI201"
    assert message in error.message
    assert help in error.help


def test_an_instruction_of_the_older_dialect_names_its_replacement():
    error = failing(lambda x: nisa.tensor_copy_dynamic_src(nl.load(x)))
    assert error.code == "NKI108"
    assert "scalar_offset=" in error.help


# -- tensors in conditions ------------------------------------------------------------------------------------------


def asks_for_presence(x, bias=None):
    t = nl.load(x)
    if t:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    if bias:
        nisa.memset(t, 0.0)
    return result_of(t)


def test_a_tile_in_a_condition_is_there_and_a_finding():
    result = run(jit(asks_for_presence), X)
    np.testing.assert_array_equal(result.value, 2 * X)
    (found,) = [f for f in result.findings if f.kind == "portability"]
    assert "`t` [128, 6] float32 in sbuf" in found.message
    assert found.help == "write `tensor is not None`"


def test_a_tile_in_a_condition_is_an_error_under_strict(monkeypatch):
    monkeypatch.setenv("NKI_LAB_STRICT", "1")
    error = failing(asks_for_presence)
    assert error.code == "NKI103"
    assert error.help == "write `tensor is not None`"
    assert error.span.text.strip() == "if t:"


# -- print ----------------------------------------------------------------------------------------------------------


def prints(x):
    print("shape", x.shape)
    print("a\nb", end="!\n")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id() == 0:
        nisa.dma_copy(out, nl.load(x))
    return out


def test_print_acts_once_per_core_and_says_which(capsys):
    run(jit(prints)[2], X, target="trn2")
    lines = ["shape (128, 6)", "a", "b!"]
    expected = [f"[core {core}] {line}" for core in (0, 1) for line in lines]
    assert capsys.readouterr().out.splitlines() == expected


def test_print_acts_once_whatever_is_asked_of_the_run(capsys):
    result = run(jit(prints), X)
    for ask in (
        lambda: result.profile.total_ns,
        lambda: result.findings,
        lambda: str(result.compiled),
    ):
        ask()
    assert capsys.readouterr().out.splitlines() == ["shape (128, 6)", "a", "b!"]
    assert active.builder is None


def test_print_is_not_repeated_by_runs_of_a_compiled_kernel(capsys):
    compiled = jit(prints).compile(X)
    for _ in range(3):
        compiled(X)
    assert capsys.readouterr().out.splitlines() == ["shape (128, 6)", "a", "b!"]


def _scaled(by, op=nl.multiply):
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, op, by)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    return kernel


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_scaled(10**400), "tensor_scalar: an integer of 1329 bits; NKI's integers have 32"),
        (_scaled(-(10**40)), "an integer of 133 bits"),
        (_scaled(1 << 32, nl.left_shift), "integers of 32 bits; found 4294967296"),
        (_scaled(-(1 << 31) - 1, nl.bitwise_and), "integers of 32 bits; found -2147483649"),
    ],
)
def test_an_integer_that_the_chip_does_not_have_is_refused(kernel, message):
    with pytest.raises(NkiError, match=message) as caught:
        run(jit(kernel), np.ones((2, 3), np.int32))
    assert caught.value.span is not None


@pytest.mark.parametrize("name", [5, ["a"], True, b"a"])
def test_the_name_of_an_instruction_is_text(name):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x, name=name)
        return out

    with pytest.raises(NkiError, match="dma_copy: `name` must be a string, found "):
        run(jit(kernel), np.ones((2, 3), np.float32))
