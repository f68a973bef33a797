"""Tests that the elements of an operand are exactly those that NumPy's indexing of the tensor gives."""

from dataclasses import replace

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.isa import registry
from nki_lab.runtime import Result, run
from nki_lab.views.layout.access import access_parts, axis_facts, runs_of
from nki_lab.views.run import contracted
from nki_lab.widgets.packing import unpack


def numbered(*shape: int) -> np.ndarray:
    """Return an array that holds the number of each of its elements."""
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


def drawn(result: Result, position: int, operand: str) -> set[int]:
    """Return the numbers of the elements in the boxes of an operand, within its tensor."""
    meta, arrays = unpack(access_parts(result.view_data, position))
    entry = next(o for o in meta["operands"] if o["operand"] == operand)
    first, last = entry["boxes"]
    found: set[int] = set()
    for row, rows, row_step, byte, count, step, size in arrays["boxes"].reshape(-1, 7)[first:last]:
        for r in row + np.arange(rows) * row_step:
            start = r * entry["row_bytes"] + byte + np.arange(count) * step
            assert (start % size == 0).all() and (byte + (count - 1) * step < entry["row_bytes"])
            found |= set((start // size).tolist())
    return found


def find(result: Result, name: str, nth: int = 0) -> int:
    """Return the position of the n-th instruction of a name."""
    operations = result.view_data.operations
    return [p for p, o in enumerate(operations) if o.name == name][nth]


def strides(x):
    """Copy every third column of half the rows, and one row to all."""
    result = nl.ndarray((64, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    part = nl.ndarray((64, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=tile[64:128, 1:24:3])
    nl.store(result, part)
    spread = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x[5:6, :].broadcast(0, 64))
    nl.store(spread, rows)
    return result, spread


def test_strided_and_broadcast_operands_are_exact(rng) -> None:
    x = rng.standard_normal((128, 32)).astype(np.float32)
    result = run(strides, x, target="trn2")
    place = numbered(128, 32)
    copied = find(result, "tensor_copy")
    assert drawn(result, copied, "src") == set(place[64:128, 1:24:3].reshape(-1).tolist())
    assert drawn(result, copied, "dst") == set(range(64 * 8))
    spread = next(
        p
        for p, o in enumerate(result.view_data.operations)
        if "strides 0x1" in o.text
    )  # fmt: skip
    assert drawn(result, spread, "src") == set(place[5].tolist())
    meta, _ = unpack(access_parts(result.view_data, spread))
    source = next(o for o in meta["operands"] if o["operand"] == "src")
    assert (source["elements"], source["repeats"]) == (64 * 32, 64)
    assert [axis["words"] for axis in source["axes"]] == ["broadcast", ""]


def gather(x, index):
    """Gather the rows of x that an index names."""
    result = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    at = nl.load(index)
    rows = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x.ap([[16, 64], [1, 16]], vector_offset=at))
    nl.store(result, rows)
    return result


def test_gathered_rows_are_those_the_index_holds(rng) -> None:
    x = rng.standard_normal((200, 16)).astype(np.float32)
    index = rng.integers(0, 200, (64, 1)).astype(np.int32)
    result = run(gather, x, index, target="trn2")
    np.testing.assert_array_equal(result.outputs[0], x[index[:, 0]])
    position = next(
        p
        for p, a in enumerate(map(result.view_data.accesses, range(4)))
        if any(operand.gather for operand in a)
    )
    expected = set(numbered(200, 16)[index[:, 0]].reshape(-1).tolist())
    assert drawn(result, position, "src") == expected
    meta, _ = unpack(access_parts(result.view_data, position))
    assert [o["operand"] for o in meta["operands"]] == ["dst", "src", "indices of src"]
    assert meta["operands"][1]["gather"]["kind"] == "vector"
    assert meta["operands"][1]["axes"][0]["words"] == "rows that %at names"


def moved(x, first):
    """Copy eight rows of x from a row that is known while the kernel runs."""
    at = nl.load(first)
    rows = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(rows, x.ap([[16, 8], [1, 16]], scalar_offset=at))
    result = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, rows)
    return result


def test_a_view_that_one_value_moves_is_where_it_was_moved(rng) -> None:
    x = rng.standard_normal((64, 16)).astype(np.float32)
    result = run(moved, x, np.array([[37]], np.int32), target="trn2")
    position = find(result, "dma_copy", 1)
    assert drawn(result, position, "src") == set(numbered(64, 16)[37:45].reshape(-1).tolist())


def chosen(x, index):
    """Take the elements of each group of sixteen partitions that an index names."""
    tile, at = nl.load(x), nl.load(index)
    part = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=tile.indirect(at))
    result = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, part)
    return result


def test_elements_chosen_on_chip_are_those_of_their_group(rng) -> None:
    x = rng.standard_normal((32, 40)).astype(np.float32)
    index = rng.integers(0, 40, (32, 1)).astype(np.uint16)
    result = run(chosen, x, index, target="trn3")
    groups = [index[:16, 0], index[16:, 0]]
    rows = [numbered(32, 40)[16 * g : 16 * g + 16][:, groups[g]] for g in range(2)]
    np.testing.assert_array_equal(
        result.outputs[0], x.reshape(-1)[np.concatenate(rows)]
    )  # what the kernel reads
    expected = set(np.concatenate(rows).reshape(-1).tolist())
    assert drawn(result, find(result, "tensor_copy"), "src") == expected


