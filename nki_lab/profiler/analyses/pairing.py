"""Pairs the events of two runs of one kernel: which instruction or transfer of the one is which of the other.

An event is paired by its source line and the loop iteration it belongs to; where a run does not tell these, by its
line; else by its order. Events are paired only where both runs have equally many that are alike, so that no event is
compared with a stranger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.analyses.source_lines import issuers, transfer_lines
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import TRANSFERS

#: What an event is paired by, the surest first.
WAYS = ("line and iteration", "line", "order")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Events of one table that two runs have in common.

    Attributes:
        first, second: rows of the table in each run; equal positions are one pair.
        way: per pair, a position in `WAYS`.
        alone: how many events of each run have no partner.
    """

    first: np.ndarray
    second: np.ndarray
    way: np.ndarray
    alone: tuple[int, int]


def paired_instructions(first: ProfileData, second: ProfileData) -> Pairs:
    """Pair the rows of the table Instruction: those of an engine with one opcode."""
    runs = (first, second)
    kinds = [
        (
            _texts(p, "Instruction", "engine"),
            _texts(p, "Instruction", "opcode"),
            p.numbers("Instruction", "pcore_idx"),
        )
        for p in runs
    ]
    lines = _lines([p.strings("Instruction", "nki_source_location") for p in runs])
    loops = [loop_values(p) for p in runs]
    return _pairs(runs, "Instruction", kinds, lines, loops)


def paired_transfers(first: ProfileData, second: ProfileData) -> Pairs:
    """Pair the rows of the table DmaPacketAggregated: those of one direction that move equally many bytes.

    The JSON of the official tools tells no direction; then bytes and order have to do.
    """
    runs = (first, second)
    ways = [_texts(p, TRANSFERS, "op") for p in runs]
    told = all((way.codes >= 0).any() for way in ways)
    kinds = [
        (
            *((way,) if told else ()),
            p.numbers(TRANSFERS, "transfer_bytes"),
            p.numbers(TRANSFERS, "pcore_idx"),
        )
        for p, way in zip(runs, ways, strict=True)
    ]
    lines = _lines([transfer_lines(p) for p in runs])
    loops = []
    for p in runs:
        issuer, values = issuers(p), loop_values(p)
        of_issuer = values.codes[issuer] if len(values) else issuer
        loops.append(Strings(np.where(issuer >= 0, of_issuer, -1), values.values))
    return _pairs(runs, TRANSFERS, kinds, lines, loops)


def _texts(profile: ProfileData, table: str, column: str) -> Strings:
    texts = profile.strings(table, column)
    return Strings(texts.codes, [text.upper() for text in texts.values])


def _lines(columns: Sequence[Strings]) -> list[Strings]:
    """Return the lines under one name in both runs: folders are left out, and files where each run has only one."""
    files = [{text.rpartition(":")[0].rpartition("/")[2] for text in c.values} for c in columns]
    alone = all(len(names) == 1 for names in files)
    return [
        Strings(c.codes, [t.rpartition(":" if alone else "/")[2] for t in c.values])
        for c in columns
    ]


def _pairs(
    runs: tuple[ProfileData, ProfileData],
    table: str,
    kinds: Sequence[tuple[Strings | np.ndarray, ...]],
    lines: Sequence[Strings],
    loops: Sequence[Strings],
) -> Pairs:
    start = [p.numbers(table, "start_ts") for p in runs]
    ids = [p.numbers(table, "id") for p in runs]
    rest = [np.arange(len(times)) for times in start]
    told = [line.codes >= 0 for line in lines]
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for way, extra in enumerate(((lines, loops), (lines,), ())):
        keys = _keys([(*kinds[n], *(columns[n] for columns in extra)) for n in (0, 1)])
        chosen = [rows[told[n][rows]] if extra else rows for n, rows in enumerate(rest)]
        groups = [
            _groups(keys[n], rows[np.lexsort((ids[n][rows], start[n][rows]))])
            for n, rows in enumerate(chosen)
        ]
        mine, theirs = _alike(*groups)
        found.append((mine, theirs, np.full(len(mine), way)))
        rest = [np.setdiff1d(rows, used) for rows, used in zip(rest, (mine, theirs), strict=True)]
    one, other, ways = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(one, kind="stable")
    return Pairs(one[order], other[order], ways[order], (len(rest[0]), len(rest[1])))


def _keys(columns: Sequence[tuple[Strings | np.ndarray, ...]]) -> list[np.ndarray]:
    """Return per run and row a number that is equal where all columns are."""
    numbered = []
    for column in zip(*columns, strict=True):
        texts: dict[str | int | None, int] = {}
        codes = []
        for values in column:
            if isinstance(values, Strings):
                of_value = [texts.setdefault(text, len(texts)) for text in values.values]
                codes.append(np.array([*of_value, -1], dtype=np.int64)[values.codes])
            else:
                codes.append(np.asarray(values))
        numbered.append(codes)
    sizes = [len(numbered[0][n]) for n in (0, 1)]
    rows = np.concatenate([np.stack([c[n] for c in numbered], axis=1) for n in (0, 1)])
    number = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return [number[: sizes[0]], number[sizes[0] :]]


def _groups(keys: np.ndarray, rows: np.ndarray) -> dict[int, list[int]]:
    """Return the rows of each key, in the order given."""
    groups: dict[int, list[int]] = {}
    for key, row in zip(keys[rows].tolist(), rows.tolist(), strict=True):
        groups.setdefault(key, []).append(row)
    return groups


def _alike(
    first: dict[int, list[int]], second: dict[int, list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Pair the rows of keys of which both runs have equally many."""
    mine: list[int] = []
    theirs: list[int] = []
    for key, rows in first.items():
        others = second.get(key, [])
        if len(others) == len(rows):
            mine += rows
            theirs += others
    return np.array(mine, dtype=np.int64), np.array(theirs, dtype=np.int64)
