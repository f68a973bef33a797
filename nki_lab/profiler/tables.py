"""Holds the tables of one run of a kernel, and gives their columns and rows.

Who makes a profile (the timing model, or an importer of a measured one) hands over whole columns:

    profile = Profile.from_tables(
        target,
        {
            "Instruction": {
                "start_ts": starts, "end_ts": ends,        # whole ns, see to_ns()
                "engine": Strings(codes, ENGINES),         # "tensor", "vector", ...
                "timeline_track": ...,                     # "TensorMatrix" beside "Tensor"
                "opcode": ..., "operands": ...,            # strings
                "id": ..., "pc": ...,                      # execution; place in its queue
                "compiler_pc": ...,                        # place in the program of its queue
                "kernel_instruction_name": ...,            # "inst.7:0": position in the program
                "nki_source_location": ...,                # "add.py:42" or "cell:12"
                "evt_wait_time_ns": ...,                   # waiting before start_ts
                "raw_flops": ..., "sbuf_read_bytes": ...,  # and whatever else is known
            },
            "DmaPacketAggregated": {
                "start_ts": ..., "end_ts": ...,            # first byte moves, last byte arrived
                "id": ..., "variable": ...,
                "queue_name": ..., "queue_type": ...,      # see schema.QUEUE_TYPES
                "source": ..., "dest": ...,                # SBUF_PLACE or a name of device memory
                "read_bytes": ..., "write_bytes": ..., "transfer_bytes": ...,
                "trigger": ..., "completion": ...,         # times of the issuing instruction
            },
            "Flow": ..., "SbufUsage": ..., "PsumUsage": ..., "TensorInfo": ...,   # see usage.py
            "Warning": {"message": [...], "category": [...]},
            "KernelInstructions": make_them,   # any table may be a function, called when asked for
        },
        is_simulation=True,
        name="add_kernel",
        metrics={"inputs_and_weights_size_bytes": 4096},   # Summary fields only the maker knows
        deals=make_deals,                      # how transfers fall into packets, see packets.py
    )

A column is an array, a list (None where unknown), a `Strings`, or one value for all rows. A column
that is left out, or known in no row, is unknown; nothing is invented for it. In Flow, the one edge
from an "instruction" to a "dma_block" comes from the instruction that issues the transfer. Three
things are filled in when missing: `duration_ns` from start and end, `throughput` from bytes and
duration, and the tables in `data.DERIVED` (ActiveTime, OpcodeSummary, Summary, Metadata, ...), made
when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from nki_lab.profiler.columns import (
    Column,
    Strings,
    is_unknown,
    known,
    make_column,
    same_column,
    same_number,
    take,
    to_list,
)
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.schema import MOST_OF_EVENT, SBUF_PLACE, TABLES, TRANSFERS
from nki_lab.source import printable
from nki_lab.targets import Target

Table = dict[str, Column]
#: What a maker may give for a table: its columns, or a function that returns them.
TableSource = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class BadTable(ValueError):
    """A table or column that the schema does not have, or of the wrong type or length."""


class Tables:
    """Hold the tables of one run, in Neuron Explorer's names and units.

    Attributes:
        target: the chip it ran on or was modelled for.
        is_simulation: True when the times are modelled, False when a device measured them.
        name: what ran, usually the kernel's name.
        metrics: Summary fields that cannot be computed from the tables.
        model: who can time its program again (`analyses.what_if.Model`), or None.
        answers: what analyses keep, so that they are made once.
        transfer_lines: of a span of a run, the line of each transfer, whose instruction may lie before the span.
        supplied: names of the tables that the maker gave; the others follow from them.
        derived: name of a table -> how to compute it where the maker gave none.
    """

    derived: ClassVar[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {}

    def __init__(
        self,
        target: Target,
        tables: Mapping[str, TableSource],
        *,
        is_simulation: bool,
        name: str,
        metrics: Mapping[str, float | int],
        deals: Deals | Callable[[], Deals | None] | None = None,
        model: Any = None,
        transfer_lines: Strings | None = None,
    ) -> None:
        self.target = target
        self.model = model
        self.transfer_lines = transfer_lines
        self.is_simulation = is_simulation
        self.name = name
        self.metrics = dict(metrics)
        self._deals = deals
        self._given: dict[str, Table] = {}
        self._made: dict[str, Table] = {}
        self.answers: dict[Any, Any] = {}
        self._makers: dict[str, Callable[[], Mapping[str, Any]]] = {}
        self.supplied = frozenset(tables)
        for table, source in tables.items():
            if table not in TABLES:
                raise BadTable(f"the profile schema has no table {table}")
            if callable(source):
                self._makers[table] = source
            else:
                self._given[table] = _complete(table, source)
        for field in metrics:
            if field not in TABLES["Summary"]:
                raise BadTable(f"table Summary has no column {field}")

    @classmethod
    def from_tables(
        cls,
        target: Target,
        tables: Mapping[str, TableSource],
        *,
        is_simulation: bool,
        name: str = "",
        metrics: Mapping[str, float | int] | None = None,
        deals: Deals | Callable[[], Deals | None] | None = None,
        model: Any = None,
        transfer_lines: Strings | None = None,
    ) -> Self:
        """Make a profile from whole columns; the module's text shows the contract.

        `model` is who can time the same program again, where there is one.

        Raises BadTable when a table or column does not fit the schema.
        """
        return cls(
            target,
            tables,
            is_simulation=is_simulation,
            name=name,
            metrics=metrics or {},
            deals=deals,
            model=model,
            transfer_lines=transfer_lines,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as to a file: with all tables, and without who can time the program again."""
        facts = {"is_simulation": self.is_simulation, "name": self.name, "metrics": self.metrics}
        return _sent, (type(self), self.target, self.stored, facts | {"deals": self.deals})

    @property
    def stored(self) -> dict[str, Table]:
        """The tables that a file keeps: all the maker supplied.

        Tables the maker would make on demand are made now.
        """
        supplied = [name for name in TABLES if name in self.supplied]
        return {name: columns for name in supplied if (columns := self.table(name))}

    @cached_property
    def deals(self) -> Deals | None:
        """How the transfers fall into packets; None where that is unknown, or DmaPacket was supplied."""
        deals = self._deals() if callable(self._deals) else self._deals
        if deals is not None and len(deals.codes) != self.count(TRANSFERS):
            raise BadTable("the packets of some transfers are missing, or there are too many")
        return deals

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of every table this profile has or can make, in the schema's order."""
        return tuple(name for name in TABLES if name in self.supplied or name in self.derived)

    def table(self, name: str) -> Table:
        """Return the columns of a table by name; an empty dict when nothing is known of it."""
        if name not in TABLES:
            raise BadTable(f"the profile schema has no table {name}")
        if name in self._given:
            return self._given[name]
        if name not in self._made:
            self._made[name] = _complete(name, self._source(name))
        return self._made[name]

    def _source(self, name: str) -> Mapping[str, Any]:
        """Return the columns of a table that is made on demand."""
        if name in self._makers:
            return self._makers[name]()
        return self.derived[name](self) if name in self.derived else {}

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        return _rows(self.table(name))

    def column(self, table: str, name: str) -> Column | None:
        """Return one column, or None when its values are unknown."""
        if name not in TABLES[table]:
            raise BadTable(f"table {table} has no column {name}")
        return self.table(table).get(name)

    def numbers(self, table: str, name: str) -> np.ndarray:
        """Return a column of numbers as a plain array, zeros where unknown."""
        column = self.column(table, name)
        if column is None:
            return np.zeros(self.count(table), dtype=np.int64)
        assert isinstance(column, np.ndarray), f"{table}.{name} holds strings"
        return known(column)

    def strings(self, table: str, name: str) -> Strings:
        """Return a column of strings, every row unknown when the column is missing."""
        column = self.column(table, name)
        if column is None:
            return Strings(np.full(self.count(table), -1), ())
        assert isinstance(column, Strings), f"{table}.{name} holds numbers"
        return column

    def records(self, table: str, start: int = 0, stop: int | None = None) -> Iterator[dict]:
        """Yield rows as dicts with every column of the schema, None where unknown."""
        rows = range(self.count(table))[start:stop]
        yield from self.rows(table, slice(rows.start, rows.stop))

    def rows(self, table: str, chosen: slice | np.ndarray) -> Iterator[dict]:
        """Yield the rows chosen by a slice or by their numbers, as `records` does."""
        columns = self.table(table)
        count = len(np.arange(_rows(columns))[chosen])
        nothing = [None] * count
        lists = [
            to_list(take(columns[field], chosen)) if field in columns else nothing
            for field in TABLES[table]
        ]
        for values in zip(*lists, strict=True):
            yield dict(zip(TABLES[table], values, strict=True))

    @property
    def summary(self) -> dict[str, Any]:
        """The Summary metrics by Neuron Explorer's names, only those that are known.

        Times are seconds and shares fractions of 1, as in Explorer's own output.
        """
        row = next(self.records("Summary"), {})
        return {field: value for field, value in row.items() if value is not None}

    @property
    def origin(self) -> str:
        """Where the times come from: "modelled", or "measured on trn2.48xlarge, core 3, tool version 2.21".

        Of a measurement, what its Metadata does not tell is left out; the chip is always told.
        """
        if self.is_simulation:
            return "modelled"
        given = "Metadata" in self.supplied
        about: Mapping[str, Any] = next(self.records("Metadata"), {}) if given else {}
        core, tool = about.get("neuroncore_idx"), about.get("explorer_version")
        return printable(
            f"measured on {about.get('instance_type') or self.target.name}"
            + (f", core {core}" if core is not None else "")
            + (f", tool version {tool}" if tool else "")
        )

    @property
    def is_of_totals(self) -> bool:
        """Whether only totals of the run are known, and none of its events."""
        events = self.count("Instruction") + self.count(TRANSFERS)
        return not events and "Summary" in self.supplied

    @property
    def total_ns(self) -> int:
        """Time from the start of the run to the end of the last instruction or transfer."""
        first, last = self.span_ns
        return last - first

    @property
    def span_ns(self) -> tuple[int, int]:
        """Start and end of the run in ns: from its metadata where that tells them, else 0 and the last event's end."""
        if "Metadata" in self.supplied:
            about: Mapping[str, Any] = next(self.records("Metadata"), {})
            first, last = about.get("first_hw_timestamp"), about.get("last_hw_timestamp")
            if first is not None and last is not None:
                return first, last
        ends = [self.numbers(t, "end_ts").max(initial=0) for t in ("Instruction", TRANSFERS)]
        return 0, int(max(ends))

    # -- cores ---------------------------------------------------------------------------------------------------

    @cached_property
    def cores(self) -> tuple[int, ...]:
        """The cores of the run: 0, and 1 where it used both cores of a logical core, of which a span may hold one."""
        numbers = [self.numbers(t, "pcore_idx") for t in ("Instruction", TRANSFERS)]
        cores = set(np.unique(np.concatenate(numbers)).tolist())
        if "Metadata" in self.supplied:
            about: Mapping[str, Any] = next(self.records("Metadata"), {})
            if about.get("vnc_enabled"):
                cores |= set(range(about.get("num_physical_cores") or 1))
        return tuple(sorted(cores)) or (0,)

    def hbm_bytes(self, way: str) -> np.ndarray:
        """Return per transfer the bytes it reads from device memory, or writes to it.

        `way` is "read" or "write"; a transfer's side in SBUF counts zero.
        """
        place = self.strings(TRANSFERS, "source" if way == "read" else "dest")
        in_sbuf = place.equal_to(SBUF_PLACE)
        return np.where(in_sbuf, 0, self.numbers(TRANSFERS, f"{way}_bytes"))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tables)
            and self.target is other.target
            and (self.is_simulation, self.name) == (other.is_simulation, other.name)
            and self.metrics.keys() == other.metrics.keys()
            and all(same_number(v, other.metrics[k]) for k, v in self.metrics.items())
            and self.deals == other.deals
            and self.transfer_lines == other.transfer_lines
            and self.stored.keys() == other.stored.keys()
            and all(_same(table, other.stored[name]) for name, table in self.stored.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<Profile {printable(self.name) or 'kernel'} on {self.target.name}: {self.origin}, "
            f"{self.total_ns / 1000:.3f} us, {self.count('Instruction')} instructions>"
        )


