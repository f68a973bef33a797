"""The plain-text report: the same text every time, and never silent about what was modelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nki_lab.profiler.analyses.report import badge, bound_sentence, bound_words, report
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN2
from nki_lab.views.run import Remark, ViewData
from nki_lab.views.texts import view_text

from .example import DMA, INSTRUCTION, WARNING, profile


def test_report_of_the_example(golden) -> None:
    golden(report(profile()) + "\n", "report.txt")


def test_report_of_nothing(golden) -> None:
    empty = Profile.from_tables(TRN2, {}, is_simulation=False, name="idle")
    golden(report(empty) + "\n", "report_empty.txt")


def test_report_is_narrow_ascii() -> None:
    text = report(profile())
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 92
    assert report(profile()) == text


@pytest.mark.parametrize(
    ("is_simulation", "words"),
    [(True, "modelled from public documents, not measured"), (False, "measured on trn2")],
)
def test_badge(is_simulation, words) -> None:
    p = Profile.from_tables(TRN2, {}, is_simulation=is_simulation)
    assert badge(p) == words
    assert report(p).splitlines()[0].endswith(words)


def test_bound_sentences() -> None:
    assert bound_sentence(profile()) == "DMA: busy 74.2 % of the time, at 5.7 % of its rate"
    only = Profile.from_tables(TRN2, {"Instruction": INSTRUCTION}, is_simulation=True)
    assert bound_sentence(only) == "Vector: busy 64.5 % of the time"
    late = DMA | {"start_ts": [0, 9000], "end_ts": [100, 9900]}
    assert bound_sentence(profile(DmaPacketAggregated=late)) == (
        "latency: nothing is busy half of the time; the busiest is Vector with 20.2 %"
    )


@pytest.mark.parametrize(
    ("vector", "scalar", "sentence"),
    [
        (0.913, 0.2, "DMA and Vector: busy 96.9 % and 91.3 % of the time"),
        (0.97, 0.2, "Vector and DMA: busy 97.0 % and 96.9 % of the time"),
        (0.87, 0.2, "DMA: busy 96.9 % of the time"),  # 0.898 of the share of DMA
        (0.913, 0.9, "DMA, Vector and Scalar: busy at least 90.0 % of the time"),
    ],
)
def test_what_is_about_as_busy_binds_as_well(vector, scalar, sentence) -> None:
    shares = {"dma": [0.969], "vector_engine": [vector], "scalar_engine": [scalar]}
    summary = {f"{name}_active_time_percent": share for name, share in shares.items()}
    p = Profile.from_tables(
        TRN2, {"Summary": summary | {"total_time": [1e-6]}}, is_simulation=False
    )
    assert bound_sentence(p) == sentence
    assert f"bound by     {sentence}" in report(p).splitlines()


def test_a_cell_of_a_table_names_what_is_about_as_busy() -> None:
    shares = {"dma_active_time_percent": [0.6], "tensor_engine_active_time_percent": [0.55]}
    p = Profile.from_tables(TRN2, {"Summary": shares | {"total_time": [1e-6]}}, is_simulation=False)
    assert bound_words(p) == "DMA 60.0 %, Tensor 55.0 %"


def test_what_a_measured_profile_does_not_say_stays_open() -> None:
    measured = {"total_time": [3.1e-6], "vector_engine_active_time_percent": [0.8]}
    tables = {"Summary": measured, "Instruction": INSTRUCTION}
    lines = report(Profile.from_tables(TRN2, tables, is_simulation=False)).splitlines()
    assert "bound by     Vector: busy 80.0 % of the time" in lines
    assert next(line for line in lines if line.startswith("Scalar")).split()[1:4] == ["-"] * 3


def test_the_report_tells_all_that_its_numbers_lean_on() -> None:
    warnings = WARNING | {"message": [f"note {n}" for n in range(20)]}
    lines = report(profile(Warning=warnings)).split("\n")
    assert [line for line in lines if "note" in line] == [
        f"  not modelled: note {n}" for n in range(20)
    ]


@pytest.mark.parametrize("limit", [24, 30, 40])
def test_a_report_that_is_cut_keeps_what_its_numbers_lean_on(limit: int) -> None:
    limits = [f"limit {n}" for n in range(11)]
    advice = [f"advice {n}\n  more of it" for n in range(20)]
    p = Profile.from_tables(
        TRN2,
        {
            "Instruction": INSTRUCTION,
            "Warning": {
                "message": [*advice, *limits],
                "category": ["advice"] * 20 + ["assumed"] * 11,
            },
        },
        is_simulation=True,
    )
    remarks = tuple(Remark("hazard", f"finding {n}", "", None) for n in range(30))
    data = replace(ViewData("many", p), findings=remarks)
    lines = view_text(data, "report", limit).split("\n")
    assert len(lines) <= limit
    told = [line for line in lines if line.startswith("  assumed: ")]
    assert told == [f"  assumed: {t}" for t in limits[: len(told)]]
    if limit == 40:
        assert len(told) == 11
    else:
        assert f"  ... {11 - len(told)} more: print(result) shows all of them" in lines
    assert "findings" in lines
    heading = lines.index("advice, the largest gain first")
    assert lines[heading + 1 : heading + 3] == ["  1. advice 0   more of it", "  ... 19 more"]
    whole = view_text(data, "report").split("\n")
    assert sum("finding " in line for line in whole) == 30
