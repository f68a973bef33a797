"""How is a profile kept in a file?

One JSON document: a marker and version, the chip, and for each table its columns. Numbers are
lists with null where unknown; strings are codes into a list of the distinct texts. Tables that
follow from others, and single DMA packets, are not stored.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column, Strings, to_list
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.reading import read_document, reading, write_whole
from nki_lab.profiler.schema import SCHEMA_VERSION
from nki_lab.targets import get_target

#: Raised when a file of an older version would be read wrongly.
FORMAT_VERSION = 1

_MARK = "nki_lab profile"
_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"nki_lab profile"\s*,\s*"version"\s*:\s*(\d+)\s*,')


def to_json(profile: Profile) -> str:
    """Return a profile as a JSON document; `from_json` gives an equal profile back."""
    tables = {
        name: {column: _write(values) for column, values in columns.items()}
        for name, columns in profile.stored.items()
    }
    document = {
        "format": _MARK,
        "version": FORMAT_VERSION,
        "schema_version": SCHEMA_VERSION,
        "target": profile.target.name,
        "is_simulation": profile.is_simulation,
        "name": profile.name,
        "metrics": profile.metrics,
        "tables": tables,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def from_json(text: str, source: str = "this text") -> Profile:
    """Read a profile from the JSON document that `to_json` wrote.

    Args:
        text: the document.
        source: what to call it in an error.

    Raises BadFile with one sentence when it is not a profile, damaged, or from a newer version.
    """
    head = _HEAD.match(text[:200].encode("utf-8", "replace"))
    if head is None:
        raise BadFile(
            f"{source} is not a profile saved by nki_lab",
            help="profiles of Neuron Explorer are read by their own importer",
        )
    if int(head[1]) > FORMAT_VERSION:
        raise BadFile(
            f"{source} is a profile of format version {int(head[1])}; "
            f"this nki_lab reads versions up to {FORMAT_VERSION}",
            help="update nki_lab to read it",
        )
    with reading(f"{source} is not a readable profile"):
        return _read(json.loads(text))


def save(profile: Profile, path: str | Path) -> Path:
    """Write a profile to a file and return its path."""
    path = Path(path)
    write_whole(path, to_json(profile))
    return path


def load(path: str | Path) -> Profile:
    """Read a profile that `save` wrote. Raises BadFile with one sentence when it cannot."""
    path = Path(path)
    return from_json(
        read_document(path, _HEAD, f"{path.name} is not a profile saved by nki_lab"), path.name
    )


def _write(values: Column) -> Any:
    if isinstance(values, Strings):
        return {"codes": values.codes.tolist(), "values": list(values.values)}
    return to_list(values)


def _read(document: dict[str, Any]) -> Profile:
    tables = {
        name: {column: _read_column(values) for column, values in columns.items()}
        for name, columns in document["tables"].items()
    }
    name, is_simulation = document["name"], document["is_simulation"]
    if not isinstance(name, str) or not isinstance(is_simulation, bool):
        raise TypeError("a name is a text, and whether it was simulated is true or false")
    metrics = document["metrics"]
    if not all(type(value) in (int, float) for value in metrics.values()):
        raise TypeError("metrics are numbers")
    profile = Profile.from_tables(
        get_target(document["target"]),
        tables,
        is_simulation=is_simulation,
        name=name,
        metrics=metrics,
    )
    _ = profile.summary  # made on first use: what does not fit its column is to be told here
    return profile


def _read_column(values: Any) -> Any:
    if isinstance(values, dict):
        return Strings(values["codes"], (str(text) for text in values["values"]))
    if not isinstance(values, list):
        raise TypeError("a column is a list")
    return values