def _sent(
    kind: type[Tables], target: Target, tables: Mapping[str, Table], facts: Mapping[str, Any]
) -> Tables:
    return kind(target, tables, **facts)


def to_ns(picoseconds: np.ndarray) -> np.ndarray:
    """Round times from picoseconds to whole nanoseconds.

    Starts and ends are rounded by the same rule, so spans that do not overlap still do not.
    """
    return (np.asarray(picoseconds, dtype=np.int64) + 500) // 1000


def _rows(table: Table) -> int:
    return len(next(iter(table.values()))) if table else 0


def _complete(table: str, source: Mapping[str, Any]) -> Table:
    """Check the columns of a table and fill in what follows from the others."""
    fields = TABLES[table]
    for name in source:
        if name not in fields:
            raise BadTable(f"table {table} has no column {name}")
    sized = [v for v in source.values() if hasattr(v, "__len__") and not isinstance(v, str)]
    rows = len(sized[0]) if sized else 1
    try:
        # In the schema's order, whatever the maker's.
        columns = {
            name: make_column(source[name], fields[name], rows) for name in fields if name in source
        }
    except ValueError as error:
        raise BadTable(f"table {table}: {error}") from None
    if not rows:
        return {}
    told = [name for name, column in columns.items() if not is_unknown(column)]
    # A table of which nothing is known still has its number of rows.
    columns = {name: columns[name] for name in told or list(columns)[:1]}
    if "start_ts" in columns and "end_ts" in columns:
        length: Any = columns["end_ts"] - columns["start_ts"]  # type: ignore[operator]
        negative = np.ma.filled(length < 0, False)
        if negative.any():
            raise BadTable(f"table {table}: row {int(np.argmax(negative))} ends before it starts")
        if np.ma.filled(length > MOST_OF_EVENT, False).any():
            raise BadTable(f"table {table}: a row takes more than {MOST_OF_EVENT:,} ns")
        if "duration_ns" in fields and "duration_ns" not in columns:
            columns["duration_ns"] = length
        if "throughput" in fields and "throughput" not in columns and "transfer_bytes" in columns:
            columns["throughput"] = columns["transfer_bytes"] * 1e9 / np.maximum(length, 1)  # type: ignore[operator]
    return {name: columns[name] for name in fields if name in columns}


def _same(one: Table, other: Table) -> bool:
    return one.keys() == other.keys() and all(same_column(one[n], other[n]) for n in one)
