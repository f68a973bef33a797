"""Fullness of SBUF and PSUM over time, recomputed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.usage import Allocations, psum_usage, sbuf_allocation, sbuf_usage
from nki_lab.targets import TRN1, TRN2

from .example import allocations, bank_allocations, profile

KIB = 1024


def test_sbuf_fullness() -> None:
    usage = sbuf_usage(allocations(), TRN2)
    assert usage["timestamp"].tolist() == [100, 1000, 2100, 3100]
    low, high = usage["partition_32_util_percent"], usage["partition_96_util_percent"]
    assert low * 224 * KIB == pytest.approx([2048, 2048, 0, 0])
    assert high * 224 * KIB == pytest.approx([2048, 2048 + 4096, 4096, 0])
    assert usage["avg_util_percent"] * 224 * KIB == pytest.approx([2048, 4096, 2048, 0])
    assert usage["avg_util_percent"][-1] == 0


def test_psum_fullness_by_bank() -> None:
    usage = psum_usage(bank_allocations(), TRN1)
    banks = [usage[f"bank_{b}_util_percent"].max() for b in range(8)]
    assert banks == [0, 1, 1, 0, 0, 0, 0, 0]
    assert usage["avg_util_percent"].tolist() == [0.25, 0]


def test_allocations_of_probed_partitions() -> None:
    table = sbuf_allocation(allocations())
    rows = list(
        zip(
            table["tensor_name"].to_list(),
            table["partition"].tolist(),
            table["start_address"].tolist(),
            table["end_address"].tolist(),
            strict=True,
        )
    )
    x = [("x", partition, 0, 2047) for partition in (0, 32, 64, 96)]
    y = [("y", partition, 2048, 6143) for partition in (64, 96)]
    assert rows == x + y


def test_no_allocations() -> None:
    none = np.zeros(0, dtype=np.int64)
    empty = Allocations(none, none, none, none, none, none, Strings(none, ()))
    p = profile(SbufUsage=sbuf_usage(empty, TRN2), SbufAllocation=sbuf_allocation(empty))
    assert p.count("SbufUsage") == p.count("SbufAllocation") == 0
