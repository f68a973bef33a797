"""Tests that every view that a layout cannot give is refused, with what was found and what was needed."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.dtypes import float32, int16, uint8
from nki_lab.errors import NotModelled, OutOfBounds, TensorOperator, TileAssignment, ViewError
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.view import DynamicSlice, NkiTensor
from nki_lab.runtime import jit
from nki_lab.targets.spaces import PRIVATE_HBM
from tests.ir.memory import elements, memory_of, tensor

REFUSED = [
    (lambda t: t[128], OutOfBounds, "index 128 on axis 0 .* valid are 0 to 127"),
    (lambda t: t[:, -5], OutOfBounds, "index -5 on axis 1"),
    (lambda t: t[0, 0, 0, 0], OutOfBounds, "4 indices for .* which has 3 axes"),
    (lambda t: t[0:129], OutOfBounds, "slice 0:129 on axis 0 .* need 0 <= start < stop <= 128"),
    (lambda t: t[5:5], OutOfBounds, "slice 5:5 on axis 0"),
    (lambda t: t[:, DynamicSlice(2, 3)], OutOfBounds, "slice 2:5 on axis 1"),
    (lambda t: t[::-1], ViewError, "slice step -1 on axis 0"),
    (lambda t: t[..., 0, ...], ViewError, "only once"),
    (lambda t: t[None], ViewError, "found NoneType None"),
    (lambda t: t[1.0], ViewError, "found float 1.0"),
    (lambda t: t["x"], ViewError, "found str 'x'"),
    (lambda t: t[True], ViewError, "found bool True"),
    (lambda t: t[t], ViewError, "the partition axis cannot be addressed"),
    (lambda t: t[t:], ViewError, "known while the kernel is traced"),
    (lambda t: t.slice(1, 0, 5), OutOfBounds, r"slice\(1, 0, 5, 1\) .* end <= 4"),
    (lambda t: t.slice(1, -1, 3), OutOfBounds, "0 <= start"),
    (lambda t: t.slice(1, 0, 3, 0), OutOfBounds, "step >= 1"),
    (lambda t: t.slice(1, 0, 3, None), ViewError, "found NoneType None"),
    (lambda t: t[:, DynamicSlice(0, -1)], OutOfBounds, "nl.ds of -1 elements .* need 1 to 4"),
    (lambda t: t[:, DynamicSlice(0, None)], ViewError, "found NoneType None"),
    (lambda t: t[:, DynamicSlice(Register(0, "i"), 5)], OutOfBounds, "nl.ds of 5 elements .* need 1 to 4"),
    (lambda t: t[:, DynamicSlice(Register(0, "i"), "x")], ViewError, "found str 'x'"),
    (lambda t: t.slice(3, 0, 1), ViewError, "axis 3 of .* which has 3 axes"),
    (lambda t: t.slice("f", 0, 1), ViewError, "found str 'f'"),
    (lambda t: t.select(1, 4), OutOfBounds, r"select\(1, 4\) .* valid are 0 to 3"),
    (lambda t: t.select(1, -1), OutOfBounds, r"select\(1, -1\)"),
    (lambda t: t.select(1, t), ViewError, "must be one integer in SBUF"),
    (lambda t: t.permute((0, 1)), ViewError, "need each of 0 to 2 once"),
    (lambda t: t.permute((0, 1, 1)), ViewError, "need each of 0 to 2 once"),
    (lambda t: t.permute((1, 0, 2)), ViewError, "axis 0 is the partition axis and must stay first"),
    (lambda t: t.permute((0, "x", 1)), ViewError, "found str 'x'"),
    (lambda t: t.permute(0), ViewError, "takes a tuple or list; found int 0"),
    (lambda t: t.broadcast(1, 8), ViewError, "axis 1 must have size 1"),
    (lambda t: t[:, 0:1].broadcast(1, 0), ViewError, "and get 1 or more"),
    (lambda t: t[:, 0:1].broadcast(1, 2.5), ViewError, "found float 2.5"),
    (lambda t: t[0:1].broadcast(0, 8), ViewError, "axis 0 .* is the partition axis"),
    (lambda t: t.expand_dim(0), ViewError, r"expand_dim\(0\) .* need 1 to 3"),
    (lambda t: t.expand_dim(4), ViewError, r"expand_dim\(4\) .* need 1 to 3"),
    (lambda t: t.squeeze_dim(1), ViewError, "axis 1 has size 4, need 1"),
    (lambda t: t[0:1].squeeze_dim(0), ViewError, "axis 0 .* is the partition axis"),
    (lambda t: t.reshape_dim(1, (2, 3)), ViewError, "the sizes must multiply to 4"),
    (lambda t: t.reshape_dim(1, (-1, -1)), ViewError, "the sizes must multiply to 4"),
    (lambda t: t.reshape_dim(1, (3, -1)), ViewError, "the sizes must multiply to 4"),
    (lambda t: t.reshape_dim(1, (-4, -1)), ViewError, "the sizes must multiply to 4"),
    (lambda t: t.reshape_dim(1, (0, -1)), ViewError, "the sizes must multiply to 4"),
    (lambda t: t.reshape_dim(1, (2.0, 2)), ViewError, "found float 2.0"),
    (lambda t: t.reshape_dim(0, (2, 64)), ViewError, "axis 0 .* is the partition axis"),
    (lambda t: t.flatten_dims(2, 1), ViewError, "start is after end"),
    (lambda t: t.flatten_dims(0, 1), ViewError, "axis 0 .* is the partition axis"),
    (lambda t: t[:, :, 0:4].flatten_dims(1, 2), ViewError, "not contiguous in memory"),
    (lambda t: t.reshape((128, 33)), ViewError, "4224 elements, need 4096"),
    (lambda t: t.reshape((64, 64)), ViewError, "axis 0 is the partition axis and must stay 128"),
    (lambda t: t.reshape((128, -4, -8)), ViewError, "reshape"),
    (lambda t: t.reshape((128, 32.5)), ViewError, "found float 32.5"),
    (lambda t: t.permute((0, 2, 1)).reshape((128, 32)), ViewError, "not contiguous in memory"),
    (lambda t: t.rearrange("abc", "acb"), ViewError, "a pattern is a tuple of names"),
    (lambda t: t.rearrange(("a", 1, "c"), ("a", "c", 1)), ViewError, "a pattern is a tuple"),
    (lambda t: t.rearrange(("a", "b"), ("b", "a")), ViewError, "names 2 axes"),
    (lambda t: t.rearrange(("a", ("b", "c"), "d"), ("a", "b", "c", "d")), ViewError, "all but one"),
    (lambda t: t.rearrange(("a", ("b", "c"), "d"), ("a", "b", "c", "d"), {"b": 3}), ViewError, "multiply to 4"),
    (lambda t: t.rearrange(("a", "b", "c"), ("a", "b", "d")), ViewError, "same names once"),
    (lambda t: t.rearrange(("a", "b", "b"), ("a", "b", "b")), ViewError, "same names once"),
    (lambda t: t.rearrange(("a", "b", "c"), ("a", "b", "c"), {"b": "4"}), ViewError, "fixed sizes are integers"),
    (lambda t: t.rearrange(("a", "b", "c"), ("a", "b", "c"), np.ones(2)), ViewError, "fixed sizes are integers"),
    (lambda t: t.rearrange(("a", "b", "c"), ("b", "a", "c")), ViewError, "must stay first"),
    (lambda t: t.view("float33"), ViewError, "not an NKI dtype"),
    (lambda t: t.permute((0, 2, 1)).view(uint8), ViewError, "the last axis must be contiguous"),
    (lambda t: t[:, :, 0:3].view(uint8).view(int16)[:, :, 1:].view(float32), ViewError, "multiples of 4"),
    (lambda t: t.ap([[32, 128], [1, 32]], dtype="float33"), ViewError, "not an NKI dtype"),
    (lambda t: t.ap([]), ViewError, "need .* with counts of 1 or more"),
    (lambda t: t.ap([[32, 128], [1, 0]]), ViewError, "counts of 1 or more"),
    (lambda t: t.ap([[32, 128], [1]]), ViewError, "counts of 1 or more"),
    (lambda t: t.ap([32, 128]), ViewError, "takes a tuple or list; found int 32"),
    (lambda t: t.ap([[32, 128], [1.0, 4]]), ViewError, "found float 1.0"),
    (lambda t: t.ap([[32, 128]]), ViewError, "at least one free axis"),
    (lambda t: t.ap([[64, 64], [1, 32]]), ViewError, "the partition stride is 64, need 32"),
    (lambda t: t.view(uint8)[:, :, 1:].ap([[32, 128], [1, 4]], dtype=float32), ViewError, "multiple of the 4 bytes"),
    (lambda t: t.ap([[32, 128], [1, 33]]), OutOfBounds, "elements 0 to 32 of each partition, which has 32"),
    (lambda t: t.ap([[32, 128], [1, 8]], offset=32), OutOfBounds, "partitions 1 to 128 of 128"),
    (lambda t: t.ap([[32, 1], [-1, 2]]), OutOfBounds, "elements -1 to 0 of each partition"),
    (lambda t: t.ap([[32, 128], [1, 32]], scalar_offset=t), ViewError, "partition axis"),
    (lambda t: t.ap([[32, 128], [1, 32]], vector_offset=t), ViewError, "axis 0 of an HBM"),
    (lambda t: t.ap([[32, 128], [1, 8]], scalar_offset=1.5, indirect_dim=1), ViewError, "by 1.5: the index must be"),
    (lambda t: t.vector_select(0, np.float32(1)), ViewError, "axis 0 of an HBM"),
    (lambda t: t.vector_select(0, t), ViewError, "axis 0 of an HBM"),
    (lambda t: t.indirect(t), ViewError, "must be an SBUF tile"),
    (lambda t: t.__setitem__(0, 1.0), TileAssignment, "cannot assign float to elements of `t`"),
    (lambda t: NkiTensor((128, 4), float32, None), NotModelled, "storage handle that nl.ndarray made"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_what_a_layout_cannot_give_is_refused(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make(tensor((128, 4, 8)))
    assert type(caught.value) is error
    assert caught.value.help


def test_hbm_patterns_may_cross_rows_but_not_the_end():
    memory = memory_of((4, 8), float32)
    t = tensor((4, 8), PRIVATE_HBM)
    assert elements(t.ap([[1, 32]]), memory).tobytes() == memory.tobytes()
    with pytest.raises(OutOfBounds, match="elements 1 to 32, which has 32"):
        t.ap([[1, 32]], offset=1)


def test_a_step_beyond_the_axis_takes_its_first_element():
    memory = memory_of((128, 4, 8), float32)
    t = tensor((128, 4, 8))
    assert elements(t[:, 1 :: 10**30], memory).tobytes() == memory[:, 1:2].tobytes()


@pytest.mark.parametrize("partitions", [8, 16, 24, 32, 64, 128])
def test_an_indirect_view_takes_as_many_offsets_as_a_group_holds(partitions):
    t, index = tensor((partitions, 40)), tensor((partitions, 3), dtype=int16)
    most = 3 * min(partitions, 32)
    assert t.indirect(index).shape == (partitions, 3 * min(partitions, 16))
    for count in (1, most):
        assert t.indirect(index, count).shape == (partitions, count)
    for count in (-1, 0, most + 1):
        with pytest.raises(ViewError, match=f"num_elem={count}, the index holds {most} offsets"):
            t.indirect(index, count)


def chosen_rows():
    return tensor((6, 8), PRIVATE_HBM).vector_select(0, tensor((3, 1), dtype=int16))


@pytest.mark.parametrize(
    "key", [np.s_[:], np.s_[0:3], np.s_[-3:], np.s_[:, 2:5], np.s_[0:3, 1], np.s_[..., 1::3]]
)
def test_a_view_of_chosen_rows_may_be_cut_along_the_others(key):
    memory = memory_of((6, 8), float32)
    part = chosen_rows()[key]
    assert elements(part, memory).tobytes() == memory[:3][key].tobytes()
    assert part.shape == memory[:3][key].shape
    assert part.is_indirect()


@pytest.mark.parametrize(
    "key", [0, np.s_[0:2], np.s_[1:], np.s_[1:3, 2:5], np.s_[::2], np.s_[2, 1]]
)
def test_rows_that_indices_choose_are_not_cut(key):
    with pytest.raises(ViewError, match="addressed by a tile of indices: that axis cannot be"):
        chosen_rows()[key]


# -- the way out of an index that is not one integer in SBUF -----------------------------------------------------------


def _rows_by(x, index, how):
    out = nl.ndarray((5, 6), x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(index)
    if how == "HBM":
        nisa.dma_copy(out[0:1], x[index[0:1, 0:1]])
    elif how == "rows":
        nl.load(x[tile])
    elif how == "as told for HBM":
        nisa.dma_copy(out[0:1], x.select(0, tile[0:1, 0:1]).reshape((1, 6)))
    elif how == "as told for rows":
        rows = nl.ndarray((5, 6), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=x.vector_select(0, tile))
        nisa.dma_copy(out, rows)
    return out


@pytest.mark.parametrize(
    ("how", "help"),
    [
        ("HBM", "load the index first: tile = nl.load(index)"),
        ("rows", "gather rows with nisa.dma_copy(dst=rows, src=x.vector_select(0, tile))"),
    ],
)
def test_the_way_out_of_a_wrong_index_works(how, help):
    x = np.random.default_rng(0).standard_normal((9, 6)).astype(np.float32)
    index = np.array([[4], [0], [8], [4], [2]], np.int32)
    kernel = jit(_rows_by)
    with pytest.raises(ViewError) as error:
        kernel(x, index, how)
    assert help in error.value.help
    count = 5 if how == "rows" else 1
    np.testing.assert_array_equal(
        kernel(x, index, f"as told for {how}")[:count], x[index[:count, 0]]
    )


@pytest.mark.parametrize(
    ("divide", "help", "told", "expected"),
    [
        (lambda t: t / 4, "nl.multiply(t, 1 / 4)", lambda t: nl.multiply(t, 1 / 4), lambda x: x / 4),
        (lambda t: t // 4, "nl.floor(nl.multiply(t, 1 / 4))", lambda t: nl.floor(nl.multiply(t, 1 / 4)),
         lambda x: x // 4),
        (lambda t: 3 / t, "nl.multiply(nl.reciprocal(t), 3)", lambda t: nl.multiply(nl.reciprocal(t), 3),
         lambda x: 3 / x),
    ],
)  # fmt: skip
def test_the_way_out_of_a_division_by_a_number_works(divide, help, told, expected):
    def kernel(x, how):
        t = nl.load(x)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, how(t))
        return out

    x = np.random.default_rng(0).standard_normal((9, 6)).astype(np.float32)
    with pytest.raises(TensorOperator) as error:
        jit(kernel)(x, divide)
    assert help in str(error.value.help)
    np.testing.assert_allclose(jit(kernel)(x, told), expected(x), rtol=1e-6)
