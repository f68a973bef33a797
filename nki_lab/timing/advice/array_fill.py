"""Advice on products that use only a part of the Tensor engine's array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.ir.definition.form_times import Record
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spec import Target
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Group, Proposal, counted


def _find(evidence: Evidence) -> Iterator[Proposal]:
    target = evidence.target
    for group in evidence.groups_of(TENSOR):
        rows, columns, stream = _extent(group.record)
        if not rows:
            continue
        sums = _sums(evidence, group)
        fitting = _fitting(target, rows if sums else _tile(target, rows), columns, stream)
        merged = min(fitting, len(group.entries))
        if merged < 2:
            continue
        least = target.matmul_min_cycles
        short = f" in the time of {least}" if stream < least else ""
        rest = group.entries[np.arange(len(group.entries)) % merged != 0]
        yield Proposal(
            f"{counted(len(group.entries), 'product')} with {min(rows, target.pe_rows)} of {target.pe_rows} rows and "
            f"{columns} of {target.pe_columns} columns of the array, streaming {stream} columns{short}: "
            f"{fitting} such products would take no longer than one",
            _help(target, rows, columns, stream, sums),
            group.entries,
            changes=((rest, None),),
            bound="" if sums else "as if products side by side took the time of one",
        )


def _sums(evidence: Evidence, group: Group) -> bool:
    """Tell whether products of a group are added up, so that they could contract more rows at a time."""
    tiles = [evidence.ends(entry)[0] for entry in group.entries.tolist()]
    return 2 * len({(tile.storage.id, tile.offset) for tile in tiles}) <= len(tiles)


def _tile(target: Target, rows: int) -> int:
    """Return the rows of the smallest part of the array that can work by itself and has at least this number."""
    return min(size for size in target.pe_tile_rows if size >= min(rows, target.pe_rows))


def _extent(record: Record) -> tuple[int, int, int]:
    """Return rows that are contracted, columns of the result, and columns that stream; zeros for a transpose."""
    macs = sum(step.macs for step in record.steps)
    written = record.form.example.written()
    if not macs or not written:
        return 0, 0, 0
    columns, stream = written[0].partitions, written[0].free_size
    return max(1, macs // (columns * stream)), columns, stream


def _fitting(target: Target, rows: int, columns: int, stream: int) -> int:
    """Return how many products of this size the array does in the time of one."""
    return (
        max(1, target.pe_rows // rows)
        * max(1, target.pe_columns // columns)
        * max(1, target.matmul_min_cycles // stream)
    )


def _help(target: Target, rows: int, columns: int, stream: int, sums: bool) -> str:
    parts = []
    if sums and rows * 2 <= target.pe_rows:
        parts.append(
            f"contract up to {target.pe_rows} rows at a time (stack tiles along the partitions)"
        )
    elif _tile(target, rows) < target.pe_rows:
        parts.append(
            "let products work side by side in parts of the array (tile_position, tile_size)"
        )
    if columns * 2 <= target.pe_columns:
        parts.append(f"give the stationary tile up to {target.pe_columns} columns")
    if stream * 2 <= target.matmul_min_cycles:
        most = target.matmul_moving_free_max_fp32
        parts.append(f"stream up to {most} columns of the moving tile; with so few, swap the two")
    return "; ".join(parts)


RULE = AdviceRule("under-filled array", _find)
