"""Data of the report view: the report of a run, in parts that can be laid out."""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.analyses.advice import CATEGORY, HELP
from nki_lab.profiler.analyses.drawing import SHARED_TRACKS
from nki_lab.profiler.analyses.report import badge, bound_sentence
from nki_lab.profiler.analyses.source_lines import by_line
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import ENGINES
from nki_lab.views.entries import place_entry, remark_entry
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_costs, line_rows
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import pack

#: Source lines and findings listed.
LINES_SHOWN = 12
REMARKS_SHOWN = 50


def report_parts(data: ViewData) -> bytes:
    """Return what the report shows and its text, packed."""
    return pack(report_data(data) | {"text": view_text(data, "report")})


def report_data(data: ViewData) -> dict[str, Any]:
    """Return headline, figures, engines, lines, findings and advice."""
    profile = data.profile
    target = profile.target
    findings = sorted(data.findings, key=lambda remark: not remark.is_serious)
    return {
        "name": data.name,
        "target": f"{target.name} ({target.core_name})",
        "badge": badge(profile),
        "modelled": profile.is_simulation,
        "figures": _figures(profile),
        "engines": engine_rows(profile),
        "lines": _lines(data),
        "findings": [remark_entry(remark) for remark in findings[:REMARKS_SHOWN]],
        "more_findings": max(0, len(data.findings) - REMARKS_SHOWN),
        "advice": _advice(profile),
        "warnings": [
            {"kind": row["category"] or "", "message": row["message"] or ""}
            for row in profile.records("Warning")
            if row["category"] != CATEGORY
        ][:REMARKS_SHOWN],
    }


def _advice(profile: Profile) -> list[dict[str, str]]:
    """Return the advice among the warnings: what was found, and what to write instead."""
    given = [row["message"] for row in profile.records("Warning") if row["category"] == CATEGORY]
    parts = [message.partition(HELP) for message in given[:REMARKS_SHOWN]]
    return [{"message": found, "help": help} for found, _, help in parts]


def _figures(profile: Profile) -> list[dict[str, str]]:
    summary = profile.summary
    figures = [
        ("total time", f"{profile.total_ns / 1000:,.3f} us",
         f"{round(profile.total_ns * profile.target.core_ghz):,} cycles at {profile.target.core_ghz} GHz"),
        ("bound by", *_split(bound_sentence(profile))),
    ]  # fmt: skip
    flops = summary.get("hardware_flops", 0) - summary.get("transpose_flops", 0)
    if flops:
        share = summary.get("mfu_estimated_percent", 0.0)
        figures.append(
            ("Tensor engine", f"{flops / 1e9:,.3f} GFLOP", f"{share:.1%} of the bf16 peak (MFU)")
        )  # fmt: skip
    moved = summary.get("hbm_read_bytes", 0) + summary.get("hbm_write_bytes", 0)
    if moved:
        share = summary.get("mbu_estimated_percent", 0.0)
        figures.append(("HBM traffic", size_text(moved), f"{share:.1%} of one stack (MBU)"))
    if summary.get("dma_transfer_count"):
        mean = summary.get("dma_transfer_average_bytes", 0)
        note = f"{summary['dma_transfer_count']:,} transfers"
        figures.append(("DMA transfer, mean", size_text(mean), note))
    return [{"label": label, "value": value, "note": note} for label, value, note in figures]


def _split(sentence: str) -> tuple[str, str]:
    head, colon, rest = sentence.partition(":")
    return (head, rest.strip()) if colon else (sentence, "")


def engine_rows(profile: Profile) -> list[dict[str, Any]]:
    """Return busy time, share, count and waiting of the DMA engines and of every engine."""
    summary = profile.summary
    engine = profile.strings("Instruction", "engine")
    waits = profile.numbers("Instruction", "evt_wait_time_ns")
    waits_known = profile.column("Instruction", "evt_wait_time_ns") is not None
    rows = []
    for name in ("dma", *ENGINES):
        prefix = name if name == "dma" else f"{name}_engine"
        count = "dma_transfer_count" if name == "dma" else f"{name}_engine_instruction_count"
        rows.append(
            {
                "engine": name,
                "tracks": SHARED_TRACKS.get(name, ""),
                "active_us": 1e6 * summary.get(f"{prefix}_active_time", 0.0),
                "share": summary.get(f"{prefix}_active_time_percent", 0.0),
                "count": summary.get(count, 0),
                "waiting_us": int(waits[engine.equal_to(name)].sum()) / 1000
                if waits_known and name != "dma"
                else None,
            }
        )
    return rows


def _lines(data: ViewData) -> list[dict[str, Any]]:
    places, codes = line_rows(data)
    costs = {cost.place: cost for cost in line_costs(data)}
    # Numbers as names: lines of one number in two cells stay apart.
    column = Strings(codes, [str(number) for number in range(len(places))])
    lines = by_line(data.profile, column)[:LINES_SHOWN]
    return [
        {**place_entry(places[int(line.place)]), "label": places[int(line.place)].label}
        | {
            "engines": costs[places[int(line.place)]].engine_ns,
            "engine_us": line.engine_ns / 1000,
            "dma_us": line.transfer_ns / 1000,
            "count": line.instructions,
        }
        for line in lines
    ]


def size_text(count: float) -> str:
    """Return a number of bytes with its unit, e.g. `1.50 MiB`."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:,.2f} {unit}"
    return f"{count:,.0f} B"
