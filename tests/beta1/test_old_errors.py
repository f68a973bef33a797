"""The errors of general/nki/api/nki.errors.rst that no other file shows, each by its example there."""

import numpy as np
import pytest

from nki_lab.api.beta1 import compiler as ncc
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.beta1 import typing as nt
from nki_lab.errors import NkiError
from nki_lab.errors.beta1 import OutOfScope, ParameterUpdate
from nki_lab.source import Span

X = np.random.default_rng(6).standard_normal((128, 64)).astype(np.float32)


def kernel_of(body):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        body(t, x)
        nl.store(out, t)
        return out

    return kernel


def annotated(t, x):
    data: nt.tensor[128, 512] = nl.zeros((nl.par_dim(128), 128), dtype=np.float32)
    return data


def shared_in_a_loop(t, x):
    for _ in range(2):
        nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)


def shared_in_a_branch(t, x):
    if nl.program_id(0) >= 0:
        nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)


def every_other(t, x):
    for i in nl.affine_range(8):
        t[0:32] = nl.add(t[0:32], 1.0, mask=(i % 4) < 2)


def waiting(t, x):
    while t[0:1, 0:1] < 10:
        t[...] = t + 1.0


def column(dtype):
    return nisa.memset((128, 1), 2, dtype=dtype)


