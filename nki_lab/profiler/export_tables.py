"""How are single tables handed to a spreadsheet or another program?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES


def table_csv(profile: Profile, table: str) -> str:
    """Return a table as CSV with every column of the schema; unknown values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(TABLES[table])
    for record in profile.records(table):
        writer.writerow("" if value is None else value for value in record.values())
    return out.getvalue()


def table_json(profile: Profile, table: str) -> str:
    """Return a table as a JSON list of rows with every column of the schema, null where unknown."""
    return json.dumps(list(profile.records(table)))


def save_tables(
    profile: Profile, folder: str | Path, tables: Iterable[str] | None = None
) -> list[Path]:
    """Write tables as `<table>.csv` into a folder and return the paths.

    Without `tables`, every table of the profile that has rows.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table in profile.table_names if tables is None else tables:
        if profile.count(table):
            path = folder / f"{table}.csv"
            path.write_text(table_csv(profile, table), encoding="utf-8", newline="")
            written.append(path)
    return written
