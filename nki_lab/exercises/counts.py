"""Counts what a run used, against what it may use, and rates its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nki_lab.exercises.attempt import Attempt, programs, shown
from nki_lab.exercises.problem import Limits, Task
from nki_lab.exercises.reasons import Reason
from nki_lab.ir.definition.instruction import READ, WRITE
from nki_lab.ir.program.logical_core import RACE, ordered_by
from nki_lab.ir.program.nodes import Finding
from nki_lab.isa.operators import OPS
from nki_lab.profiler.analyses.report import psum_peak_banks, sbuf_peak_bytes
from nki_lab.runtime import Result
from nki_lab.source import Span
from nki_lab.targets.engines import ENGINE_LABELS
from nki_lab.targets.spaces import SBUF

_ADD = OPS["add"]


@dataclass(frozen=True)
class Count:
    """One thing that was counted.

    Attributes:
        what: "DMA transfers".
        found: how much, as text.
        limit: what was allowed, as text; "" where there is none.
        reason: why it is too much; None where it is not.
        stars: 1 for what earns a star.
    """

    what: str
    found: str
    limit: str
    reason: Reason | None = None
    stars: int = 0


def counts(task: Task, result: Result) -> Iterator[Count]:
    """Yield every limit of an exercise with what a run used, the modelled time last."""
    limits = task.limits
    yield from _findings(limits, result)
    yield from _named(limits, result)
    for what, count, most, help in _numbers(limits, result):
        text = f"{what}: {count:,}, at most {most:,} are allowed"
        reason = None if count <= most else Reason("limit", text, help)
        yield Count(what, f"{count:,}", f"at most {most:,}", reason)
    yield from _time(task, result)


def _numbers(limits: Limits, result: Result) -> Iterator[tuple[str, int, int, str]]:
    summary = result.profile.summary
    for engine, most in limits.instructions.items():
        count = int(summary.get(f"{engine}_engine_instruction_count", 0))
        help = (
            "look for work that one instruction could do: larger tiles, fused operations"
            if most
            else "this exercise leaves that engine out: can another one do it?"
        )
        yield f"instructions of {ENGINE_LABELS[engine]}", count, most, help
    if limits.transfers is not None:
        count = int(summary.get("dma_transfer_count", 0))
        yield "DMA transfers", count, limits.transfers, "is something loaded twice, or in pieces?"
    if limits.transfer_bytes is not None:
        count = int(summary.get("dma_transfer_total_bytes", 0))
        help = "is something loaded more than once that could stay in SBUF?"
        yield "bytes moved by DMA", count, limits.transfer_bytes, help
    if limits.sbuf_bytes is not None:
        peak = sbuf_peak_bytes(result.profile) or 0
        help = "which tiles live at the same time? %nki --show memory shows them"
        yield "SBUF peak, bytes per partition", peak, limits.sbuf_bytes, help
    if limits.sbuf_end is not None:
        end = _sbuf_end(result)
        help = "give every tile an address=(0, byte), and a place again to tiles that are not in use together"
        yield "end of the last tile in SBUF, byte", end, limits.sbuf_end, help
    if limits.psum_banks is not None:
        peak = psum_peak_banks(result.profile) or 0
        yield "PSUM peak, banks", peak, limits.psum_banks, "drain a bank before the next is filled"


def _sbuf_end(result: Result) -> int:
    """Return the byte of a partition behind which no tile of SBUF lies."""
    return max(
        (
            address.byte + kernel.storages[key].row_bytes
            for kernel in programs(result)
            for key, address in (kernel.addresses or {}).items()
            if kernel.storages[key].buffer is SBUF
        ),
        default=0,
    )


def _findings(limits: Limits, result: Result) -> Iterator[Count]:
    findings = [f for f in result.findings if f.is_serious or limits.clean]
    reason = _reason(findings[0]) if findings else None
    yield Count("findings", str(len(findings)), "none", reason)


def race(result: Result) -> Reason | None:
    """Return why a run's values depend on who comes first; None where they do not."""
    races = [f for f in result.findings if f.message.startswith(RACE)]
    return _reason(races[0]) if races else None


