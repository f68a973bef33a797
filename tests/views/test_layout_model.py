"""Tests that the boxes of a slice hold exactly the elements that NumPy enumerates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import run
from nki_lab.views.layout.model import axis_labels, boxes, tensor_layout
from nki_lab.views.run import Slice, Tensor
from nki_lab.widgets.packing import unpack
from tests.views.runs import added, by_hand


def enumerated(part: Slice) -> set[int]:
    """Return the numbers of the elements of a slice, one by one."""
    index = np.full(part.shape, part.offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(part.shape, part.strides, strict=True)):
        shape = [1] * len(part.shape)
        shape[axis] = size
        index += (np.arange(size) * stride).reshape(shape)
    return set(index.reshape(-1).tolist())


def boxed(part: Slice, row_elements: int) -> set[int]:
    """Return the numbers of the elements in the boxes of a slice."""
    found: set[int] = set()
    for box in boxes(part, row_elements):
        rows = box.row + np.arange(box.rows) * box.row_step
        columns = box.column + np.arange(box.columns) * box.column_step
        assert columns.max() < row_elements, "a box leaves its row"
        found |= set((rows[:, None] * row_elements + columns).reshape(-1).tolist())
    return found


@st.composite
def views(draw) -> tuple[Slice, int]:
    """Draw any strided view that stays in a tensor of rows x columns."""
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 24))
    shape, strides = [], []
    reach = 0
    for _ in range(draw(st.integers(1, 4))):
        stride = draw(st.sampled_from([0, 1, 2, 3, 5, columns, 2 * columns, columns + 1]))
        most = 6 if stride == 0 else min(9, (rows * columns - 1 - reach) // stride + 1)
        size = draw(st.integers(1, max(1, most)))
        reach += (size - 1) * stride
        shape.append(size)
        strides.append(stride)
    offset = draw(st.integers(0, rows * columns - 1 - reach))
    return Slice("", tuple(shape), tuple(strides), offset, 4), columns


@given(views())
def test_boxes_hold_exactly_the_elements_of_a_view(drawn) -> None:
    part, columns = drawn
    assert boxed(part, columns) == enumerated(part)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "columns", "count"),
    [
        ((128, 512), (512, 1), 0, 512, 1),  # a whole tile
        ((64, 100), (512, 1), 32 * 512 + 7, 512, 1),  # a part of it
        ((64, 16, 8), (512, 1, 16), 0, 512, 1),  # its free axes exchanged
        ((128, 64), (512, 8), 3, 512, 1),  # every eighth element
        ((4, 3, 2), (64, 16, 2), 0, 64, 3),  # a stride within a stride
        ((65536,), (1,), 0, 512, 1),  # a tensor in HBM as one stream
        ((1000,), (1,), 100, 512, 3),  # a stream that begins and ends inside rows
        ((8, 512), (0, 1), 512, 512, 1),  # one row broadcast
    ],
)
def test_common_views_are_few_boxes(shape, strides, offset, columns, count) -> None:
    part = Slice("", shape, strides, offset, 2)
    assert len(list(boxes(part, columns))) == count
    assert boxed(part, columns) == enumerated(part)


def test_a_negative_stride_is_walked_from_its_end() -> None:
    part = Slice("", (4, 3), (8, -2), 7, 4)
    assert boxed(part, 8) == enumerated(part)


def test_layout_of_a_real_kernel_names_its_slices() -> None:
    data = added().view_data
    x = next(n for n, t in enumerate(data.tensors) if t.name == "x")
    meta, arrays = unpack(tensor_layout(data, x))
    assert [s["text"] for s in meta["slices"]] == ["%x[0:96, 0:300]", "%x[0:96, 300:600]"]
    assert arrays["boxes"].reshape(-1, 7).tolist() == [
        [0, 96, 1, 0, 300, 4, 4],
        [0, 96, 1, 1200, 300, 4, 4],
    ]
    assert [(s["reads"], s["writes"]) for s in meta["slices"]] == [(1, 0), (1, 0)]
    assert meta["slices"][0]["uses"][0]["source"].strip().startswith("total = nl.add(nl.load(x[")
    assert (meta["rows"], meta["row_bytes"], meta["more"]) == (96, 2400, 0)


def test_a_slice_at_a_dynamic_address_covers_all_it_may_reach() -> None:
    result = run(rows_from, np.ones((64, 16), np.float32), np.array([[3]], np.int32), target="trn2")
    data = result.view_data
    numbers = {t.name: n for n, t in enumerate(data.tensors)}
    meta, arrays = unpack(tensor_layout(data, numbers["x"]))
    assert [(s["dynamic"], s["reads"]) for s in meta["slices"]] == [(True, 1)]
    assert arrays["boxes"].tolist() == [0, 64, 1, 0, 16, 4, 4]
    # The tile of the index is read as well.
    assert [s.readers for s in data.slices(numbers["at"])] != [[]]


def rows_from(x, first):
    """Copy eight rows of `x` from a row that is known while the kernel runs."""
    at = nl.load(first)
    rows = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(rows, x.ap([[16, 8], [1, 16]], scalar_offset=at))
    result = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, rows)
    return result


def test_axes_are_named() -> None:
    tile = Tensor("t", "sbuf", (128, 4, 64), "bfloat16", 2, "temporary", True)
    assert axis_labels(tile) == [
        "partition axis: axis 0 (128)",
        "free axes 1, 2: 4 x 64 bfloat16 per partition (512 bytes)",
    ]
    flat = Tensor("v", "shared_hbm", (1000,), "float32", 4, "input", False)
    assert axis_labels(flat) == ["", "axis 0: 1,000 float32 (4,000 bytes)"]


def test_more_slices_than_can_be_drawn_are_counted() -> None:
    many = [Slice(f"%x[{k}]", (1,), (1,), k % 32, 4, readers=[0]) for k in range(2_500)]
    meta, _ = unpack(tensor_layout(by_hand(slices=lambda n: many), 0))
    assert len(meta["slices"]) == 2_000
    assert meta["more"] == 500
