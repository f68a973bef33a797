"""Tests kernels that run as ranks and meet in collectives, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.choices import inside, use_target
from nki_lab.errors import KernelArgument, NotModelled, RegisterValue
from nki_lab.runtime import jit, launch, run

X = np.random.default_rng(11).standard_normal((4, 12, 20)).astype(np.float32)
ALL = ncc.ReplicaGroup([[0, 1, 2, 3]])
PAIRS = ncc.ReplicaGroup([[0, 2], [1, 3]])
WHO = np.arange(4)


def result(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def moved(x, shape=None, space=None):
    """Return a copy of an argument, or an empty tensor of another shape, in HBM or `space`."""
    made = nl.ndarray(shape or x.shape, dtype=x.dtype, buffer=space or nl.shared_hbm)
    if shape is None:
        nisa.dma_copy(made, x)
    return made


def outputs(results):
    return np.stack([r.value for r in results])


def on_four(kernel, *constants, data=X, **options):
    return launch(kernel, 4, [(x, *constants) for x in data], **options)


def reduced(x, group, op):
    sent, got, out = moved(x), moved(x, x.shape), result(x.shape, x.dtype)
    ncc.all_reduce(srcs=[sent], dsts=[got], replica_group=group, op=op)
    nisa.dma_copy(out, got)
    return out


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_kernel_runs_on_every_rank(cores, target):
    results = on_four(jit(reduced)[cores], PAIRS, nl.add, target=target)
    assert len(results) == 4
    expected = (X[[0, 1]].astype(float) + X[[2, 3]])[[0, 1, 0, 1]]
    np.testing.assert_allclose(outputs(results), expected, rtol=1e-6, atol=1e-6)
    assert len(results[0].others) == cores - 1
    assert all(np.array_equal(r.inputs[0], x) for r, x in zip(results, X, strict=True))
    assert results[0].compiled is results[3].compiled


def test_plain_functions_dicts_and_one_array_per_rank():
    def doubled(x, scale=2.0):
        out = result(x.shape, x.dtype)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(outputs(launch(doubled, 4, list(X))), 2 * X)
    given = [{"x": x, "scale": 3.0} for x in X]
    np.testing.assert_array_equal(
        outputs(nki_lab.launch(jit(doubled), 4, given)), np.float32(3) * X
    )
    for same in ((X[0],), {"x": X[0]}):
        np.testing.assert_array_equal(outputs(launch(doubled, 3, same)), np.stack([2 * X[0]] * 3))


def test_reductions_round_once():
    # One and many halves of its last bit: in bfloat16 each half is lost when it is added, in float32 none is.
    import ml_dtypes

    data = np.full((4, 2, 8), 2.0**-9, np.float32)
    data[0] = 1.0
    short = data.astype(ml_dtypes.bfloat16)
    found = outputs(on_four(reduced, ALL, nl.add, data=short))
    assert np.array_equal(found.astype(float), np.full((4, 2, 8), 1 + 2.0**-7))
    assert short[0, 0, 0] + short[1, 0, 0] == 1.0  # what rounding after every addition would keep


# -- which rank -------------------------------------------------------------------------------------------------------


def own_row(table):
    out = result((1, table.shape[1]), table.dtype)
    nisa.dma_copy(out, table.select(0, ncc.rank_id()).reshape((1, table.shape[1])))
    return out


def test_a_rank_reads_what_is_its_own():
    table = X[0]
    results = launch(own_row, 4, (table,))
    np.testing.assert_array_equal(outputs(results)[:, 0], table[:4])
    assert results[0].ir["trace"] == results[3].ir["trace"], "one program for all ranks"


def test_the_register_of_a_rank_is_an_offset_and_a_loop_bound():
    def kernel(table):
        _, rows, columns = table.shape
        out = result((rows, columns), table.dtype)
        counted = result((1,), nl.int32)
        rank = ncc.rank_id()
        assert type(rank) is nisa.VirtualRegister
        part = table.ap([[columns, rows], [1, columns]], scalar_offset=rank, indirect_dim=0)
        nisa.dma_copy(out, part)
        nisa.register_store(counted, rank)
        again = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(again, 0.0)
        nl.fori_loop(0, rank, lambda i: nisa.tensor_scalar(again, again, nl.add, 1.0))
        passes = result((1, 1), nl.float32)
        nisa.dma_copy(passes, again)
        return out, counted, passes

    results = launch(kernel, 4, (X,))
    for rank, r in enumerate(results):
        out, counted, passes = r.value
        np.testing.assert_array_equal(out, X[rank])
        assert (counted[0], passes[0, 0]) == (rank, rank)
        assert r.execution.trips == (rank,)


def test_a_kernel_that_is_called_is_rank_0():
    np.testing.assert_array_equal(jit(own_row)(X[0]), X[0, :1])
    alone = ncc.ReplicaGroup([[0]])
    np.testing.assert_array_equal(run(reduced, X[0], alone, nl.add).value, X[0])
    two = run(jit(reduced)[2], X[0], alone, nl.add, target="trn2")
    np.testing.assert_array_equal(two.value, X[0])


def test_python_cannot_compute_with_the_rank():
    def kernel(x):
        out = result(x.shape, x.dtype)
        nisa.dma_copy(out, x.select(0, ncc.rank_id() + 1))
        return out

    with pytest.raises(RegisterValue, match="only known at run time"):
        launch(kernel, 2, (X[0],))


# -- rings ------------------------------------------------------------------------------------------------------------


def gathered_by(way):
    """Return a kernel that gathers the tiles of a ring's ranks, in the way of the name."""

    def at_once(x, group, ranks):
        rows, columns = x.shape
        sent, out = moved(x), result((ranks, rows, columns), x.dtype)
        got = moved(x, (ranks * rows, columns))
        ncc.all_gather(srcs=[sent], dsts=[got], replica_group=group, collective_dim=0)
        nisa.dma_copy(out, got.reshape((ranks, rows, columns)))
        return out

    def unrolled(x, group, ranks):
        rows, columns = x.shape
        out = result((ranks, rows, columns), x.dtype)
        held = [moved(x, space=nl.sbuf), moved(x, x.shape, nl.sbuf)]
        for step in range(ranks):
            whose = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.dma_copy(out.select(0, whose), held[0])
            if step < ranks - 1:
                ncc.collective_permute_implicit([[held[0]]], [[held[1]]], group)
            held.reverse()
        return out

    def on_device(x, group, ranks):
        rows, columns = x.shape
        out = result((ranks, rows, columns), x.dtype)
        held, next_ = moved(x), moved(x, x.shape)

        def step(i):
            whose = ncc.collective_permute_implicit_current_processing_rank_id(
                iteration_id=i, replica_group=group
            )
            nisa.dma_copy(out.select(0, whose), held)
            ncc.collective_permute_implicit(
                srcs_by_channel=[[held]], dsts_by_channel=[[next_]], replica_group=group
            )
            nisa.dma_copy(held, next_)

        nl.fori_loop(0, ranks, step)
        return out

    return {"at once": at_once, "unrolled": unrolled, "on device": on_device}[way]


