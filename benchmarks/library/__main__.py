"""Prints the latencies that the model gives nki-library's kernels, and how far they are from the goals of their tests.

NKI_LIBRARY_ROOT=... python -m benchmarks.library          # time everything that has a goal, and keep the answers
NKI_LIBRARY_ROOT=... python -m benchmarks.library mlp_tkg  # files whose name contains this; the others stay as kept
python -m benchmarks.library --kept                        # print the table of what is kept
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import accuracy_report as report
from benchmarks.library.answers import MODELLED, answers_of, goals_of, kept
from benchmarks.published import MEASUREMENTS, read
from benchmarks.scoring import Answer, save
from tests.public.nki_library import suite


def main(words: Sequence[str] | None = None) -> int:
    """Time what has a goal, keep the answers, and print how near they are."""
    parser = argparse.ArgumentParser(prog="benchmarks.library")
    parser.add_argument("part", nargs="?", default="", help="part of the names of files")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each configuration")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    asked = parser.parse_args(words)
    rows = read(MEASUREMENTS)
    if not asked.kept:
        clone = suite.root()
        if clone is None:
            print(f"{suite.ROOT_VARIABLE} names no clone of nki-library", file=sys.stderr)
            return 2
        wanted = goals_of(rows)
        for file in sorted({goal.file for _, goal in wanted if asked.part in goal.file}):
            pairs = [(row, goal) for row, goal in wanted if goal.file == file]
            found, problems = answers_of(clone, file, pairs, asked.limit)
            print(f"{file}: {len(found)} of {len(pairs)}", *problems, sep="\n", file=sys.stderr)
            before = kept() if MODELLED.exists() else []
            save(_replaced(before, found, {row.source for row, _ in pairs}), MODELLED)
    answers = kept()
    print(report.times_table(report.pairs_of(rows, answers)))
    print()
    print(report.rows_table(report.pairs_of(rows, answers)))
    return 0


def _replaced(answers: list[Answer], found: list[Answer], sources: set[str]) -> list[Answer]:
    """Return the answers with those of some rows replaced, in the order of the rows."""
    stay = [answer for answer in answers if answer.source not in sources]
    return sorted([*stay, *found], key=lambda answer: _place(answer.source))


def _place(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return file, int(line)


if __name__ == "__main__":
    sys.exit(main())
