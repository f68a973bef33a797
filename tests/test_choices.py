"""Tests that a choice is declared in one place, and that what is chosen reaches other threads and processes."""

import inspect
import pickle
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
import nki_lab.session.questions
from nki_lab.choices import (
    CELL,
    CHOICES,
    IN_PYTHON,
    SHOW,
    Choices,
    acting,
    forget_choices,
    from_environment,
    inside,
)
from nki_lab.errors import KernelArgument, UnknownOption
from tests.runtime.sent_kernels import negated

#: Functions of nki_lab that take choices.
CALLS = {
    "run": lambda **choices: nki_lab.run(negated, X, **choices),
    "benchmark": lambda **choices: nki_lab.benchmark(negated, X, **choices),
    "step": lambda **choices: nki_lab.step(negated, X, **choices),
    "vary": lambda **choices: nki_lab.vary(negated, X, **choices),
    "launch": lambda **choices: nki_lab.launch(negated, 1, (X,), **choices),
}
X = np.arange(32, dtype=np.float32).reshape(4, 8)

#: Declares a choice as `choices/declared.py` would, then looks for it everywhere.
_ADDED = """
import os
from nki_lab.choices import COMPILES, RUN, Choice, Choices, one_of
Choice("colour", "NAME", "Colour of the tiles: {values}.", COMPILES, one_of, ("red", "blue"),
       default="red", env="NKI_LAB_COLOUR", acts=RUN)
import inspect, typer, nki_lab
from types import SimpleNamespace
from nki_lab.cli import pytest_plugin
from nki_lab.cli.main import app
from nki_lab.explain.pages import explain, topics
from nki_lab.magics.catalog import catalog
from nki_lab.magics.nki_magic import NkiMagics
from nki_lab.session.reading import parse_line
from nki_lab.session.request import session
from nki_lab.targets import get_target
for magic in ("%%nki", "%nki"):
    assert parse_line(magic, "--colour blue").colour == "blue"
with session(parse_line("%%nki", "--colour blue")):
    assert Choices.current().colour == "blue"
assert "Colour of the tiles: red, blue." in NkiMagics.nki.__doc__
commands = typer.main.get_command(app).commands
for name in ("run", "profile", "compile"):
    assert any("--colour" in p.opts for p in commands[name].params), name
for function in (nki_lab.run, nki_lab.benchmark, nki_lab.launch, nki_lab.step, nki_lab.vary):
    assert "colour" in inspect.signature(function).parameters, function
    assert "colour: Colour of the tiles: red, blue." in function.__doc__
assert catalog()["options"]["--colour"]["values"] == {"red": "", "blue": ""}
assert "--colour" in catalog()["magics"]["%%nki"]["options"]
assert "--colour" in topics() and "NKI_LAB_COLOUR" in topics()
assert "commands: %%nki" in explain("--colour", get_target("trn2"))
flags = []
group = SimpleNamespace(addoption=lambda flag, **kwargs: flags.append(flag))
pytest_plugin.pytest_addoption(SimpleNamespace(getgroup=lambda *words: group))
assert "--nki-colour" in flags
os.environ["NKI_LAB_COLOUR"] = "blue"
assert Choices.current().colour == "blue" and Choices().colour == "red"
from docs.use_pages import command_page, magic_page
assert "`--colour NAME`" in magic_page() and "NKI_LAB_COLOUR" in command_page()
from tests.test_readme import options, variables
assert "| `--colour NAME` |" in options() and "NKI_LAB_COLOUR" in variables()
print("everywhere")
"""


def test_a_choice_is_one_block():
    done = subprocess.run([sys.executable, "-c", _ADDED], capture_output=True, text=True)
    assert done.stdout == "everywhere\n", done.stderr


def test_names_variables_and_flags_are_unique():
    for values in (
        [choice.name for choice in acting()],
        [choice.env for choice in from_environment()],
        [(choice.flag, command) for choice in CHOICES for command in choice.commands],
    ):
        assert len(values) == len(set(values))


def test_choices_do_not_change_and_pickle():
    choices = Choices(target="trn1", strict=True, skip_passes="schedule,remove_dead", max_trips=7)
    again = pickle.loads(pickle.dumps(choices))
    assert again == choices and hash(again) == hash(choices)
    assert again.skip_passes == ("schedule", "remove_dead") and again.chip.name == "trn1"
    assert again != again.replace(strict=False)
    with pytest.raises(AttributeError, match="do not change"):
        choices.strict = False
    assert "strict=True" in repr(choices)
    with pytest.raises(UnknownOption, match="no choice `strickt`") as caught:
        Choices(strickt=True)
    assert "`strict`" in caught.value.help


