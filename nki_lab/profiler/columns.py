"""Columns: holds one column of a table in memory.

    integers, floats, booleans   NumPy array; a masked array where some values are unknown
    strings                      `Strings`: small integers into a list of distinct texts

A column nobody knows is left out of its table. A million rows must stay small, so a constant
column is a broadcast scalar and a string is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nki_lab.profiler.schema import Field

_DTYPES: dict[str, type] = {
    "int64": np.int64,
    "int32": np.int64,
    "float": np.float64,
    "bool": np.bool_,
}


class Texts(Sequence[str]):
    """Hold `count` texts that are made when somebody looks at them: number n is `make(n)`."""

    def __init__(self, count: int, make: Callable[[int], str]) -> None:
        self._count = count
        self._make = make
        self._made: dict[int, str] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[n] for n in range(self._count)[number]]
        number = range(self._count)[number]
        text = self._made.get(number)
        if text is None:
            text = self._made[number] = self._make(number)
        return text


class Strings:
    """Hold a column of strings as codes into `values`; code -1 is an unknown value.

    Args:
        codes: integers, one per row.
        values: the distinct strings; `Texts` are made when somebody looks at them.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: np.ndarray, values: Iterable[str]) -> None:
        self.codes = np.asarray(codes, dtype=np.int32)
        self.values: Sequence[str] = values if isinstance(values, Texts) else tuple(values)
        highest = int(self.codes.max(initial=-1))
        assert int(self.codes.min(initial=-1)) >= -1 and highest < len(self.values)

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Strings:
        """Code a sequence of strings; None stands for unknown."""
        numbers: dict[str, int] = {}
        codes = [-1 if t is None else numbers.setdefault(t, len(numbers)) for t in texts]
        return cls(np.array(codes, dtype=np.int32), numbers)

    @classmethod
    def constant(cls, text: str, rows: int) -> Strings:
        """Make a column with the same string in every row."""
        return cls(np.broadcast_to(np.int32(0), (rows,)), (text,))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def take(self, rows: Any) -> Strings:
        """Return the rows chosen by a slice, mask or index array."""
        return Strings(self.codes[rows], self.values)

    def equal_to(self, text: str) -> np.ndarray:
        """Return a boolean array: which rows hold `text`."""
        chosen = [i for i, value in enumerate(self.values) if value == text]
        return np.isin(self.codes, chosen)

    def to_list(self) -> list[str | None]:
        """Return the strings themselves, None where unknown."""
        values = self.values
        return [None if code < 0 else values[code] for code in self.codes.tolist()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strings) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self.codes, tuple(self.values))

    def __repr__(self) -> str:
        return f"Strings({self.to_list()!r})"


Column = np.ndarray | Strings


def make_column(values: Any, field: Field, rows: int) -> Column:
    """Turn `values` into the column `field` with `rows` rows.

    Args:
        values: an array, a sequence (None where unknown), a `Strings`, or one value for all rows.
        field: the column's name and type.
        rows: number of rows of the table.

    Raises ValueError with one sentence when type or length do not fit.
    """
    column = _strings(values, field, rows) if field.type == "string" else _numbers(values, field)
    if not isinstance(column, Strings) and column.ndim == 0:
        return np.broadcast_to(column, (rows,))
    if len(column) != rows:
        raise ValueError(f"column {field.name} has {len(column)} rows, its table has {rows}")
    return column


def _strings(values: Any, field: Field, rows: int) -> Strings:
    if isinstance(values, Strings):
        return values
    if isinstance(values, str):
        return Strings.constant(values, rows)
    if isinstance(values, Sequence | np.ndarray):
        texts = list(values)
        if all(text is None or isinstance(text, str) for text in texts):
            return Strings.of(texts)
    raise ValueError(f"column {field.name} must hold strings")


def _numbers(values: Any, field: Field) -> np.ndarray:
    if isinstance(values, list | tuple):
        is_bool = {type(value) is bool for value in values if value is not None}
        if len(is_bool) > 1:  # NumPy would take True for 1
            raise ValueError(f"column {field.name} must hold {field.type} values")
    if isinstance(values, list | tuple) and any(value is None for value in values):
        unknown = np.array([value is None for value in values])
        nothing = _DTYPES[field.type](0).item()
        filled = _numbers([nothing if value is None else value for value in values], field)
        return np.ma.MaskedArray(filled, unknown)
    if isinstance(values, np.ma.MaskedArray):
        unknown = np.ma.getmaskarray(values)
        filled = _numbers(np.asarray(values.filled(0)), field)
        return np.ma.MaskedArray(filled, unknown) if unknown.any() else filled
    array = np.asarray(values)
    wanted = np.dtype(_DTYPES[field.type])
    safe = {"f": "iuf", "i": "iu", "b": "b"}[wanted.kind]
    if array.size and (array.dtype.kind not in safe or not _in_range(array, field)):
        raise ValueError(f"column {field.name} must hold {field.type} values")
    _check_limits(array, field)
    return array.astype(wanted, copy=False)


def _check_limits(array: np.ndarray, field: Field) -> None:
    if field.least is None or field.most is None or not array.size:
        return
    seen = (
        array[:1] if array.ndim == 1 and array.strides == (0,) else array
    )  # one value for all rows
    for value in (seen.min().item(), seen.max().item()):
        if not field.least <= value <= field.most:  # no number, neither
            raise ValueError(
                f"column {field.name} holds {value}, and may hold {field.least:,} to {field.most:,}"
            )


def _in_range(array: np.ndarray, field: Field) -> bool:
    """Tell whether integers have as many bits as the column."""
    if field.type not in ("int32", "int64") or array.dtype.itemsize < 4:
        return True
    limits = np.iinfo(field.type)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def to_list(column: Column) -> list[Any]:
    """Return a column as Python values, None where unknown."""
    return column.to_list() if isinstance(column, Strings) else column.tolist()


def take(column: Column, rows: Any) -> Column:
    """Return the rows of a column chosen by a slice, mask or index array."""
    return column.take(rows) if isinstance(column, Strings) else column[rows]


def is_unknown(column: Column) -> bool:
    """Tell whether no row of a column is known."""
    if isinstance(column, Strings):
        return bool((column.codes < 0).all())
    return bool(np.ma.getmaskarray(column).all()) if np.ma.isMaskedArray(column) else False


def same_column(one: Column, other: Column) -> bool:
    """Tell whether two columns hold the same values, unknown ones included; NaN is NaN."""
    if isinstance(one, Strings) or isinstance(other, Strings):
        return one == other if isinstance(one, Strings) else False
    unknown, also = np.ma.getmaskarray(one), np.ma.getmaskarray(other)
    exact = one.dtype == other.dtype and np.array_equal(unknown, also)
    return exact and np.array_equal(known(one), known(other), equal_nan=one.dtype.kind == "f")


def same_number(one: float | int, other: float | int) -> bool:
    """Tell whether two numbers are the same; NaN is NaN."""
    return one == other or (one != one and other != other)


def known(column: np.ndarray) -> np.ndarray:
    """Return the numbers of a column, zero where unknown."""
    return np.asarray(np.ma.filled(column, 0))
