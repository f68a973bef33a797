"""Reads measured profiles: exports of the official tools, and captures, which only those tools can decode.

    an export                   Parquet folder, JSON, summary or trace: `Profile.load` reads it
    a capture                   NEFF and NTFF: neuron-explorer or neuron-profile exports it, and the export is read

A capture names the program that it is of. Whether NEFF and NTFF belong together is checked before a tool is called.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

from nki_lab.errors import BadFile, ToolchainError
from nki_lab.hardware.diagnose import diagnose
from nki_lab.hardware.neff import belongs, is_neff, is_ntff, read_neff, read_uuid
from nki_lab.hardware.probe import Places, find_tool, output_of
from nki_lab.profiler.formats.files import is_profile
from nki_lab.profiler.formats.imported import Chip
from nki_lab.profiler.profile import Profile
from nki_lab.progress import doing

#: Official tools that decode captures, the one with more to tell first, and where they are.
TOOLS = ("neuron-explorer", "neuron-profile")
_PLACES = Places()
#: Seconds that a tool may take for an export.
_SECONDS = 600.0
_LISTED = 5


def load_profile(
    path: str | Path,
    target: Chip = None,
    start_ns: float | None = None,
    end_ns: float | None = None,
    *,
    neff: str | Path | None = None,
) -> Profile:
    """Read a profile: one that nki_lab wrote, an export of neuron-profile or neuron-explorer, or a capture of theirs.

    Args:
        path: a file or folder. Of a capture the NTFF, or a folder with one.
        target: the chip of a measured profile that does not tell it.
        start_ns, end_ns: read only what lies in this span of time; of a folder the rest is never in memory.
        neff: the program of a capture; by default the one in the NTFF's folder that it belongs to.

    Raises BadFile with one sentence where there is no readable profile, and ToolchainError where only a tool that is
    not installed can read it, with the command to run where it is.
    """
    path = Path(path)
    ntff = _capture_in(path)
    if ntff is not None:
        return _exported(_program_of(ntff, neff), ntff, target, start_ns, end_ns)
    if is_neff(path):
        raise BadFile(
            f"{path.name} is a compiled program, and no profile of it",
            help=f"capture one on the instance: neuron-explorer capture -n {shlex.quote(path.name)} -s profile.ntff;"
            f" %neff_layout {path.name} shows what is in it",
        )
    return Profile.load(path, target, start_ns, end_ns)


def holds_profile(path: str | Path) -> bool:
    """Tell whether a path leads to something that `load_profile` reads, by how it begins."""
    path = Path(path)
    return is_profile(path) or _capture_in(path) is not None


def _capture_in(path: Path) -> Path | None:
    """Return the NTFF that a path means; None where it means none."""
    if is_ntff(path):
        return path
    if not os.path.isdir(path) or is_profile(path):
        return None
    found = sorted(file for file in path.glob("*.ntff") if is_ntff(file))
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:_LISTED])
        raise BadFile(f"{path.name} holds {len(found)} captures: {names}", help="name one of them")
    return found[0] if found else None


def _program_of(ntff: Path, neff: str | Path | None) -> Path:
    """Return the NEFF of a capture. Raises BadFile where it is not there, or another one."""
    if neff is not None:
        uuid = read_uuid(neff)
        if uuid is None:
            raise BadFile(
                f"{Path(neff).name} is not a NEFF", help="name the .neff file that was captured"
            )
        if not belongs(uuid, ntff):
            raise BadFile(
                f"{ntff.name} was not captured of {Path(neff).name}: their UUIDs differ",
                help="name the .neff file that was captured; each compilation has another UUID",
            )
        return Path(neff)
    beside = sorted(ntff.parent.glob("*.neff"))
    for file in beside:
        uuid = read_uuid(file)
        if uuid is not None and belongs(uuid, ntff):
            return file
    others = (
        f"; it was not captured of {', '.join(f.name for f in beside[:_LISTED])}" if beside else ""
    )
    raise BadFile(
        f"the program of {ntff.name} is not in its folder{others}",
        help="copy the .neff file that was captured beside it, or name it: load_profile(path, neff=FILE)",
    )


@doing("decoding the capture")
def _exported(
    neff: Path,
    ntff: Path,
    target: Chip,
    start_ns: float | None,
    end_ns: float | None,
) -> Profile:
    """Return the profile of a capture, which an official tool exports."""
    found = {name: find_tool(name, _PLACES) for name in TOOLS}
    tool = next((name for name in TOOLS if found[name]), None)
    if tool is None:
        names = f"-n {shlex.quote(neff.name)} -s {shlex.quote(ntff.name)}"
        raise ToolchainError(
            f"{ntff.name} is a capture, which only {' and '.join(TOOLS)} decode, and neither is installed here",
            help="run on the instance: neuron-explorer view"
            f" {names} --output-format json --output-file profile.json; then open profile.json here",
        )
    if target is None:
        target = read_neff(neff).target
    view = [str(found[tool]), "view", "-n", str(neff), "-s", str(ntff)]
    with tempfile.TemporaryDirectory(prefix="nki-lab-") as folder:
        tables = _tables(view, Path(folder)) if tool == TOOLS[0] else None
        export = _json(view, Path(folder), tool) if tables is None else tables
        profile = Profile.load(export, target, start_ns, end_ns)
        for name in profile.supplied:  # before their files are gone
            profile.table(name)
    return profile


def _tables(view: list[str], folder: Path) -> Path | None:
    """Return the folder of tables that neuron-explorer writes; None where it writes none: no page tells its flags."""
    output_of([*view, *table_options("capture", folder)], _SECONDS)
    return tables_in(folder)


def _json(view: list[str], folder: Path, tool: str) -> Path:
    file = folder / "profile.json"
    answer = output_of([*view, *json_options(file)], _SECONDS)
    if not file.is_file():
        raise diagnose(f"{answer.stdout}\n{answer.stderr}", tool=tool, code=answer.code)
    return file


def table_options(name: str, folder: Path) -> list[str]:
    """Return the options of `neuron-explorer view` that write tables below a folder."""
    return [
        "--output-format", "parquet", "--ingest-only", "--display-name", name, "--data-path", str(folder),
    ]  # fmt: skip


def tables_in(folder: Path) -> Path | None:
    """Return the folder below this one that holds the tables of the newest export; None where there is none."""
    tables = sorted(folder.rglob("Instruction*.parquet"))
    return tables[-1].parent if tables else None


def json_options(file: Path) -> list[str]:
    """Return the options of `view`, of either tool, that write JSON."""
    return ["--output-format", "json", "--output-file", str(file)]
