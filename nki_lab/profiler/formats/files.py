"""Saves and loads profiles: picks the format of a file.

    run.json      one document with every table, column by column
    run.parquet   a folder with one Parquet file per table (needs pyarrow: the extra `profile`)
    run.csv       a folder with one CSV file per table
    run.pftrace   a timeline for ui.perfetto.dev

The ending tells the format that is written. What is read tells its format itself, whatever its name: FORMATS lists
what is read, ours and that of neuron-profile and neuron-explorer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nki_lab.errors import BadFile, UnknownOption
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats import explorer as import_explorer
from nki_lab.profiler.formats import perfetto as export_perfetto
from nki_lab.profiler.formats import profile_json, tables_folder
from nki_lab.profiler.formats import traces as import_trace
from nki_lab.profiler.formats.explorer_files import is_explorer_folder
from nki_lab.profiler.formats.explorer_json import is_explorer_json, load_explorer_json
from nki_lab.profiler.formats.foreign_trace import is_foreign_trace, load_foreign_trace
from nki_lab.profiler.formats.imported import Chip
from nki_lab.profiler.span import EVENTS, TimeSpan, part_of, refuse_more, span_of
from nki_lab.progress import doing

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


class Format(NamedTuple):
    """Something that holds a profile.

    Attributes:
        name: what it is.
        matches: tells whether a path leads to such a thing, by how it begins.
        load: reads it, given the chip where the file does not tell it.
        load_span: reads what lies in a span of time, so that the rest is never in memory; None where all is read first.
    """

    name: str
    matches: Callable[[Path], bool]
    load: Callable[[Path, Chip], ProfileData]
    load_span: Callable[[Path, Chip, TimeSpan], ProfileData] | None = None


#: Everything that holds a profile; of several that match, the first one reads.
FORMATS: tuple[Format, ...] = (
    Format(
        "folder of tables",
        tables_folder.is_folder,
        lambda path, target: tables_folder.load_folder(path),
        lambda path, target, span: tables_folder.load_folder(path, span),
    ),
    Format(
        "folder of Neuron Explorer's tables",
        lambda path: not os.path.exists(path / tables_folder.INDEX) and is_explorer_folder(path),
        import_explorer.load_explorer_folder,
        import_explorer.load_explorer_folder,
    ),
    Format("trace", import_trace.is_trace, lambda path, target: import_trace.load_trace(path)),
    Format("document", profile_json.is_document, lambda path, target: profile_json.load(path)),
    Format("JSON of neuron-profile or neuron-explorer", is_explorer_json, load_explorer_json),
    Format("trace of another program", is_foreign_trace, load_foreign_trace),
)


def _format_of(path: Path) -> Format | None:
    return next((format for format in FORMATS if format.matches(path)), None)


@doing("reading the profile")
def load(
    path: str | Path,
    target: Chip = None,
    start_ns: float | None = None,
    end_ns: float | None = None,
) -> ProfileData:
    """Read a profile that `save` or `save_chrome_trace` wrote, or one of neuron-profile or neuron-explorer (FORMATS).

    Args:
        path: the file or folder.
        target: the chip of a measured profile that does not tell it; ours do.
        start_ns, end_ns: read only what lies in this span of time; of a folder the rest is never in memory.

    Raises BadFile with one sentence when it is not such a file, damaged, from a newer version, or has more than
    MOST_EVENTS.
    """
    path = Path(path)
    span = span_of(start_ns, end_ns)
    format = _format_of(path)
    if format is None:
        if os.path.isdir(path):  # unlike Path.is_dir, False for a name that nothing can have
            return tables_folder.load_folder(path, span)
        return profile_json.load(path)
    if span is not None and format.load_span is not None:
        return format.load_span(path, target, span)
    profile = format.load(path, target)
    if span is not None:
        return part_of(profile, span)
    refuse_more(sum(map(profile.count, EVENTS)), path.name)
    return profile


def is_profile(path: str | Path) -> bool:
    """Tell whether a path leads to something that `load` reads, by how it begins."""
    return _format_of(Path(path)) is not None
