"""Measures how far modelled times are from the published ones.

python -m benchmarks.timing_accuracy                          # run every replay and print the tables
python -m benchmarks.timing_accuracy --csv FILE               # score another file with the same columns
python -m benchmarks.timing_accuracy --only mamba             # only rows whose kernel contains this text
python -m benchmarks.timing_accuracy --kept                   # print what the last run kept, without running anything
python -m benchmarks.timing_accuracy --write docs/timing.md   # run everything, keep what it says, write the page
python -m benchmarks.timing_accuracy --kept --write docs/timing.md   # only the words of the page have changed

What nki-library's kernels take is as the last `python -m benchmarks.library` kept it: that takes a clone. So is what
published kernels of the older dialect take, as they are: `python -m benchmarks.unmodified`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import accuracy_report as report
from benchmarks import unmodified
from benchmarks.library import answers as library
from benchmarks.published import MEASUREMENTS, Row, read
from benchmarks.scoring import Answer, answers_of, load, save
from benchmarks.stopwatch import quiet
from benchmarks.timing_page import page, rows_page


def tables(rows: Sequence[Row], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """Return (heading, Markdown) of every table that sums up rows."""
    pairs = report.pairs_of(rows, answers)
    return [
        ("What the model is held to", report.bars_table(rows, pairs)),
        ("Times per evidence class and target", report.times_table(pairs)),
        ("Busiest part of the core", report.bottlenecks_table(rows, pairs)),
        ("Upper bounds", report.bounds_table(pairs)),
        ("Kernels of the older dialect, unchanged: modelled by measured time", unmodified.table()),
    ]


def row_tables(rows: Sequence[Row], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """Return (heading, Markdown) of every table of single rows."""
    pairs = report.pairs_of(rows, answers)
    return [
        ("Every scored time", report.rows_table(pairs)),
        ("Byte counts and shares", report.shares_table(pairs)),
        ("Rows without a replay", report.unanswered_table(rows, pairs)),
    ]


def with_library(rows: Sequence[Row], answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers with the kept ones of nki-library's own kernels."""
    sources = {row.source for row in rows}
    return [*answers, *(answer for answer in library.kept() if answer.source in sources)]


def kept_page() -> str:
    """Return the page with every row, from the answers of the last full run."""
    rows = read(MEASUREMENTS)
    return rows_page(row_tables(rows, with_library(rows, load())))


def main(words: Sequence[str] | None = None) -> None:
    """Run the replays that are asked for and print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.timing_accuracy")
    parser.add_argument("--csv", type=Path, default=MEASUREMENTS, help="published numbers to score")
    parser.add_argument("--only", default="", help="part of the names of kernels")
    parser.add_argument("--kept", action="store_true", help="use what the last full run kept")
    parser.add_argument("--write", type=Path, help="the page to write, with what it rests on")
    asked = parser.parse_args(words)
    if asked.write and (asked.only or asked.csv != MEASUREMENTS):
        parser.error("--write is about all rows of this repository: give neither --only nor --csv")
    rows = [row for row in read(asked.csv) if asked.only in row.kernel]
    with quiet():
        answers = load() if asked.kept else answers_of(rows)
    known = with_library(rows, answers)
    for heading, text in (*tables(rows, known), *row_tables(rows, known)):
        print(f"\n## {heading}\n\n{text}")
    if asked.write:
        if not asked.kept:
            save(answers)
        asked.write.write_text(page(tables(rows, known)), encoding="utf-8")


if __name__ == "__main__":
    main()
