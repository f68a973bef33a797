"""The error of the model: what was measured as a multiple of what was modelled, of everything both runs have.

Events are compared one by one (`pairing`), so that a part of the kernel that only one run has changes no ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.profiler.analyses.pairing import WAYS, paired_instructions, paired_transfers
from nki_lab.profiler.analyses.source_lines import transfer_lines
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import ENGINES, TRANSFERS
from nki_lab.source import place_text, text_of

_SHOWN = 8
_UNITS = ("B", "KiB", "MiB", "GiB")


@dataclass(frozen=True)
class ModelError:
    """What the model says of some events, and what was measured.

    Attributes:
        name: of what they have in common.
        count: how many there are.
        modelled_ns, measured_ns: their summed time.
        low, high: nine of ten of them have a ratio between these.
    """

    name: str
    count: int
    modelled_ns: int
    measured_ns: int
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Measured time as a multiple of the modelled one; infinite where the model says that it takes none."""
        if self.modelled_ns:
            return self.measured_ns / self.modelled_ns
        return float("inf") if self.measured_ns else 1.0


@dataclass(frozen=True)
class ModelErrors:
    """The error of the model, by what events have in common; the largest error in time first.

    Attributes:
        engines: by engine, and of all transfers ("dma").
        classes: by engine and opcode.
        sizes: of transfers, by how many bytes they move.
        lines: by line of the kernel, on engines and in transfers.
        ways: how many events were paired by line and iteration, by line, and by order.
        alone: how many events only the modelled and only the measured run has.
    """

    engines: tuple[ModelError, ...]
    classes: tuple[ModelError, ...]
    sizes: tuple[ModelError, ...]
    lines: tuple[ModelError, ...]
    ways: tuple[int, ...]
    alone: tuple[int, int]

    @property
    def paired(self) -> int:
        """How many events were compared."""
        return sum(self.ways)

    def __str__(self) -> str:
        return text_of(self.lines_of_text())

    __repr__ = __str__

    def lines_of_text(self, shown: int = _SHOWN) -> list[str]:
        """Return the tables as lines of text, with so many rows each; that of the engines is whole."""
        ways = [f"{n:,} by {way}" for way, n in zip(WAYS, self.ways, strict=True) if n]
        text = [f"measured / modelled, {self.paired:,} events paired: {', '.join(ways) or 'none'}"]
        if any(self.alone):
            mine, theirs = self.alone
            text.append(f"without a partner: {mine:,} modelled, {theirs:,} measured")
        for title, rows in (
            ("engine", self.engines),
            ("class", self.classes),
            ("transfer of", self.sizes),
            ("line", self.lines),
        ):
            if rows:
                text += ["", _ROW.format(title, "count", "modelled us", "measured us", "ratio", "")]
                most = max(shown, len(self.engines)) if rows is self.engines else shown
                text += [line for row in rows[:most] for line in _lines_of(row)]
                if len(rows) > most:
                    text.append(f"... {len(rows) - most} more")
        return text


_NAME = 28
_ROW = f"{{:<{_NAME}}}{{:>8}}{{:>14}}{{:>14}}{{:>9}}  {{}}"


def _lines_of(row: ModelError) -> list[str]:
    """Return a row of the table as text; a name that is too long for its column has its own line."""
    long = len(row.name) >= _NAME
    spread = "" if row.count < 2 else f"{row.low:.2f} to {row.high:.2f}"
    numbers = _ROW.format(
        "" if long else row.name,
        f"{row.count:,}",
        f"{row.modelled_ns / 1000:,.3f}",
        f"{row.measured_ns / 1000:,.3f}",
        f"{row.ratio:.2f}",
        spread,
    ).rstrip()
    return [row.name, numbers] if long else [numbers]


def model_errors(
    modelled: ProfileData,
    measured: ProfileData,
    named: Callable[[str], str] = place_text,
) -> ModelErrors:
    """Compare a modelled run with a measured one, event by event.

    Args:
        modelled, measured: the runs.
        named: gives the name of a line of the modelled run.
    """
    return errors_of_runs([(modelled, measured)], named)


