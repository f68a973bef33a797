"""Tests that every mistake in a cell gives one clear error at the cell's own line, and leaves all usable."""

import numpy as np
import pytest

from nki_lab import errors as e
from nki_lab.session.questions import options_of
from tests.magics.notebook import ADD, Notebook, cell

RUN = "--run 'add(a, b)'"

#: (option, line of the magic, error, text of the rendering)
OPTIONS = [
    ("run", "--run 'add(a, missing)'", e.UsageError, "NameError: name 'missing' is not defined"),
    ("run", "--run 'add(a'", e.UnknownOption, "'(' was never closed"),
    ("run", "--run '1 + 1'", e.NoKernel, "--run called no kernel"),
    ("run", "--run 'add(a)'", e.KernelArgument, "missing a required argument: 'b'"),
    ("check", RUN + " --check 'a - b'", e.CheckFailed, "the result differs"),
    ("check", RUN + " --check 'a[0]'", e.CheckFailed, "shape [128, 24], the reference [24]"),
    ("check", RUN + " --check 'nothing'", e.UsageError, "name 'nothing' is not defined"),
    ("check", RUN + " --check \"'text'\"", e.UsageError, "not an array of numbers"),
    ("check", "--check 'a + b'", e.UnknownOption, "--run is not given"),
    ("target", "--target trn0", e.UnknownOption, "there is no target `trn0`"),
    ("show", "--show irr", e.UnknownOption, "did you mean `ir`?"),
    ("show", "--show ir", e.UnknownOption, "--show needs a run, but nothing ran"),
    ("name", "--name a-b", e.UnknownOption, "`a-b` cannot name a variable"),
    ("name", "--name r", e.UnknownOption, "--name needs a run, but nothing ran"),
    ("expect", RUN + " --expect NKI203", e.ErrorNotRaised, "RuleBroken was expected"),
    ("expect", "--expect NKI999", e.UnknownOption, "nki_lab has no error `NKI999`"),
    ("quiet", "--quiet=1", e.UnknownOption, "--quiet is a switch"),
    ("analyse", "--analyse pats", e.UnknownOption, "did you mean `path`?"),
    ("analyse", "--analyse path", e.UnknownOption, "--analyse needs a run, but nothing ran"),
    ("what_if", "--what-if free-load", e.UnknownOption, "did you mean `free-loads`"),
    ("what_if", RUN + " --what-if line=99", e.UnknownOption, "no instruction comes from line 99"),
    ("rtol", RUN + " --rtol 1e-2", e.UnknownOption, "--check is not given"),
    ("atol", RUN + " --check 'a + b' --atol x", e.UnknownOption, "`x` is not a number from 0 on"),
    ("bench", "--bench", e.UnknownOption, "--bench needs a run, but nothing ran"),
    ("compare", RUN + " --compare nothing", e.UsageError, "name 'nothing' is not defined"),
    ("compare", "--compare a", e.UnknownOption, "--compare needs a run, but nothing ran"),
    ("save", RUN + " --save run.txt", e.UnknownOption, "`run.txt` ends with none of .html, .nkic"),
    ("json", "--json", e.UnknownOption, "--json needs a run, but nothing ran"),
    ("lnc", RUN + " --lnc 3", e.UnknownOption, "`3` is not one of 1, 2"),
    ("timeout", "--timeout x", e.UnknownOption, "`x` is not a positive number of seconds"),
    ("capacity", "--capacity none", e.UnknownOption, "`none` is not one of error, finding"),
    ("skip_passes", "--skip trace", e.UnknownOption, "there is no such pass"),
    ("nki", "--nki 0.9", e.UnknownOption, "`0.9` is not one of 0.1, 0.2"),
    ("dialect", "--dialect beta2", e.UnknownOption, "`beta2` is not one of nki, beta1"),
    ("allow", "--allow NKI999", e.UnknownOption, "`NKI999` cannot be allowed"),
    ("max_trips", "--max-trips many", e.UnknownOption, "`many` is not a whole number"),
    ("strict", "--strict=yes", e.UnknownOption, "--strict is a switch"),
    ("backend", "--backend chip", e.UnknownOption, "unknown backend `chip`"),
    ("core", "--core first", e.UnknownOption, "`first` is not a whole number from 0 on"),
    ("warmup", "--warmup -1", e.UnknownOption, "`-1` is not a whole number from 0 on"),
    ("iters", "--iters 0", e.UnknownOption, "`0` is not a whole number above 0"),
    ("accept", "--accept division", e.UnknownOption, "but --migrate is not given"),
    ("torch", "--torch add", e.UnknownOption, "`add` does not name an operator"),
    ("jax", "--jax lab::add --torch lab::add", e.UnknownOption, "the same variable"),
    ("migrate", "--migrate", e.UnknownOption, "by what --run computes, but --run is not given"),
    ("debug", "--debug=yes", e.UnknownOption, "--debug is a switch"),
]

X = np.arange(512, dtype=np.float32).reshape(128, 4)


