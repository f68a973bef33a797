"""Advice on Vector and Scalar instructions that delay each other in PSUM.

NeuronCore-v2 lets one of them use PSUM at a time, which the model times. Later chips let both, unless they hit the same
bank, which it leaves out (nki/guides/architecture/trainium2_arch.rst:270): there the times are only looked at side by
side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.ir.definition.cost import Port
from nki_lab.ir.program.touches import distinct
from nki_lab.profiler.intervals import merge
from nki_lab.profiler.tables import to_ns
from nki_lab.targets.engines import SCALAR, VECTOR, Engine
from nki_lab.targets.spaces import PSUM
from nki_lab.timing.advice.evidence import AdviceRule, Change, Evidence, Proposal, duration


def _find(evidence: Evidence) -> Iterator[Proposal]:
    used = {engine: _banks(evidence, engine) for engine in (VECTOR, SCALAR)}
    if not all(used.values()):
        return
    touching = np.sort(np.concatenate([e for banks in used.values() for e in banks.values()]))
    touching = distinct(touching)
    if not evidence.target.supports("parallel_vector_scalar"):
        yield Proposal(
            f"Vector and Scalar use PSUM one at a time on this chip, and {len(touching):,} of their instructions do",
            "let one of them read PSUM, and the other one work on a copy in SBUF",
            touching,
            changes=tuple(_without_port(evidence)),
        )
        return
    shared = {b: _overlap(evidence, used[VECTOR][b], used[SCALAR][b]) for b in _common(used)}
    shared = {bank: ns for bank, ns in shared.items() if ns}
    if shared:
        banks = ", ".join(map(str, shared))
        yield Proposal(
            f"Vector and Scalar use the same PSUM bank at the same time for {duration(sum(shared.values()))} "
            f"(bank {banks})",
            "use different banks at the same time: give each tile a whole bank, or choose the addresses",
            touching,
            bound="the model leaves this conflict out: as if each waited for the other",
            unmodelled_ns=sum(shared.values()),
        )


def _common(used: dict[Engine, dict[int, np.ndarray]]) -> list[int]:
    return sorted(used[VECTOR].keys() & used[SCALAR].keys())


def _without_port(evidence: Evidence) -> Iterator[Change]:
    for record, entries in evidence.timeline.entries_by_record.items():
        if Port.PSUM_SHARED in record.ports:
            ports = tuple(port for port in record.ports if port is not Port.PSUM_SHARED)
            yield entries, record.with_(ports=ports)


def _banks(evidence: Evidence, engine: Engine) -> dict[int, np.ndarray]:
    """Return by bank the entries of an engine that use it."""
    addresses = evidence.kernel.addresses or {}
    size = evidence.target.psum_bank_bytes
    found: dict[int, list[int]] = {}
    for group in evidence.groups_of(engine):
        example = group.record.form.example
        if not any(t.buffer is PSUM for t in (*example.read(), *example.written())):
            continue
        for entry in group.entries.tolist():
            i = evidence.instruction(entry)
            storages = {t.storage for t in (*i.read(), *i.written()) if t.buffer is PSUM}
            banks: set[int] = set()
            for storage in storages:
                if storage.id in addresses:
                    first = addresses[storage.id].byte
                    banks.update(range(first // size, (first + storage.row_bytes - 1) // size + 1))
            for bank in banks:
                found.setdefault(bank, []).append(entry)
    return {bank: np.array(entries, dtype=np.int64) for bank, entries in found.items()}


def _overlap(evidence: Evidence, one: np.ndarray, other: np.ndarray) -> int:
    """Return for how long entries of both kinds run at one time, in ns."""
    spans = []
    for entries in (one, other):
        took = np.array([evidence.records[n].interval for n in entries.tolist()], dtype=np.int64)
        start = evidence.timeline.start[entries]
        spans.append(merge(to_ns(start), to_ns(start + took)))
    return common_ns(*spans)


def common_ns(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> int:
    """Return the time that two lists of separate spans have in common."""
    starts = np.concatenate((one[0], other[0]))
    ends = np.concatenate((one[1], other[1]))
    first, last = merge(starts, ends)
    alone = sum(int((e - s).sum()) for s, e in (one, other))
    return alone - int((last - first).sum())


RULE = AdviceRule("PSUM conflict", _find)
