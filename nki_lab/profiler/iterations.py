"""In which iteration of the author's loops did each instruction run?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile


def loop_values(profile: Profile, depth: int | None = None) -> Strings:
    """Return per row of Instruction the values of the loop variables around it, such as `i=3, j=0`.

    Unknown where no loop is around it, or the profile knows no loop variables. A value that only the device knows, or
    that is no whole number, is shown as `?`.

    Args:
        profile: the run; a modelled one reads the variables now, by tracing the kernel again.
        depth: show so many of the outer loops; by default all.
    """
    paths = _paths(profile)
    texts: list[str | None] = [None]
    codes: dict[int, int] = {-1: 0}
    for entry, path in paths.items():
        codes[entry] = len(texts)
        shown = path[:depth]
        texts.append(", ".join(shown) if shown else None)
    name = profile.strings("Instruction", "kernel_instruction_name")
    static = profile.strings("KernelInstructions", "kernel_instruction_name")
    entries = profile.column("KernelInstructions", "iteration_variables_id")
    column = Strings.of(texts)
    if entries is None or not len(name):
        return Strings(np.full(len(name), -1), ())
    assert isinstance(entries, np.ndarray)
    core = profile.numbers("KernelInstructions", "pcore_idx")
    place = {
        (number, instruction): codes.get(entry, 0)
        for number, instruction, entry in zip(
            core.tolist(), static.to_list(), np.ma.filled(entries, -1).tolist(), strict=True
        )
    }
    rows = zip(profile.numbers("Instruction", "pcore_idx").tolist(), name.to_list(), strict=True)
    found = np.array([place.get(row, 0) for row in rows], dtype=np.int64)
    return Strings(column.codes[found], column.values)


def _paths(profile: Profile) -> Mapping[int, tuple[str, ...]]:
    """Return the text of every variable with those around it, outermost first, by id."""
    paths: dict[int, tuple[str, ...]] = {}
    rows = {
        row["iteration_variable_id"]: row for row in profile.records("KernelIterationVariables")
    }
    for number in rows:
        chain = []
        entry = number
        while entry is not None and entry in rows and entry not in paths:
            chain.append(entry)
            if len(chain) > len(rows):
                break  # a file may say that a loop is around itself
            entry = rows[entry]["parent_iteration_variable_id"]
        path = paths.get(entry, ())
        for entry in reversed(chain):
            value = rows[entry]["variable_value"]
            path += (f"{rows[entry]['variable_name']}={'?' if value is None else value}",)
            paths[entry] = path
    return paths
