"""Keeps a profile in one JSON document.

A head with a marker and version, the chip, what ran and how transfers fall into packets; then for each table its
columns. Numbers are lists with null where unknown; strings are codes into a list of the distinct texts. What JSON has
no number for is a text: NaN, Infinity, -Infinity. Tables that follow from others are not stored. The other formats
keep the same head.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column, Strings, known, to_list
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.reading import (
    beginning_of,
    check_texts,
    read_document,
    reading,
    write_whole,
)
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.schema import SCHEMA_VERSION, TRANSFERS
from nki_lab.targets import target_data, target_of

#: Raised when a file of an older version would be read wrongly.
FORMAT_VERSION = 2

_MARK = "nki_lab profile"
#: How a document begins.
HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"nki_lab profile"\s*,\s*"version"\s*:\s*(\d{1,9})\s*,')
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(profile: ProfileData) -> str:
    """Return a profile as a JSON document; `from_json` gives an equal profile back."""
    return dump(document_of(profile))


def from_json(text: str, source: str = "this text") -> ProfileData:
    """Read a profile from the JSON document that `to_json` wrote.

    Args:
        text: the document.
        source: what to call it in an error.

    Raises BadFile with one sentence when it is not a profile, damaged, or from a newer version.
    """
    check_head(text[:200], source)
    with reading(f"{source} is not a readable profile"):
        return profile_of(json.loads(text))


def save(profile: ProfileData, path: str | Path) -> Path:
    """Write a profile to a file and return its path."""
    path = Path(path)
    write_whole(path, to_json(profile))
    return path


def is_document(path: Path) -> bool:
    """Tell whether a file begins like a document that `save` wrote."""
    return HEAD.match(beginning_of(path)) is not None


def load(path: str | Path) -> ProfileData:
    """Read a profile that `save` wrote. Raises BadFile with one sentence when it cannot."""
    path = Path(path)
    return from_json(
        read_document(path, HEAD, f"{path.name} is not a profile saved by nki_lab"), path.name
    )


def check_head(beginning: str, source: str) -> None:
    """Raise BadFile where a document does not begin as one of ours, or comes from a newer version."""
    head = HEAD.match(beginning.encode("utf-8", "replace"))
    if head is None:
        raise BadFile(
            f"{source} is not a profile saved by nki_lab",
            help="nki_lab also reads what neuron-explorer view writes: Parquet, JSON, summary-json and Perfetto",
        )
    if int(head[1]) > FORMAT_VERSION:
        raise BadFile(
            f"{source} is a profile of format version {int(head[1])}; "
            f"this nki_lab reads versions up to {FORMAT_VERSION}",
            help="update nki_lab to read it",
        )


# -- the document ----------------------------------------------------------------------------------------------------


def document_of(profile: ProfileData) -> dict[str, Any]:
    """Return the document of a profile: its head and its tables."""
    tables = {
        name: {column: _write(values) for column, values in columns.items()}
        for name, columns in profile.stored.items()
    }
    return head_of(profile) | {"tables": tables}


def head_of(profile: ProfileData) -> dict[str, Any]:
    """Return the facts of a profile that a file has before its tables."""
    deals = profile.deals
    return {
        "format": _MARK,
        "version": FORMAT_VERSION,
        "schema_version": SCHEMA_VERSION,
        "target": target_data(profile.target),
        "is_simulation": profile.is_simulation,
        "name": profile.name,
        "metrics": {field: shown_number(value) for field, value in profile.metrics.items()},
        "deals": None
        if deals is None
        else {
            "codes": deals.codes.tolist(),
            "forms": [[list(d) for d in f] for f in deals.forms],
        }
        | ({"cuts": [list(cut) for cut in deals.cuts]} if deals.cuts else {}),
    } | (
        {} if profile.transfer_lines is None else {"transfer_lines": _write(profile.transfer_lines)}
    )


def profile_of(document: Mapping[str, Any]) -> ProfileData:
    """Return the profile of a document. Raises what `reading` turns into BadFile."""
    tables = {
        table: {column: _read_column(values) for column, values in columns.items()}
        for table, columns in document["tables"].items()
    }
    return with_head(document, tables)


def with_head(
    head: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, Any]],
    transfers: np.ndarray | None = None,
) -> ProfileData:
    """Return the profile of a head and its tables. Raises what `reading` turns into BadFile.

    Args:
        head: what a file tells before its tables.
        tables: the columns of each.
        transfers: a mask of those that `tables` has, where it does not have all that the head is about.
    """
    name, is_simulation, deals = head["name"], head["is_simulation"], head.get("deals")
    if not isinstance(name, str) or not isinstance(is_simulation, bool):
        raise TypeError("a name is a text, and whether it was simulated is true or false")
    metrics = {field: _NO_NUMBERS.get(v, v) for field, v in head["metrics"].items()}
    if not all(type(value) in (int, float) for value in metrics.values()):
        raise TypeError("metrics are numbers")
    packets = (
        None if deals is None else Deals(deals["codes"], deals["forms"], deals.get("cuts", ()))
    )
    lines = lines_of(head)
    if lines is not None and transfers is not None:
        lines = lines.take(transfers)
    profile = ProfileData.from_tables(
        target_of(head["target"]),
        tables,
        is_simulation=is_simulation,
        name=name,
        metrics=metrics,
        deals=packets if packets is None or transfers is None else packets.take(transfers),
        transfer_lines=lines,
    )
    if lines is not None and len(lines) != profile.count(TRANSFERS):
        raise ValueError("the lines of some transfers are missing, or there are too many")
    check_texts(profile, profile.supplied)
    _ = profile.deals, profile.summary  # what does not fit its table or column is to be told here
    return profile


def lines_of(head: Mapping[str, Any]) -> Strings | None:
    """Return the lines of transfers that the head of a span of a run tells."""
    lines = head.get("transfer_lines")
    return None if lines is None else _read_column(lines)


def dump(document: Any) -> str:
    """Return a document as JSON text."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def shown_number(value: Any) -> Any:
    """Return a value, with a text in place of a number that JSON has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _write(values: Column) -> Any:
    if isinstance(values, Strings):
        return {"codes": values.codes.tolist(), "values": list(values.values)}
    numbers = to_list(values)
    if values.dtype.kind == "f" and not np.isfinite(known(values)).all():
        return [shown_number(value) for value in numbers]
    return numbers


def _read_column(values: Any) -> Any:
    if isinstance(values, dict):
        return Strings(values["codes"], (_text(text) for text in values["values"]))
    if not isinstance(values, list):
        raise TypeError("a column is a list")
    if any(isinstance(value, str) for value in values):
        return [_NO_NUMBERS[v] if isinstance(v, str) else v for v in values]
    return values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is a string")
    return value