@pytest.mark.parametrize(
    ("way", "cores"),
    [("at once", 1), ("at once", 2), ("unrolled", 1), ("unrolled", 2), ("on device", 1)],
)
def test_a_ring_gathers_what_all_gather_does(way, cores):
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])
    found = outputs(on_four(jit(gathered_by(way))[cores], group, 4, target="trn2"))
    np.testing.assert_array_equal(found, np.stack([X] * 4))


@pytest.mark.parametrize("way", ["unrolled", "on device"])
def test_two_rings_do_not_mix(way):
    """In a ring of two of four ranks, the places of other ranks' tiles stay unwritten."""

    def kernel(x, group):
        gathered = gathered_by(way)(x, group, 2)
        return gathered

    neighbours = ncc.ReplicaGroup([[0, 1]])
    found = outputs(launch(kernel, 2, [(x, neighbours) for x in X[2:]]))
    np.testing.assert_array_equal(found, np.stack([X[2:]] * 2))


def test_a_ring_of_sums_is_all_reduce():
    """Each rank adds its own tile to what came, ranks - 1 times."""

    def kernel(x, group, ranks):
        mine, sums, got = moved(x), moved(x), moved(x, x.shape)
        zero = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(zero, 0.0)
        nothing = result(x.shape, x.dtype)
        nisa.dma_copy(nothing, zero)
        first = nothing
        for _ in range(ranks):
            ncc.collective_permute_implicit_reduce([[sums]], [[first]], [[got]], group, nl.add)
            sums, got, first = got, sums, mine
        return sums

    found = outputs(on_four(kernel, ALL, 4))
    total = X.astype(float).sum(axis=0)
    # After ranks steps a rank holds its own tile and those its ring has added on the way.
    np.testing.assert_allclose(found, np.stack([total] * 4), rtol=1e-5, atol=1e-5)


