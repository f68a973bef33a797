"""Lists the kernels that have run in this session.

A run is noted as plain data when its cell ends. The Result itself stays the notebook's: where no variable keeps it, it
is gone, and the list says so.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nki_lab.compiler.frontend import SourceKernel
from nki_lab.ir.program.nodes import Finding
from nki_lab.magics.diagnostics import CellIds, diagnostics
from nki_lab.profiler.analyses.report import bound_sentence
from nki_lab.profiler.metrics import bound_by
from nki_lab.runtime import Result
from nki_lab.views.memory.occupancy import occupancy, usable_bytes

#: Runs that the list keeps.
KEPT = 20
#: Executed instructions up to which a run is timed only to be listed, which takes less than a tenth of a second.
TIMED_INSTRUCTIONS = 5_000
#: Instructions of a program up to which its memory is looked at for the list.
LOOKED_AT_INSTRUCTIONS = 20_000

Row = dict[str, Any]


@dataclass
class _Fresh:
    """A run of the cell that is running."""

    original: weakref.ref[Result]
    without_arrays: Result
    times: int = 1

    @property
    def result(self) -> Result:
        return self.original() or self.without_arrays


@dataclass
class _Listed:
    row: Row
    result: weakref.ref[Result]


class RunList:
    """The last runs of a session."""

    def __init__(self) -> None:
        self._fresh: dict[str, _Fresh] = {}
        self._listed: deque[_Listed] = deque(maxlen=KEPT)
        self._number = 0
        #: What holds for kernels of the dialect of the last run where nobody has chosen.
        self.standard: Mapping[str, str] = {}

    def note(self, result: Result) -> None:
        """Note a run of the cell that is running; of one kernel's only the last is kept."""
        before = self._fresh.pop(result.name, None)
        # What is listed says nothing of arrays, which may be large and which nobody else may keep.
        bare = replace(result, run=result.run.without_arrays(), inputs=(), value=None, before=None)
        times = 1 if before is None else before.times + 1
        source = result.compiled.source
        self.standard = source.dialect.standard if isinstance(source, SourceKernel) else {}
        self._fresh[result.name] = _Fresh(weakref.ref(result), bare, times)

    def end_cell(self, cell: str, number: int | None, ids: CellIds) -> list[Finding] | None:
        """List the runs of the cell that has ended; return what was found in them, None where nothing ran."""
        fresh, self._fresh = self._fresh, {}
        findings: list[Finding] = []
        for run in fresh.values():
            self._number += 1
            findings += run.result.findings
            row = _row(run.result, cell, ids)
            row |= {"id": self._number, "cell": cell, "number": number, "times": run.times}
            self._listed.append(_Listed(row, run.original))
        return findings if fresh else None

    def rows(self, scope: Mapping[str, Any]) -> list[Row]:
        """Return the runs as plain data, the last one first, each with the variable that holds it now, or None."""
        names = _variables(scope)
        return [
            {**listed.row, "variable": names.get(id(listed.result()))}
            for listed in reversed(self._listed)
        ]


def _variables(scope: Mapping[str, Any]) -> dict[int, str]:
    """Return the name of each Result in a namespace by its identity, one that does not begin with a dash below."""
    variables: dict[int, str] = {}
    for name, value in list(scope.items()):
        if isinstance(value, Result) and (id(value) not in variables or not name.startswith("_")):
            variables[id(value)] = name
    return variables


def _row(result: Result, cell: str, ids: CellIds) -> Row:
    target = result.kernel.target
    row: Row = {
        "kernel": result.name,
        "target": target.name,
        "cores": 1 + len(result.compiled.others),
        "ns": None,
        "bound": "",
        "resource": "",
        "memory": [],
        "findings": diagnostics(ids, cell, findings=result.findings),
    }
    executed = sum(len(e.order) for e in result.run.executions[:1])
    timed = "profile" in vars(result) or executed <= TIMED_INSTRUCTIONS
    if timed and not result.missing_times:
        profile = result.profile
        bound = bound_by(profile)
        row |= {
            "ns": profile.total_ns,
            "bound": bound_sentence(profile),
            "resource": bound.resource if bound.is_bound else "latency",
        }
        if len(result.kernel.instructions) <= LOOKED_AT_INSTRUCTIONS:
            row["memory"] = _memory(result)
    return row


def _memory(result: Result) -> list[Row]:
    """Return the most bytes per partition in use at one time of each on-chip memory, and how many there are."""
    target = result.kernel.target
    rows = []
    for memory, limit in usable_bytes(target).items():
        tiles = occupancy(result.view_data, memory)
        peak = tiles.peak(target.partitions)[0] if len(tiles.tensor) else 0
        rows.append({"memory": memory, "peak": int(peak), "limit": limit})
    return rows
