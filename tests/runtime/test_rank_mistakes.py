"""Tests that ranks that do not fit together are told apart, always in the same words, and that nothing waits for
ever."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.errors import (
    AddressOutOfRange,
    InstructionError,
    MissingPartner,
    RanksDiffer,
)
from nki_lab.runtime import jit, launch, run
from tests.runtime.test_ranks import ALL, X, moved, on_four, outputs, reduced, result

TWO = ncc.ReplicaGroup([[0, 1]])


def times(count):
    """Return a register that holds the one integer of an argument."""
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    return register


def counted(first, then=None):
    """Return a kernel whose ranks call `first` as often as their argument says, and then `then`."""

    def kernel(x, count):
        a, b, out = moved(x), moved(x, x.shape), result(x.shape, x.dtype)
        nl.fori_loop(0, times(count), lambda i: first(a, b))
        if then is not None:
            then(a, b)
        nisa.dma_copy(out, a)
        return out

    return kernel


def add(a, b, group=TWO):
    ncc.all_reduce(srcs=[a], dsts=[b], replica_group=group, op=nl.add)


def largest(a, b):
    ncc.all_reduce(srcs=[a], dsts=[b], replica_group=TWO, op=nl.maximum)


def add_rows(a, b):
    ncc.all_reduce(srcs=[a[0:4]], dsts=[b[0:4]], replica_group=TWO, op=nl.add)


def gather(a, b):
    ncc.all_gather(srcs=[a[0:6]], dsts=[b], replica_group=TWO, collective_dim=0)


def swap(a, b):
    ncc.collective_permute(srcs=[a], dsts=[b], source_target_pairs=[(0, 1), (1, 0)])


def each(*counts, data=X):
    return [(x, np.array([n], np.int32)) for x, n in zip(data, counts, strict=False)]


def test_as_many_passes_on_every_rank_meet():
    def kernel(x, count):
        a, b = moved(x), moved(x, x.shape)

        def step(i):
            add(a, b)
            nisa.dma_copy(a, b)

        nl.fori_loop(0, times(count), step)
        return a

    found = outputs(launch(kernel, 2, each(3, 3)))
    np.testing.assert_allclose(
        found, np.stack([4 * (X[0].astype(float) + X[1])] * 2), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (counted(add), MissingPartner, r"rank 1 waits in all_reduce of ranks \[0, 1\], rank 0 has ended"),
        (counted(add, gather), RanksDiffer, "rank 0 is in all_gather at .* while rank 1 is in all_reduce at"),
        (counted(add, swap), RanksDiffer, "rank 0 is in collective_permute at .* while rank 1 is in all_reduce at"),
        (counted(add, largest), RanksDiffer, "`op` is nl.maximum on rank 0 at .* and nl.add on rank 1 at"),
        (counted(add, add_rows), RanksDiffer, r"`srcs` is .*\[4, 20\] float32 .* on rank 0 .*\[12, 20\] .* on rank 1"),
        (counted(add, lambda a, b: add(a, b, ncc.ReplicaGroup([[0, 1], [2]]))), MissingPartner,
         "there is no rank 2: the kernel runs as 2 ranks"),
        (counted(add, lambda a, b: add(a, b, ncc.ReplicaGroup([[0], [1]]))), MissingPartner,
         r"rank 1 waits in all_reduce of ranks \[0, 1\], rank 0 has ended"),
    ],
)  # fmt: skip
def test_ranks_that_come_to_different_collectives(kernel, error, message):
    told = set()
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            launch(kernel, 2, each(1, 2))
        assert caught.value.span is not None
        assert caught.value.help
        told.add(str(caught.value))
    assert len(told) == 1


def test_groups_that_differ_wait_for_each_other():
    """Rank 0 ends its loop and waits for all, while the others still wait for it in their pairs."""

    def kernel(x, count):
        a, b = moved(x), moved(x, x.shape)
        nl.fori_loop(0, times(count), lambda i: add(a, b, ncc.ReplicaGroup([[0, 1], [2, 3]])))
        add(a, b, ALL)
        return b

    with pytest.raises(MissingPartner) as caught:
        launch(kernel, 4, each(1, 2, 1, 2))
    assert (
        "rank 0 waits in all_reduce of ranks [0, 1, 2, 3], rank 1 waits in all_reduce at"
        in caught.value.message
    )
    assert [n.partition(" at ")[0] for n in caught.value.notes] == ["rank 3 waits in all_reduce"]


def test_two_lists_with_the_same_group_but_other_ones_beside_it():
    kernel = counted(
        lambda a, b: add(a, b, ncc.ReplicaGroup([[0, 1], [2, 3]])),
        lambda a, b: add(a, b, ncc.ReplicaGroup([[0, 1], [2], [3]])),
    )
    with pytest.raises(RanksDiffer, match=r"`replica_group` is .* on rank 0 .* on rank 1"):
        launch(kernel, 4, each(1, 2, 1, 1))


@pytest.mark.parametrize("group", [[[0, 1, 2]], [[0], [2, 1]]])
def test_a_rank_without_a_group(group):
    with pytest.raises(
        RanksDiffer, match=r"all_reduce: rank 3 calls it, but is not in any group of \[\[0"
    ) as caught:
        on_four(reduced, ncc.ReplicaGroup(group), nl.add)
    assert "[3]" in caught.value.help
    assert caught.value.span.function == "reduced"


def test_a_rank_without_a_ring():
    def kernel(x):
        out = result((1,), nl.int32)
        ring = ncc.ReplicaGroup([[0, 1]])
        nisa.register_store(
            out, ncc.collective_permute_implicit_current_processing_rank_id(1, ring)
        )
        return out

    with pytest.raises(RanksDiffer, match="rank 2 calls it") as caught:
        launch(kernel, 3, (X[0],))
    assert caught.value.span.function == "kernel"


@pytest.mark.parametrize(
    "start", [lambda: jit(reduced)(X[0], ALL, nl.add), lambda: run(reduced, X[0], ALL, nl.add)]
)
def test_a_kernel_that_is_called_alone_is_told_how_to_launch(start):
    with pytest.raises(
        MissingPartner, match="there is no rank 3: the kernel runs as 1 rank"
    ) as caught:
        start()
    assert "nki_lab.launch(kernel, ranks=4, inputs=[...])" in caught.value.help
    assert caught.value.span.function == "reduced"


def test_a_permute_among_ranks_that_do_not_run():
    def kernel(x):
        a, b = moved(x), moved(x, x.shape)
        ncc.collective_permute([a], [b], [(0, 5), (5, 0)])
        return b

    with pytest.raises(MissingPartner, match="there is no rank 5"):
        launch(kernel, 2, list(X[:2]))


def test_what_a_rank_does_not_receive_is_not_a_number():
    def kernel(x):
        a, b = moved(x), moved(x, x.shape)
        ncc.collective_permute([a], [b], [(0, 2), (2, 0)])
        return b

    results = launch(kernel, 4, list(X))
    found = outputs(results)
    told = [[f.message for f in r.findings if f.code == "NKI401"] for r in results]
    assert [len(messages) for messages in told] == [0, 1, 0, 1]
    assert f"{X[0].size} of {X[0].size} elements of the result" in told[1][0]
    missing = np.full_like(X[0], np.nan)
    np.testing.assert_array_equal(found, np.stack([X[2], missing, X[0], missing]))


# -- two cores of a rank ----------------------------------------------------------------------------------------------


def test_one_core_of_a_rank_alone_is_not_enough_for_shared_memory():
    def kernel(x):
        a, b = moved(x), moved(x, x.shape)
        if nl.program_id() == 0:
            add(a, b)
        return b

    with pytest.raises(
        MissingPartner, match=r"rank \d, core 0 waits in all_reduce .*, rank \d, core 1 has ended"
    ):
        launch(jit(kernel)[2], 2, list(X[:2]), target="trn2")


def test_cores_in_different_meetings():
    def kernel(x):
        a, b = moved(x), moved(x, x.shape)
        if nl.program_id() == 0:
            add(a, b)
        else:
            nisa.core_barrier(a, (0, 1))
        return b

    with pytest.raises(MissingPartner, match=r"core \d waits in .*, rank \d, core \d waits in"):
        launch(jit(kernel)[2], 2, list(X[:2]), target="trn2")


def test_cores_that_exchange_tiles_between_collectives():
    def kernel(x):
        core = nl.program_id()
        half = x.shape[0] // 2
        own = slice(core * half, (core + 1) * half)
        tile = nl.load(x[own])
        sums, other = (nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
        add(tile, sums)
        nisa.sendrecv(sums, other, 1 - core, 1 - core, pipe_id=0)
        add(other, tile)
        out = result(x.shape, x.dtype)
        nisa.dma_copy(out[own], tile)
        return out

    found = outputs(launch(jit(kernel)[2], 2, list(X[:2]), target="trn2"))
    total = X[0].astype(float) + X[1]
    expected = 2 * np.concatenate([total[6:], total[:6]])
    np.testing.assert_allclose(found, np.stack([expected] * 2), rtol=1e-5, atol=1e-5)


# -- tables of counts -------------------------------------------------------------------------------------------------

TABLE = np.array([[3, 9, 9, 9], [5, 9, 9, 9], [7, 7, 7, 7]], np.uint32)
NODE = ncc.ReplicaGroup([list(range(8))])


def gathered(x, table, known=False, rows=None):
    counts = moved(table)
    sent, got = moved(x), moved(x, (4, 16))
    nisa.dma_copy(got, x.reshape((1, x.size))[:, 0:64].reshape((4, 16)))
    ncc.all_gather_v([sent], [got], ALL, counts, recv_counts_known=known)
    return got, counts


@pytest.mark.parametrize(
    ("rank", "entry", "value", "message"),
    [
        (2, (1, 0), 238, "rank 2 sends 3 elements from 238 on to rank 0, and its source has 240"),
        (
            3,
            (0, 0),
            17,
            "rank 3 sends 17 elements from 5 on to rank 0, which has room for 16 from 48 on",
        ),
    ],
)
def test_counts_that_do_not_fit_name_rank_and_entry(rank, entry, value, message):
    tables = [TABLE.copy() for _ in range(4)]
    tables[rank][entry] = value
    with pytest.raises(AddressOutOfRange, match=message) as caught:
        launch(jit(gathered)[2], 4, list(zip(X, tables, strict=True)), target="trn2")
    assert f"metadata_tensor on rank {rank}" in caught.value.help
    assert caught.value.span.function == "gathered"


def test_counts_can_be_read_afterwards():
    tables = [TABLE * np.uint32([[1], [1], [1]]) for _ in range(4)]
    for rank in range(4):
        tables[rank][0, 0] = rank + 1
    results = launch(jit(gathered)[2], 4, list(zip(X, tables, strict=True)), target="trn2")
    for r in results:
        got, counts = r.value
        np.testing.assert_array_equal(counts[2], [1, 2, 3, 4])
        np.testing.assert_array_equal(got[3, :4], X[3].reshape(-1)[5:9])


def test_places_that_no_rank_sent_anything_to():
    def kernel(x, table):
        counts, sent, got = moved(table), moved(x), moved(x, (4, 16))
        ncc.all_gather_v([sent], [got], ALL, counts)
        nisa.dma_copy(x.reshape((1, x.size))[:, 0:64].reshape((4, 16)), got)
        return x

    tables = [TABLE * np.uint32([[1], [1], [1]]) for _ in range(4)]
    for rank in range(4):
        tables[rank][0, 0] = 16 if rank != 2 else 11
    inputs = [(x.copy(), t) for x, t in zip(X, tables, strict=True)]
    for r in launch(jit(kernel)[2], 4, inputs, target="trn2"):
        (message,) = [f.message for f in r.findings if f.code == "NKI401"]
        assert "dma_copy: 5 of 64 elements of src" in message
        assert message.endswith("the first at index [2, 11]")
    tables[2][0, 0] = 16
    for r in launch(jit(kernel)[2], 4, inputs, target="trn2"):
        assert not [f for f in r.findings if f.code == "NKI401"]


def test_chunks_that_lie_on_each_other():
    def kernel(x, table):
        counts, sent, got = moved(table), moved(x), moved(x, x.shape)
        ncc.all_to_all_v([sent], [got], NODE, counts, has_rdispls=True)
        return got

    table = np.zeros((4, 8), np.uint32)
    table[0] = 4
    table[3] = [0, 4, 8, 12, 16, 20, 24, 27]
    data = np.zeros((8, 6, 20), np.float32)
    with pytest.raises(
        AddressOutOfRange,
        match="on rank 0 the chunk of rank 7, from 27 on, overlaps that of rank 6, which ends at 28",
    ):
        launch(jit(kernel)[2], 8, [(x, table) for x in data], target="trn3")


def test_tables_on_chip_must_agree_between_the_cores():
    def kernel(x, table):
        rows = nl.ndarray((1, 3, 4), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.dma_copy(rows, table.select(0, 0) if nl.program_id() == 0 else table.select(0, 1))
        sent, got = moved(x), moved(x, (4, 16))
        ncc.all_gather_v([sent], [got], ALL, rows)
        return got

    tables = np.stack([TABLE, TABLE])[:, None]
    launch(jit(kernel)[2], 4, [(x, tables) for x in X], target="trn2")
    tables = np.stack([TABLE, TABLE + np.uint32(1)])[:, None]
    with pytest.raises(RanksDiffer, match="holds other values on core 1"):
        launch(jit(kernel)[2], 4, [(x, tables) for x in X], target="trn2")


def test_a_table_needs_both_cores():
    with pytest.raises(InstructionError, match="all_gather_v needs both cores of a logical core"):
        launch(gathered, 4, [(x, TABLE) for x in X], target="trn2")


def unwritten(kernel, **options):
    found = launch(jit(kernel)[2], 4, list(X), **options)[0].findings
    return [f.message for f in found if f.kind == "uninitialized"]


@pytest.mark.parametrize(
    ("rows", "known", "found"),
    [(2, False, 0), (3, False, 0), (2, True, 0), (1, False, 1), (1, True, 1)],
)
def test_rows_of_a_table_that_are_read_must_be_written(rows, known, found):
    """The row of received counts need not be; each core writes its own table."""

    def kernel(x):
        table = nl.ndarray((1, 3, 4), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.memset(table[:, 0:rows], 0)
        sent, got = moved(x), moved(x)
        ncc.all_gather_v([sent], [got], ALL, table, recv_counts_known=known)
        return got

    told = unwritten(kernel, target="trn2")
    assert len(told) == found
    assert all("metadata_tensor" in message for message in told)


# -- addresses --------------------------------------------------------------------------------------------------------


def test_tensors_whose_addresses_the_device_computes():
    """Rank r sends row r of its table, and receives into row r."""

    def kernel(table):
        rank = ncc.rank_id()
        kept = moved(table)
        row = kept.select(0, rank)
        ncc.all_reduce([row], [row], ALL, nl.add)
        return kept

    found = outputs(launch(kernel, 4, list(X)))
    total = sum(X[r, r].astype(float) for r in range(4))
    for rank in range(4):
        expected = X[rank].astype(float)
        expected[rank] = total
        np.testing.assert_allclose(found[rank], expected, rtol=1e-6, atol=1e-6)


def test_an_address_out_of_range_is_told_at_the_collective():
    def kernel(table):
        kept = moved(table)
        row = kept[0:2].select(0, ncc.rank_id())
        ncc.all_reduce([row], [row], ALL, nl.add)
        return kept

    with pytest.raises(AddressOutOfRange, match="all_reduce: index 2"):
        launch(kernel, 4, list(X))
