"""Tests that solved exercises are remembered, whatever happens to the file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nki_lab.choices import use_target
from nki_lab.errors import ExerciseFailed
from nki_lab.exercises import check, hint, progress, statement
from nki_lab.exercises.catalog import all_problems
from nki_lab.exercises.progress_file import ExerciseState, Progress, remember
from tests.exercises.answers import kernel_of

DAMAGE = {
    "empty": "",
    "half": '{"version": 1, "exercises": {"01.1": {"tr',
    "list": "[]",
    "no table": '{"version": 1}',
    "text": '{"version": 1, "exercises": {"01.1": "solved"}}',
    "wrong types": '{"version": 1, "exercises": {"01.1": {"tries": "many"}}}',
    "negative": '{"version": 1, "exercises": {"01.1": {"tries": -1}}}',
    "newer": '{"version": 2, "exercises": {}}',
    "deep": "[" * 100_000,
}


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "folder" / "progress.json"
    monkeypatch.setenv("NKI_LAB_PROGRESS", str(path))
    monkeypatch.setattr("nki_lab.exercises.progress_file._kept", {})
    return path


def test_what_is_solved_is_kept_in_one_file(file: Path, capsys):
    with use_target("trn2"):
        check("01.2", kernel_of(all_problems()["01.2"]))
    hint("01.1")
    hint("01.1")
    assert json.loads(file.read_text()) == {
        "version": 1,
        "exercises": {
            "01.1": {"tries": 0, "hints": 2, "solved": False, "stars": 0},
            "01.2": {"tries": 1, "hints": 0, "solved": True, "stars": 1},
        },
    }
    assert list(file.parent.iterdir()) == [file]
    assert "\nsolved, with a star\n" in statement("01.2")
    assert "2 of 3 hints read" in statement("01.1")


def test_a_try_is_what_is_handed_in_and_not_a_skeleton(file: Path):
    right = kernel_of(all_problems()["04.5"])
    for cause, tries in ((..., 0), ("moon", 0), ("race", 1)):
        with pytest.raises(ExerciseFailed):
            check("04.5", right, cause=cause)
        assert progress().of("04.5") == ExerciseState(tries=tries)
    with pytest.raises(ExerciseFailed):
        check("01.1", ...)
    with pytest.raises(ExerciseFailed):
        check("01.1", 3)
    assert progress().of("01.1") == ExerciseState(tries=1)
    check("04.5", right, cause="return")
    assert progress().of("04.5") == ExerciseState(tries=2, solved=True)


def test_nothing_solved_is_unlearned(file: Path):
    remember("01.1", solved=True, stars=1)
    remember("01.1", tried=True)
    assert progress().of("01.1") == ExerciseState(tries=1, solved=True, stars=1)


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_kept_aside(file: Path, text: str):
    remember("01.2", solved=True)
    file.write_text(text)
    note = remember("01.1", solved=True)
    assert (
        note
        == "progress.json could not be read; it is kept as progress.damaged-1.json, and a new one is begun"
    )
    assert (file.parent / "progress.damaged-1.json").read_text() == text
    # What this kernel has solved before is still known.
    assert remember("01.1") == ""
    assert progress().of("01.1").solved
    file.write_text(text)
    assert "damaged-2" in progress().note
    assert (file.parent / "progress.damaged-1.json").read_text() == text


def test_after_damage_what_this_kernel_knows_is_written_again(file: Path):
    remember("01.2", solved=True)
    file.write_text("{")
    remember("01.1", tried=True)
    assert progress().of("01.2").solved


def test_a_file_that_can_be_neither_read_nor_moved_is_not_written_over(file: Path, monkeypatch):
    remember("01.2", solved=True)
    file.write_text("{")

    def fails(*_):
        raise PermissionError

    monkeypatch.setattr(Path, "rename", fails)
    assert "progress is not kept: " in remember("01.1", solved=True)
    assert file.read_text() == "{"
    assert "cannot be read" in progress().note


def test_bytes_that_are_no_text_are_kept_aside(file: Path):
    file.parent.mkdir()
    file.write_bytes(b"\xff\xfe\x00")
    assert "damaged-1" in remember("01.1")


def test_a_folder_that_cannot_be_written_is_told_and_nothing_fails(file: Path, capsys):
    file.parent.write_text("a file where the folder should be")
    hint("01.1")
    told = capsys.readouterr().out
    assert told.startswith("progress is not kept: ")
    assert "hint 1 of 3" in told


def test_an_interrupted_write_leaves_the_old_file(file: Path, monkeypatch):
    remember("01.1", solved=True)
    before = file.read_bytes()

    def fails(*_):
        raise OSError(28, "no space left")

    monkeypatch.setattr("nki_lab.exercises.progress_file.os.replace", fails)
    assert "cannot be written" in remember("01.2", solved=True)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_two_notebooks_add_to_one_file(file: Path):
    script = "from nki_lab.exercises.progress_file import remember; remember({!r}, solved=True)"
    for id in ("01.1", "01.2", "01.3"):
        subprocess.run([sys.executable, "-c", script.format(id)], check=True, env=os.environ.copy())
    assert [id for id in all_problems() if progress().of(id).solved] == ["01.1", "01.2", "01.3"]


def test_without_a_file_it_lasts_as_long_as_the_kernel(monkeypatch):
    monkeypatch.setenv("NKI_LAB_PROGRESS", "none")
    monkeypatch.setattr("nki_lab.exercises.progress_file._kept", {})
    remember("01.1", solved=True)
    assert progress().of("01.1").solved
    assert "kept until this kernel ends (NKI_LAB_PROGRESS=none)" in repr(progress())


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.cells.append(data)


def test_the_page_shows_every_exercise_without_a_script():
    states = {
        "01.1": ExerciseState(tries=2, hints=1, solved=True),
        "01.2": ExerciseState(1, 0, True, 1),
        "01.3": ExerciseState(1),
    }
    page = Progress(states, "kept in <b>/x</b>")
    found = Elements(page._repr_html_())
    assert set(found.found) <= {"div", "p", "b", "details", "summary", "table", "tbody", "tr", "td"}
    assert found.found.count("tr") == len(all_problems())
    assert found.found.count("b") == 1  # the path's is shown, not made
    for words in (
        "Twice the sum",
        "solved",
        "solved, with a star",
        "tried",
        "not tried",
        "1 of 3 hints read",
    ):
        assert words in found.cells


def test_the_text_has_a_line_for_each_notebook():
    states = {
        "01.1": ExerciseState(tries=2, hints=1, solved=True),
        "01.2": ExerciseState(1, 0, True, 1),
        "01.3": ExerciseState(1),
    }
    lines = repr(Progress(states, "kept somewhere")).splitlines()
    assert lines[0] == f"2 of {len(all_problems())} solved, 1 with a star"
    assert re.split("  +", lines[3]) == ["01", "2 of 4 solved, 1 with a star", "01.3 01.4"]
    assert len(lines) < 40
