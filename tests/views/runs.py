"""Runs that the tests of the views show: one of a real kernel, one written by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result, run
from nki_lab.targets import TRN2
from nki_lab.views.run import (
    CodeLine,
    Operation,
    Place,
    ProgramStage,
    Remark,
    Slice,
    Tensor,
    ViewData,
)
from tests.profiler import example


def add_halves(x, y):
    """Add two tensors in two halves of their columns."""
    columns = x.shape[1]
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = columns // 2
    for k in range(2):
        part = slice(k * half, (k + 1) * half)
        total = nl.add(nl.load(x[:, part]), nl.load(y[:, part]))
        nl.store(result[:, part], total)
    return result


@cache
def added() -> Result:
    """Return the run of `add_halves` on trn2 with tensors of 96 x 600."""
    x = np.arange(96 * 600, dtype=np.float32).reshape(96, 600) - 20_000
    return run(add_halves, x, -2 * x, target="trn2")


def by_hand(name: str = "by_hand", **changes: Any) -> ViewData:
    """Return a run whose every part was chosen by hand, around the profile of the profiler's tests."""
    place = Place("cell, line 4", "cell [3], line 4", "    y = nl.load(x)")
    lines = [CodeLine("kernel by_hand {"), CodeLine("  copy(%y, %x)", place, 0), CodeLine("}")]
    later = [lines[0], CodeLine("  copy(%y, %x) on vector", place, 0), lines[2]]
    facts: dict[str, Any] = {
        "profile": example.profile(),
        "operations": [Operation("copy", "vector", "copy(%y, %x)", place)] * 6,
        "stages": [
            ProgramStage("trace", lambda: lines),
            ProgramStage("idle", lambda: list(lines)),
            ProgramStage("place", lambda: later),
        ],
        "tensors": [
            Tensor("x", "shared_hbm", (64, 32), "float32", 4, "input", False),
            Tensor("y", "sbuf", (64, 32), "float32", 4, "temporary", True, (0, 256), (0, 3), place),
            Tensor("z", "sbuf", (32, 8), "float32", 4, "temporary", True, (64, 256), (2, 5), place),
            Tensor("acc", "psum", (128, 16), "float32", 4, "temporary", True, (0, 2048), (1, 1)),
        ],
        "slices": lambda n: (
            [Slice("%x[0:64, 0:16]", (64, 16), (32, 1), 0, 4, readers=[0])] * (n == 0)
        ),
        "findings": [Remark("advice", "nothing to see", "look away", place)],
        "make_lines": lambda: (np.zeros(6, dtype=np.int64), [place]),
    }
    return ViewData(name, **(facts | changes))


def many_events(count: int, seed: int = 1) -> Profile:
    """Return a profile of about `count` events on every engine and two queues, one third transfers."""
    rng = np.random.default_rng(seed)
    moved = count // 3
    issued = count - moved

    def spans(n: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
        length = rng.integers(20, longest, n)
        start = np.cumsum(length + rng.integers(0, 60, n)) - length
        return start, start + length

    start, end = spans(issued, 400)
    begun, arrived = spans(moved, 900)
    return Profile.from_tables(
        TRN2,
        {
            "Instruction": {
                "start_ts": start,
                "end_ts": end,
                "engine": [("tensor", "vector", "scalar", "gpsimd", "sync")[k % 5] for k in range(issued)],
                "opcode": [("MATMUL", "TENSOR_TENSOR", "ACTIVATE")[k % 3] for k in range(issued)],
                "id": np.arange(issued),
                "pcore_idx": 0,
                "nki_source_location": [f"cell:{k % 7}" for k in range(issued)],
            },
            "DmaPacketAggregated": {
                "start_ts": begun,
                "end_ts": arrived + 300,  # so that neighbours of a queue overlap
                "id": np.arange(moved),
                "pcore_idx": 0,
                "queue_name": [("qIn", "qOut")[k % 2] for k in range(moved)],
                "variable": "x",
                "transfer_bytes": 4096,
                "read_bytes": 4096,
                "write_bytes": 4096,
            },
        },
        is_simulation=True,
        name="many",
    )  # fmt: skip
