"""What readers of other programs' profiles share: rows become columns, engines get their names, the chip is found.

A row comes as a record of names and values. What the schema has no column for is counted, not kept, and the table
Warning names it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column, Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.reading import check_texts
from nki_lab.profiler.schema import TABLES, TRANSFERS, Field
from nki_lab.profiler.span import BEGINS, ENDS, EVENTS
from nki_lab.profiler.tables import BadTable
from nki_lab.targets import Target, get_target, target_of

#: Category of the rows of Warning that an import adds.
CATEGORY = "import"
#: What other programs call an engine, in small letters and without blanks -> its name in a profile.
_ENGINES = {
    "tensor": "tensor", "tensormatrix": "tensor", "tensore": "tensor", "pe": "tensor",
    "vector": "vector", "vectore": "vector", "dve": "vector",
    "scalar": "scalar", "scalare": "scalar", "act": "scalar",
    "gpsimd": "gpsimd", "gpsimde": "gpsimd", "pool": "gpsimd",
    "sync": "sync", "synce": "sync", "sp": "sync",
}  # fmt: skip
#: The track of the Tensor engine that shows products, beside the one that shows loaded weights.
_SECOND_TRACKS = {"tensormatrix": "TensorMatrix"}
_LANE = re.compile(r" \(\d+\)$")
_ROWS_AT_ONCE = 1 << 16
_NAMES_TOLD = 12
#: The largest number that a row may have, and that still can be scaled.
_LARGEST = 1 << 62


def engine_of(name: str) -> str | None:
    """Return the engine that a track or label means; None where it means none."""
    return _ENGINES.get(_plain(name))


def second_track(name: str) -> str | None:
    """Return the track beside an engine's own one that a label means; None where it means none."""
    return _SECOND_TRACKS.get(_plain(name))


def _plain(name: str) -> str:
    plain = _LANE.sub("", name).lower().replace(" ", "").replace("_", "")
    return plain.removesuffix("engine")


def is_time(field: Field) -> bool:
    """Tell whether a column holds times, which come in another unit in some files."""
    return (
        field.unit == "ns" or field.name.endswith("_ts") or field.name in ("trigger", "completion")
    )


@dataclass
class IfNotTold:
    """A chip for a file that does not tell it.

    Attributes:
        target: the chip.
        is_used: whether a file did not tell it.
    """

    target: Target
    is_used: bool = False


#: What a reader is given: the chip, or one for a file that does not tell it.
Chip = str | Target | IfNotTold | None


def chip_of(name: str, instance: Any, target: Chip) -> Target:
    """Return the chip that was asked for, or that of an instance such as trn2.48xlarge.

    Raises BadFile where neither is known.
    """
    told = isinstance(instance, str) and instance
    if isinstance(target, IfNotTold) and not told:
        target.is_used = True
        return target.target
    if target is not None and not isinstance(target, IfNotTold):
        return get_target(target)
    if not told:
        raise BadFile(
            f"{name} does not say which chip it is of",
            help="name it: Profile.load(path, target='trn2'), or --target trn2",
        )
    return target_of(instance.partition(".")[0].removesuffix("n"))


class Rows:
    """Collect the rows of a table, and give them as columns; many rows take little more than their numbers.

    Attributes:
        table: its name in the schema.
        count: how many rows there are.
        unknown: names that the schema does not have -> in how many rows.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        self.count = 0
        self.unknown: Counter[str] = Counter()
        self._columns: dict[str, _Cells] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a row. Raises BadTable for a value that its column cannot hold."""
        fields, row = TABLES[self.table], self.count
        for name, value in record.items():
            field = fields.get(name)
            if value is None or (value == "" and not (field and field.required)):
                continue  # a text that these files leave empty is one that they do not know
            if field is None:
                self.unknown[str(name)] += 1
                continue
            cells = self._columns.get(name)
            if cells is None:
                cells = self._columns[name] = _Cells(field)
            try:
                cells.put(row, value)
            except (ValueError, TypeError, OverflowError):
                raise BadTable(
                    f"table {self.table}, row {row}: {name} is {_shown(value)}; expected {field.type}"
                ) from None
        self.count = row + 1

    def columns(self, ns: float = 1.0) -> dict[str, Column]:
        """Return the columns, times in ns where they came in units of `ns`; none where there is no row."""
        if not self.count:
            return {}
        made = {name: cells.done(self.count) for name, cells in self._columns.items()}
        for name, column in made.items():
            if isinstance(column, np.ndarray) and is_time(TABLES[self.table][name]):
                made[name] = scaled(column, ns)
        return {name: _whole(column, TABLES[self.table][name]) for name, column in made.items()}

    def raw(self, name: str) -> np.ndarray:
        """Return a column of numbers as they came, zero where unknown."""
        cells = self._columns.get(name)
        column = np.zeros(self.count, np.int64) if cells is None else cells.done(self.count)
        assert isinstance(column, np.ndarray)
        return np.asarray(np.ma.filled(column, 0))


