"""Reads a profile back from a trace that nki_lab wrote.

Events of a trace are a drawing of the profile it holds, and are not read.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

from nki_lab.errors import BadFile
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.perfetto import MARK, OWN_FIELD, block, blocks
from nki_lab.profiler.formats.profile_json import check_head, dump, profile_of
from nki_lab.profiler.formats.reading import (
    MAX_BYTES,
    WRITTEN_BY,
    beginning_of,
    read_bytes,
    read_document,
    reading,
)

_CHROME = re.compile(
    rb'\{"displayTimeUnit":"ns","traceEvents":\[\{"ph":"M","name":"nki_lab profile"'
)
_PERFETTO = re.compile(re.escape(block(1, block(OWN_FIELD, MARK))))


def is_trace(path: Path) -> bool:
    """Tell whether a file begins like a trace that nki_lab wrote."""
    begun = beginning_of(path)
    return _CHROME.match(begun) is not None or _PERFETTO.match(begun) is not None


def load_trace(path: str | Path) -> ProfileData:
    """Read the profile of a trace, in Chrome's or Perfetto's format. Raises BadFile when it cannot."""
    path = Path(path)
    complaint = f"{path.name} is not a trace written by nki_lab"
    data = read_bytes(path, _PERFETTO)
    if _PERFETTO.match(data) is not None:
        return from_perfetto_trace(data, path.name)
    return from_chrome_trace(read_document(path, _CHROME, complaint), path.name)


def from_chrome_trace(content: str, source: str = "this text") -> ProfileData:
    """Read the profile from a Chrome trace made by `to_chrome_trace`.

    Raises BadFile with one sentence when the text is not such a trace, damaged, or from a newer version.
    """
    with reading(f"{source} is not a trace written by nki_lab"):
        return _profile(json.loads(content)["otherData"], source)


def from_perfetto_trace(data: bytes, source: str = "this trace") -> ProfileData:
    """Read the profile from a trace made by `to_perfetto_trace`.

    Raises BadFile with one sentence when the data is not such a trace, damaged, or from a newer version.
    """
    if _PERFETTO.match(data) is None:
        raise BadFile(f"{source} is not a trace written by nki_lab", help=WRITTEN_BY)
    with reading(f"{source} is not a trace written by nki_lab"):
        # Our field is the only one of its packet, so that others need not be looked into.
        opening = block(OWN_FIELD, b"")[:-1]
        packed = b"".join(
            data[inner:last]
            for field, start, end in blocks(data)
            if field == 1 and data.startswith(opening, start)
            for _, inner, last in blocks(data[:end], start)
        )
        unpack = zlib.decompressobj()
        content = unpack.decompress(packed.removeprefix(MARK), MAX_BYTES)
        if not unpack.eof:
            raise ValueError("cut off, or too large")
        return _profile(json.loads(content), source)


def _profile(document: dict[str, Any], source: str) -> ProfileData:
    beginning = dump({key: document[key] for key in ("format", "version", "target")})
    check_head(beginning, source)
    with reading(f"{source} is not a readable profile"):
        return profile_of(document)
