"""Matches published rows with the configurations of nki-library's suite that they are goals of."""

from __future__ import annotations

import re
from typing import NamedTuple

from benchmarks.published import Row

_TESTS = "test/integration/nkilib/"
_PLACE = re.compile(rf"nki-library @(?P<commit>\w+) {_TESTS}(?P<file>\S+\.py):\d+")

#: How our rows call what the suite's range tests call otherwise.
_RENAMED = {
    "vnc": "vnc_degree",
    "b": "batch",
    "s": "seqlen",
    "h": "hidden",
    "i": "intermediate",
    "dt": "dtype",
    "q_dt": "quant_dtype",
    "q_t": "quant_type",
    "quantization_type": "quant_type",
    "fa": "fused_add",
    "sa": "store_add",
    "skip_gate_proj": "skip_gate",
    "gb": "gate_bias",
    "ub": "up_bias",
    "db": "down_bias",
    "nb": "norm_bias",
    "gate_col": "gu_col_tiling",
    "down_col": "down_col_tiling",
    "down_opt": "down_opt_layout",
    "lnc_degree": "vnc_degree",
}


#: What configurations differ in by a number.
SIZES = ("vnc_degree", "batch", "seqlen", "hidden", "intermediate")


class Goal(NamedTuple):
    """A configuration of the suite.

    Attributes:
        file: the file of the suite, below its integration tests.
        commit: the commit the row was read from, abbreviated.
        facts: what the row says of the configuration, by `name_of` names.
        goal: the number as the suite writes it.
    """

    file: str
    commit: str
    facts: dict[str, str]
    goal: float


def goal_of(row: Row) -> Goal | None:
    """Return the configuration that a row is the goal of; None for other rows."""
    place = _PLACE.fullmatch(row.source)
    if place is None or row.evidence != "target":
        return None
    pairs = [pair.partition("=") for pair in row.shapes.partition(": ")[2].split("; ")]
    if any(value.endswith("()") and name_of(name) in SIZES for name, _, value in pairs):
        return None  # computed in the test: which configuration it is cannot be told
    facts = {name_of(name): value for name, _, value in pairs if not value.endswith("()")}
    if row.dtype:
        facts["dtype"] = row.dtype
    return Goal(place["file"], place["commit"], facts, row.number * 1e3)


def name_of(name: str) -> str:
    """Return the one name for what is called by several."""
    return _RENAMED.get(name, name)


def agrees(goal: Goal, found: dict[str, str]) -> bool:
    """Tell whether a configuration is the row's: nothing that both name differs, and nearly all is named."""
    common = goal.facts.keys() & found.keys()
    return len(common) > len(goal.facts) // 2 and all(goal.facts[n] == found[n] for n in common)