@pytest.mark.parametrize(("option", "line", "kind", "words"), OPTIONS)
def test_a_wrong_option_is_shown_in_the_line_of_the_magic(
    notebook: Notebook, option: str, line: str, kind: type[e.NkiError], words: str
):
    outcome = notebook.bad(cell(line))
    assert isinstance(outcome.error, kind)
    assert words in outcome.text
    if not isinstance(outcome.error, e.KernelArgument):  # that one is shown at the kernel
        assert "--> cell [3], line 1\n   1 | %%nki" in outcome.text
        assert "^" in outcome.text
    notebook.good(cell(RUN + " --check 'a + b'"))


def test_every_option_is_among_them():
    assert {o.name for o in options_of("%%nki")} == {case[0] for case in OPTIONS}


def test_the_mark_stands_under_the_wrong_word(notebook: Notebook):
    lines = notebook.bad(cell("--quiet --shwo ir")).text.splitlines()
    assert lines[2:4] == ["   1 | %%nki --quiet --shwo ir", "     |               ^^^^^^"]


def test_the_mark_stands_inside_an_expression(notebook: Notebook):
    lines = notebook.bad(cell("--run 'add(a, nix)' --quiet")).text.splitlines()
    assert lines[2:4] == [
        "   1 | %%nki --run 'add(a, nix)' --quiet",
        "     |                     ^^^",
    ]


#: (body of the cell, error, line of the cell, text of the rendering)
BODIES = [
    ("def f(x):\n    y = (1\n    return x\n", e.BadSyntax, 3, "'(' was never closed"),
    ("def f(x):\nreturn x\n", e.BadSyntax, 3, "expected an indented block"),
    ("def f(x):\n\treturn x\n        return x\n", e.BadSyntax, 4, "inconsistent"),
    ("def f(x): return x\nreturn 3\n", e.BadSyntax, 3, "'return' outside function"),
    ("%timeit 1\ndef f(x): return x\n", e.BadSyntax, 2, "lines that start with `%` belong in"),
    ("!ls\n", e.BadSyntax, 2, "lines that start with `!` belong in"),
    ("int main() { return 0; }\n", e.BadSyntax, 2, "everything below it is Python"),
    ("x = '\x00'\n", e.BadSyntax, 1, "null bytes"),
    ("print('hello')\n", e.NoKernel, 2, '%%nki --run "double(a)"'),
    ("# only a comment\n", e.NoKernel, 1, "defines no function"),
    (
        "def f(x): return x\ndef g(x): return x\n",
        e.NoKernel,
        2,
        "marks none as the kernel: `f`, `g`",
    ),
    (
        "class C:\n    def f(self): pass\n",
        e.NoKernel,
        2,
        "no function stands at its outermost level",
    ),
    ("def f(x):\n    return lang.add(x, x)\n", e.UnknownName, 3, "name `lang` is not defined"),
    ("def f(x):\n    return nll.add(x, x)\n", e.UnknownName, 3, "did you mean `nl`"),
    ("def f(x):\n    yield x\n", e.NotAllowed, 3, "`yield` is not supported"),
    ("async def f(x):\n    return x\n", e.NotAllowed, 2, "`async`"),
    ("def f(x):\n    global y\n    return x\n", e.NotAllowed, 3, "`global` is not supported"),
]


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize(("body", "kind", "line", "words"), BODIES)
def test_a_cell_that_cannot_be_a_kernel(
    notebook: Notebook, body: str, kind: type[e.NkiError], line: int, words: str
):
    notebook.good("import nki.language as nl")
    outcome = notebook.bad("%%nki\n" + body)
    assert isinstance(outcome.error, kind)
    assert f"--> cell [4], line {line}" in outcome.text
    assert words in outcome.text
    notebook.good(cell(RUN + " --check 'a + b'"))


#: (lines of a kernel of x, error, line of the cell, text of the rendering)
KERNELS = [
    ("return 1 / 0", e.KernelRaised, 3, "ZeroDivisionError: division by zero"),
    ("assert x.shape[0] < 3, 'too many rows'", e.KernelRaised, 3, "AssertionError: too many rows"),
    ("assert x.shape == [128, 512]", e.KernelRaised, 3, "equals no list: write (128, 512)"),
    ("pass", e.KernelResult, 2, "f returns nothing"),
    ("return nl.load(x)", e.KernelResult, 3, "a result must be in shared_hbm"),
    (
        "class Odd(Exception):\n        def __str__(self): return {}['no']\n    raise Odd",
        e.KernelRaised,
        5,
        "error[NKI109]: Odd\n",
    ),
    (
        "nl.ndarray((1 << 36,), nl.float32, nl.shared_hbm)",
        e.OverCapacity,
        3,
        "need 274,877,919,232 bytes; a chip of trn3 has 154,618,822,656",
    ),
    ("return x + x", e.TensorOperator, 3, "nl.add"),
    ("return nl.ad(x, x)", e.UnknownName, 3, "did you mean `add`"),
    ("t = nl.ndarray((129, 4), nl.float32)", e.TensorArgument, 3, "129 partitions"),
    ("t = nl.load(x)\n    t[0:4, 30:40]", e.OutOfBounds, 4, "24"),
    ("t = nl.load(x)\n    nisa.tensor_cpy(t, t)", e.UnknownName, 4, "`tensor_copy`"),
    ("t = nl.load(x)\n    nisa.reciprocal(t, t, exact=1)", e.WrongCall, 4, "exact"),
    ("t = nl.load(x)\n    nisa.reciprocal(x, t)", e.WrongOperand, 4, "`dst` must be in"),
    (
        "t = nl.load(x)\n    nisa.reciprocal(t, t[:, 0:3])",
        e.RuleBroken,
        4,
        "same number of elements",
    ),
]


