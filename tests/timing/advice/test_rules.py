"""Tests that each rule speaks up on a kernel that makes the mistake, and is silent on the mended one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.profiler.analyses.advice import LEAST_GAIN
from nki_lab.targets import get_target
from nki_lab.targets.engines import SCALAR, VECTOR, Engine
from nki_lab.timing.advice import RULES, advise, array_fill
from nki_lab.timing.advice.balance import RULE as IMBALANCE
from nki_lab.timing.advice.evidence import Evidence
from nki_lab.timing.advice.ramp_up import RULE as RAMP_UP
from nki_lab.timing.advice.small_transfers import RULE as SMALL_TRANSFERS
from nki_lab.timing.advice.vector_modes import RULE as SLOW_MODE
from tests.profiler.faults import FAULTS
from tests.timing.timed import timed

from .cases import (
    BF16,
    CASES,
    FP32,
    Case,
    dma_copy,
    nc_matmul,
    on_engines,
    products,
    result,
    tensor_copy,
    tensor_scalar,
    tile,
)

RUNS = [(case, target) for case in CASES for target in case.targets]


def name(value: object) -> str:
    return f"{value.rule} {value.words[0]}" if isinstance(value, Case) else str(value)


@pytest.mark.parametrize(("case", "target"), RUNS, ids=name)
def test_a_mistake_is_told_and_its_remedy_is_not(case: Case, target: str) -> None:
    bad = timed(case.bad, *case.specs, target=target)
    good = timed(case.good, *(case.good_specs or case.specs), target=target)
    told = advise(bad.timeline)
    found = told.of(case.rule)
    assert found, told
    text = "\n".join(map(str, found))
    for words in case.words:
        assert words in text
    assert not advise(good.timeline).of(case.rule)
    best = found[0]
    assert LEAST_GAIN * bad.total < best.gain_ns <= bad.total == best.total_ns
    assert best.places and all(":" in place for place in best.places)
    assert best.bound or "timed again" in best.gain
    if case.exact:  # lines that the remedy changes together are told one by one
        gain = sum(advice.gain_ns for advice in found)
        assert gain == pytest.approx(bad.total - good.total, rel=0.3)


def test_every_rule_has_a_case() -> None:
    cases = {case.rule for case in CASES}
    assert cases | {fault.rule for fault in FAULTS} == {rule.name for rule in RULES}
    # On every chip, unless the chip lacks what the rule is about.
    everywhere = {case.rule for case in CASES if len(case.targets) == 3}
    assert (
        cases - everywhere
        == {
            "engine imbalance",  # trn1: Vector and GpSimd take turns, and Scalar has no instruction of theirs
            "PSUM conflict",  # two cases: a conflict of banks, and trn1's port
            "ramp-up",  # trn1 has no current limit
        }
    )


@pytest.mark.parametrize("added", [True, False])
def test_only_products_that_are_added_up_could_contract_more_rows(added: bool) -> None:
    def kernel(lhs_t, rhs):
        out = result((128, 2048), FP32)
        held, copy = tile((128, 2048), FP32, nl.psum), tile((128, 2048), FP32)
        a, b = tile((32, 4, 128)), tile((32, 4, 128))
        dma_copy(a, lhs_t)
        dma_copy(b, rhs)
        for n in range(16):
            part = slice(0, 128) if added else slice(128 * n, 128 * n + 128)
            nc_matmul(held[:, part], a[:, n // 4, :], b[:, n % 4, :], accumulate=added and n > 0)
        used = slice(0, 128) if added else slice(0, 2048)
        tensor_copy(copy[:, used], held[:, used])
        dma_copy(out[:, used], copy[:, used])
        return out

    run = timed(kernel, ((32, 4, 128), "bfloat16"), ((32, 4, 128), "bfloat16"))
    text = "\n".join(map(str, advise(run.timeline).of("under-filled array")))
    assert ("contract up to 128 rows" in text) == added
    assert ("side by side in parts of the array" in text) != added


def late_tiles(at_once: bool):
    """Return a kernel that makes four narrow tiles, each after long work; they are stored one by one or at once."""

    def kernel(x):
        out = result((128, 4 * 64))
        a, tiles = tile((128, 4096)), tile((128, 4 * 64))
        dma_copy(a, x)
        for k in range(4):
            tensor_scalar(a, a, op0=nl.multiply, operand0=0.5, engine=VECTOR)
            part = slice(64 * k, 64 * k + 64)
            tensor_scalar(tiles[:, part], a[:, part], op0=nl.add, operand0=1.0, engine=VECTOR)
            if not at_once:
                dma_copy(out[:, part], tiles[:, part])
        if at_once:
            dma_copy(out, tiles)
        return out

    return kernel


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_one_store_for_several_waits_for_the_last_of_their_tiles(target: str) -> None:
    specs = (((128, 4096), "bfloat16"),)
    bad, good = (timed(late_tiles(at_once), *specs, target=target) for at_once in (False, True))
    promised = sum(advice.gain_ns for advice in advise(bad.timeline).of("small DMAs"))
    # Before the last tile is there nothing can be stored: little is to be had, whatever the other stores cost.
    assert promised <= max(0, bad.total - good.total) + LEAST_GAIN * bad.total


@pytest.mark.parametrize("often", [(0,), (1,), (0, 1), ()])
def test_only_tiles_in_psum_that_are_read_often_are_worth_a_copy(often: tuple[int, ...]) -> None:
    """One line reads two tiles in PSUM; the advice is about those of its reads whose tile is read again."""

    def kernel(x):
        out, a, made = result((128, 3, 2, 512)), tile((128, 512)), tile((128, 3, 2, 512))
        held = [tile((128, 512), BF16, nl.psum) for _ in range(2)]
        dma_copy(a, x)
        for one in held:
            tensor_copy(one, a)
        for k, one in enumerate(held):
            tensor_scalar(made[:, 0, k], one, op0=nl.multiply, operand0=2.0, engine=VECTOR)
        for k in often:
            tensor_scalar(made[:, 1, k], held[k], op0=nl.add, operand0=1.0, engine=VECTOR)
            tensor_scalar(made[:, 2, k], held[k], op0=nl.add, operand0=-1.0, engine=VECTOR)
        dma_copy(out[:, 0], made[:, 0])
        for k in often:
            dma_copy(out[:, 1:3, k], made[:, 1:3, k])
        return out

    evidence = Evidence(timed(kernel, ((128, 512), "bfloat16")).timeline)
    told = [
        evidence.instruction(entry).written()[0].offset
        for proposal in SLOW_MODE.find(evidence)
        for entry in proposal.entries.tolist()
    ]
    assert sorted(told) == sorted(512 * (2 * n + k) for n in range(3) for k in often)


@pytest.mark.parametrize(("tensors", "each"), [(2, 1), (1, 2), (2, 2), (1, 1)])
def test_one_small_transfer_of_a_tensor_has_none_to_go_with(tensors: int, each: int) -> None:
    def kernel(*inputs):
        out, made = result((128, 16 * tensors * each)), tile((128, 16 * tensors * each))
        for k, x in enumerate(each * inputs):
            dma_copy(
                made[:, 16 * k : 16 * k + 16], x[:, 16 * (k // tensors) : 16 * (k // tensors) + 16]
            )
        dma_copy(out, made)
        return out

    run = timed(kernel, *(((128, 32), "bfloat16") for _ in range(tensors)))
    told = [proposal.help for proposal in SMALL_TRANSFERS.find(Evidence(run.timeline))]
    assert len(told) == (tensors if each > 1 else 0)
    assert all(help.startswith("move 2 of these tiles") for help in told)


def in_ns(text: str, unit: str) -> float:
    return float(text.replace(",", "")) * {"ns": 1, "us": 1000}[unit]


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("count", [4, 8, 12])
def test_products_after_idling_take_up_to_twice_their_time(count: int, target: str) -> None:
    """The page says about half of the rate (overview-summary-page.rst:131)."""
    specs = (((128, 128), "bfloat16"), ((128, 512), "bfloat16"))
    run = timed(products(count, True), *specs, target=target)
    (told,) = RAMP_UP.find(Evidence(run.timeline))
    words = re.search(r"take ([\d.,]+) (\w+) at the full rate took ([\d.,]+) (\w+):", told.message)
    assert words is not None
    work, took = in_ns(*words.group(1, 2)), in_ns(*words.group(3, 4))
    assert 1.05 * work < took <= 2.05 * work  # they are written with two digits
    assert "50 % of its rate, and needs 3 us of work" in told.message


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_products_of_up_to_64_rows_can_work_side_by_side(target: str) -> None:
    """Parts of the array have 32 or 64 of its 128 rows (tile_size of nc_matmul)."""
    offered = {
        rows: "side by side" in array_fill._help(get_target(target), rows, 128, 512, sums=False)
        for rows in range(1, 129)
    }
    assert offered == {rows: rows <= 64 for rows in range(1, 129)}


@pytest.mark.parametrize("engines", [(VECTOR,), *((*[VECTOR] * n, SCALAR) for n in (2, 3, 5))])
def test_how_busy_engines_are_said_to_be(engines: tuple[Engine, ...]) -> None:
    run = timed(on_engines(*engines), ((128, 2048), "float32"))
    evidence = Evidence(run.timeline)
    percent = {SCALAR: "0", VECTOR: "0"}
    for engine in engines:  # copies that follow each other without a gap begin at equal distances
        entries = np.concatenate([group.entries for group in evidence.groups_of(engine)])
        starts = np.sort(run.timeline.start[entries])
        distance = np.median(np.diff(starts)) / 1000
        percent[engine] = f"{100 * distance * len(starts) / run.total:.0f}"
    told = [p.message for p in IMBALANCE.find(evidence)]
    words = f"vector is busy {percent[VECTOR]} % of the time, scalar {percent[SCALAR]} %; "
    assert [message for message in told if message.startswith(words)]
