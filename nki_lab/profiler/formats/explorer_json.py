"""Reads what `view --output-format json` and `summary-json` of neuron-profile and neuron-explorer write.

    {"summary": [{...}], "instruction": [{...}, ...], "dma": [{...}, ...], "metadata": ...}    events
    {"n_<hash>": {"total_time": 0.0012, ...}}                                                  totals alone

The unit of time of events is not told: it is the one in which the events last as long as the summary says. An array
whose name is that of a table of the schema is read as that table; other names are told in the table Warning.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import BadFile
from nki_lab.profiler.analyses.report import TOTALS_ALONE
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.imported import (
    NUMBERED,
    Chip,
    Rows,
    checked,
    chip_of,
    engine_of,
    numbered,
    second_track,
    told_names,
    warnings,
    with_metadata,
)
from nki_lab.profiler.formats.json_stream import members
from nki_lab.profiler.formats.reading import beginning_of, reading
from nki_lab.profiler.metrics import NS_PER_S
from nki_lab.profiler.schema import TABLES, TRANSFERS
from nki_lab.profiler.span import BEGINS, ENDS, MOST_EVENTS
from nki_lab.profiler.tables import BadTable

#: Name of an array -> its table, where it is not the table's own name in small letters.
_TABLES = {"dma": TRANSFERS, "instructions": "Instruction", "dmas": TRANSFERS}
_TABLES |= {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", table).lower(): table for table in TABLES}
_TABLES |= {table: table for table in TABLES}
#: Name in a record -> column, by table of events, where they differ.
COLUMNS = {
    "Instruction": {"timestamp": BEGINS, "evt_wait_time": "evt_wait_time_ns"},
    TRANSFERS: {"timestamp": BEGINS, "transfer_size": "transfer_bytes", "subgroup": "queue_name"},
}
#: Tables about the whole run, whose units are told.
_OF_THE_RUN = (
    "Metadata",
    "Summary",
    "OpcodeSummary",
    "ThrottleSummary",
    "ExecutionInfo",
    "NeffHeader",
)
#: Read on their own: they decide on other columns.
_DURATION, _LABELS = "duration", ("subgroup", "label")
#: Units of time that versions of the tools use, in ns.
_UNITS = {"ps": 1e-3, "ns": 1.0}
#: A run and its summary agree about the time up to this factor: set-up is a part of one of them only.
_AGREE = 3.0
_HEAD = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*\{\s*\"(\w{1,80})\"\s*:\s*[\[{]")
_MODEL = re.compile(r"n_\w+")
_HELP = "export it again: neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet"


def is_explorer_json(path: Path) -> bool:
    """Tell whether a file begins like the JSON of neuron-profile or neuron-explorer."""
    begun = _HEAD.match(beginning_of(path))
    name = begun[1].decode() if begun else ""
    others = ("instruction_usage", "cc_stream", "stack_frame_function_name")
    return name in _TABLES or name in others or _MODEL.fullmatch(name) is not None


def load_explorer_json(path: Path, target: Chip = None) -> ProfileData:
    """Read the profile in a JSON file of neuron-profile or neuron-explorer.

    Args:
        path: the file. It is read piece by piece; what is kept is less than a tenth of its size.
        target: the chip, where the file does not name an instance.

    Raises BadFile with one sentence where it cannot be read, has too many events, or does not tell the chip.
    """
    document = _Document(path.name)
    with reading(f"{path.name} is not a readable profile", _HELP):
        for name, value in members(path):
            document.take(name, value)
    with reading(f"{path.name} is not a readable profile", _HELP):
        return checked(document.profile(target))


class _Document:
    """What has been read of a file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[str, Rows] = {}
        self._totals: dict[str, dict[str, Any]] = {}  # name of a model -> its summary
        self._others: Counter[str] = Counter()

    def take(self, name: str, value: Any) -> None:
        """Take a member of the document, or an element of one that is an array."""
        table = _TABLES.get(name)
        if value in ([], {}):
            return
        if table is not None and isinstance(value, dict):
            self._add(table, value)
        elif isinstance(value, dict) and "total_time" in value:
            self._totals[name] = value
        else:
            self._others[name] += 1

    def _add(self, table: str, record: Mapping[str, Any]) -> None:
        rows = self._rows.get(table)
        if rows is None:
            rows = self._rows[table] = Rows(table)
        if table == "Summary":
            self._totals.setdefault("summary", dict(record))
            return
        if table not in NUMBERED:
            rows.add(record)
            return
        if rows.count >= MOST_EVENTS:
            raise BadFile(
                f"{self._name} has more than {MOST_EVENTS:,} events, the most that are read from JSON",
                help=_HELP,
            )
        columns = COLUMNS[table]
        row = {columns.get(name, name): value for name, value in record.items()}
        start, length = row.get(BEGINS), row.pop(_DURATION, None)
        if ENDS not in row and type(start) in (int, float) and type(length) in (int, float):
            row[ENDS] = start + length
        if type(start) not in (int, float) or type(row.get(ENDS)) not in (int, float):
            raise BadTable(
                f"table {table}, row {rows.count}: when it begins and how long it takes is not told"
            )
        if table == "Instruction":
            name_engine(row)
        else:
            row.pop("label", None)
        rows.add(row)

    def profile(self, target: Chip) -> ProfileData:
        """Return the profile of all that was taken."""
        if not any(self._rows.get(table) for table in NUMBERED):
            return self._of_totals(target)
        summary = next(iter(self._totals.values()), None)
        about = _places(summary or {}) | self._first("Metadata")
        ns, doubts = self._unit(summary, about)
        tables: dict[str, Any] = {}
        unknown: Counter[str] = Counter()
        for table, rows in self._rows.items():
            columns = rows.columns(1.0 if table in _OF_THE_RUN else ns)
            tables[table] = numbered(columns, rows.count) if table in NUMBERED else columns
            unknown.update({f"{table}.{name}": count for name, count in rows.unknown.items()})
        chip = chip_of(self._name, about.get("instance_type"), target)
        tables["Metadata"] = with_metadata(about, tables, chip)
        if summary is not None:
            tables["Summary"] = known_metrics(summary)
        messages = [
            *doubts,
            *told_names(
                "names of records that the schema does not have, with their number", unknown
            ),
            *told_names("members of the document, with the number of their elements", self._others),
        ]
        self._add_warnings(tables, messages)
        return ProfileData.from_tables(
            chip, tables, is_simulation=bool(about.get("is_simulation")), name=self._named(about)
        )

    def _named(self, about: Mapping[str, Any]) -> str:
        name = about.get("profile_name")
        return name if isinstance(name, str) and name else Path(self._name).stem

    def _first(self, table: str) -> dict[str, Any]:
        rows = self._rows.get(table)
        if rows is None:
            return {}
        columns = rows.columns()
        cells = {name: column[0] for name, column in columns.items()}
        return {
            name: cell.item() if isinstance(cell, np.generic) else cell
            for name, cell in cells.items()
            if cell is not np.ma.masked
        }

    def _unit(
        self, summary: Mapping[str, Any] | None, about: Mapping[str, Any]
    ) -> tuple[float, list[str]]:
        """Return the unit of time in ns, and what speaks against it."""
        events = [self._rows[table] for table in NUMBERED if table in self._rows]
        first = min(float(rows.raw(BEGINS).min()) for rows in events)
        last = max(float(rows.raw(ENDS).max()) for rows in events)
        wanted = _total_ns(summary, about)
        if wanted is None or last <= first:
            return 1.0, [
                "the file tells no total time, from which the unit of its times would follow: they are taken as ns;"
                " one version of neuron-profile wrote ps, and then all times here are 1,000 times too long"
            ]
        ratios = {name: (last - first) * ns / wanted for name, ns in _UNITS.items()}
        name = min(ratios, key=lambda name: abs(math.log(ratios[name])))
        if 1 / _AGREE <= ratios[name] <= _AGREE:
            return _UNITS[name], []
        return _UNITS[name], [
            f"times are taken as {name}; in it the events last {(last - first) * _UNITS[name]:,.0f} ns, and the summary"
            f" says {wanted:,.0f} ns"
        ]

    def _of_totals(self, target: Chip) -> ProfileData:
        """Return the profile of a summary alone."""
        totals = dict(self._totals)
        about = self._first("Metadata")
        if not totals:
            raise BadTable("it has neither events nor a summary with total_time")
        name, summary = max(totals.items(), key=lambda item: _seconds(item[1]))
        chip = chip_of(
            self._name, summary.get("instance_type") or about.get("instance_type"), target
        )
        last = round(_seconds(summary) * NS_PER_S)
        metadata = _places(summary) | about
        rows = Rows("Metadata")
        rows.add(metadata | {"first_hw_timestamp": 0, "last_hw_timestamp": last})
        messages = [TOTALS_ALONE]
        if len(totals) > 1:
            messages.append(
                f"it holds {len(totals)} summaries; this is {name[:60]}, the longest run"
            )
        tables = {
            "Summary": known_metrics(summary),
            "Metadata": rows.columns(),
            "Warning": warnings(messages),
        }
        return ProfileData.from_tables(
            chip, tables, is_simulation=False, name=self._named(about | metadata)
        )

    def _add_warnings(self, tables: dict[str, Any], messages: list[str]) -> None:
        if not messages:
            return
        rows = self._rows.setdefault("Warning", Rows("Warning"))
        added = warnings(messages)
        for message, category in zip(added["message"], added["category"], strict=True):
            rows.add({"message": message, "category": category})
        tables["Warning"] = rows.columns()