def narrow_sum(attempt: Attempt) -> Reason | None:
    """Return which sum lies in a tile that is narrower than float32; None where none does, or any may."""
    if not attempt.task.float32_sums:
        return None
    for i in attempt.result.kernel.instructions:
        position = i.definition.position
        adds = any(
            i.args[position[name]] is _ADD for name in ("op", "op0", "op1") if name in position
        )
        sums = [i.dst] if adds else []
        sums += [i.reduce_res] if "reduce_op" in position and i.reduce_op is _ADD else []
        for tile in sums:
            if tile.dtype.is_float and tile.dtype.itemsize < 4:
                return Reason(
                    "narrow",
                    f"right to the digits that {tile.dtype} has, but {Span.of(i.stack[0])} keeps a sum in"
                    f" {tile.dtype} ({tile.describe()}), expected float32 (with {shown(attempt.sizes)})",
                    "make that tile with dtype=nl.float32, not with the dtype of an argument",
                )
    return None


def idle_barrier(result: Result) -> Reason | None:
    """Return which barrier waits for a tensor that no core reads after another has written it; None where none does."""
    cores = programs(result)
    touching: dict[str, dict[str, set[int]]] = {READ: {}, WRITE: {}}
    for core, program in enumerate(cores if len(cores) > 1 else ()):
        for i in program.instructions:
            if not i.definition.meets:
                for way, views in ((READ, i.read()), (WRITE, i.written())):
                    for view in views:
                        touching[way].setdefault(view.storage.name, set()).add(core)
    for i in cores[0].instructions:
        for name in [storage.name for storage in ordered_by(i)]:
            readers, writers = (touching[way].get(name, set()) for way in (READ, WRITE))
            if not any(reader != writer for reader in readers for writer in writers):
                return Reason(
                    "barrier",
                    f"right, but the barrier at {Span.of(i.stack[0])} is about `{name}`, which no core reads after the"
                    " other has written it: it orders nothing",
                    "exchange what the cores need to know through a tensor in shared HBM, and make it the `data` of"
                    " the barrier",
                )
    return None


def never_written(reason: Reason, result: Result) -> Reason:
    """Return why a result is NaN with the first read of memory that nothing has written, where there is one."""
    findings = [f for f in result.findings if f.kind == "uninitialized"]
    if reason.kind not in ("nan", "unwritten") or not findings:
        return reason
    message = f"{reason.message}; the first cause: {findings[0].message}"
    return Reason(reason.kind, message, findings[0].help)


def _reason(finding: Finding) -> Reason:
    serious = "a device may refuse it, or compute other values"
    what = serious if finding.is_serious else "a finding"
    return Reason("finding", f"{what}: {finding.message}", finding.help)


def _named(limits: Limits, result: Result) -> Iterator[Count]:
    used = {i.definition.name for kernel in programs(result) for i in kernel.instructions}
    for name in limits.uses:
        reason = None
        if name not in used:
            reason = Reason(
                "uses",
                f"the kernel has no {name}, which this exercise is about",
                f"%nki_explain {name} shows how",
            )
        yield Count(name, "used" if name in used else "not used", "used", reason)
    for name in limits.avoids:
        reason = None
        if name in used:
            reason = Reason(
                "avoids", f"the kernel has {name}, which this exercise is to do without"
            )
        yield Count(name, "used" if name in used else "not used", "not used", reason)


def _time(task: Task, result: Result) -> Iterator[Count]:
    tiers = task.tiers.get(result.profile.target.chip)
    if tiers is None:
        return
    us = result.profile.total_ns / 1000
    limit = f"pass {tiers.passes:g} us, star {tiers.star:g} us"
    reason = None
    if us > tiers.passes:
        reason = Reason(
            "time",
            f"right, but slow: {us:.2f} us modelled, {tiers.passes:g} us pass and {tiers.star:g} us earn a star",
            "look at what bounds it: nki_lab.run(kernel, ...).show() or %%nki --run",
        )
    yield Count("modelled time", f"{us:.2f} us", limit, reason, int(us <= tiers.star))
