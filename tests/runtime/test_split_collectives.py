"""Tests collectives of variable length in two parts: values, overlap, and every misuse (NKI 0.7)."""

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import (
    AddressOutOfRange,
    InstructionError,
    NkiError,
    NotModelled,
    NotOnTarget,
    RanksDiffer,
    WrongOperand,
)

GROUP = ncc.ReplicaGroup([[0, 1, 2, 3]])
COUNTS = np.array([5, 0, 7, 2], np.uint32)


def table(count):
    """Return the table of a rank that sends `count` elements from element 1 on."""
    rows = np.zeros((3, 4), np.uint32)
    rows[0], rows[1] = count, 1
    return rows


def inputs(counts=COUNTS):
    rng = np.random.default_rng(11)
    return [(rng.standard_normal((4, 8)).astype(np.float32), table(c)) for c in counts]


def shared(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def kernel_of(body, cores=2):
    """Return a kernel that copies its arguments, lets `body` communicate, and returns destination and table."""

    @nki.jit
    def kernel(x, counts):
        src, dst, meta = shared((4, 8)), shared((4, 8)), shared((3, 4), nl.uint32)
        out, after = shared((4, 8)), shared((3, 4), nl.uint32)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=meta, src=counts)
            zeros = nl.zeros((4, 8), nl.float32)
            nisa.dma_copy(dst=dst, src=zeros)
        for t in (meta, dst):
            nisa.core_barrier(data=t, cores=(0, 1))

        def fill():
            if nl.program_id(0) == 0:
                nisa.dma_copy(dst=src, src=x)
            nisa.core_barrier(data=src, cores=(0, 1))

        body(src, dst, meta, fill)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out, src=dst)
            nisa.dma_copy(dst=after, src=meta)
        return out, after

    return kernel[cores]


def launched(body, given=None, target="trn2"):
    return nki_lab.launch(kernel_of(body), ranks=4, inputs=given or inputs(), target=target)


@pytest.mark.parametrize("name", ["all_gather_v", "all_to_all_v"])
def test_sources_may_be_written_after_the_first_part(name):
    def body(src, dst, meta, fill):
        prepared = getattr(ncc, f"{name}_prepare")([src], [dst], GROUP, meta)
        fill()
        triggered = getattr(ncc, f"{name}_trigger")(prepared)
        assert isinstance(prepared, nisa.NkiInstruction)
        assert isinstance(triggered, nisa.NkiInstruction)

    given = inputs()
    expected = np.zeros((4, 8), np.float32)
    for s, (x, _) in enumerate(given):
        expected[s, : COUNTS[s]] = x.reshape(-1)[1 : 1 + COUNTS[s]]
    for result in launched(body, given):
        out, after = result.outputs
        assert np.array_equal(out, expected)
        assert after[2].tolist() == COUNTS.tolist()


def test_both_parts_give_what_the_whole_gives():
    def whole(src, dst, meta, fill):
        fill()
        ncc.all_to_all_v([src], [dst], GROUP, meta)

    def parts(src, dst, meta, fill):
        prepared = ncc.all_to_all_v_prepare([src], [dst], GROUP, meta)
        fill()
        ncc.all_to_all_v_trigger(prepared)

    for a, b in zip(launched(whole), launched(parts), strict=True):
        for one, other in zip(a.outputs, b.outputs, strict=True):
            assert np.array_equal(one, other)


def test_before_0_7_the_whole_was_between_nodes_without_a_switch():
    def whole(src, dst, meta, fill):
        fill()
        ncc.all_to_all_v([src], [dst], GROUP, meta)

    words = r"as on trn2, .*until NKI 0\.7, .* written for NKI 0\.6"
    with nki_lab.use(nki="0.6"), pytest.raises(NotOnTarget, match=words):
        launched(whole)


def prepare(src, dst, meta, name="all_gather_v"):
    return getattr(ncc, f"{name}_prepare")([src], [dst], GROUP, meta)


def _twice(src, dst, meta, fill):
    prepare(src, dst, meta)
    prepare(src, dst, meta, "all_to_all_v")


def _triggered_twice(src, dst, meta, fill):
    prepared = prepare(src, dst, meta)
    fill()
    ncc.all_gather_v_trigger(prepared)
    ncc.all_gather_v_trigger(prepared)


def _never(src, dst, meta, fill):
    prepare(src, dst, meta)
    fill()


def _other_kind(src, dst, meta, fill):
    ncc.all_to_all_v_trigger(prepare(src, dst, meta))


def _nothing(src, dst, meta, fill):
    ncc.all_gather_v_trigger(None)


def _in_a_loop(src, dst, meta, fill):
    prepared = prepare(src, dst, meta)
    nl.fori_loop(0, 2, lambda i: ncc.all_gather_v_trigger(prepared))


def _table_changes(src, dst, meta, fill):
    prepared = prepare(src, dst, meta)
    nisa.dma_copy(dst=meta[0:1, :], src=nl.zeros((1, 4), nl.uint32))
    ncc.all_gather_v_trigger(prepared)


def _no_table(src, dst, meta, fill):
    ncc.all_gather_v_trigger(prepare(src, dst, None))


MISUSES = [
    (_twice, InstructionError, r"all_to_all_v_prepare while all_gather_v_prepare at .*line \d+.* waits for its"),
    (_triggered_twice, InstructionError, "which was triggered before"),
    (_never, InstructionError, "all_gather_v_prepare is never triggered"),
    (_other_kind, WrongOperand, "all_to_all_v_trigger takes what all_to_all_v_prepare returned"),
    (_nothing, WrongOperand, "found None"),
    (_in_a_loop, InstructionError, "stands in another loop"),
    (_no_table, WrongOperand, "all_gather_v_prepare: `metadata_tensor` must be a tensor"),
    (_table_changes, NotModelled, "is written by dma_copy at .* no page says which values"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "error", "message"), MISUSES)
def test_misuse_is_named_with_its_line(body, error, message):
    with pytest.raises(error, match=f"(?s){message}") as raised:
        launched(body)
    assert raised.value.stack and "test_split_collectives" in str(raised.value)


def test_a_count_that_does_not_fit_is_named_by_rank_and_line():
    def body(src, dst, meta, fill):
        prepared = prepare(src, dst, meta)
        fill()
        ncc.all_gather_v_trigger(prepared)

    with pytest.raises(
        AddressOutOfRange, match=r"(?s)rank 2 sends 9 elements.*test_split_collectives"
    ):
        launched(body, inputs(np.array([1, 2, 9, 3], np.uint32)))


def test_ranks_that_prepare_for_other_ranks():
    def body(src, dst, meta, fill):
        prepared = ncc.all_gather_v_prepare([src], [dst], ncc.ReplicaGroup([[4, 5, 6, 7]]), meta)
        fill()
        ncc.all_gather_v_trigger(prepared)

    with pytest.raises(
        (RanksDiffer, NkiError), match=r"(?s)(no rank 7|rank 0).*test_split_collectives"
    ):
        launched(body)


def test_chips_with_a_switch_take_the_whole_only():
    def body(src, dst, meta, fill):
        ncc.all_gather_v_trigger(prepare(src, dst, meta))

    with pytest.raises(NkiError, match=r"NKI204.*split_collectives"):
        launched(body, target="trn3")