def errors_of_runs(
    runs: Sequence[tuple[ProfileData, ProfileData]], named: Callable[[str], str] = place_text
) -> ModelErrors:
    """Compare modelled runs, each with a measured one, as `model_errors` does, and add them up."""
    parts = [_Events(modelled, measured) for modelled, measured in runs]

    def all_of(attribute: str) -> list[Any]:
        return [value for part in parts for value in getattr(part, attribute)]

    def times_of(attribute: str) -> np.ndarray:
        return np.concatenate([getattr(part, attribute) for part in parts])

    lines = {line: named(line) for line in set(all_of("lines")) if line}
    of_engines, of_transfers = times_of("engine_times"), times_of("transfer_times")
    engines = [*all_of("engines"), *["dma"] * len(of_transfers)]
    order = (*ENGINES, "dma")
    by_engine = _grouped(engines, np.concatenate((of_engines, of_transfers)))
    return ModelErrors(
        engines=tuple(sorted(by_engine, key=lambda row: order.index(row.name))),
        classes=_grouped(all_of("classes"), of_engines),
        sizes=_by_size(all_of("sizes"), of_transfers),
        lines=_grouped(
            [lines.get(line or "") for line in all_of("lines")],
            np.concatenate([times for p in parts for times in (p.engine_times, p.transfer_times)]),
        ),
        ways=tuple(np.bincount(all_of("ways"), minlength=len(WAYS)).tolist()),
        alone=tuple(sum(part.alone[side] for part in parts) for side in (0, 1)),  # type: ignore[arg-type]
    )


class _Events:
    """The paired events of two runs; times are (modelled, measured) per row."""

    def __init__(self, modelled: ProfileData, measured: ProfileData) -> None:
        instructions = paired_instructions(modelled, measured)
        transfers = paired_transfers(modelled, measured)
        self.engine_times, self.transfer_times = (
            np.stack(
                [
                    p.numbers(table, "end_ts")[rows] - p.numbers(table, "start_ts")[rows]
                    for p, rows in ((modelled, pairs.first), (measured, pairs.second))
                ],
                axis=1,
            )
            for table, pairs in (("Instruction", instructions), (TRANSFERS, transfers))
        )
        engine, opcode, line = (
            modelled.strings("Instruction", name).take(instructions.first).to_list()
            for name in ("engine", "opcode", "nki_source_location")
        )
        self.engines = [name if name in ENGINES else None for name in engine]
        self.classes = [instruction_class(*names) for names in zip(engine, opcode, strict=True)]
        self.sizes = modelled.numbers(TRANSFERS, "transfer_bytes")[transfers.first].tolist()
        self.lines = [*line, *transfer_lines(modelled).take(transfers.first).to_list()]
        self.ways = [*instructions.way.tolist(), *transfers.way.tolist()]
        self.alone = [a + b for a, b in zip(instructions.alone, transfers.alone, strict=True)]


def instruction_class(engine: str | None, opcode: str | None) -> str | None:
    """Return what instructions are compared by: engine and opcode; None where the engine is unknown."""
    return f"{engine} {opcode or '?'}" if engine else None


def size_class(size: int) -> int:
    """Return the power of two that stands for transfers of this size."""
    return 1 << max(int(size), 1).bit_length() - 1


def size_text(size: int) -> str:
    """Write a power of two in bytes, such as 64 KiB."""
    unit = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{size >> 10 * unit} {_UNITS[unit]}"


def _by_size(sizes: list[int], times: np.ndarray) -> tuple[ModelError, ...]:
    """Return the errors of transfers by their size, the smallest first."""
    classes = sorted({size_class(size) for size in sizes})
    names = {c: f"{size_text(c)} to {size_text(2 * c)}" for c in classes}
    rows = {row.name: row for row in _grouped([names[size_class(s)] for s in sizes], times)}
    return tuple(rows[names[c]] for c in classes)


def _grouped(names: Iterable[str | None], times: np.ndarray) -> tuple[ModelError, ...]:
    """Add up the times of events of one name, the largest difference first; None is of no name."""
    number: dict[str, int] = {}
    codes = np.array(
        [-1 if name is None else number.setdefault(name, len(number)) for name in names], dtype=int
    )
    modelled, measured = times[:, 0], times[:, 1]
    ratio = np.where(modelled > 0, measured / np.maximum(modelled, 1), 1.0)
    rows = []
    for name, code in number.items():
        of = codes == code
        low, high = np.quantile(ratio[of], (0.05, 0.95)).tolist()
        sums = int(modelled[of].sum()), int(measured[of].sum())
        rows.append(ModelError(name, int(of.sum()), *sums, low, high))
    return tuple(sorted(rows, key=lambda row: (-abs(row.measured_ns - row.modelled_ns), row.name)))
