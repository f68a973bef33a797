"""How does a Chrome trace that nki_lab wrote become a profile again?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.profile_json import check_head, dump, profile_of
from nki_lab.profiler.reading import read_document, reading

_HEAD = re.compile(rb'\{"displayTimeUnit":"ns","traceEvents":\[\{"ph":"M","name":"nki_lab profile"')


def is_trace(path: Path) -> bool:
    """Tell whether a file begins like a trace that nki_lab wrote."""
    try:
        with path.open("rb") as file:
            return _HEAD.match(file.read(200)) is not None
    except OSError:
        return False


def load_trace(path: str | Path) -> Profile:
    """Read the profile of a trace that `save_chrome_trace` wrote. Raises BadFile when it cannot."""
    path = Path(path)
    complaint = f"{path.name} is not a trace written by nki_lab"
    return from_chrome_trace(read_document(path, _HEAD, complaint), path.name)


def from_chrome_trace(text: str, source: str = "this text") -> Profile:
    """Read the profile from a Chrome trace made by `to_chrome_trace`.

    The events are a drawing of it and are not read. Raises BadFile with one sentence when the text is not such a
    trace, damaged, or from a newer version.
    """
    with reading(f"{source} is not a trace written by nki_lab"):
        document = json.loads(text)["otherData"]
        beginning = dump({key: document[key] for key in ("format", "version", "target")})
    check_head(beginning, source)
    with reading(f"{source} is not a readable profile"):
        return profile_of(document)
