"""Tests that `%nki_exercise` asks, helps, checks, and shows what is solved."""

import pytest
from IPython.core.completer import IPCompleter, provisionalcompleter

from nki_lab import errors as e
from nki_lab.exercises.catalog import all_problems
from tests.magics.notebook import Notebook

ROWS = """\
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def add_rows(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 128):
        stop = min(start + 128, a.shape[0])
        nl.store(out[start:stop], nl.add(nl.load(a[start:stop]), nl.load(b[start:stop])))
    return out
"""


@pytest.fixture
def learner(notebook: Notebook, monkeypatch, tmp_path) -> Notebook:
    """Return a notebook whose progress is kept in a file of its own."""
    monkeypatch.setenv("NKI_LAB_PROGRESS", str(tmp_path / "p.json"))
    notebook.good("%nki_target trn2")
    return notebook


def test_it_says_what_is_asked_and_what_comes_next(learner: Notebook):
    text = learner.good("%nki_exercise 01.2")
    assert text.startswith("01.2 Any number of rows\n")
    assert "\nnot tried\n" in text
    assert 'next: check("01.2", add_rows)' in text


def test_hints_come_one_after_the_other(learner: Notebook):
    hints = all_problems()["01.2"].hints
    for number in (1, 2, 3, 3):
        text = learner.good("%nki_exercise 01.2 --hint")
        assert text == f"01.2, hint {number} of 3: {hints[number - 1]}\n"


def test_an_answer_is_checked_and_kept(learner: Notebook):
    learner.good(ROWS)
    assert "01.2 is solved, with a star\n" in learner.good("%nki_exercise 01.2 --check add_rows")
    assert "\nsolved, with a star\n" in learner.good("%nki_exercise 01.2")
    assert "1 of 4 solved, 1 with a star" in learner.good("%nki_exercise")


def test_a_wrong_answer_fails_the_cell_with_a_reason(learner: Notebook):
    learner.good(ROWS.replace("nl.add", "nl.subtract"))
    outcome = learner.bad("%nki_exercise 01.2 --check add_rows")
    assert isinstance(outcome.error, e.ExerciseFailed)
    assert "elements are wrong: worst at" in outcome.text
    assert "\ntried\n" in learner.good("%nki_exercise 01.2")


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("01.99", e.UnknownExercise, "notebook 01 has 01.1, 01.2"),
        ("--hint", e.UsageError, "needs the number of an exercise"),
        ("01.2 --hnit", e.UnknownOption, "did you mean `--hint`?"),
        ("01.2 --check nothing", e.UsageError, "name 'nothing' is not defined"),
        ("01.2 --check a", e.ExerciseFailed, "what was handed in is an array"),
        ("01.4 --check a", e.ExerciseFailed, 'write answer("01.4", ...)'),
    ],
)
def test_a_wrong_line_is_told(learner: Notebook, line: str, kind, words: str):
    outcome = learner.bad(f"%nki_exercise {line}")
    assert type(outcome.error) is kind
    assert words in outcome.text


def test_tab_offers_numbers_and_options(learner: Notebook):
    completer: IPCompleter = learner.shell.Completer

    def offered(line: str) -> list[str]:
        with provisionalcompleter():
            return [c.text for c in completer.completions(line, len(line))]

    assert [t for t in offered("%nki_exercise 01.") if t[:3] == "01."][:2] == ["01.1", "01.2"]
    assert offered("%nki_exercise 01.2 --h") == ["--hint"]
    learner.good("%nki_exercise?")
