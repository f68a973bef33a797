"""Tests that the memory view shows what the allocator gave, to the byte."""

import numpy as np

from nki_lab.views.memory.model import memory_map, tile_uses
from nki_lab.views.memory.occupancy import occupancy
from nki_lab.views.run import Tensor
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import unpack
from tests.views.runs import added, by_hand


def painted(tiles, partitions: int, instructions: int) -> int:
    """Return the most bytes in use in a partition at an instruction, counted one by one."""
    used = np.zeros((partitions, instructions), dtype=np.int64)
    for k in range(len(tiles.size)):
        rows = slice(tiles.partition[k], tiles.partition[k] + tiles.partitions[k])
        used[rows, tiles.first[k] : tiles.last[k] + 1] += tiles.size[k]
    return int(used.max())


def test_tiles_lie_where_the_allocator_put_them() -> None:
    kernel = added().kernel
    tiles = occupancy(added().view_data, "sbuf")
    expected = sorted(
        (kernel.addresses[s.id].byte, s.nbytes // s.shape[0], s.name)
        for s in kernel.storages
        if s.buffer.name == "sbuf" and s.id in kernel.addresses
    )
    names = [added().view_data.tensors[n].name for n in tiles.tensor]
    found = sorted(zip(tiles.address.tolist(), tiles.size.tolist(), names, strict=True))
    assert found == expected
    assert len(found) >= 4


def test_a_tile_is_in_use_from_its_first_to_its_last_access() -> None:
    kernel = added().kernel
    tiles = occupancy(added().view_data, "sbuf")
    for k, number in enumerate(tiles.tensor.tolist()):
        storage = kernel.storages[number]
        touching = [
            n
            for n, i in enumerate(kernel.instructions)
            if any(t.storage is storage for t in (*i.read(), *i.written()))
        ]
        assert (tiles.first[k], tiles.last[k]) == (touching[0], touching[-1])


def test_peak_is_that_of_counting_every_byte() -> None:
    for data in (added().view_data, by_hand()):
        for memory in ("sbuf", "psum"):
            tiles = occupancy(data, memory)
            if len(tiles.size):
                assert tiles.peak(128)[0] == painted(tiles, 128, len(data.operations))


def test_tiles_of_different_partitions_do_not_add_up() -> None:
    tiles = occupancy(by_hand(), "sbuf")
    # y has 128 bytes in partitions 0 to 63, z has 32 in 64 to 95.
    assert tiles.peak(128) == (128, 0)
    moments, used = tiles.in_use(64)
    assert (moments.tolist(), used.tolist()) == ([2, 6], [32, 0])


def test_the_map_names_limits_and_makers() -> None:
    meta, arrays = unpack(memory_map(by_hand()))
    sbuf, psum = meta["memories"]["sbuf"], meta["memories"]["psum"]
    target = by_hand().profile.target
    assert (sbuf["capacity"], sbuf["usable"]) == (
        target.sbuf_bytes_per_partition,
        target.sbuf_bytes_per_partition - target.sbuf_reserved_bytes_per_partition,
    )
    assert (psum["capacity"], psum["bank"], psum["end"]) == (16384, 2048, 2048 + 64)
    assert [meta["names"][n] for n in arrays["sbuf.name"]] == ["y", "z"]
    assert meta["places"][arrays["sbuf.place"][0]] == ["cell [3], line 4", "    y = nl.load(x)"]


def test_memory_that_is_not_used_has_no_tiles() -> None:
    meta, arrays = unpack(memory_map(by_hand(tensors=[])))
    assert [m["tiles"] for m in meta["memories"].values()] == [0, 0]
    assert all(len(column) == 0 for column in arrays.values())


def test_the_text_says_how_high_addresses_go_and_why() -> None:
    """Six tiles of 300 float32 never are in use at one time, and each has a place of its own."""
    data = added().view_data
    meta, _ = unpack(memory_map(data))
    facts = meta["memories"]["sbuf"]
    assert (facts["peak"], facts["end"]) == (3 * 1200, 6 * 1200)
    *table, most, free, why, in_time = view_text(data, "memory").splitlines()
    usable = facts["usable"]
    assert most == (
        f"sbuf: at most 3,600 of {usable:,} bytes per partition in program order (1.7%), at instruction"
        f" {facts['peak_at']};"
        " the highest byte used is 7,199"
    )
    assert free.endswith("; no tiles overlap") and f"{usable - 3600:,} bytes are free" in free
    assert f"{why}; {in_time}" == meta["note"]
    assert len(table) == 1 + 6
    cut = view_text(data, "memory", lines=6).splitlines()
    assert len(cut) == 6 and cut[-4:] == [most, free, why, in_time]


def test_uses_of_a_tile_are_those_of_the_program() -> None:
    data = added().view_data
    kernel = added().kernel
    for number, tensor in enumerate(data.tensors):
        meta, _ = unpack(tile_uses(data, number))
        storage = kernel.storages[number]
        for way, views in (("writers", "written"), ("readers", "read")):
            expected = [
                position
                for position, i in enumerate(kernel.instructions)
                if any(v.storage is storage for v in getattr(i, views)())
            ]
            assert [use["position"] for use in meta[way]] == expected, tensor.name
        assert meta["more_writers"] == meta["more_readers"] == 0


def test_the_map_says_what_overlaps_and_what_is_free() -> None:
    place = by_hand().tensors[1].place
    tensors = [
        Tensor("a", "sbuf", (64, 32), "float32", 4, "temporary", True, (0, 256), (0, 3), place),
        Tensor("b", "sbuf", (64, 8), "float32", 4, "temporary", True, (32, 368), (3, 5), place),
    ]
    meta, arrays = unpack(memory_map(by_hand(tensors=tensors)))
    # a has bytes 256 to 383, b 368 to 399; both are in use at instruction 3, in partitions 32 to 63.
    facts = meta["memories"]["sbuf"]
    assert facts["overlaps"] == [[0, 1, 3, 3, 368, 16]]
    assert facts["free"] == {
        "free": facts["usable"] - 144,
        "largest": facts["usable"] - 400,
        "stretches": 2,
        "fragmentation": 1 - (facts["usable"] - 400) / (facts["usable"] - 144),
    }
    assert arrays["sbuf.moment"].tolist() == [0, 3, 4, 6]
    assert arrays["sbuf.used"].tolist() == [128, 160, 32, 0]
    text = view_text(by_hand(tensors=tensors), "memory")
    assert (
        "a and b overlap in 16 bytes from 368 on, in use together from instruction 3 to 3" in text
    )
