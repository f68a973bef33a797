"""Captures a profile of a NEFF on the device with the official tool, and exports it to what `Profile.load` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nki_lab.errors import NotificationOverflow, ToolchainError
from nki_lab.hardware.importers import TOOLS, json_options, table_options, tables_in
from nki_lab.hardware.run_folder import RunFolder
from nki_lab.hardware.runner import Call, Runner, neff_of
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile
from nki_lab.source import Span

#: The execution that is captured: the first one still loads what later ones find.
_NTH = 2
_WRITTEN = re.compile(r"(?:[^\s:,;]*/)?(cell_[0-9a-f]{10}\.py)")
_DGE = "--enable-dge-notifs"
#: What is said where transfers that descriptors start on the device are missing.
NO_DGE = (
    "the queue of notifications overflowed, so the profile was captured without those of descriptor-generated"
    " transfers: such transfers are missing in it or too few"
)


def capture(runner: Runner, call: Call, folder: RunFolder) -> tuple[Profile, tuple[str, ...]]:
    """Capture one execution on the inputs of a run; return its profile, and what the author should know of it.

    ToolchainError where no tool is there, or it refuses.
    """
    tool = next((name for name in TOOLS if name in runner.toolchain.tools), None)
    if tool is None:
        raise ToolchainError(
            f"{call.name} has no profile: neither {' nor '.join(TOOLS)} is installed",
            help="install aws-neuronx-tools; values, and times by nrtpy or neuron-bench, need neither",
        )
    program = str(runner.toolchain.tools[tool])
    neff = neff_of(folder)
    inputs = [part for n, name in enumerate(call.inputs) for part in (name, f"input_{n}.bin")]
    command = [
        program,
        "capture",
        "-n",
        str(neff),
        "-s",
        "profile.ntff",
        f"--profile-nth-exec={_NTH}",
    ]
    notes: list[str] = []
    try:
        runner.tool([*command, _DGE, *inputs], call, folder)
    except NotificationOverflow:
        runner.say(NO_DGE)
        notes.append(NO_DGE)
        runner.tool([*command, *inputs], call, folder)
    ntff = _captured(folder)
    view = [program, "view", "-n", str(neff), "-s", ntff.name]
    folder.note(ntff=ntff.name, profiler=tool, notes=notes)
    return _exported(runner, call, folder, view, tool), tuple(notes)


def _captured(folder: RunFolder) -> Path:
    """Return the NTFF that was captured last."""
    names = sorted(folder.path.glob("profile*.ntff"), key=lambda path: path.stat().st_mtime)
    if not names:
        raise folder.gone("profile.ntff")
    return names[-1]


def _exported(
    runner: Runner, call: Call, folder: RunFolder, view: Sequence[str], tool: str
) -> Profile:
    """Return the profile that the tool exports: as tables where it can, else as JSON."""
    if tool == TOOLS[0]:
        data = folder.path / "explorer"
        options = [*table_options(call.name, data), "--nki-source-root", str(folder.path)]
        try:
            runner.tool([*view, *options], call, folder, uses_core=False)
        except ToolchainError:  # no page tells the flags that tables need; JSON has fewer
            pass
        tables = tables_in(data)
        if tables is not None:
            return _named(runner, call, Profile.load(tables, runner.chip))
    file = folder.path / "profile.json"
    runner.tool([*view, *json_options(file)], call, folder, uses_core=False)
    if not file.is_file():
        raise folder.gone(file.name)
    return _named(runner, call, Profile.load(file, runner.chip))


def _named(runner: Runner, call: Call, profile: Profile) -> Profile:
    """Return a profile with the name of the kernel, the number of the core, and the author's lines."""
    tables: dict[str, Any] = dict(profile.stored)
    about = dict(tables.get("Metadata", {}))
    about.setdefault("instance_type", [runner.chip])
    about.setdefault("neuroncore_idx", [runner.core])
    about["is_simulation"] = [False]
    tables["Metadata"] = about
    for name, columns in tables.items():
        tables[name] = {
            field: _in_cells(column, call) if isinstance(column, Strings) else column
            for field, column in columns.items()
        }
    return Profile.from_tables(
        profile.target,
        tables,
        is_simulation=False,
        name=call.name,
        metrics=profile.metrics,
        deals=profile.deals,
        transfer_lines=profile.transfer_lines,
    )


def _in_cells(column: Strings, call: Call) -> Strings:
    """Return a column of texts with the author's cells and files in place of those that were written for the run."""

    def label(match: re.Match[str]) -> str:
        author = call.files.sources.get(match[1])
        return match[0] if author is None else Span(author[0], 1).file_label

    if not any("cell_" in text for text in column.values):
        return column
    return Strings(column.codes, [_WRITTEN.sub(label, text) for text in column.values])