# -- two cores of a rank ----------------------------------------------------------------------------------------------


def by_halves(x, group):
    """Each core gathers its own half of the rows, in SBUF."""
    half = x.shape[0] // nl.num_programs()
    start = nl.program_id() * half
    tile = nl.load(x[start : start + half])
    got = nl.ndarray((half, 4 * x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    ncc.all_gather(srcs=[tile], dsts=[got], replica_group=group, collective_dim=1)
    out = result((x.shape[0], 4 * x.shape[1]), x.dtype)
    nisa.dma_copy(out[start : start + half], got)
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_tiles_of_a_core_meet_the_same_core_of_other_ranks(cores):
    results = on_four(jit(by_halves)[cores], ALL, target="trn2")
    np.testing.assert_array_equal(outputs(results), np.stack([np.concatenate(X, axis=1)] * 4))
    assert not [f for f in results[0].findings if f.kind == "hazard"]


def in_shared_memory(x, group, op):
    """Each core writes half of a shared tensor; together they reduce it once, and each reads the other's half."""
    half = x.shape[0] // 2
    core = nl.program_id()
    own = slice(core * half, (core + 1) * half)
    other = slice((1 - core) * half, (2 - core) * half)
    sums = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="sums")
    out = result(x.shape, x.dtype)
    nisa.dma_copy(sums[own], x[own])
    ncc.all_reduce(srcs=[sums], dsts=[sums], replica_group=group, op=op)
    nisa.dma_copy(out[other], sums[other])
    return out


@pytest.mark.parametrize(
    ("op", "function"), [(nl.add, np.sum), (nl.minimum, np.min), (nl.maximum, np.max)]
)
def test_shared_memory_is_acted_on_once_for_both_cores(op, function):
    results = on_four(jit(in_shared_memory)[2], PAIRS, op, target="trn3")
    pairs = X.reshape(2, 2, 12, 20).astype(float)
    expected = np.concatenate([function(pairs, axis=0)] * 2)
    np.testing.assert_allclose(outputs(results), expected, rtol=1e-6, atol=1e-6)
    # The collective orders the uses of its own tensor.
    assert not [f for f in results[0].findings if f.kind == "hazard"]


def test_a_collective_orders_only_its_own_tensors():
    def kernel(x, group):
        core = nl.program_id()
        half = x.shape[0] // 2
        own, other = (slice(c * half, (c + 1) * half) for c in (core, 1 - core))
        aside = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="aside")
        nisa.dma_copy(aside[own], x[own])
        tile, got = nl.load(x[own]), nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        ncc.all_reduce([tile], [got], group, nl.add)
        out = result(x.shape, x.dtype)
        nisa.dma_copy(out[own], aside[other])
        return out

    found = on_four(jit(kernel)[2], ALL, target="trn2")[0].findings
    races = [f.message for f in found if f.kind == "hazard"]
    assert len(races) == 2
    assert all("`aside`" in message for message in races)


def test_cores_that_give_different_tensors_in_hbm_are_refused():
    def kernel(x, group):
        half = x.shape[0] // 2
        own = slice(nl.program_id() * half, (nl.program_id() + 1) * half)
        sums = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="sums")
        nisa.dma_copy(sums[own], x[own])
        ncc.all_reduce([sums[own]], [sums[own]], group, nl.add)
        return sums

    with pytest.raises(NotModelled, match="the cores of a rank give different tensors in HBM"):
        on_four(jit(kernel)[2], ALL, target="trn2")


# -- arguments --------------------------------------------------------------------------------------------------------


def in_place(x, group):
    sent, got = moved(x), moved(x, x.shape)
    ncc.all_reduce([sent], [got], group, nl.add)
    nisa.dma_copy(x, got)


