"""Saves and loads profiles: picks the format of a file.

    run.json      one document with every table, column by column
    run.parquet   a folder with one Parquet file per table (needs pyarrow: the extra `profile`)
    run.csv       a folder with one CSV file per table
    run.pftrace   a timeline for ui.perfetto.dev

The ending tells the format that is written. What is read tells its format itself, whatever its name.
"""

from __future__ import annotations

import os
from pathlib import Path

from nki_lab.errors import BadFile, UnknownOption
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats import explorer as import_explorer
from nki_lab.profiler.formats import perfetto as export_perfetto
from nki_lab.profiler.formats import profile_json, tables_folder
from nki_lab.profiler.formats import traces as import_trace
from nki_lab.profiler.formats.explorer_files import is_explorer_folder
from nki_lab.profiler.formats.reading import beginning_of
from nki_lab.profiler.span import EVENTS, part_of, refuse_more, span_of
from nki_lab.progress import doing
from nki_lab.targets import Target

#: Endings that `save` knows.
ENDINGS = (".json", ".parquet", ".csv", ".pftrace")


@doing("writing the profile")
def save(profile: ProfileData, path: str | Path) -> Path:
    """Write a profile in the format that the ending of `path` tells, and return the path.

    Raises UnknownOption for another ending, BadFile where it cannot be written.
    """
    path = Path(path)
    check_ending(path)
    ending = path.suffix.lower()
    if ending in (".parquet", ".csv"):
        return tables_folder.save_folder(profile, path, ending[1:])
    write = export_perfetto.save_perfetto_trace if ending == ".pftrace" else profile_json.save
    try:
        return write(profile, path)
    except OSError as error:
        raise BadFile.unwritable(path, error) from None


def check_ending(path: Path) -> None:
    """Raise UnknownOption where the ending of a path tells no format."""
    if path.suffix.lower() not in ENDINGS:
        raise UnknownOption(
            f"a profile is not written as {path.suffix or 'a file without ending'}: {path}",
            help=f"end the name with one of {', '.join(ENDINGS)}",
        )


@doing("reading the profile")
def load(
    path: str | Path,
    target: str | Target | None = None,
    start_ns: float | None = None,
    end_ns: float | None = None,
) -> ProfileData:
    """Read a profile that `save` or `save_chrome_trace` wrote, or a folder of Parquet tables of Neuron Explorer.

    Args:
        path: the file or folder.
        target: the chip of a profile of Neuron Explorer that does not tell it; ours do.
        start_ns, end_ns: read only what lies in this span of time; of a folder the rest is never in memory.

    Raises BadFile with one sentence when it is not such a file, damaged, from a newer version, or has more than
    MOST_EVENTS.
    """
    path = Path(path)
    span = span_of(start_ns, end_ns)
    if os.path.isdir(path):  # unlike Path.is_dir, False for a name that nothing can have
        if not (path / tables_folder.INDEX).exists() and is_explorer_folder(path):
            return import_explorer.load_explorer_folder(path, target, span)
        return tables_folder.load_folder(path, span)
    profile = (
        import_trace.load_trace(path) if import_trace.is_trace(path) else profile_json.load(path)
    )
    if span is not None:
        return part_of(profile, span)
    refuse_more(sum(map(profile.count, EVENTS)), path.name)
    return profile


def is_profile(path: str | Path) -> bool:
    """Tell whether a path leads to something that `load` reads, by how it begins."""
    path = Path(path)
    if os.path.isdir(path):
        return tables_folder.is_folder(path) or is_explorer_folder(path)
    begun = beginning_of(path)
    return profile_json.HEAD.match(begun) is not None or import_trace.is_trace(path)
