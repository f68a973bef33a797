"""Two profiles side by side, and a run below the roofs of its chip: by hand."""

from __future__ import annotations

import re

import pytest

from nki_lab.profiler.analyses.compare import Difference, compare_profiles
from nki_lab.profiler.profile import Profile
from nki_lab.targets import ALL_TARGETS, TRN1, TRN2

from .example import DMA, FLOW, INSTRUCTION, profile


def slower() -> Profile:
    """Return the example with one instruction on Scalar, and the last one 500 ns longer, on another line."""
    changed = INSTRUCTION | {
        "engine": ["sync", "scalar", *INSTRUCTION["engine"][2:]],
        "opcode": ["DMA_TRIGGER", "ACTIVATE", *INSTRUCTION["opcode"][2:]],
        "end_ts": [50, 2100, 2300, 2600, 3600, 800],
        "nki_source_location": ["cell:3", "cell:4", "cell:5", "cell:5", "add.py:13", None],
    }
    tables = {"Instruction": changed, "DmaPacketAggregated": DMA, "Flow": FLOW}
    return Profile.from_tables(TRN1, tables, is_simulation=False, name="slow")


def test_differences_by_hand() -> None:
    found = compare_profiles(profile(), slower())
    assert (found.first_ns, found.second_ns) == (3100, 3600)
    assert found.speedup == 3100 / 3600
    assert found.first == "add_kernel on trn2, modelled"
    assert found.second == "slow, measured on trn1"
    assert {d.name: (d.first_ns, d.second_ns) for d in found.engines} == {
        "tensor": (300, 300), "vector": (2000, 1400), "scalar": (0, 1100),
        "gpsimd": (0, 0), "sync": (50, 50), "dma": (2300, 2300),
    }  # fmt: skip
    assert found.lines == (
        Difference("add.py, line 12 -> add.py, line 13", 400, 900, 1, 1),  # both copy, in no loop
        Difference("cell, line 4", 1100, 1100, 1, 1),
        Difference("cell, line 3", 850, 850, 1, 1),
        Difference("cell, line 5", 500, 500, 2, 2),
    )
    assert found.opcodes[:3] == (
        Difference("TENSOR_TENSOR", 1100, 0, 1, 0),
        Difference("ACTIVATE", 0, 1100, 0, 1),
        Difference("COPY", 900, 1400, 3, 3),
    )
    assert found.faster == ()
    assert ("HBM bytes read", "8,000", "8,000") in found.figures


def test_lines_of_two_versions_are_matched_by_their_text() -> None:
    texts = ({"add.py:12": "nisa.tensor_copy(a, b)"}, {"add.py:13": "nisa.tensor_copy(a, b)"})
    found = compare_profiles(profile(), slower(), lambda run, place: texts[run].get(place, ""))
    assert found.lines[0] == Difference("nisa.tensor_copy(a, b)", 400, 900, 1, 1)


def test_lines_that_execute_something_else_are_not_matched() -> None:
    other = Profile.from_tables(
        TRN2,
        {"Instruction": INSTRUCTION | {"nki_source_location": [f"new.py:{k}" for k in range(6)]}},
        is_simulation=True,
        name="other",
    )
    found = {d.name: d for d in compare_profiles(profile(), other).lines}
    pairs = [name for name in found if " -> " in name]
    assert pairs and all(found[name].first_count and found[name].second_count for name in pairs)
    alone = [d for name, d in found.items() if " -> " not in name]
    assert alone and all(not (d.first_count and d.second_count) for d in alone)


def test_a_run_is_as_fast_as_itself() -> None:
    found = compare_profiles(profile(), profile())
    assert "both take the same time" in str(found)
    assert not any(d.delta_ns for d in (*found.engines, *found.lines, *found.opcodes))


def test_numbers_stand_below_each_other_whatever_the_length_of_a_line() -> None:
    names: dict[str, str] = {}

    def text_of(run: int, place: str) -> str:
        return names.setdefault(place, f"{place} {'x' * 30 * (len(names) % 3)}")

    lines = str(compare_profiles(profile(), slower(), text_of)).splitlines()
    assert any(line.endswith("x" * 60) for line in lines)
    changes = [found for line in lines if (found := re.search(r"[+-]\d+\.\d{3}\b", line))]
    (end,) = {line.index("change") + len("change") for line in lines if line.endswith("count")}
    assert {change.end() for change in changes} == {end}


def test_text(golden) -> None:
    text = str(compare_profiles(profile(), slower()))
    assert len(text.splitlines()) < 40
    golden(f"{text}\n\n{profile().roofline()}\n", "compare.txt")


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_the_slowest_resource_is_the_roof(target) -> None:
    """timing_model.md section 4: bfloat16 peaks 91.8, 78.6, 78.6 TFLOP/s; DMA 272, 368, 528 GB/s."""
    tables = {"Instruction": INSTRUCTION, "DmaPacketAggregated": DMA}
    roof = Profile.from_tables(target, tables, is_simulation=True).roofline()
    peak, dma = {
        "trn1": (91.8e3, 272),
        "trn2": (78.6e3, 368),
        "trn3": (78.6e3, 528),
    }[target.name]
    flops, moved = 2 * 128 * 128 * 512, 48000
    least = {r.name: r.least_ns for r in roof.roofs}
    assert least["Tensor engine, bfloat16"] == pytest.approx(flops / peak, rel=1e-3)
    assert least["16 DMA engines"] == pytest.approx(moved / dma)
    assert roof.attainable_ns == max(least.values())
    assert roof.attained == roof.attainable_ns / 3100
    assert roof.intensity == flops / moved
    assert (
        roof.binds.name == "Tensor engine, bfloat16"
    )  # 349 FLOP per byte, above every chip's balance
    assert roof.intensity > roof.balance
    poor = INSTRUCTION | {"adjusted_flops": 0, "raw_flops": 1000}
    p = Profile.from_tables(target, tables | {"Instruction": poor}, is_simulation=True)
    least = {"trn1": "16 DMA engines", "trn2": "device memory, one core", "trn3": "16 DMA engines"}
    assert p.roofline().binds.name == least[target.name]


def test_a_roofline_says_what_float32_products_count_as() -> None:
    flops = [None, None, None, None, None, 4 * 2 * 128 * 128 * 512]
    p = profile(Instruction=INSTRUCTION | {"adjusted_flops": flops})
    line = "0.017 GFLOP take the Tensor engine as long as 0.067 in bfloat16"
    assert line in str(p.roofline()) and line not in str(profile().roofline())


def test_nothing_to_compare() -> None:
    empty = Profile.from_tables(TRN2, {}, is_simulation=True)
    assert "one of the two ran nothing" in str(compare_profiles(empty, profile()))
    assert empty.roofline().attained == 0.0
    assert empty.roofline().intensity is None
    assert "no bytes" in str(empty.roofline())