class _Cells:
    """The values of one column."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._filled: list[np.ndarray] = []  # whole blocks: values, or codes of texts
        self._known: list[np.ndarray] = []
        self._block: list[Any] = []
        self._rows = 0  # in whole blocks
        self._codes: dict[str, int] = {}
        self._take: Callable[[Any], Any] = {"string": self._text, "bool": _truth}.get(
            field.type, _number
        )

    def put(self, row: int, value: Any) -> None:
        """Set the value of a row; rows come in order."""
        taken = self._take(value)
        self._pad(row)
        self._block.append(taken)

    def _pad(self, row: int) -> None:
        while self._rows + len(self._block) < row or len(self._block) >= _ROWS_AT_ONCE:
            space = _ROWS_AT_ONCE - len(self._block)
            if space:
                self._block += [None] * min(space, row - self._rows - len(self._block))
            if len(self._block) == _ROWS_AT_ONCE:
                self._flush()

    def _flush(self) -> None:
        known = np.array([value is not None for value in self._block], dtype=bool)
        values = [0 if value is None else value for value in self._block]
        whole = all(type(value) is int for value in values)
        kind = {"string": np.int32, "bool": np.bool_}.get(
            self._field.type, np.int64 if whole else np.float64
        )
        self._filled.append(np.array(values, dtype=kind))
        self._known.append(known)
        self._rows += len(self._block)
        self._block = []

    def done(self, rows: int) -> Column:
        """Return the column of a table of so many rows."""
        self._pad(rows)
        if self._block:
            self._flush()
        values, known = np.concatenate(self._filled), np.concatenate(self._known)
        if self._field.type == "string":
            return Strings(np.where(known, values, -1), self._codes)
        return values if known.all() else np.ma.MaskedArray(values, ~known)

    def _text(self, value: Any) -> int:
        if isinstance(value, (list, tuple)):
            value = ", ".join(map(str, value))
        if not isinstance(value, (str, int, float)):
            raise TypeError("no text")
        return self._codes.setdefault(str(value), len(self._codes))


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("neither true nor false")
    return bool(value)


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        value = float(value) if "." in value or "e" in value.lower() else int(value)
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) >= _LARGEST:
        raise ValueError("no number")
    return value  # type: ignore[no-any-return]


def _whole(column: Column, field: Field) -> Column:
    """Return a column of integers as integers, which files write as 5.0, too."""
    if isinstance(column, Strings) or not field.type.startswith("int") or column.dtype.kind != "f":
        return column
    whole = np.rint(np.ma.filled(column, 0.0))
    if is_time(field) or np.array_equal(whole, np.ma.filled(column, 0.0)):
        numbers = whole.astype(np.int64)
        return (
            np.ma.MaskedArray(numbers, np.ma.getmaskarray(column))
            if np.ma.isMaskedArray(column)
            else numbers
        )
    return column  # the schema refuses it


def scaled(times: np.ndarray, ns: float) -> np.ndarray:
    """Return times in whole ns. Starts and ends are rounded alike, so that spans that did not overlap still do not."""
    if ns == 1.0 and times.dtype.kind == "i":
        return times
    per_ns = round(1 / ns)
    if ns < 1 and times.dtype.kind == "i":
        return (times + per_ns // 2) // per_ns
    return (
        np.ma.asanyarray(np.rint(times * ns)) if np.ma.isMaskedArray(times) else np.rint(times * ns)
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def with_metadata(
    about: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]], target: Target
) -> dict[str, Any]:
    """Return the row of Metadata of an import: what the file tells, with the beginning and end of its events.

    The file's own times are left where all events lie between them.
    """
    starts = [np.ma.filled(tables[t][BEGINS], 0) for t in EVENTS if tables.get(t)]
    ends = [np.ma.filled(tables[t][ENDS], 0) for t in EVENTS if tables.get(t)]
    told = {name: value for name, value in about.items() if value is not None}
    if not starts:
        return told
    first = min(int(column.min()) for column in starts)
    last = max(int(column.max()) for column in ends)
    begin, end = told.get("first_hw_timestamp"), told.get("last_hw_timestamp")
    if begin is None or end is None or not begin <= first <= last <= end:
        told |= {"first_hw_timestamp": first, "last_hw_timestamp": last}
    return told


def warnings(messages: Sequence[str]) -> dict[str, Any]:
    """Return the rows of Warning with what an import has to tell."""
    return {"message": list(messages), "category": [CATEGORY] * len(messages)}


def told_names(what: str, names: Mapping[str, int]) -> list[str]:
    """Return the sentence that names what was not read, the most frequent first; nothing where all was."""
    if not names:
        return []
    ordered = sorted(names, key=lambda name: (-names[name], name))
    shown = ", ".join(f"{name[:60]} ({names[name]:,})" for name in ordered[:_NAMES_TOLD])
    more = len(ordered) - _NAMES_TOLD
    return [f"not read: {what}: {shown}" + (f", and {more:,} more" if more > 0 else "")]


def numbered(columns: dict[str, Column], rows: int) -> dict[str, Column]:
    """Return the columns of events with ids: those of the file, or numbers from 1 on where it has none."""
    return columns if "id" in columns or not rows else columns | {"id": np.arange(1, rows + 1)}


def checked(profile: ProfileData) -> ProfileData:
    """Return a profile whose tables all fit the schema. Raises what `reading` turns into BadFile."""
    for table in profile.supplied:
        profile.table(table)
    check_texts(profile, profile.supplied)
    return profile


#: Tables whose rows have ids.
NUMBERED = ("Instruction", TRANSFERS)
