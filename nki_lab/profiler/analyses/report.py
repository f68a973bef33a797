"""Writes the report of a profile as plain text.

The report is the text form of every display of a profile: the same on every run and machine,
ASCII, at most 92 columns, and always saying whether its times were modelled or measured.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nki_lab.percent import percent
from nki_lab.profiler.analyses.advice import CATEGORY as ADVICE
from nki_lab.profiler.analyses.advice import listed
from nki_lab.profiler.analyses.cores import of_core
from nki_lab.profiler.analyses.roofline import balance
from nki_lab.profiler.analyses.source_lines import ENGINE_SUM, by_line
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.schema import ENGINES, TABLES
from nki_lab.progress import doing
from nki_lab.source import place_text, text_of
from nki_lab.targets.engines import ENGINE_LABELS

_ROW = "{:<10}{:>14}{:>9}{:>15}{:>14}"
_UNKNOWN = "-"


@doing("writing the report")
def report(profile: ProfileData) -> str:
    """Return the report of a profile as text, without a final line break."""
    parts = ReportParts(profile)
    return text_of([*parts.figures, *parts.lines(), *parts.advice(), *parts.limits()])


class ReportParts:
    """The parts of a report, each with its heading: to show fewer entries of them, not to cut them anywhere.

    Attributes:
        figures: lines on time, engines, bytes and memories.
    """

    def __init__(self, profile: ProfileData) -> None:
        figures = [_heading(profile), "", *_times(profile), "", *_engines(profile), ""]
        figures += [*_rates(profile), *_memories(profile)]
        self.figures = [line.rstrip() for line in figures]
        self._by_line = by_line(profile)
        rows = list(profile.records("Warning"))
        self._advice = [row["message"] for row in rows if row["category"] == ADVICE]
        self._limits = [
            f"  {row['category']}: {row['message']}".rstrip()
            for row in rows
            if row["category"] != ADVICE
        ]

    def lines(self, shown: int = 5) -> list[str]:
        """Return what the lines of the kernel that take the most time take, at most `shown` of them."""
        if not self._by_line:
            return []
        if not shown:
            return [f"lines        {len(self._by_line)}: print(result) shows their times"]
        row = "{:<32}{:>14}{:>14}{:>14}"
        lines = ["", row.format("line", ENGINE_SUM, "DMA us", "instructions")]
        for line in self._by_line[:shown]:
            times = (f"{ns / 1000:,.3f}" for ns in (line.engine_ns, line.transfer_ns))
            lines.append(
                row.format(place_text(line.place), *times, f"{line.instructions:,}").rstrip()
            )
        more = len(self._by_line) - shown
        return [*lines, f"... {more} more lines"] if more > 0 else lines

    def advice(self, shown: int = 3) -> list[str]:
        """Return what would make the kernel faster, at most `shown` changes."""
        if not self._advice:
            return []
        lines = ["", "advice, the largest gain first", *listed(self._advice[:shown])]
        more = len(self._advice) - shown
        return [*lines, f"  ... {more} more"] if more > 0 else lines

    def limits(self, shown: int | None = None) -> list[str]:
        """Return what the model leaves out or assumes, at most `shown` entries; None is all of them."""
        if not self._limits:
            return []
        lines = ["", "warnings", *self._limits[:shown]]
        if shown is not None and len(self._limits) > shown:
            lines.append(f"  ... {len(self._limits) - shown} more: print(result) shows all of them")
        return lines


def badge(profile: ProfileData) -> str:
    """Say in a few words where the times of a profile come from."""
    if profile.is_simulation:
        return "modelled from public documents, not measured"
    return profile.origin


#: What is said of a profile of totals alone.
TOTALS_ALONE = (
    "only totals of the run are known: no instruction, transfer, dependence or source line, and so no timeline and no"
    " critical path"
)


def bound_sentence(profile: ProfileData) -> str:
    """Say in one sentence what holds the run back: the busiest, and what is about as busy."""
    bound = bound_by(profile)
    name = ENGINE_LABELS[bound.resource]
    if bound.share == 0.0:
        return "nothing ran"
    if not bound.is_bound:
        busiest = f"{name} with {percent(bound.share)}"
        return f"latency: nothing is busy half of the time; the busiest is {busiest}"
    names = _and([ENGINE_LABELS[busy] for busy in bound.busiest])
    if len(bound.busiest) > 2:  # with every share it would be no line
        return f"{names}: busy at least {percent(min(bound.busiest.values()))} of the time"
    text = f"{names}: busy {_and([percent(share) for share in bound.busiest.values()])} of the time"
    rate, limit = _dma_rate(profile), _dma_limit(profile)
    if rate is None or "dma" not in bound.busiest:
        return text
    whose = "DMA at" if bound.others else "at"
    return f"{text}, {whose} {percent(rate / limit)} of its rate"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def bound_words(profile: ProfileData) -> str:
    """Say in words and shares what holds the run back, as a cell of a table does."""
    bound = bound_by(profile)
    if bound.share == 0.0:
        return "nothing ran"
    if not bound.is_bound:
        return f"latency {percent(bound.share)}"
    return ", ".join(
        f"{ENGINE_LABELS[name]} {percent(share)}" for name, share in bound.busiest.items()
    )


def _heading(profile: ProfileData) -> str:
    what = profile.name or "kernel"
    chip = f"{profile.target.name} ({profile.target.core_name})"
    many = f", {len(profile.cores)} cores" if len(profile.cores) > 1 else ""
    return f"{what} on {chip}{many}: {badge(profile)}"


def _times(profile: ProfileData) -> list[str]:
    ghz = profile.target.core_ghz
    cycles = round(profile.total_ns * ghz)
    return [
        f"total time   {profile.total_ns / 1000:,.3f} us ({cycles:,} cycles at {ghz} GHz)",
        f"bound by     {bound_sentence(profile)}",
    ]


def _engines(profile: ProfileData) -> list[str]:
    summary = profile.summary
    engine = profile.strings("Instruction", "engine")
    waiting = profile.column("Instruction", "evt_wait_time_ns")
    waits_ns = profile.numbers("Instruction", "evt_wait_time_ns")
    lines = []
    if len(profile.cores) > 1:
        ends = ", ".join(
            f"core {n} {of_core(profile, n).total_ns / 1000:,.3f} us" for n in profile.cores
        )
        lines += [
            f"ends         {ends}",
            "cores        active, share and waiting are means over the cores; counts and lines are totals",
            "",
        ]
    lines += [_ROW.format("engine", "active us", "share", "count", "waiting us")]
    for name in (*ENGINES, "dma"):
        prefix = "dma" if name == "dma" else f"{name}_engine"
        active = summary.get(f"{prefix}_active_time")
        share = summary.get(f"{prefix}_active_time_percent")
        count = summary.get(
            "dma_transfer_count" if name == "dma" else f"{prefix}_instruction_count"
        )
        wait_ns = None
        if waiting is not None and name != "dma":
            wait_ns = int(waits_ns[engine.equal_to(name)].sum()) / len(profile.cores)
        lines.append(
            _ROW.format(
                ENGINE_LABELS[name],
                _UNKNOWN if active is None else f"{active * 1e6:,.3f}",
                _UNKNOWN if share is None else percent(share),
                _UNKNOWN if count is None else f"{count:,}",
                "" if wait_ns is None else f"{wait_ns / 1000:,.3f}",
            )
        )
    return lines


def _rates(profile: ProfileData) -> list[str]:
    summary = profile.summary
    lines = []
    rate = _dma_rate(profile)
    if rate is not None and "dma_transfer_average_bytes" in summary:
        limit = _dma_limit(profile)
        lines.append(
            f"DMA          {_size(summary['dma_transfer_total_bytes'])} in transfers of "
            f"{_size(summary['dma_transfer_average_bytes'])}; "
            f"{rate:.1f} of {limit:g} B/ns while busy"
        )
    hbm = {
        way: summary.get(f"hbm_{name}_bytes")
        for name, way in (("read", "read"), ("write", "written"))
    }
    if any(hbm.values()):
        sizes = [f"{_size(moved)} {way}" for way, moved in hbm.items() if moved is not None]
        lines.append(
            f"HBM          {', '.join(sizes)}"
            + _note(summary, "mbu_estimated_percent", "; {} of one stack (MBU)", percent)
        )
    flops = summary.get("hardware_flops", 0) - summary.get("transpose_flops", 0)
    if flops:
        lines.append(
            f"Tensor       {flops / 1e9:,.3f} GFLOP"
            + _note(summary, "mfu_estimated_percent", ", {} of the bf16 peak (MFU)", percent)
            + _note(summary, "mm_arithmetic_intensity", "; {} FLOP/byte", "{:.1f}".format)
            + f", balance {balance(profile.target):.1f}"
        )
    return lines


def _note(summary: dict[str, Any], field: str, text: str, write: Callable[[float], str]) -> str:
    return text.format(write(summary[field])) if field in summary else ""


def sbuf_peak_bytes(profile: ProfileData) -> int | None:
    """Return the most bytes of a partition of SBUF in use at the same time; None where it is not known."""
    names = [f"partition_{p}_util_percent" for p in (0, 32, 64, 96)]
    if all(profile.column("SbufUsage", name) is None for name in names):
        return None
    probes = [profile.numbers("SbufUsage", name) for name in names]
    peak = max(float(probe.max()) for probe in probes)
    return round(peak * profile.target.sbuf_bytes_per_partition)


def psum_peak_banks(profile: ProfileData) -> int | None:
    """Return the most banks of PSUM in use at the same time; None where it is not known."""
    names = [f"bank_{b}_util_percent" for b in range(profile.target.psum_banks)]
    if all(profile.column("PsumUsage", name) is None for name in names):
        return None
    banks = [profile.numbers("PsumUsage", name) for name in names]
    return int(np.count_nonzero(np.stack(banks), axis=0).max())


def _memories(profile: ProfileData) -> list[str]:
    target = profile.target
    lines = []
    sbuf, psum = sbuf_peak_bytes(profile), psum_peak_banks(profile)
    if sbuf is not None:
        usable = target.sbuf_usable_bytes_per_partition
        lines.append(f"SBUF peak    {sbuf:,} of {usable:,} bytes per partition, in time")
    if psum is not None:
        lines.append(f"PSUM peak    {psum} of {target.psum_banks} banks, in time")
    return lines


def _dma_limit(profile: ProfileData) -> float:
    """Return what the DMA engines of all cores move per nanosecond."""
    return profile.target.dma_bytes_per_ns_all_engines * len(profile.cores)


def _dma_rate(profile: ProfileData) -> float | None:
    """Bytes per nanosecond while at least one transfer is under way, None where unknown."""
    busy_s = profile.summary.get("dma_active_time")
    moved = profile.summary.get("dma_transfer_total_bytes")
    return moved / (busy_s * 1e9) if busy_s and moved is not None else None


def _size(count: float) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:,.2f} {unit}"
    return f"{count:,.0f} B"


# Groups by how the names of their metrics begin; what begins otherwise is about the whole run.
_RUN = "run"
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_RUN, ()),
    ("tensor engine", ("tensor_engine", "matmul", "mfu", "hfu", "mm_", "array_")),
    ("vector engine", ("vector_engine",)),
    ("scalar engine", ("scalar_engine", "activate")),
    ("gpsimd engine", ("gpsimd_engine",)),
    ("sync engine", ("sync_engine",)),
    ("DMA", ("dma", "static_dma", "dynamic_dma", "software_dynamic", "hardware_dynamic")),
    ("memory", ("hbm", "mbu", "sbuf", "psum", "spill", "input", "output", "weight")),
    ("collectives", ("cc_",)),
)
_UNITS = {"-": "", "B": "bytes"}
_WIDTH = 100


def summary_text(profile: ProfileData) -> str:
    """Return the Summary metrics by Neuron Explorer's names, in groups, each with the schema's unit.

    Those of a group that are 0 stand in one line below the others.
    """
    groups: dict[str, dict[str, Any]] = {title: {} for title, _ in _GROUPS}
    for name, value in profile.summary.items():
        title = next((t for t, begins in _GROUPS if name.startswith(begins or ("\n",))), _RUN)
        groups[title][name] = value
    told = {name: v for group in groups.values() for name, v in group.items() if _is_told(v)}
    wide = max(map(len, told), default=0)
    digits = max((len(_written(v)) for v in told.values()), default=0)
    lines: list[str] = []
    for title, group in groups.items():
        if not group:
            continue
        lines.append(title)
        for name, value in group.items():
            if name in told:
                unit = TABLES["Summary"][name].unit
                row = f"  {name:<{wide}}  {_written(value):>{digits}} {_UNITS.get(unit, unit)}"
                lines.append(row.rstrip())
        zeros = ", ".join(name for name in group if name not in told)
        if zeros:
            lines += textwrap.wrap(
                zeros, _WIDTH, initial_indent="  0: ", subsequent_indent="     ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
    return text_of(lines)


def _is_told(value: Any) -> bool:
    return not isinstance(value, (int, float, np.number)) or value != 0


def _written(value: Any) -> str:
    if isinstance(value, (bool, str, np.bool_)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:,.6g}"