def chip_of(kernel, x) -> str:
    return nki_lab.run(kernel, x).kernel.target.name


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_a_block_reaches_threads_and_processes(pool, monkeypatch):
    # The notebook of another test is a main module without one.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)
    make = ThreadPoolExecutor if pool == "threads" else ProcessPoolExecutor
    options = {} if pool == "threads" else {"mp_context": get_context("spawn")}
    with nki_lab.use(target="trn1", max_trips=77) as choices, make(1, **options) as workers:
        here = chip_of(negated, X), Choices.current()
        there = workers.submit(choices.call, chip_of, negated, X).result(60)
        assert here == (there, workers.submit(choices.call, Choices.current).result(60))
    assert there == "trn1" and here[1].max_trips == 77


def test_use_holds_from_now_on_or_in_a_block(monkeypatch):
    monkeypatch.setenv("NKI_LAB_CAPACITY", "error")
    try:
        nki_lab.use(capacity="finding", lnc=2)
        assert (Choices.current().capacity, Choices.current().lnc) == ("finding", 2)
        with nki_lab.use(capacity="error"):
            assert Choices.current().capacity == "error"
        assert Choices.current().capacity == "finding"
    finally:
        forget_choices()
    with pytest.raises(UnknownOption, match="no choice `chip`") as caught:
        nki_lab.use(chip="trn1")
    assert caught.value.help == "write target="
    # It would have no effect: only magics and commands stop a run.
    with pytest.raises(UnknownOption, match="no choice `timeout`"):
        nki_lab.use(timeout=5)


@pytest.mark.parametrize(
    ("keyword", "help"),
    [
        ("skip", "skip_passes="),
        ("cores", "lnc="),
        ("chip", "target="),
        ("stict", "`strict`"),
        (
            "show",
            "--show is an option of cells and commands; in Python, call .show() of the result",
        ),
        ("xyzzy", "choices: target, nki, dialect, lnc, "),
    ],
)
def test_a_wrong_keyword_names_the_right_one(keyword, help):
    for name, call in CALLS.items():
        message = f"`{keyword}` is neither a parameter of the kernel nor a choice of nki_lab.{name}"
        with pytest.raises(KernelArgument, match=message) as caught:
            call(**{keyword: "x"})
        assert help in caught.value.help
    with pytest.raises(UnknownOption, match=f"there is no choice `{keyword}`") as caught:
        nki_lab.use(**{keyword: "x"})
    assert help.removeprefix("choices: ") in caught.value.help


def test_a_misspelt_parameter_is_named():
    with pytest.raises(KernelArgument, match="note: parameters: x") as caught:
        nki_lab.run(negated, x_=X)
    assert caught.value.help == "did you mean `x`?"
    with pytest.raises(KernelArgument, match="`x` is a parameter of plain, not a keyword of"):
        nki_lab.launch(negated, 1, (X,), x=X)


def test_every_question_of_a_cell_names_what_python_has_for_it():
    assert nki_lab.session.questions  # declares what cells ask
    asked = {c.name for c in CHOICES if c.acts == SHOW and CELL in c.commands}
    assert asked - IN_PYTHON.keys() == {"run", "rtol", "atol", "name", "quiet", "expect"}
    assert IN_PYTHON.keys() <= asked


@pytest.mark.parametrize(
    "given", [{"lnc": "1"}, {"skip_passes": ["schedule"]}, {"allow": ("NKI206",)}, {"strict": 1}]
)
def test_every_function_takes_the_same_forms_of_a_value(given):
    for call in CALLS.values():
        call(**given)
    with nki_lab.use(**given):
        pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lnc": True}, "lnc=True: `True` is not one of 1, 2"),
        ({"lnc": 3}, "lnc=3: `3` is not one of 1, 2"),
        ({"strict": "yes"}, "strict='yes' is neither True nor False"),
        ({"strict": 2}, "strict=2 is neither True nor False"),
        ({"capacity": True}, "capacity=True: `True` is not one of error, finding"),
    ],
)
def test_every_function_refuses_the_same_values(given, message):
    for call in (*CALLS.values(), nki_lab.use):
        with pytest.raises(UnknownOption, match=re.escape(message)):
            call(**given)


def test_a_parameter_of_the_kernel_is_the_kernels():
    def scaled(x, strict):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), strict))
        return out

    result = nki_lab.run(scaled, X, strict=3.0)
    assert np.array_equal(result.value, 3 * X) and not result.options.strict


def test_lnc_is_a_keyword():
    assert len(nki_lab.run(negated, X, lnc=2).others) == 1
    assert "lnc" in inspect.signature(nki_lab.run).parameters


def test_a_wrong_variable_is_named(monkeypatch):
    monkeypatch.setenv("NKI_LAB_STRICT", "yes")
    with pytest.raises(UnknownOption, match="NKI_LAB_STRICT=yes: `yes` is neither 0 nor 1"):
        Choices.current()
    with inside(strict=True):
        assert Choices.current().strict
