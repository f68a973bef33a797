"""Compares the model with each published row, or says why a row has no answer.

Running all replays takes minutes, so what they say is kept in `modelled.csv` beside this file, which
`timing_accuracy --write` makes anew. Reports and docs are made from that table.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.published import Row
from benchmarks.readings import reader_of
from benchmarks.replay import Replay
from benchmarks.replays import reason_against, replay_of
from benchmarks.running import Run, run

#: What the replays said when they were last run for this repository's rows.
MODELLED = Path(__file__).with_name("modelled.csv")
#: Parts of the core, in the order of `Answer.busy`.
PARTS = ("tensor", "vector", "scalar", "gpsimd", "dma")


@dataclass(frozen=True)
class Answer:
    """What the model says of one row.

    Attributes:
        source, kernel, shapes, dtype, arch, metric: the row.
        family: variants it is ranked among, or "".
        value: in nanoseconds, percent or bytes.
        roofline_ns: the least time by peaks, or "" where they say nothing.
        bytes_ns: the time of moving the program's bytes at the practical rate, of whole programs, or "".
        bottleneck: the busiest part of the core, of whole programs, or "".
        busy: how busy each part was, in percent: tensor, vector, scalar, gpsimd, dma, separated by blanks; or "".
    """

    source: str
    kernel: str
    shapes: str
    dtype: str
    arch: str
    metric: str
    family: str
    value: float
    roofline_ns: float | str
    bytes_ns: float | str
    bottleneck: str
    busy: str

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the answer of one row."""
        return self.source, self.kernel, self.shapes, self.dtype, self.arch, self.metric


def key_of(row: Row) -> tuple[str, str, str, str, str, str]:
    """Return what an answer of the row is found by."""
    return row.source, row.kernel, row.shapes, row.dtype, row.arch, row.metric


def answers_of(rows: Iterable[Row], progress: bool = True) -> list[Answer]:
    """Run the replays of all rows that have one, and return what they say."""
    rows = list(rows)
    published_bytes = {
        (r.kernel, r.shapes, r.arch): round(r.number) for r in rows if r.metric == "hbm_bytes"
    }
    found: list[Answer] = []
    runs: dict[object, list[tuple[Row, Replay]]] = {}
    for row in rows:
        matched = replay_of(row)
        if matched is None:
            continue
        replay, sizes = matched
        given = published_bytes.get((row.kernel, row.shapes, row.arch))
        moved = given if replay.published_bytes else None
        runs.setdefault((replay, tuple(sizes.items()), moved), []).append((row, replay))
    for number, (key, answered) in enumerate(runs.items(), 1):
        replay, sizes, moved = key  # type: ignore[misc]
        begun = time.perf_counter()
        done = run(replay.program(**dict(sizes)), replay.arch, moved)
        for row, _ in answered:
            found += _answer(row, replay, done)
        if progress:
            took = time.perf_counter() - begun
            print(
                f"{number}/{len(runs)} {answered[0][0].kernel} [{answered[0][0].shapes}]:"
                f" {len(done.kernel.instructions):,} instructions, {took:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    return found


def _answer(row: Row, replay: Replay, done: Run) -> list[Answer]:
    reader = reader_of(row.metric, replay.reads)
    if reader is None:
        return []
    reading = reader(done)
    assert reading is not None
    whole = row.is_time and row.metric not in replay.reads
    return [
        Answer(
            *key_of(row),
            replay.family,
            _rounded(reading.value),
            "" if reading.roofline_ns is None else _rounded(reading.roofline_ns),
            _rounded(done.bytes_ns) if whole else "",
            done.bottleneck if whole else "",
            " ".join(f"{done.active_percent(part):.1f}" for part in PARTS) if whole else "",
        )
    ]


def _rounded(value: float) -> float:
    """Keep six digits: more would only change from machine to machine."""
    return float(f"{value:.6g}") if abs(value) < 1e6 else float(round(value))


def why_not(row: Row) -> str:
    """Return why a row has no answer."""
    told = reason_against(row)
    if told:
        return told
    if replay_of(row) is not None:
        return "nothing in the model corresponds to this metric, or the source does not tell what it is of"
    if row.enough_to_replay != "yes":
        return "the source does not tell enough of the program"
    return "no program has been written for it"


def busy_of(answer: Answer) -> dict[str, float]:
    """Return how busy each part of the core was in the run, in percent."""
    return dict(zip(PARTS, map(float, answer.busy.split()), strict=True))


def save(answers: Iterable[Answer], path: Path = MODELLED) -> None:
    """Write answers to a file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(Answer.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(answer) for answer in answers)


def load(path: Path = MODELLED) -> list[Answer]:
    """Read answers from a file that `save` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Answer(
                **fields
                | {  # type: ignore[arg-type]
                    name: float(fields[name]) if fields[name] else ""
                    for name in ("value", "roofline_ns", "bytes_ns")
                }
            )
            for fields in csv.DictReader(file)
        ]