def test_arrays_are_updated_in_place():
    own = [x.copy() for x in X]
    assert [r.value for r in launch(in_place, 4, [(x, PAIRS) for x in own])] == [None] * 4
    expected = (X[[0, 1]].astype(float) + X[[2, 3]])[[0, 1, 0, 1]]
    np.testing.assert_allclose(np.stack(own), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "inputs", [(X[0].copy(), ALL), [(X[0].copy(), ALL)] * 4, [(v, ALL) for v in [X[0].copy()] * 4]]
)
def test_an_array_that_ranks_share_cannot_be_written(inputs):
    with pytest.raises(
        KernelArgument, match=r"writes its argument `x`, and that of rank 0 shares memory .* rank 1"
    ):
        launch(in_place, 4, inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([(X[0], ALL, nl.add)] * 3, "4 ranks, but there are inputs for 3"),
        (X, "the inputs of reduced are of type ndarray"),
        ([(X[0], ALL, nl.add), (X[0, :2], ALL, nl.add), *[(X[0], ALL, nl.add)] * 2],
         r"rank 1: argument `x` is \[2, 20\] float32"),
        ([*[(X[0], ALL, nl.add)] * 3, (X[0].astype(np.float16), ALL, nl.add)],
         r"rank 3: argument `x` is \[12, 20\] float16"),
        ([*[(X[0], ALL, nl.add)] * 2, (X[0], ALL, nl.maximum), (X[0], ALL, nl.add)],
         "rank 2: argument `op` is nl.maximum, the kernel was compiled for nl.add"),
        ([*[(X[0], ALL, nl.add)] * 2, (X[0], PAIRS, nl.add), (X[0], ALL, nl.add)],
         "rank 2: argument `group.replica_groups"),
        ([*[(X[0], ALL, nl.add)] * 3, (X[0],)], "rank 3: reduced: missing a required argument: 'group'"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit_are_named_with_their_rank(inputs, message):
    with pytest.raises(KernelArgument, match=message):
        launch(reduced, 4, inputs)


@pytest.mark.parametrize("ranks", [0, -1, 2.0, None, True])
def test_a_number_of_ranks_is_a_positive_integer(ranks):
    with pytest.raises(KernelArgument, match="is launched as"):
        launch(reduced, ranks, (X[0], ALL, nl.add))


def test_equal_groups_of_their_own_are_the_same_constant():
    given = [(x, ncc.ReplicaGroup([[0, 2], [1, 3]]), nl.add) for x in X]
    expected = outputs(on_four(reduced, PAIRS, nl.add))
    np.testing.assert_array_equal(outputs(launch(reduced, 4, given)), expected)


def test_a_debug_run_has_one_rank():
    with inside(debug=True), pytest.raises(NotModelled, match="a debug run has one"):
        on_four(reduced, ALL, nl.add)


@pytest.mark.parametrize("cores", [1, 2])
def test_what_is_printed_says_who_prints(cores, capsys):
    def kernel(x):
        tile = nl.load(x[0:1, 0:1])
        nl.device_print("first", tile)
        out = result((1, 1), x.dtype)
        nisa.dma_copy(out, tile)
        return out

    launch(
        jit(kernel)[cores], 2, [(np.full((2, 2), n, np.float32),) for n in (3, 5)], target="trn2"
    )
    places = [f"rank {r}" + f", core {c}" * (cores > 1) for r in range(2) for c in range(cores)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == [f"[{place}] first: float32 [1, 1]" for place in places]
    assert lines[1::2] == ["[[3.]]"] * cores + ["[[5.]]"] * cores


@pytest.mark.parametrize("group", [ALL, PAIRS])
def test_without_rounding_on_every_write_sums_stay_in_float32(group):
    import ml_dtypes

    short = X.astype(ml_dtypes.bfloat16)
    with inside(precise_fp=False):
        found = outputs(on_four(reduced, group, nl.add, data=short))
    lists = group.replica_groups
    sums = {r: short[ranks].astype(float).sum(axis=0) for ranks in lists for r in ranks}
    np.testing.assert_allclose(
        found.astype(float), np.stack([sums[r] for r in range(4)]), rtol=1e-5, atol=1e-5
    )


# -- what a run shows -------------------------------------------------------------------------------------------------


def test_the_profile_says_what_it_leaves_out():
    results = on_four(reduced, ALL, nl.add)
    told = "links between ranks, the algorithm and waiting for other ranks are left out"
    assert told in repr(results[0])
    assert results[0].profile.total_ns > 0
    assert told not in repr(run(own_row, X[0]))


def scheduled(x, group):
    sent, got, out = moved(x), moved(x, x.shape), result(x.shape, x.dtype)
    ncc.all_reduce([sent], [got], group, nl.add, name="sums")
    tile = nl.load(x)
    aside = result(x.shape, x.dtype)
    nisa.dma_copy(aside, tile, name="aside")
    nisa.dma_copy(out, got)
    return out, aside


def test_a_schedule_orders_collectives():
    early, late = ([("aside", "sums")], [("sums", "aside")])
    places = []
    for schedule in (early, late):
        results = on_four(jit(scheduled).with_schedule(schedule), ALL)
        np.testing.assert_allclose(
            results[0].value[0], X.astype(float).sum(axis=0), rtol=1e-5, atol=1e-5
        )
        names = [
            dict(zip(i.definition.params, i.args, strict=True)).get("name")
            for i in results[0].kernel.instructions
        ]
        places.append(names.index("sums") < names.index("aside"))
    assert places == [True, False]


def test_arguments_and_results_in_collectives_are_told():
    def kernel(x, group):
        got = result(x.shape, x.dtype)
        ncc.all_reduce([x], [got], group, nl.add)
        return got

    def copied_first(run):
        told = [f.message for f in run[0].findings if f.kind == "portability"]
        return [m for m in told if ", an argument" in m or ", a result" in m]

    of_x, of_got = copied_first(on_four(kernel, PAIRS))
    assert "`x`, an argument" in of_x
    assert "`got`, a result" in of_got
    assert copied_first(on_four(reduced, PAIRS, nl.add)) == []


def test_a_compiled_kernel_runs_again_as_ranks_and_alone():
    with use_target("trn2"):
        compiled = jit(gathered_by("at once")).compile(X[0], ncc.ReplicaGroup([[0]]), 1)
    np.testing.assert_array_equal(compiled(X[1], ncc.ReplicaGroup([[0]]), 1), X[1:2])
    calls = [((x, ncc.ReplicaGroup([[0]]), 1), {}) for x in X[:1]]
    for _ in range(2):
        np.testing.assert_array_equal(outputs(compiled.launch_ranks(calls)), X[:1][None])


# -- private and shared HBM -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "nki"), [(1, "0.6"), (1, "0.7"), (2, "0.7")])
@pytest.mark.parametrize("shares", ["", "1"])
def test_one_core_is_told_of_shared_hbm(cores, nki, shares, monkeypatch):
    """Each of the two is told where it is wrong: sources never, destinations unless the variable allows them."""
    monkeypatch.setenv("NKI_LNC1_SHARED_HBM", shares)

    def reduced(src, dst):
        def kernel(x, group):
            mine, sums, out = moved(x, space=src), moved(x, x.shape, dst), result(x.shape, x.dtype)
            ncc.all_reduce([mine], [sums], group, nl.add)
            nisa.dma_copy(out, sums)
            return out

        results = on_four(jit(kernel, nki=nki)[cores], ALL, target="trn2")
        expected = np.stack([X.astype(float).sum(axis=0)] * 4)
        np.testing.assert_allclose(outputs(results), expected, rtol=1e-5, atol=1e-5)
        told = " ".join(f.message for f in results[0].findings if f.kind == "portability")
        return [name for name in ("srcs", "dsts") if f"`{name}`" in told and "shared_hbm" in told]

    if cores == 2:  # which share what a collective of HBM takes
        assert reduced(nl.shared_hbm, nl.shared_hbm) == []
        return
    assert reduced(nl.private_hbm, nl.private_hbm) == []
    assert reduced(nl.shared_hbm, nl.private_hbm) == ["srcs"] * (nki == "0.7")
    assert reduced(nl.private_hbm, nl.shared_hbm) == ["dsts"] * (nki == "0.7" and not shares)
