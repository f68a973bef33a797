"""What are the Summary metrics of a run, as text with their units?"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES
from nki_lab.source import text_of

# Groups by how the names of their metrics begin; what begins otherwise is about the whole run.
_RUN = "run"
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_RUN, ()),
    ("tensor engine", ("tensor_engine", "matmul", "mfu", "hfu", "mm_", "array_")),
    ("vector engine", ("vector_engine",)),
    ("scalar engine", ("scalar_engine", "activate")),
    ("gpsimd engine", ("gpsimd_engine",)),
    ("sync engine", ("sync_engine",)),
    ("DMA", ("dma", "static_dma", "dynamic_dma", "software_dynamic", "hardware_dynamic")),
    ("memory", ("hbm", "mbu", "sbuf", "psum", "spill", "input", "output", "weight")),
    ("collectives", ("cc_",)),
)
_UNITS = {"-": "", "B": "bytes"}
_WIDTH = 100


def summary_text(profile: Profile) -> str:
    """Return the Summary metrics by Neuron Explorer's names, in groups, each with the schema's unit.

    Those of a group that are 0 stand in one line below the others.
    """
    groups: dict[str, dict[str, Any]] = {title: {} for title, _ in _GROUPS}
    for name, value in profile.summary.items():
        title = next((t for t, begins in _GROUPS if name.startswith(begins or ("\n",))), _RUN)
        groups[title][name] = value
    told = {name: v for group in groups.values() for name, v in group.items() if _is_told(v)}
    wide = max(map(len, told), default=0)
    digits = max((len(_written(v)) for v in told.values()), default=0)
    lines: list[str] = []
    for title, group in groups.items():
        if not group:
            continue
        lines.append(title)
        for name, value in group.items():
            if name in told:
                unit = TABLES["Summary"][name].unit
                row = f"  {name:<{wide}}  {_written(value):>{digits}} {_UNITS.get(unit, unit)}"
                lines.append(row.rstrip())
        zeros = ", ".join(name for name in group if name not in told)
        if zeros:
            lines += textwrap.wrap(
                zeros, _WIDTH, initial_indent="  0: ", subsequent_indent="     ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return text_of(lines)


def _is_told(value: Any) -> bool:
    return not isinstance(value, (int, float, np.number)) or value != 0


def _written(value: Any) -> str:
    if isinstance(value, (bool, str, np.bool_)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:,.6g}"