@pytest.mark.usefixtures("nki_0_6")
def test_in_a_loop_an_address_is_that_of_the_first_pass() -> None:
    result = run(in_a_loop, np.ones((128, 64), np.float32), target="trn2")
    position = next(
        p for p, o in enumerate(result.view_data.operations) if "%x[" in o.text
    )  # fmt: skip
    assert drawn(result, position, "src") == set(numbered(128, 64)[:, :16].reshape(-1).tolist())
    meta, _ = unpack(access_parts(result.view_data, position))
    notes = [o["note"] for o in meta["operands"] if o["gather"]]
    assert notes == ["drawn where it lies in the first of its 4 passes"]


@pytest.mark.usefixtures("nki_0_6")
def test_where_an_address_is_not_known_this_is_said() -> None:
    result = run(in_a_loop, np.ones((128, 64), np.float32), target="trn2")
    data = replace(result.view_data, places=lambda position, k: None)
    position = next(p for p, o in enumerate(data.operations) if "%x[" in o.text)
    meta, _ = unpack(access_parts(data, position))
    (source,) = (o for o in meta["operands"] if o["gather"])
    assert source["note"].endswith("while the kernel runs")
    assert source["boxes"][0] == source["boxes"][1]


def in_a_loop(x):
    """Double x, some columns at a time, in a loop of the device."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    part = [[64, 128], [1, 16]]
    for k in nl.dynamic_range(0, 64, 16):
        tile = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap(part, scalar_offset=k, indirect_dim=1))
        twice = nl.add(tile, tile)
        nisa.dma_copy(dst=result.ap(part, scalar_offset=k, indirect_dim=1), src=twice)
    return result


def matmul(a, b):
    """Multiply one tile."""
    result = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nl.store(result, nl.copy(acc))
    return result


def test_the_axes_of_a_product_are_named(rng) -> None:
    a, b = (rng.standard_normal((64, n)).astype(np.float32) for n in (32, 48))
    data = run(matmul, a, b, target="trn2").view_data
    position = int(data.products[0])
    found = {access.operand: access for access in data.accesses(position)}
    summed = contracted(list(found.values()))
    assert summed == "K"
    words = {n: [f["words"] for f in axis_facts(o, True, summed)] for n, o in found.items()}
    assert words == {
        "dst": ["partition, M", "free, N"],
        "stationary": ["partition, K, summed over", "free, M"],
        "moving": ["partition, K, summed over", "free, N"],
    }


@pytest.mark.parametrize("row_elements", [7, 16, 100])
def test_runs_hold_exactly_the_given_elements(row_elements, rng) -> None:
    elements = rng.integers(-1, 300, 150)
    found = []
    for box in runs_of(elements, row_elements):
        assert box.column + box.columns <= row_elements
        found += (box.row * row_elements + box.column + np.arange(box.columns)).tolist()
    assert found == sorted(set(elements[elements >= 0].tolist()))


def reduced(x):
    """Reduce a tile of three axes, sum what an activation writes, turn it and add up partitions."""
    tile = nl.load(x)
    most = nl.ndarray((64, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=2)
    sums = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    powers = nl.ndarray((64, 4), dtype=nl.float32, buffer=nl.sbuf)
    bias = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=bias, value=0.5)
    nisa.activation(dst=powers, op=nl.exp, data=most, bias=bias, reduce_op=nl.add, reduce_res=sums)
    total = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=powers)
    result = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(result, total)
    return result


def words(result: Result, name: str) -> dict[str, list[str]]:
    """Return what is said of the axes of each operand of an instruction."""
    meta, _ = unpack(access_parts(result.view_data, find(result, name)))
    return {o["operand"]: [axis["words"] for axis in o["axes"]] for o in meta["operands"]}


def test_reduced_axes_are_named(rng) -> None:
    x = rng.standard_normal((64, 4, 16)).astype(np.float32)
    result = run(reduced, x, target="trn2")
    expected = np.exp(x.astype(np.float64).max(axis=2) + 0.5).sum(axis=0)
    np.testing.assert_allclose(result.outputs[0][0], expected, rtol=1e-5)
    assert words(result, "tensor_reduce")["data"] == ["partition", "free", "free, reduced"]
    assert words(result, "tensor_partition_reduce")["data"] == ["partition, reduced", "free"]
    found = words(result, "activation")
    assert found["dst"] == ["partition", "free, reduced into reduce_res"]
    assert found["data"] == ["partition", "free"]
    assert found["bias"] == ["partition", "free, one value for each partition"]


def test_every_instruction_that_reduces_says_along_which_axes() -> None:
    for name, definition in registry.items():
        if "reduce_res" in definition.position:
            assert any(o.along for o in definition.operands.values()), name