def name_engine(row: dict[str, Any]) -> None:
    """Fill in engine and track of an instruction from its labels, where it has no such columns."""
    labels = [label for name in _LABELS if isinstance(label := row.pop(name, None), str) and label]
    if "engine" not in row and labels:
        known = [engine for label in labels if (engine := engine_of(label)) is not None]
        row["engine"] = known[0] if known else labels[0]
    if "timeline_track" not in row:
        tracks = [track for label in labels if (track := second_track(label)) is not None]
        if tracks:
            row["timeline_track"] = tracks[0]


def instance_in(record: Mapping[str, Any]) -> str | None:
    """Return the instance that a record names; None where it names none."""
    instance = record.get("instance_type")
    return instance if isinstance(instance, str) and instance else None


def known_metrics(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of Summary with the metrics that the schema has. Raises BadTable for one that is no number."""
    rows = Rows("Summary")
    rows.add({name: value for name, value in summary.items() if name in TABLES["Summary"]})
    return dict(rows.columns())


def _places(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a summary tells for the table Metadata."""
    told = {name: value for name, value in summary.items() if name in TABLES["Metadata"]}
    for name, column in (("nc_idx", "neuroncore_idx"), ("nd_idx", "neuron_device_idx")):
        if name in summary:
            told.setdefault(column, summary[name])
    return told


def _seconds(summary: Mapping[str, Any]) -> float:
    total = summary.get("total_time")
    if type(total) not in (int, float) or not 0 <= total < 1e6:  # type: ignore[operator]
        raise BadTable("the summary's total_time is no time in seconds")
    return float(total)  # type: ignore[arg-type]


def _total_ns(summary: Mapping[str, Any] | None, about: Mapping[str, Any]) -> float | None:
    """Return how long the run took, as the file tells it; None where it does not."""
    if summary and summary.get("total_time"):
        return _seconds(summary) * NS_PER_S
    first, last = about.get("first_hw_timestamp"), about.get("last_hw_timestamp")
    return None if first is None or last is None or last <= first else float(last - first)
