"""The error of the model: events of a modelled and a measured run in pairs, and their ratios by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.model_error import model_errors, size_class, size_text
from nki_lab.profiler.analyses.pairing import WAYS, paired_instructions, paired_transfers
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN2

from .example import DMA, FLOW, INSTRUCTION, profile


def measured(**changes: Any) -> Profile:
    """Return the example as measured: Vector takes 3/2, Tensor 2 times as long, the transfers 100 and 500 ns more."""
    table = INSTRUCTION | {
        "start_ts": [7, 2000, 4000, 5000, 6000, 500],
        "end_ts": [57, 3650, 4300, 5450, 6600, 1100],
    }
    moved = DMA | {"start_ts": [100, 400], "end_ts": [1000, 2900]}
    tables = {"Instruction": table | changes, "DmaPacketAggregated": moved, "Flow": FLOW}
    return Profile.from_tables(TRN2, tables, is_simulation=False, name="add_kernel")


def test_ratios_by_hand() -> None:
    errors = model_errors(profile(), measured())
    assert {row.name: row.ratio for row in errors.engines} == {
        "tensor": 2.0, "vector": 1.5, "sync": 1.0, "dma": (900 + 2500) / (800 + 2000),
    }  # fmt: skip
    assert [(r.name, r.count, r.modelled_ns, r.measured_ns) for r in errors.classes] == [
        ("vector TENSOR_TENSOR", 1, 1100, 1650),
        ("vector COPY", 3, 900, 1350),
        ("tensor MATMUL", 1, 300, 600),
        ("sync DMA_TRIGGER", 1, 50, 50),
    ]
    assert [(r.name, r.ratio) for r in errors.sizes] == [
        ("4 KiB to 8 KiB", 900 / 800),
        ("32 KiB to 64 KiB", 2500 / 2000),
    ]
    lines = {row.name: (row.count, row.ratio) for row in errors.lines}
    assert lines["cell, line 5"] == (2, 1.5) and lines["add.py, line 12"] == (1, 1.5)
    # Line 3 of the cell has a trigger of 50 ns, and issued the first transfer.
    assert lines["cell, line 3"] == (2, (50 + 900) / (50 + 800))
    assert errors.alone == (0, 0) and errors.paired == 8


def test_the_spread_is_of_single_events() -> None:
    errors = model_errors(profile(), measured(end_ts=[57, 3650, 4100, 5600, 6600, 1100]))
    copies = next(row for row in errors.classes if row.name == "vector COPY")
    # 100, 600 and 600 ns of 200, 300 and 400.
    assert copies.ratio == 1300 / 900
    assert np.allclose((copies.low, copies.high), np.quantile([0.5, 2.0, 1.5], (0.05, 0.95)))


def test_events_are_paired_by_line_before_order() -> None:
    # The same copies in another order: those of line 5, and that of line 12 before them.
    other = measured(
        nki_source_location=["cell:3", "cell:4", "add.py:12", "cell:5", "cell:5", None]
    )
    pairs = paired_instructions(profile(), other)
    assert dict(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == {
        0: 0, 1: 1, 2: 3, 3: 4, 4: 2, 5: 5,
    }  # fmt: skip
    assert [WAYS[w] for w in pairs.way] == [WAYS[0]] * 5 + ["order"]


def test_folders_and_the_name_of_the_only_file_do_not_matter() -> None:
    lines = ["a/k.py:3", "a/k.py:4", "a/k.py:5", "a/k.py:5", "a/k.py:7", None]
    mine = Profile.from_tables(
        TRN2, {"Instruction": INSTRUCTION | {"nki_source_location": lines}}, is_simulation=True
    )
    others = [None if text is None else text.replace("a/k.py", "/t/cell_1f.py") for text in lines]
    pairs = paired_instructions(mine, measured(nki_source_location=others))
    assert [WAYS[w] for w in pairs.way] == [WAYS[0]] * 5 + ["order"]


def test_what_only_one_run_has_is_left_alone_and_told() -> None:
    # One copy has become two, and the matmul runs on another engine.
    grown = measured(
        opcode=["DMA_TRIGGER", "COPY", "COPY", "COPY", "COPY", "MATMUL"],
        nki_source_location=[None] * 6,
        engine=["sync", "vector", "vector", "vector", "vector", "vector"],
    )
    errors = model_errors(profile(), grown)
    assert [row.name for row in errors.classes] == ["sync DMA_TRIGGER"]
    assert errors.alone == (5, 5)
    assert "without a partner: 5 modelled, 5 measured" in "\n".join(errors.lines_of_text())


def test_transfers_are_paired_by_direction_and_bytes() -> None:
    moved = DMA | {"start_ts": [400, 100], "end_ts": [2400, 900], "op": ["write", "read"]}
    moved |= {"transfer_bytes": [40000, 8000], "variable": ["y", "x"]}
    other = Profile.from_tables(TRN2, {"DmaPacketAggregated": moved}, is_simulation=False)
    pairs = paired_transfers(profile(), other)
    assert (pairs.first.tolist(), pairs.second.tolist()) == ([0, 1], [1, 0])


def test_transfers_of_a_run_that_tells_no_direction_are_paired_by_bytes_and_order() -> None:
    moved = {k: v for k, v in DMA.items() if k != "op"} | {"transfer_bytes": [40000, 8000]}
    other = Profile.from_tables(TRN2, {"DmaPacketAggregated": moved}, is_simulation=False)
    pairs = paired_transfers(profile(), other)
    assert (pairs.first.tolist(), pairs.second.tolist()) == ([0, 1], [1, 0])
    assert [WAYS[w] for w in pairs.way] == ["order", "order"]


def test_a_comparison_of_a_modelled_with_a_measured_run_tells_it_either_way_round() -> None:
    one = compare_profiles(profile(), measured())
    other = compare_profiles(measured(), profile())
    assert one.model is not None and one.model == other.model
    assert compare_profiles(profile(), profile()).model is None
    assert compare_profiles(measured(), measured()).model is None
    text = str(one)
    assert "measured / modelled, 8 events paired: 6 by line and iteration, 2 by order" in text
    assert (
        "vector COPY                        3         0.900         1.350     1.50  1.50 to 1.50\n"
        in text
    )


@pytest.mark.parametrize(
    ("size", "text"), [(1, "1 B"), (1023, "512 B"), (4096, "4 KiB"), (5 << 20, "4 MiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size_class(size)) == text


def test_runs_without_events_have_no_rows() -> None:
    empty = Profile.from_tables(TRN2, {}, is_simulation=True)
    errors = model_errors(empty, measured())
    assert (errors.engines, errors.classes, errors.lines, errors.paired) == ((), (), (), 0)
    assert errors.alone == (0, 8)