@pytest.mark.parametrize(("lines", "kind", "line", "words"), KERNELS)
def test_a_kernel_with_a_mistake(
    notebook: Notebook, lines: str, kind: type[e.NkiError], line: int, words: str
):
    outcome = notebook.bad(f"%%nki --run 'f(a)'\ndef f(x):\n    {lines}\n")
    found = outcome.error
    first = found.errors[0] if isinstance(found, e.KernelErrors) else found
    assert isinstance(first, kind)
    assert f"--> cell [3], line {line}" in outcome.text
    assert words in outcome.text
    notebook.good(cell(RUN + " --check 'a + b'"))


def test_a_kernel_that_fails_its_check_is_not_the_old_one(notebook: Notebook):
    notebook.good(cell())
    notebook.bad(cell(body=ADD.replace("nl.load(b)", "nll.load(b)")))
    assert isinstance(notebook.run("add(a, b)").error, e.UnknownName)


def test_the_line_magic_shows_its_own_line(notebook: Notebook):
    text = notebook.bad("x = 1\n%nki --shwo ir").text
    assert "%nki has no option `--shwo`" in text
    assert "| %nki --shwo ir" in text
    assert isinstance(notebook.bad("%nki").error, e.NoKernel)


def test_text_of_an_error_is_the_same_on_every_run(notebook: Notebook):
    first = notebook.bad(cell("--shwo")).error
    notebook.good("0")
    assert str(notebook.bad(cell("--shwo")).error) == str(first)
    assert "cell, line 1" in str(first)


def test_an_expected_error_is_printed_and_the_cell_goes_well(notebook: Notebook):
    wrong = "def f(x):\n    return 1 / 0\n"
    text = notebook.good(cell("--run 'f(a)' --expect KernelRaised", wrong))
    assert text.startswith("error[NKI109]: ZeroDivisionError: division by zero\n  --> cell, line 3")
    outcome = notebook.bad(cell("--run 'f(a)' --expect NKI203", wrong))
    assert isinstance(outcome.error, e.KernelRaised)
    assert "NKI203 RuleBroken was expected here" in outcome.text


def test_half_a_character_is_told_with_its_line(notebook: Notebook):
    outcome = notebook.bad("%%nki\ndef f(x):\n    s = '\udc80'\n    return x\n")
    notebook.shell.history_manager.db_input_cache.clear()  # IPython cannot write it down either
    assert isinstance(outcome.error, e.BadSyntax)
    assert "line 3 holds '\\udc80', half of a character" in outcome.text


def test_what_a_kernel_raises_past_everyone_is_shown_without_our_frames(notebook: Notebook):
    notebook.good("class Odd(BaseException): pass")
    outcome = notebook.run(cell("--run 'f(a)'", "def f(x):\n    raise Odd('enough')\n"))
    assert type(outcome.error).__name__ == "Odd"
    assert "Odd: enough\n  --> cell [4], line 3\n" in outcome.text
    assert "nki_lab" + "/" not in outcome.text


def test_cells_without_a_magic_have_their_number(notebook: Notebook):
    notebook.shell.user_ns["x"] = X
    notebook.good(
        "import nki.isa as nisa\n\n\ndef filled(t):\n    nisa.memset(dst=t[:, 0:9], value=1.0)"
    )
    outcome = notebook.bad(
        "%%nki --run 'kernel(x)'\ndef kernel(x):\n    t = nl.load(x)\n    filled(t)\n    return t"
    )
    number = notebook.shell.execution_count - 2
    assert f"--> cell [{number}], line 5" in outcome.text
    assert f"called from cell [{number + 1}], line 4 in kernel" in outcome.text
    assert "--> cell, line 5" in str(outcome.error)


@pytest.mark.usefixtures("nki_0_6")
def test_a_class_of_another_cell_is_looked_at(notebook: Notebook):
    notebook.shell.user_ns["x"] = X
    notebook.good(
        "import nki.language as nl\n\n\n"
        "class Sizes(nl.NKIObject):\n"
        "    rows: int = 4\n"
        "    for n in (1, 2):\n"
        "        pass"
    )
    text = notebook.good(
        "%%nki --run 'kernel(x)'\n"
        "def kernel(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    assert Sizes().rows == 4\n"
        "    nl.store(out, nl.load(x))\n"
        "    return out"
    )
    assert "cell, line 6: portability: a statement in a class" in text
