"""Tests what `t[...]` selects by the rules of the documentation, and what it refuses."""

from dataclasses import dataclass

import numpy as np
import pytest

from nki_lab.beta1.index import arange, mgrid
from nki_lab.beta1.indexing import Moved, accessed, moved, part_of, positions
from nki_lab.errors.beta1 import BadIndexing, IndexExpression, IndirectIndex, OutsideTensor
from nki_lab.ir.tensor.view import DynamicSlice
from nki_lab.targets.spaces import SBUF, SHARED_HBM
from tests.beta1.test_random_access import Whole, elements, tensor, whole

rows, cols = arange(64)[:, None], arange(32)[None, :]


@dataclass
class Indices(Whole):
    """A tile of indices, as a stand-in: what is asked of it here is its size."""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


def indices(*shape):
    return Indices(tensor(shape, SBUF).view)


@pytest.mark.parametrize(
    ("shape", "key", "expected"),
    [
        ((2, 128, 1024), np.s_[1], (128, 1024)),
        ((2, 128, 1024), np.s_[1, :, :], (128, 1024)),
        ((2, 128, 1024), np.s_[1, :, 0:512], (128, 512)),
        ((2, 128, 1024), np.s_[:, 1, 0:2], (2, 2)),
        ((64,), np.s_[3], (1,)),
        ((64,), np.s_[3:9], (6,)),
    ],
)
def test_the_shapes_of_the_documentation(shape, key, expected):
    """(nki/programming_model.rst, Basic Tensor Indexing)"""
    assert positions(tensor(shape), key).shape == expected


@pytest.mark.parametrize(
    ("shape", "blocks", "key", "expected"),
    [
        ((128, 512), 0, np.s_[0, 0], (1, 1)),
        ((128, 512), 0, np.s_[0:64, 5], (64, 1)),
        ((128, 512), 0, np.s_[5], (1, 512)),
        ((128, 8, 4), 0, np.s_[:, 3], (128, 4)),
        ((128, 8, 4), 0, np.s_[:, 3, 2], (128, 1)),
        ((128, 8, 4), 0, np.s_[0, 3], (1, 4)),
        ((4, 128, 8, 64), 1, np.s_[2], (128, 8, 64)),
        ((4, 128, 8, 64), 1, np.s_[2, 0], (1, 8, 64)),
        ((4, 128, 8, 64), 1, np.s_[2, :, 3, 1], (128, 1)),
        ((4, 3, 128, 8), 2, np.s_[1, 2, :, 0], (128, 1)),
        ((4, 128, 8), 1, np.s_[1:3], (2, 128, 8)),
    ],
)
def test_tiles_on_the_chip_keep_two_axes(shape, blocks, key, expected):
    tile = Whole(tensor(shape, SBUF).view, blocks)
    chosen = positions(tile, key)
    assert chosen.shape == expected
    places = [index.values() for index in chosen.indices]
    for ours, of_numpy in zip(places, np.indices(shape), strict=True):
        np.testing.assert_array_equal(
            np.broadcast_to(ours, expected).ravel(), of_numpy[key].ravel()
        )


def test_ds_is_a_slice():
    """(test_nki_nl_dslice.py)"""
    t = tensor((128, 4096))
    for ours, other in zip(
        positions(t, np.s_[:, 512:1024]).indices,
        positions(t, (slice(None), DynamicSlice(512, 512))).indices,
        strict=True,
    ):
        assert (ours.shape, ours.coef, ours.const) == (other.shape, other.coef, other.const)
    by = positions(t, (slice(None), DynamicSlice(indices(1, 1), 512)))
    assert by.shape == (128, 512)
    assert by.by.kind == "scalar"
    assert by.by.axis == 1


def test_integers_stand_between_index_tensors():
    t = tensor((4, 64, 3, 32))
    chosen = positions(t, (2, rows, -1, cols))
    assert chosen.shape == (64, 32)
    np.testing.assert_array_equal(
        elements(accessed(t.view, chosen.indices, whole(chosen.shape))),
        np.arange(4 * 64 * 3 * 32).reshape(t.shape)[2, np.arange(64)[:, None], -1, np.arange(32)],
    )


