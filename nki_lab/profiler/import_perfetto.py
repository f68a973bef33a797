"""How does a Chrome trace that nki_lab wrote become a profile again?"""

from __future__ import annotations

import json
from typing import Any

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.reading import reading
from nki_lab.profiler.schema import TABLES, TRANSFERS
from nki_lab.targets import get_target


def from_chrome_trace(text: str, source: str = "this text") -> Profile:
    """Read the instructions and transfers of a Chrome trace made by `to_chrome_trace`.

    Times come back as the same whole nanoseconds. Counters and arrows are drawings of other tables
    and are not read. Raises BadFile with one sentence when the text is not such a trace.
    """
    with reading(f"{source} is not a trace written by nki_lab"):
        document = json.loads(text)
        about = document["otherData"]
        tables = {
            table: columns
            for table in ("Instruction", TRANSFERS)
            if (columns := _columns(document["traceEvents"], table))
        }
        return Profile.from_tables(
            get_target(about["target"]),
            tables,
            is_simulation=bool(about["is_simulation"]),
            name=str(about["name"]),
            metrics=about["metrics"],
        )


def _columns(events: list[dict[str, Any]], table: str) -> dict[str, list[Any]]:
    rows = []
    for event in events:
        if event["ph"] == "X" and event["cat"] == table:
            start = round(event["ts"] * 1000)
            end = start + round(event["dur"] * 1000)
            rows.append(event["args"] | {"start_ts": start, "end_ts": end})
    seen = {name for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in TABLES[table] if name in seen}
