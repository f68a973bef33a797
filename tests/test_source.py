"""Tests that a place in the author's text becomes the right line, columns and excerpt."""

import linecache
import sys
from importlib.util import find_spec

import pytest

from nki_lab.source import (
    Blame,
    Span,
    blanks,
    is_cell,
    is_internal,
    is_of_library,
    register_cell,
    stack_of_frame,
    stack_of_traceback,
)

HERE = []


def mark(*args, **kwargs):
    """Remember the place of the call, as the builder does."""
    frame = sys._getframe(1)
    HERE.append((frame.f_code, frame.f_lasti))
    return args[0] if args else None


def run(text, filename="<cell of a test>", **names):
    """Run a text as a cell of a notebook and return the spans of its calls of `mark`."""
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    HERE.clear()
    exec(compile(text, filename, "exec"), {"mark": mark, **names})
    return [Span.of(place) for place in HERE]


def covered(span):
    """Return what a span covers, cut out of the text by its own numbers."""
    lines = [linecache.getline(span.filename, n) for n in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return "".join(lines)


def test_a_span_covers_the_call():
    [span] = run("x = 1\ny = 2 + mark(x) * 3\n")
    assert (span.line, span.end_line, span.column, span.end_column) == (2, 2, 8, 15)
    assert covered(span) == "mark(x)"
    assert span.text == "y = 2 + mark(x) * 3"


def test_columns_are_characters_not_bytes():
    [span] = run("größe = 'λ漢😀'; mark(größe)\n")
    assert covered(span) == "mark(größe)"
    assert span.column == 15


def test_a_call_over_several_lines_begins_on_its_first():
    [span] = run("if True:\n    mark(\n        1,\n        'ö',\n    )\n")
    assert (span.line, span.end_line) == (2, 5)
    assert covered(span) == "mark(\n        1,\n        'ö',\n    )"


def test_two_calls_on_one_line_are_told_apart():
    assert [covered(s) for s in run("mark(mark(1) + 1)\n")] == ["mark(1)", "mark(mark(1) + 1)"]


def test_the_function_is_named():
    [span] = run("def kernel():\n    mark()\nkernel()\n")
    assert span.function == "kernel"


def test_a_code_object_without_positions_gives_its_first_line():
    code = compile("\n\nmark()\n", "<bare>", "exec").replace(co_linetable=b"")
    span = Span.of((code, 2))
    assert (span.filename, span.line, span.column) == ("<bare>", 1, None)


# -- names and excerpts ----------------------------------------------------------------------------------------------


def test_cells_have_no_path_and_a_number_only_in_the_heading():
    name = "/tmp/ipykernel_12/345678901.py"
    [span] = run("mark()\n", name)
    assert is_cell(name)
    assert (str(span), span.heading()) == ("cell, line 1", "cell, line 1")
    register_cell(name, 7)
    assert (str(span), span.heading()) == ("cell, line 1", "cell [7], line 1")


def test_files_are_named_without_their_folder():
    span = Span("/some/where/kernels.py", 3)
    assert not is_cell(span.filename)
    assert (str(span), span.heading()) == ("kernels.py, line 3", "kernels.py, line 3")


def test_an_excerpt_marks_the_span():
    [span] = run("a = 1\nb = a + mark(a, 2)\n")
    assert span.excerpt() == ["2 | b = a + mark(a, 2)", "  |         ^^^^^^^^^^"]
    assert span.excerpt(context=5)[0] == "1 | a = 1"


def test_an_excerpt_of_several_lines_marks_the_first_to_its_end():
    [span] = run("\n" * 8 + "x = mark(1,\n         2)\n")
    assert span.excerpt() == ["9 | x = mark(1,", "  |     ^^^^^^^"]


def test_the_marks_stand_under_wide_and_combining_characters_and_tabs():
    [span] = run("if 1:\n\ts = '漢e\u0301'; mark('漢')\n")
    assert span.excerpt() == [
        "2 | \ts = '漢e\u0301'; mark('漢')",
        "  | \t           ^^^^^^^^^^",
    ]
    assert blanks("a漢\t\u0301") == " " + "  " + "\t"


def test_a_place_whose_text_is_gone_has_no_excerpt():
    assert Span("<never there>", 4, 0, 4, 2).excerpt() == []


# -- arguments -------------------------------------------------------------------------------------------------------

BLAME = Blame("mark", (("dst", 0), ("data", 1)))


@pytest.mark.parametrize(("text", "marked"), [
    ("mark(a, b)", "a"),
    ("mark(b, dst=a + 1)", "a + 1"),
    ("mark(\n    data='ü', dst=\n    a [ 0 ],\n)", "a [ 0 ]"),
    ("f = 'ö'; mark(op=1, data=('ß',\n  2))", "('ß',\n  2)"),  # `dst` is not written: the next one
    ("mark(op=2)", "mark(op=2)"),  # neither is
    ("mark(*rest)", "mark(*rest)"),
    ("mark(a, *rest)", "a"),
    ("mark(**named)", "mark(**named)"),
    ("mark(b, **named)", "b"),
    ("again(a, b)", "again(a, b)"),  # another name: its parameters may be others
    ("module.mark(a, b)", "a"),
    ("(lambda: mark)()(a, b)", "(lambda: mark)()(a, b)"),
])  # fmt: skip
def test_the_first_blamed_argument_that_is_written_is_marked(text, marked):
    class module:
        mark = staticmethod(mark)

    names = {"again": mark, "module": module, "a": [1], "b": 2, "rest": [[0]], "named": {"data": 1}}
    if marked == "a + 1":
        names["a"] = 1
    [span] = run("x = 0\nif x == 0:\n    " + text + "\n", **names)
    narrowed = span.narrowed(BLAME)
    assert covered(narrowed) == marked
    assert narrowed.function == span.function


def test_no_argument_is_marked_where_the_text_is_gone():
    span = Span("<never there>", 4, 0, 4, 2)
    assert span.narrowed(BLAME) is span
    assert Span("<never there>", 4).narrowed(BLAME).line == 4


# -- stacks ----------------------------------------------------------------------------------------------------------


def test_a_stack_goes_from_the_innermost_place_to_the_root():
    stacks = []

    def grab():
        stacks.append(stack_of_frame(sys._getframe(1), Kernel.root))

    class Kernel:
        root = None

    def enter(function):
        Kernel.root = function.__code__
        function()

    text = "def helper():\n    grab()\n\ndef kernel():\n    helper()\n\nenter(kernel)\n"
    run(text, grab=grab, enter=enter)
    places = [(Span.of(p).line, Span.of(p).function) for p in stacks[0]]
    assert places == [(2, "helper"), (5, "kernel")]


def test_a_traceback_starts_at_the_root():
    def kernel():
        helper()

    def helper():
        raise ValueError

    with pytest.raises(ValueError) as caught:  # noqa: PT011
        kernel()
    names = [Span.of(p).function for p in stack_of_traceback(caught.tb, kernel.__code__)]
    assert names == ["helper", "kernel"]
    everything = stack_of_traceback(caught.tb)
    assert Span.of(everything[-1]).function == "test_a_traceback_starts_at_the_root"


def test_only_nki_lab_itself_is_internal():
    assert is_internal(Span.of.__func__.__code__)
    assert is_internal(compile("", "<nki_lab binder of add>", "exec"))
    assert not is_internal(mark.__code__)


def test_frameworks_between_a_cell_and_a_kernel_are_of_the_library():
    for name in ("numpy", "torch", "jax"):
        found = find_spec(name)
        assert found is not None
        assert is_of_library(found.origin), name
    assert not is_of_library(pytest.__file__)


class _Places:
    """Collects the places from which it is indexed."""

    def __init__(self):
        self.met = []

    def __getitem__(self, key):
        self.met.append(stack_of_frame(sys._getframe(1))[0])
        return key


def test_a_call_that_python_has_run_often_is_still_one_place():
    places = _Places()
    for n in range(100):
        _ = places[n]
    assert len(set(places.met)) == 1
