"""Tests that docs/timing.md agrees with the targets, the published rows and the stored answers, and that those answers
are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import accuracy_report as report
from benchmarks import unmodified
from benchmarks.published import MEASUREMENTS, Row, read
from benchmarks.replays import all_replays, instructions, replay_of
from benchmarks.scoring import answers_of, key_of, load, save, why_not
from benchmarks.timing_accuracy import tables, with_library
from benchmarks.timing_page import page
from nki_lab.dialects import BETA1

PAGE = Path(__file__).parents[2] / "docs" / "timing.md"
AGAIN = (
    "run `python -m benchmarks.timing_accuracy --write docs/timing.md` (ten minutes), with `--kept` (a second) where "
    "no modelled time has changed"
)


def test_the_page_is_current() -> None:
    rows = read(MEASUREMENTS)
    assert PAGE.read_text(encoding="utf-8") == page(tables(rows, with_library(rows, load()))), AGAIN


def test_reports_of_the_older_dialect_say_what_its_published_kernels_gave() -> None:
    assert unmodified.told() in BETA1.timed


def test_kept_answers_of_short_programs_are_current() -> None:
    short = [
        r
        for r in read(MEASUREMENTS)
        if (found := replay_of(r)) and found[0] in instructions.REPLAYS
    ]
    assert len(short) > 30
    kept = {answer.key: answer for answer in load()}
    for answer in answers_of(short, progress=False):
        assert kept[answer.key] == answer, AGAIN


def test_every_row_has_an_answer_or_a_reason() -> None:
    answered = {answer.key for answer in load()}
    rows = read(MEASUREMENTS)
    assert all(key_of(row) in answered or why_not(row) for row in rows)
    with_replay = [row for row in rows if replay_of(row) is not None and row.is_time]
    missing = [r.name for r in with_replay if key_of(r) not in answered]
    assert all(
        why_not(r).startswith("nothing in the model") for r in with_replay if r.name in missing
    )


def test_every_replay_answers_rows_or_waits_for_some() -> None:
    """Each kernel of NKIBench has a program, whether or not its times are among the rows here."""
    kernels = {replay.kernel for replay in all_replays() if replay.kernel.startswith("NKIBench")}
    assert len(kernels) == report.BOTTLENECKS_OF


def test_answers_read_back(tmp_path: Path) -> None:
    answers = load()
    save(answers, tmp_path / "answers.csv")
    assert load(tmp_path / "answers.csv") == answers


def row(kernel: str, value: str, unit: str = "ms", **fields: str) -> Row:
    known = {"source": "s", "shapes": "n", "dtype": "float32", "arch": "v2", "metric": "latency"}
    known |= {"enough_to_replay": "yes", "evidence": "device_table", "score_use": "primary"}
    known |= {"split": "dev", "note": ""}
    return Row(kernel=kernel, value=value, unit=unit, **(known | fields))


def test_times_are_nanoseconds_and_other_numbers_as_they_stand() -> None:
    assert row("k", "1.5").number == 1.5e6
    assert row("k", "2", "us").number == 2000
    assert row("k", "97.5", "%").number == 97.5
    assert not row("k", "97.5", "%").is_time
    assert row("k", "1", arch="v2?").generation == "v2"


@pytest.mark.parametrize(
    ("kernel", "shares", "busiest"),
    [
        ("NKIBench a", {"dve_active": "60", "hfu": "35"}, "tensor"),
        ("NKIBench b", {"dve_active": "80", "hfu": "35"}, "vector"),
    ],
)
def test_the_tensor_engine_is_busy_for_twice_what_hfu_says(kernel, shares, busiest) -> None:
    rows = [row(kernel, value, "%", metric=metric) for metric, value in shares.items()]
    found = report.published_shares(rows, kernel)
    assert max(found, key=lambda part: found[part]) == busiest
    assert found["tensor"] == 70