def test_slices_may_reach_beyond_the_tensor_where_a_mask_cuts_them():
    t = tensor((100, 32))
    chosen = positions(t, np.s_[64:128, :])
    assert chosen.shape == (64, 32)
    assert part_of(t, t.view, np.s_[64:128, :]) is None
    with pytest.raises(
        OutsideTensor, match=r"index range \[64, 127\] exceed dimension size of 100"
    ):
        accessed(t.view, chosen.indices, whole(chosen.shape))
    assert accessed(t.view, chosen.indices, ((0, 36), (0, 32))).offset == 64 * 32


def test_rows_of_a_tensor_are_chosen_by_a_tile():
    """(test_nki_nl_load_store_indirect.py; flash_attn_impl.py: `query[batch, head, q_indices[i_p, 0], i_f]`)"""
    by = positions(tensor((128, 512)), (indices(64, 1), cols))
    assert (by.shape, by.by.kind, by.by.axis) == ((64, 32), "vector", 0)
    by = positions(tensor((2, 3, 128, 512)), (1, 2, indices(64, 1), cols))
    assert (by.shape, by.by.kind, by.by.axis) == ((64, 32), "vector", 2)
    by = positions(tensor((128, 512)), (indices(64, 1), 5))
    assert by.shape == (64, 1)


def test_one_value_of_a_tile_is_an_integer():
    """(test_nki_isa_tensor_copy_dynamic.py; flash_attn_impl.py: `tile_masks[:, loop_index[0, 0], 0, :, :]`)"""
    ix, iy = mgrid[0:128, 0:1]
    by = positions(tensor((128, 512), SBUF), (ix, moved(indices(1, 1), iy)))
    assert (by.shape, by.by.kind, by.by.axis) == ((128, 1), "scalar", 1)
    by = positions(
        tensor((128, 9, 3, 4, 5)), (slice(None), indices(1, 1), 0, slice(None), slice(1, 3))
    )
    assert (by.shape, by.by.axis) == ((128, 4, 2), 1)
    by = positions(tensor((9, 128, 4)), indices(1, 1))
    assert (by.shape, by.by.axis) == ((128, 4), 0)
    index = Moved(indices(1, 1), cols) + 3 - 1
    np.testing.assert_array_equal(index.index.values(), cols.values() + 2)
    np.testing.assert_array_equal((4 + index).index.values(), cols.values() + 6)


CHIP, HBM = tensor((128, 8, 512), SBUF), tensor((128, 8, 512))


