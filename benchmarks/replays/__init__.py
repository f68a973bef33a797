"""Programs of ours that stand for published measurements.

A replay is a kernel that does what the measured one did: the same loops, tile sizes, instructions and transfers,
written anew (numbers and structure are facts; no text of a source is copied). One file per family of kernels; it is
named in `FAMILIES` and ends with

    REPLAYS = (Replay(...), ...)

A `Replay` (benchmarks/replay.py) says

- which rows it answers. `kernel` and `shapes` are regular expressions for the whole text of the columns of that name,
  `arch` is compared, and `source` is text that occurs in the column, for rows that differ in nothing else (the
  versions of one kernel in one trace). Every row belongs to at most one replay.
- how the program is made: `program(**sizes)` returns a `Program`. Named groups of `shapes` become whole numbers in
  `sizes`, so that one replay answers rows of several sizes:

      Replay("mamba_v2", r"batch 1, seq (?P<seq>\\d+), channels (?P<channels>\\d+), state 16", mamba_v2, family="mamba")

- what is read off: `reads` maps metrics of the rows to readers (benchmarks/readings.py has makers of them). Those that
  mean the same for every program (latency..., total, ..._active, hfu, mfu, mbu, hbm_bytes) need no mention.
- `family`: variants that are compared with each other; only rows with the same metric and shapes make pairs.
- `published_bytes`: True where the old compiler changed the HBM traffic (dropped or repeated loads, spills). The work
  of every transfer is scaled so that together they move what the row with the metric `hbm_bytes` says.

What cannot be replayed is listed with its reason: `NOT_REPLAYED` of a module maps (kernel, shapes, source), matched in
the same way, to the reason.

Rules: nothing in a replay may be chosen by the time it was published with. What a source leaves open (the engine of an
instruction, who makes descriptors) is left open here, so that nki_lab's compiler decides.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from benchmarks.published import Row
from benchmarks.replay import Program, Replay

__all__ = ["FAMILIES", "Program", "Replay", "all_replays", "reason_against", "replay_of"]

#: Modules of this package, in the order they are printed.
FAMILIES = (
    "kernel_optimization",
    "nkibench",
    "nkibench_matmul",
    "nkibench_fused",
    "matmul_ladder",
    "fused_mamba",
    "autocomp_gemm",
    "autocomp_attention_hbm",
    "autocomp_attention",
    "autocomp_conv1d",
    "nki_library",
    "instructions",
)


def all_replays() -> list[Replay]:
    """Return the replays of every family."""
    return [replay for name in FAMILIES for replay in _module(name).REPLAYS]


def replay_of(row: Row) -> tuple[Replay, dict[str, int]] | None:
    """Return the replay that answers a row, with the sizes of its program; None where there is none."""
    found = [(r, sizes) for r in all_replays() if (sizes := r.sizes(row)) is not None]
    assert len(found) < 2, f"{len(found)} replays answer the row {row.name}"
    return found[0] if found else None


def reason_against(row: Row) -> str | None:
    """Return why a family says that a row cannot be replayed."""
    for name in FAMILIES:
        for (kernel, shapes, source), reason in getattr(_module(name), "NOT_REPLAYED", {}).items():
            matched = re.fullmatch(kernel, row.kernel) and re.fullmatch(shapes, row.shapes)
            if matched and source in row.source:
                return reason
    return None


def _module(name: str) -> Any:
    return import_module(f"benchmarks.replays.{name}")