MISTAKES = {
    "err_activation_bias_invalid_type": lambda t, x: nisa.activation(op=nl.exp, data=t, bias=column(np.int8)),
    "err_activation_scale_invalid_type": lambda t, x: nisa.activation(op=nl.exp, data=t, scale=column(np.float16)),
    "err_annotation_shape_mismatch": annotated,
    "err_exceed_max_supported_dimension": lambda t, x: nl.transpose(nl.zeros((64, 32, 2), np.float32)),
    "err_hbm_tensor_with_init_value_not_supported": lambda t, x: nl.full((3, 128), 1.0, np.float32, buffer=nl.hbm),
    "err_shared_hbm_must_in_kernel_level in a loop": shared_in_a_loop,
    "err_shared_hbm_must_in_kernel_level in a branch": shared_in_a_branch,
    "err_unsupported_expression_in_mask": every_other,
    "err_unsupported_memory of load": lambda t, x: nl.load(t),
    "err_unsupported_memory of store": lambda t, x: nl.store(t, t),
    "err_unsupported_memory of exp": lambda t, x: nl.exp(x),
    "err_unsupported_memory of a sum": lambda t, x: nl.sum(x, axis=1),
    "err_unsupported_memory of an instruction": lambda t, x: nisa.tensor_tensor(t, x, op=nl.add),
    "err_while_loop_requires_unconditional_entry": waiting,
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_an_example_of_the_page_is_told_with_the_name_it_has_there(name):
    with pytest.raises(NkiError) as caught:
        kernel_of(MISTAKES[name])(X)
    assert name.split()[0] in " ".join(caught.value.notes)
    assert caught.value.code not in ("NKI109", "NKI113")


def test_a_shared_tensor_that_a_called_function_makes_is_told():
    """Its page refuses it, and kernels that the makers of the compiler have published do it."""

    def make(x):
        return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    @nki.jit
    def kernel(x):
        out = make(x)
        nl.store(out, nl.load(x) * 2.0)
        return out

    result = kernel.launch(X)
    np.testing.assert_array_equal(result.value, X * 2)
    (told,) = (f for f in result.findings if f.kind == "portability")
    assert "made in the function `make`" in told.message
    assert "err_shared_hbm_must_in_kernel_level" in told.message


def test_a_tensor_of_one_program_may_be_made_in_a_loop():
    def right(t, x):
        for _ in nl.sequential_range(2):
            scratch = nl.ndarray(t.shape, t.dtype, buffer=nl.private_hbm)
            nl.store(scratch, t + 1.0)
            t[...] = nl.load(scratch)

    np.testing.assert_array_equal(kernel_of(right)(X), X + np.float32(1) + np.float32(1))


def test_columns_of_an_activation_have_the_dtypes_of_its_page():
    def right(t, x):
        t[...] = nisa.activation(
            op=nl.square, data=t, bias=column(nl.bfloat16), scale=column(np.float32)
        )

    np.testing.assert_allclose(kernel_of(right)(X), (2 * X + 2) ** 2, rtol=1e-5)


def placed(shape, byte, buffer=None):
    return nl.ndarray(
        (nl.par_dim(shape[0]), shape[1]),
        np.float32,
        buffer=buffer or ncc.sbuf.mod_alloc(base_addr=byte),
    )


@nki.jit
def all_placed(x, what):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t, zeros, product = (
        placed((128, 64), 0),
        placed((128, 1), 256),
        placed((64, 128), 0, ncc.psum.mod_alloc(base_bank=0)),
    )
    t[...] = nl.load(x)
    zeros[...] = 0.0
    if what == "bias":
        t[...] = nisa.activation(nl.exp, t)
    if what == "transpose":
        product[...] = nisa.nc_transpose(t)
    t[...] = nisa.activation(nl.exp, t, bias=zeros)
    nl.store(out, t)
    return out


def test_a_kernel_that_places_its_tensors_asks_for_none_that_the_compiler_would_place():
    np.testing.assert_allclose(all_placed(X, ""), np.exp(X), rtol=1e-5)
    for what, code, line in (
        ("bias", "err_bias_tensor_must", 11),
        ("transpose", "err_transpose_on_tensor_engine", 13),
    ):
        with pytest.raises(NkiError) as caught:
            all_placed(X, what)
        assert code in caught.value.notes[0]
        assert Span.of(caught.value.stack[0]).line == all_placed.func.__code__.co_firstlineno + line


def updates(x, out, back):
    t = nl.load(x)
    nl.store(out, t)
    nl.store(x, t + 1.0)
    return (out, x) if back else out


def test_a_parameter_is_written_where_it_is_mutable_and_returned():
    def kernel(x: nt.mutable_tensor, back):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        return updates(x, out, back)

    def immutable(x, back):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        return updates(x, out, back)

    out, x = nki.jit(kernel)(X.copy(), True)
    np.testing.assert_array_equal(out, X)
    np.testing.assert_array_equal(x, X + 1)
    with pytest.raises(ParameterUpdate) as caught:
        nki.jit(kernel)(X.copy(), False)
    assert "err_mutable_parameter_not_returned" in caught.value.notes[0]
    for back in (False, True):
        with pytest.raises(ParameterUpdate, match="`x` is written") as caught:
            nki.jit(immutable)(X.copy(), back)
        assert "err_cannot_update_immutable_parameter" in caught.value.notes[0]
        assert Span.of(caught.value.stack[0]).line == updates.__code__.co_firstlineno + 3


@nki.jit
def rebound(x, turns, inside):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    for i in range(turns):
        if inside:
            data[...] = data + float(i)
        else:
            data = data + float(i)
    nl.store(out, data)
    return out


@nki.jit
def branched(x, y):
    out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        if i < 2:
            tmp = nl.load(x)
        else:
            tmp = nl.load(y)
        nl.store(out[i], tmp)
    return out


def test_range_and_a_branch_on_its_variable_are_blocks_with_a_scope_of_their_own():
    np.testing.assert_allclose(rebound(X, 3, True), X + 3, rtol=1e-6)
    for kernel, arguments, name, line in (
        (rebound, (X, 3, False), "data", 9),
        (branched, (X, X), "tmp", 8),
    ):
        with pytest.raises(OutOfScope, match=f"`{name}` is used outside the block of") as caught:
            kernel(*arguments)
        assert Span.of(caught.value.stack[0]).line == kernel.func.__code__.co_firstlineno + line


def test_branches_that_are_decided_before_the_launch_and_lists_of_tiles_have_no_scope():
    @nki.jit
    def kernel(x, twice):
        out = nl.ndarray((3, *x.shape), x.dtype, buffer=nl.shared_hbm)
        if twice:
            t = nl.load(x) * 2.0
        else:
            t = nl.load(x)
        tiles = []
        for i in range(3):
            part = t * float(i)
            tiles.append(part)
        for i in range(3):
            nl.store(out[i], tiles[i])
        return out

    for twice in (True, False):
        np.testing.assert_array_equal(kernel(X, twice), [X * i * (1 + twice) for i in range(3)])
