"""Tests that the arithmetic of runs agrees with an enumeration of element addresses."""

import random
from math import prod

import numpy as np
import pytest

from nki_lab.dtypes import bfloat16, float32, uint8
from nki_lab.errors import InstructionError
from nki_lab.ir.tensor.access import Runs, runs
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF


def tensor(shape, buffer=PRIVATE_HBM, dtype=float32):
    return whole_view(Storage(0, "t", tuple(shape), dtype, buffer))


def addresses(view):
    """Return (partition, element address) of every element in stream order."""
    where = np.full(view.shape, view.offset)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        steps = np.arange(size) * stride
        where = where + steps.reshape([-1 if a == axis else 1 for a in range(len(view.shape))])
    row = view.storage.row_bytes // view.dtype.itemsize
    flat = where.reshape(-1)
    return flat // row if view.storage.on_chip else flat * 0, flat


def counted_runs(dst, src):
    """Count the runs by looking at every element."""
    count = 1
    (dst_row, to), (src_row, frm) = addresses(dst), addresses(src)
    for k in range(1, len(to)):
        near = to[k] == to[k - 1] + 1 and frm[k] == frm[k - 1] + 1
        count += not (near and dst_row[k] == dst_row[k - 1] and src_row[k] == src_row[k - 1])
    return count


def factors(size, rng, most):
    """Return a random shape of `size` elements with at most `most` axes."""
    shape = []
    while size > 1 and len(shape) < most - 1:
        divisor = rng.choice([d for d in range(1, size + 1) if size % d == 0])
        shape.append(divisor)
        size //= divisor
    return (*shape, size)


def random_view(size, rng):
    """Return a view of `size` elements: sliced, stepped, permuted, repeated, in HBM or SBUF."""
    buffer = rng.choice((PRIVATE_HBM, SBUF))
    shape = factors(size, rng, rng.randint(1, 5))
    if buffer is SBUF:
        shape = (*(shape if len(shape) > 1 else (1, *shape)),)
        if shape[0] > 128:
            buffer = PRIVATE_HBM
    steps = [rng.choice((1, 1, 1, 2, 3)) for _ in shape]
    extra = [rng.choice((0, 0, 0, 1, 3)) for _ in shape]
    first = 1 if buffer is SBUF else 0
    order = list(range(first, len(shape)))
    rng.shuffle(order)
    order = (list(range(first)) + order) if rng.random() < 0.5 else list(range(len(shape)))
    stored = [shape[a] for a in order]
    steps[0] = 1 if first else steps[0]
    whole = [
        1 if rng.random() < 0.1 and a >= first else n * s + e
        for a, (n, s, e) in enumerate(zip(stored, steps, extra, strict=True))
    ]
    whole[0] = min(whole[0], 128) if first else whole[0]
    view = tensor(whole, buffer)
    for axis, (n, s) in enumerate(zip(stored, steps, strict=True)):
        if whole[axis] == 1 and n > 1:
            view = view.broadcast(axis, n)
        else:
            start = rng.randint(0, view.shape[axis] - ((n - 1) * s + 1))
            view = view.slice(axis, start, start + (n - 1) * s + 1, s)
    return view.permute([order.index(a) for a in range(len(shape))])


@pytest.mark.parametrize("seed", range(60))
def test_random_views_agree_with_enumeration(seed):
    rng = random.Random(seed)
    for _ in range(25):
        size = rng.choice((1, 7, 12, 24, 36, 60, 96, 128, 210, 360))
        dst, src = random_view(size, rng), random_view(size, rng)
        assert prod(dst.shape) == prod(src.shape) == size
        expected = Runs(counted_runs(dst, src), size)
        assert runs(dst, src) == expected, (dst.get_pattern(), src.get_pattern())


@pytest.mark.parametrize(
    ("dst", "src", "count"),
    [
        (tensor((128, 512), SBUF), tensor((128, 512)), 128),  # a row per partition
        (tensor((128, 512)), tensor((65536,)), 1),  # HBM to HBM: one piece
        (tensor((128, 512), SBUF), tensor((128, 1024))[:, 512:], 128),
        (tensor((128, 512), SBUF)[:, ::2], tensor((128, 256)), 128 * 256),  # stepped: an element each
        (tensor((4, 12), SBUF), tensor((8, 6)), 4),  # two rows of the source fill a partition
        (tensor((6, 4), SBUF), tensor((4, 6), SBUF), 8),  # 4, 2|2, 4, 4, 2|2, 4: both sides cut
        (tensor((128, 512), SBUF), tensor((512, 128)).permute((1, 0)), 128 * 512),
        (tensor((128, 64), SBUF), tensor((1, 64)).broadcast(0, 128), 128),  # one row for all
        (tensor((128, 4, 128), SBUF), tensor((512, 128)).reshape((4, 128, 128)).permute((1, 0, 2)), 512),
        (tensor((1, 1), SBUF), tensor((1,)), 1),
    ],
)  # fmt: skip
def test_known_copies(dst, src, count):
    assert runs(dst, src).count == count


def test_explicit_patterns_may_overlap_and_step_back():
    base = tensor((64,))
    overlapping = base.ap([[4, 3], [1, 6]])  # 0..5, 4..9, 8..13
    backward = base.ap([[-1, 18]], offset=17)
    for view in (overlapping, backward):
        assert runs(tensor((18,)), view).count == counted_runs(tensor((18,)), view)
    assert runs(tensor((18,)), overlapping).count == 3
    assert runs(tensor((18,)), backward).count == 18


def test_bytes_of_a_run():
    whole = runs(tensor((128, 512), SBUF, bfloat16), tensor((128, 512), dtype=bfloat16))
    assert whole.mean_bytes(2) == 1024
    cut = runs(tensor((6, 4), SBUF, uint8), tensor((4, 6), SBUF, uint8))
    assert cut.mean_bytes(1) == 3  # 24 bytes in 8 runs of 2 or 4


def test_different_sizes_are_refused():
    with pytest.raises(InstructionError, match=r"has 12 and .* has 11"):
        runs(tensor((11,)), tensor((12,)))
