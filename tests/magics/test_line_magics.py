"""Tests that the line magics show and choose what they say, and that completions of their options fit."""

import os

import pytest
from IPython.core.completer import provisionalcompleter

from nki_lab.errors import UnknownTarget, UnknownTopic, UsageError
from nki_lab.magics.extension import MAGICS
from tests.magics.notebook import Notebook, cell

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"


def test_the_target_is_shown_and_chosen(notebook: Notebook):
    older = "kernels of the older dialect (neuronxcc.nki) run on trn2 (NeuronCore-v3)\n"
    assert notebook.good("%nki_target") == f"target trn3 (NeuronCore-v4), the default\n{older}"
    chosen = "target trn1 (NeuronCore-v2), chosen with %nki_target\n"
    assert notebook.good("%nki_target inf2") == chosen
    assert os.environ[TARGET] == "trn1"
    notebook.good(cell())
    notebook.good("c = add(a, b)\nfrom nki_lab import run\nr = run(add, a, b)")
    assert notebook["r"].compiled.target.name == "trn1"


def test_a_target_of_the_environment_is_told_as_such(notebook: Notebook, monkeypatch):
    monkeypatch.setenv(TARGET, "trn1")
    assert notebook.good("%nki_target") == f"target trn1 (NeuronCore-v2), set by {TARGET}\n"
    notebook.good("%nki_target trn2")
    assert notebook.good("%nki_target").endswith(", chosen with %nki_target\n")


def test_a_wrong_target_is_an_error_and_changes_nothing(notebook: Notebook):
    outcome = notebook.bad("%nki_target trn4")
    assert isinstance(outcome.error, UnknownTarget)
    assert "expected one of trn1, inf2" in outcome.text
    assert TARGET not in os.environ


def test_explain_prints_a_page(notebook: Notebook):
    assert notebook.good("%nki_explain NKI203").startswith("NKI203 RuleBroken\n")
    assert "modelled cost of one call on trn3" in notebook.good("%nki_explain nc_matmul")
    notebook.good("%nki_target trn2")
    assert "modelled cost of one call on trn2" in notebook.good("%nki_explain nisa.nc_matmul")


@pytest.mark.parametrize("topic", ["psum", "%nki", "%%nki", "--target", "Vector engine"])
def test_words_and_magics_are_explained(notebook: Notebook, topic: str):
    page = notebook.good(f"%nki_explain {topic}")
    assert page.lower().startswith(topic.lower())


@pytest.mark.parametrize(("topic", "words"), [("", "needs the name"), ("NKI2O3", "NKI203")])
def test_explain_fails_on_what_it_does_not_know(notebook: Notebook, topic: str, words: str):
    outcome = notebook.bad(f"%nki_explain {topic}")
    assert isinstance(outcome.error, UnknownTopic)
    assert words in outcome.text


def test_the_doctor_tells_the_kernel_and_runs_one(notebook: Notebook):
    text = notebook.good("%nki_doctor")
    assert "IPython kernel       InteractiveShell" in text
    assert "a small kernel gives the right values" in text
    assert "FAILED" not in text


def test_the_doctor_fails_the_cell_when_something_is_wrong(notebook: Notebook, monkeypatch):
    monkeypatch.setenv(TARGET, "trn0")
    outcome = notebook.bad("%nki_doctor")
    assert "FAILED  target" in outcome.text
    assert "not fit to work: target" in outcome.text


#: What stands between a magic and a word that is one too many.
BEFORE = {"nki_target": "trn2", "nki_explain": "psum", "nki_exercise": "01.2", "nki_compare": "r r"}


def test_no_line_magic_ignores_a_word(notebook: Notebook):
    magics = [name for kind in MAGICS for name in kind.magics["line"]]
    assert {"nki", "nki_doctor", "nki_ir", "nki_summary", "nki_vary"} < set(magics)
    notebook.good(cell())
    notebook.good("from nki_lab import run\nr = run(add, a, b)")
    for name in magics:
        outcome = notebook.bad(f"%{name} {BEFORE.get(name, '')} surplus")
        assert isinstance(outcome.error, UsageError), (name, outcome.text)
        assert "surplus" in outcome.text or "found 3" in outcome.text
    assert notebook.bad("%nki_doctor quick").code == "NKI603"
    assert notebook.bad("%nki_doctor --quick").code == "NKI603"


def test_help_shows_the_options(notebook: Notebook):
    shown = notebook.shell.inspector.info(notebook.shell.find_cell_magic("nki"))
    assert "--check EXPR" in shown["docstring"]
    assert '%%nki --run "double(a)"' in shown["docstring"]


def offered(notebook: Notebook, text: str) -> list[str]:
    with provisionalcompleter():
        found = list(notebook.shell.Completer.completions(text, len(text)))
    return [text[: c.start] + c.text for c in found]


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("%%nki --ta", ["%%nki --target"]),
        ("%%nki --quiet --st", ["%%nki --quiet --strict"]),
        ("%%nki --target tr", [f"%%nki --target trn{n}" for n in (1, 2, 3)]),
        ("%%nki --target=gen4", ["%%nki --target=gen4"]),
        ("%%nki --show ir,mem", ["%%nki --show ir,memory"]),
        ("%%nki --show ir,report,l", ["%%nki --show ir,report,layout"]),
        ("%nki --cap", ["%nki --capacity"]),
    ],
)
def test_options_and_their_values_are_completed(
    notebook: Notebook, text: str, completed: list[str]
):
    assert offered(notebook, text) == completed


def test_expressions_and_the_body_are_completed_as_anywhere(notebook: Notebook):
    assert "%%nki --run np.arange" in offered(notebook, "%%nki --run np.arang")
    body = "%%nki\ndef f(x):\n    np.arang"
    assert body + "e" in offered(notebook, body)
