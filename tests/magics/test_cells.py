"""Tests that a cell is a source like any other: the right lines, the user's names, and nothing else changed."""

import inspect

import pytest

from nki_lab.runtime import KernelFunction
from tests.magics.notebook import ADD, Notebook, cell

PLAIN = ADD.replace("@nki.jit\n", "")


def test_a_decorated_function_is_a_kernel(notebook: Notebook):
    assert notebook.good(cell()) == "kernel add(a, b) for trn3\n"
    assert isinstance(notebook["add"], KernelFunction)


def test_a_single_plain_function_becomes_the_kernel(notebook: Notebook):
    assert notebook.good(cell(body=PLAIN)) == "kernel add(a, b) for trn3\n"
    assert isinstance(notebook["add"], KernelFunction)


def test_helpers_beside_a_kernel_stay_functions(notebook: Notebook):
    helper = "def twice(x):\n    return nl.add(x, x)\n"
    notebook.good(cell(body=helper + ADD))
    assert inspect.isfunction(notebook["twice"])
    assert isinstance(notebook["add"], KernelFunction)


def test_every_kernel_of_a_cell_is_named(notebook: Notebook):
    other = ADD.replace("def add", "def plus")
    text = notebook.good(cell(body=ADD + other + "again = nki.jit(add.func)\n"))
    assert text == "kernel add(a, b) for trn3\nkernel plus(a, b) for trn3\n"


def test_a_definition_adds_the_kernel_and_the_names_it_reads(notebook: Notebook):
    before = notebook.names
    notebook.good(cell())
    assert notebook.names - before == {"add", "nki", "nl"}
    assert before <= notebook.names


def test_a_run_adds_its_result(notebook: Notebook):
    notebook.good("import nki, nki.language as nl")
    before = notebook.names
    notebook.good(cell("--run 'add(a, b)' --quiet"))
    assert notebook.names - before == {"add", "add_result", "_nki"}
    assert notebook["_nki"] is notebook["add_result"]


def test_a_run_with_a_name_adds_that_name(notebook: Notebook):
    notebook.good(cell())
    before = notebook.names
    notebook.good("%nki --run 'add(a, b)' --name größe --quiet")
    assert notebook.names - before == {"größe", "_nki"}


def test_names_the_user_has_are_left_alone(notebook: Notebook):
    notebook.good("nisa = 'mine'\nnl = None")
    body = "def f(a):\n    return nisa, nl, nki.language\n"
    notebook.good(cell(body=body))
    assert notebook["nisa"] == "mine"
    assert notebook["nl"] is None


def test_a_cell_sees_and_keeps_ordinary_names(notebook: Notebook):
    notebook.good("SCALE = 3")
    body = "FACTOR = SCALE * 2\ndef f(x):\n    assert FACTOR == 6\n    return x\n"
    notebook.good(cell("--run 'f(a)' --quiet --check a", body))
    assert notebook["FACTOR"] == 6


def test_source_and_line_numbers_are_those_of_the_cell(notebook: Notebook):
    notebook.good("%%nki --target trn2\n\n# first the kernel\n" + ADD.lstrip("\n"))
    lines, first = inspect.getsourcelines(notebook["add"])
    assert "".join(lines) == ADD.lstrip("\n")
    assert first == 4


def test_blank_lines_above_the_magic_count(notebook: Notebook):
    notebook.good("\n\n" + cell())
    assert inspect.getsourcelines(notebook["add"])[1] == 4


def test_source_stays_right_when_the_name_is_defined_again(notebook: Notebook):
    notebook.good(cell())
    first = notebook["add"]
    notebook.good(cell(body=ADD.replace("nl.add", "nl.subtract")))
    assert "nl.add(" in inspect.getsource(first)
    assert "nl.subtract(" in inspect.getsource(notebook["add"])


def test_source_of_a_method_in_the_cell_is_found(notebook: Notebook):
    method = "    def size(self):\n        return 4\n"
    notebook.good(cell(body="class Tiles:\n" + method + PLAIN))
    assert inspect.getsource(notebook["Tiles"].size) == method


def test_the_line_of_the_magic_is_not_expanded(notebook: Notebook):
    notebook.good("d = {'k': 1}")
    notebook.good(cell("--run \"add({'x': a}['x'], b)\" --quiet"))


def test_what_a_cell_prints_is_printed(notebook: Notebook):
    body = "print('cell')\ndef f(x):\n    print('traced', x.shape)\n    return x\n"
    text = notebook.good(cell("--run 'f(a)' --quiet", body))
    assert text == "cell\ntraced (128, 24)\n"


def test_an_error_of_the_cells_own_statements_is_shown_from_the_cell_on(notebook: Notebook):
    outcome = notebook.run("%%nki\nx = 1\ny = x / 0\ndef f(a):\n    return a")
    assert isinstance(outcome.error, ZeroDivisionError)
    assert "----> 3 y = x / 0" in outcome.text
    assert "nki_magic" not in outcome.text
    assert "run_cell_magic" not in outcome.text


@pytest.mark.parametrize("number", [1, 2])
def test_headings_name_the_number_of_the_cell(notebook: Notebook, number: int):
    for _ in range(number):
        notebook.good("0")
    # %load_ext and the arrays were cells 1 and 2.
    assert f"--> cell [{number + 3}], line 1" in notebook.bad(cell("--nothing")).text