@pytest.mark.parametrize(
    ("tile", "key", "kind", "message", "code"),
    [
        (CHIP, (arange(64), 0, 0), BadIndexing,
         "`t` [128, 8, 512] float32 in sbuf is indexed with a nl.arange of one axis", "err_1d_arange_not_supported"),
        (CHIP, (rows, 0, slice(None)), BadIndexing, "with index tensors and slices",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (CHIP, (rows, Ellipsis), BadIndexing, "with index tensors and slices",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (CHIP, (rows, 0, DynamicSlice(0, 4)), BadIndexing, "with index tensors and slices",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (CHIP, (rows, None, 0, cols), BadIndexing, "with index tensors and None",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (CHIP, (rows, cols), BadIndexing, "no index for the last 1 of its 3 axes",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (HBM, (indices(64, 1), cols), BadIndexing, "no index for the last 1 of its 3 axes",
         "err_unsupported_mixing_basic_advanced_tensor_indexing"),
        (HBM, (rows, indices(64, 1), cols), IndirectIndex, "and an axis before it with an index tensor",
         "err_indirect_indices_free_dim"),
        (HBM, (indices(64, 32), 0, cols), IndirectIndex, "one index for each partition is needed",
         "err_indirect_indices_free_dim"),
        (CHIP, (0, indices(64, 1), cols), IndirectIndex, "on the chip rows cannot be chosen at run time",
         "err_copy_dynamic_indirect_indices_not_natively_supported"),
        (CHIP, (indices(1, 1), 0, cols), IndirectIndex, "is the partition axis",
         "err_copy_dynamic_indirect_indices_not_natively_supported"),
        (HBM, (indices(1, 1), indices(1, 1), cols), IndirectIndex, "two values that are only known at run time",
         "err_indirect_indices_free_dim"),
        (CHIP, (0, 0, 0, 0), BadIndexing, "4 indices for", ""),
        (CHIP, (Ellipsis, 0, Ellipsis), BadIndexing, "only once", ""),
        (CHIP, (slice(3, 3),), BadIndexing, "slice 3:3 on axis 0", ""),
        (CHIP, (slice(0, 8, -1),), BadIndexing, "slice step -1 on axis 0", ""),
        (CHIP, (slice(0, rows),), IndexExpression, "is an index tensor, which has many values", ""),
        (CHIP, (0, slice(0, indices(1, 1))), IndirectIndex, "is only known at run time", ""),
        (CHIP, (0, DynamicSlice(0, 0)), BadIndexing, "nl.ds of 0 elements", ""),
        (CHIP, (0, DynamicSlice(indices(1, 2), 4)), IndirectIndex, "which has more than one element", ""),
        (CHIP, (0, 1.5), BadIndexing, "axis 1 of `t` [128, 8, 512] float32 in sbuf is indexed with float 1.5", ""),
        (CHIP, (0, True), BadIndexing, "is indexed with bool True", ""),
        (CHIP, ("a",), BadIndexing, "is indexed with str 'a'", ""),
        (CHIP, (np.arange(3),), BadIndexing, "is indexed with ndarray", ""),
        (HBM, (rows, arange(3)[:, None], 0), IndexExpression, "do not broadcast", ""),
    ],
)  # fmt: skip
def test_what_selects_no_tile_is_refused(tile, key, kind, message, code):
    with pytest.raises(kind) as raised:
        positions(tile, key)
    assert message in raised.value.message
    assert code in " ".join(raised.value.notes)
    assert type(raised.value) is kind
    assert part_of(tile, tile.view, key) is None  # the fast way leaves it to the slow one


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((2 * rows, 0, cols), "its partitions are taken in steps of 2"),
        ((63 - rows, 0, cols), "its partitions are taken in steps of -1"),
        ((0 * rows, 0, cols), "its partitions are taken in steps of 0"),
        ((cols, 0, rows), "an axis of the grid other than its first steps through partitions"),
        (
            (rows, 0, rows + cols),
            "the position along a free axis differs from partition to partition",
        ),
    ],
)
def test_partitions_are_adjacent_and_begin_at_one_place(key, message):
    """(nki/programming_model.rst: "such flexible indexing is not supported along the partition dimension")"""
    assert part_of(CHIP, CHIP.view, key) is None
    chosen = positions(CHIP, key)
    with pytest.raises(BadIndexing) as raised:
        accessed(CHIP.view, chosen.indices, whole(chosen.shape))
    assert message in raised.value.message
    chosen = positions(HBM, key)  # HBM has no partitions
    accessed(HBM.view, chosen.indices, whole(chosen.shape))


def test_sums_with_tiles_are_refused():
    with pytest.raises(IndirectIndex, match="which has more than one element"):
        moved(indices(64, 1), cols)
    with pytest.raises(
        IndirectIndex, match="the sum of two values that are only known at run time"
    ):
        moved(indices(1, 1), cols) + indices(1, 1)


def test_what_is_remembered_is_told_apart():
    """Keys of one pattern differ in their starts only; other sizes, steps and tensors are other patterns."""
    for shape in ((6, 20), (6, 10, 2), (12, 10)):
        for buffer in (SBUF, SHARED_HBM):
            t = tensor(shape, buffer)
            for key in (
                np.s_[0:3, 2:8:2],
                np.s_[1:4, 0:6:2],
                np.s_[1:4, 0:6],
                np.s_[2, 1],
                np.s_[3:4, 1:2],
                np.s_[2:],
            ):
                part = part_of(t, t.view, key)
                expected = np.arange(np.prod(shape)).reshape(shape)[key]
                np.testing.assert_array_equal(elements(part).ravel(), expected.ravel())
