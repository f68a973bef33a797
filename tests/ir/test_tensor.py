"""Tests that a view addresses the elements that NumPy's view of the same name addresses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.dtypes import bfloat16, float32, int16, uint8
from nki_lab.errors import ViewError
from nki_lab.ir.tensor.storage import Storage, leaves_storage
from nki_lab.ir.tensor.view import DynamicSlice, NkiTensor, whole_view
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from tests.ir.memory import elements, memory_of, tensor
from tests.thorough import examples

# -- random chains against NumPy -------------------------------------------------------------------------------------


def index_step(data, view, array):
    key, plain = [], []
    for size in view.shape[: data.draw(st.integers(1, view.ndim))]:
        kind = data.draw(st.sampled_from("isd"))
        if kind == "i":
            key.append(data.draw(st.integers(-size, size - 1)))
            plain.append(key[-1])
            continue
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size))
        if kind == "d":
            key.append(DynamicSlice(start, stop - start))
            plain.append(slice(start, stop))
        else:
            step = data.draw(st.integers(1, 3))
            shifted = data.draw(st.booleans())
            key.append(slice(start - size if shifted else start, stop, step))
            plain.append(slice(start, stop, step))
    if view.buffer.on_chip and type(plain[0]) is int:  # the partition axis stays
        row = plain[0] % view.shape[0]
        plain[0] = slice(row, row + 1)
    result = np.asarray(array[tuple(plain)])
    while result.ndim < (2 if view.buffer.on_chip else 1):
        result = result[..., None]
    return view[tuple(key)], result


def slice_step(data, view, array):
    dim = data.draw(st.integers(0, view.ndim - 1))
    start = data.draw(st.integers(0, view.shape[dim] - 1))
    end = data.draw(st.integers(start + 1, view.shape[dim]))
    step = data.draw(st.integers(1, 3))
    key = [slice(None)] * view.ndim
    key[dim] = slice(start, end, step)
    return view.slice(dim, start, end, step), array[tuple(key)]


def select_step(data, view, array):
    dim = data.draw(st.integers(0, view.ndim - 1))
    index = data.draw(st.integers(0, view.shape[dim] - 1))
    whole = [slice(None)] * dim
    if (dim == 0 and view.buffer.on_chip) or view.ndim == (2 if view.buffer.on_chip else 1):
        key = (*whole, slice(index, index + 1))  # partition and last axes are kept
    else:
        key = (*whole, index)
    return view.select(dim, index), array[key]


def permute_step(data, view, array):
    first = 1 if view.buffer.on_chip else 0
    order = (*range(first), *data.draw(st.permutations(range(first, view.ndim))))
    return view.permute(order), array.transpose(order)


def broadcast_step(data, view, array):
    first = 1 if view.buffer.on_chip else 0
    ones = [d for d in range(first, view.ndim) if view.shape[d] == 1]
    if not ones:
        return view, array
    dim, size = data.draw(st.sampled_from(ones)), data.draw(st.integers(1, 4))
    shape = list(array.shape)
    shape[dim] = size
    return view.broadcast(dim, size), np.broadcast_to(array, shape)


def expand_step(data, view, array):
    dim = data.draw(st.integers(1 if view.buffer.on_chip else 0, view.ndim))
    given_dim = dim - view.ndim - 1 if data.draw(st.booleans()) else dim
    return view.expand_dim(given_dim), np.expand_dims(array, dim)


def squeeze_step(data, view, array):
    ones = [d for d in range(1, view.ndim) if view.shape[d] == 1]
    if not ones or view.ndim <= 2:
        return view, array
    dim = data.draw(st.sampled_from(ones))
    return view.squeeze_dim(dim), array.squeeze(dim)


def factors(data, size):
    """Draw sizes whose product is `size`."""
    found = []
    while size > 1 and len(found) < 3:
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        found.append(data.draw(st.sampled_from(divisors)))
        size //= found[-1]
    return [*found, size]


def reshape_dim_step(data, view, array):
    dim = data.draw(st.integers(1, view.ndim - 1)) if view.ndim > 1 else 0
    if dim == 0 and view.buffer.on_chip:
        return view, array
    sizes = factors(data, view.shape[dim])
    asked = list(sizes)
    if data.draw(st.booleans()):
        asked[data.draw(st.integers(0, len(asked) - 1))] = -1
    shape = (*array.shape[:dim], *sizes, *array.shape[dim + 1 :])
    return view.reshape_dim(dim, asked), np.reshape(array, shape, copy=False)


def without_copy(array, shape):
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


def flatten_step(data, view, array):
    first = 1 if view.buffer.on_chip else 0
    if view.ndim - first < 1:
        return view, array
    start = data.draw(st.integers(first, view.ndim - 1))
    end = data.draw(st.integers(start, view.ndim - 1))
    merged = int(np.prod(array.shape[start : end + 1]))
    wanted = without_copy(array, (*array.shape[:start], merged, *array.shape[end + 1 :]))
    if wanted is None:
        with pytest.raises(ViewError, match="not contiguous"):
            view.flatten_dims(start, end)
        return view, array
    return view.flatten_dims(start, end), wanted


def reshape_step(data, view, array):
    first = view.shape[:1] if view.buffer.on_chip else ()
    sizes = (*first, *factors(data, view.size // (first[0] if first else 1)))
    wanted = without_copy(array, sizes)
    if wanted is None:
        with pytest.raises(ViewError, match="not contiguous"):
            view.reshape(sizes)
        return view, array
    return view.reshape(sizes), wanted


def view_step(data, view, array):
    dtype = data.draw(st.sampled_from([float32, bfloat16, int16, uint8]))
    try:
        wanted = array.view(dtype.np)
    except ValueError:
        return view, array  # NumPy asks for the same contiguity; the errors have their own tests
    try:
        return view.view(dtype), wanted
    except ViewError:
        # A coarser element also has to lie on a multiple of its size, which NumPy does not ask for.
        starts = [view.offset, *(s for s, n in zip(view.strides, view.shape, strict=True) if n > 1)]
        assert any(s * view.dtype.itemsize % dtype.itemsize for s in starts)
        return view, array


def pattern_step(data, view, array):
    """`ap` with the view's own pattern is the view, counted from the view's own start."""
    pattern = [[s, n] for s, n in zip(view.strides, view.shape, strict=True)]
    assert view.get_pattern() == pattern
    row = view.storage.row_bytes // view.dtype.itemsize
    if view.buffer.on_chip and view.shape[0] > 1 and view.strides[0] != row:
        with pytest.raises(ViewError, match="the partition stride is"):
            view.ap(pattern)
        return view, array
    return view.ap(pattern), array


def rearrange_step(data, view, array):
    names = [f"n{k}" for k in range(view.ndim)]
    first = 1 if view.buffer.on_chip else 0
    order = data.draw(st.permutations(range(first, view.ndim)))
    target = names[:first] + [names[k] for k in order]
    return view.rearrange(names, target), array.transpose([*range(first), *order])


STEPS = (
    index_step, slice_step, select_step, permute_step, broadcast_step, expand_step, squeeze_step, reshape_dim_step,
    flatten_step, reshape_step, view_step, pattern_step, rearrange_step,
)  # fmt: skip


@given(st.data())
@settings(max_examples=examples(500))
def test_chains_of_views_address_what_numpy_addresses(data):
    buffer = data.draw(st.sampled_from([SBUF, PSUM, PRIVATE_HBM, SHARED_HBM]))
    dtype = data.draw(st.sampled_from([float32, bfloat16, uint8]))
    sizes = st.sampled_from([1, 2, 3, 4, 6, 8])
    shape = tuple(data.draw(st.lists(sizes, min_size=2 if buffer.on_chip else 1, max_size=4)))
    memory = memory_of(shape, dtype)
    view, array = tensor(shape, buffer, dtype), memory
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=6)):
        view, array = step(data, view, array)
        assert view.shape == array.shape, step.__name__
        assert elements(view, memory).tobytes() == array.tobytes(), step.__name__
        assert view.size == array.size
        assert view.ndim >= (2 if buffer.on_chip else 1)
        pattern = (view.shape, view.strides, view.offset, view.dtype.itemsize)
        assert leaves_storage(view.storage, *pattern) == ""


# -- named facts -----------------------------------------------------------------------------------------------------


def test_facts_of_a_view():
    t = tensor((64, 4, 8), SBUF, bfloat16)
    view = t[32:64, 1, 2:8:3]
    assert (view.shape, view.strides, view.offset) == ((32, 2), (32, 3), 32 * 32 + 8 + 2)
    assert (view.ndim, view.size, len(view)) == (2, 64, 32)
    assert (view.partitions, view.free_size, view.free_bytes, view.start_partition) == (
        32,
        2,
        4,
        32,
    )
    assert (view.name, view.dtype, view.buffer) == ("t", bfloat16, SBUF)
    assert view.describe() == "`t` [32, 2] bfloat16 in sbuf"
    assert repr(view) == "<tensor `t` [32, 2] bfloat16 in sbuf>"
    assert not view.is_indirect()


def test_start_partition_is_counted_in_rows_of_the_storage_whatever_the_view_counts_in():
    assert tensor((128, 64), PSUM)[96:, 60:].view(uint8).start_partition == 96
    assert tensor((128, 64), PRIVATE_HBM)[96:].start_partition == 0


@pytest.mark.parametrize(
    ("view", "contiguous"),
    [
        (lambda t: t, True),
        (lambda t: t[0:32], True),
        (lambda t: t[0:64:2], True),  # partitions are memories of their own
        (lambda t: t[:, 0:1], True),
        (lambda t: t[:, 0:1, 0:4], True),  # one run: the axis of size 1 is never stepped along
        (lambda t: t[:, :, 0:4], False),
        (lambda t: t.permute((0, 2, 1)), False),
        (lambda t: t[:, :, 0:1].broadcast(2, 8), False),
    ],
)
def test_contiguity_on_chip_is_asked_of_each_partition(view, contiguous):
    assert view(tensor((64, 4, 8))).is_contiguous() is contiguous


def test_contiguity_in_hbm_counts_every_axis():
    t = tensor((64, 4, 8), PRIVATE_HBM)
    assert t.is_contiguous()
    assert t[1:3].is_contiguous()
    assert not t[0:64:2].is_contiguous()


# Examples of the language guide ("The partition dimension is special", "Tensor Indexing").
@pytest.mark.parametrize(
    ("buffer", "shape", "index", "result"),
    [
        (SBUF, (128, 64, 32), np.s_[0, :, :], (1, 64, 32)),
        (SBUF, (128, 64, 32), np.s_[:, :, 0], (128, 64)),
        (SHARED_HBM, (4, 128, 32), np.s_[0, :, :], (128, 32)),
        (SBUF, (64, 64, 64), np.s_[0, 0, 10], (1, 1)),
        (SBUF, (64, 64, 64), np.s_[:, 0], (64, 64)),
        (SBUF, (64, 64, 64), np.s_[:, 0, 10], (64, 1)),
        (SBUF, (64, 64, 64), np.s_[0:64, 0, 0:64], (64, 64)),
        (SBUF, (64, 64, 64), np.s_[:, :, ::2], (64, 64, 32)),
        (SBUF, (64, 64, 64), np.s_[...], (64, 64, 64)),
        (SBUF, (64, 64, 64), np.s_[0, ..., :], (1, 64, 64)),
        (SHARED_HBM, (64,), np.s_[5], (1,)),
        (SHARED_HBM, (64, 8), np.s_[5, 3], (1,)),
    ],
)
def test_indexing_keeps_the_partition_axis_on_chip_and_one_axis_in_hbm(
    buffer, shape, index, result
):
    assert tensor(shape, buffer)[index].shape == result


def test_rearrange_splits_reorders_and_merges():
    # The example of the API stub, and one that merges.
    t = tensor((128, 24))
    assert t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4}).shape == (128, 6, 4)
    memory = memory_of((2, 12, 5), float32)
    view = tensor((2, 12, 5), PRIVATE_HBM).rearrange(
        ("a", ("b", "c"), "d"), (("a", "b"), "d", (), "c"), {"c": 3}
    )
    wanted = memory.reshape(2, 4, 3, 5).transpose(0, 1, 3, 2).reshape(8, 5, 1, 3)
    assert view.shape == wanted.shape
    assert elements(view, memory).tobytes() == wanted.tobytes()


def test_a_pattern_is_counted_in_its_own_dtype_and_from_the_views_own_start():
    memory = memory_of((8, 16), float32)
    view = tensor((8, 16))[2:6, 4:].ap([[32, 4], [4, 3]], offset=1, dtype=bfloat16)
    wanted = memory.view(bfloat16.np)[2:6, 9::4][:, :3]
    assert elements(view, memory).tobytes() == wanted.tobytes()


def test_a_pattern_may_walk_backwards_and_overlap_itself():
    memory = memory_of((4, 8), float32)
    view = tensor((4, 8)).ap([[8, 4], [1, 3], [-1, 4]], offset=3)
    wanted = np.lib.stride_tricks.sliding_window_view(memory, 4, axis=1)[:, :3, ::-1]
    assert elements(view, memory).tobytes() == wanted.tobytes()


def test_hbm_axes_have_no_partition_axis():
    t = tensor((4, 8), PRIVATE_HBM)
    assert t.permute((1, 0)).shape == (8, 4)
    assert t.expand_dim(0).shape == (1, 4, 8)
    assert t.reshape((2, 16)).shape == (2, 16)
    assert t.flatten_dims(0, 1).shape == (32,)
    assert t[0:1].broadcast(0, 3).shape == (3, 8)


def test_the_view_of_all_bytes_behind_a_storage_handle():
    storage = Storage(0, "t", (8, 4), float32, SBUF)
    assert NkiTensor((8, 4), float32, storage).get_pattern() == whole_view(storage).get_pattern()
