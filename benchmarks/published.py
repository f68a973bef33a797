"""Times, shares and byte counts that others have published for real chips.

`measurements.csv` holds them, one a row, with where each was found:

- source: repository, file and line, or the picture; kernel, shapes, dtype: what ran
- arch: v2 (trn1), v3 (trn2) or v4 (trn3); a question mark says that the source does not name the machine
- metric, value, unit: what was published
- enough_to_replay: whether the source tells enough of the program
- evidence: device_table, profile_tooltip (printed in a picture of a profile), profile_digitised (read off one), target
  (numbers that a project's tests name as goals), threshold (upper bounds in tests), e2e (whole models), none
- score_use: primary and secondary rows are scored, tertiary ones are not (the value is shared with another row, or its
  meaning is not stated), bound is an upper bound, none is context
- split, note: for the reader
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

#: The numbers this repository scores.
MEASUREMENTS = Path(__file__).with_name("measurements.csv")

#: Targets by the names the rows use for core generations.
TARGETS = {"v2": "trn1", "v3": "trn2", "v4": "trn3"}

_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6}


@dataclass(frozen=True)
class Row:
    """One published number; the fields are the columns of the file."""

    source: str
    kernel: str
    shapes: str
    dtype: str
    arch: str
    metric: str
    value: str
    unit: str
    enough_to_replay: str
    evidence: str
    score_use: str
    split: str
    note: str

    @property
    def generation(self) -> str:
        """The core generation, stated or taken to be."""
        return self.arch.rstrip("?")

    @property
    def is_time(self) -> bool:
        """Whether the number is a time."""
        return self.unit in _NS

    @property
    def number(self) -> float:
        """The value: times in nanoseconds, everything else in the unit of the row."""
        return float(self.value) * _NS.get(self.unit, 1.0)

    @property
    def name(self) -> str:
        """How reports call the row."""
        place = self.source.rsplit("/", 1)[-1]
        version = f" @{place}" if self.kernel.startswith("Autocomp") else ""
        return f"{self.kernel} [{self.shapes}] {self.metric}{version}"


def read(path: Path) -> list[Row]:
    """Return the rows of a file with these columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**fields) for fields in csv.DictReader(file)]
