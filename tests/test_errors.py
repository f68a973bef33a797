"""The tree of errors is complete, numbered and documented, and each message is the same everywhere."""

import ast
import gc
import linecache
import re
import sys
from pathlib import Path

import pytest

from docs.use_pages import error_page
from nki_lab import errors
from nki_lab.errors import (
    BadKernelText,
    KernelErrors,
    NkiError,
    RuleBroken,
    UsageError,
    ViewError,
    close_matches,
    error_classes,
    in_order,
)
from nki_lab.explain.pages import explain
from nki_lab.magics.catalog import catalog
from nki_lab.source import Span, register_cell, stack_of_frame
from nki_lab.targets import TRN2

CLASSES = error_classes()
FAMILIES = NkiError.__subclasses__()


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    drawn = re.findall(r"\+-- (\w+) +(NKI\d)(?:xx|\d\d)  ", errors.__doc__)
    assert drawn == sorted(
        ((family.__name__, family.code[:4]) for family in FAMILIES), key=lambda row: row[1]
    )
    assert errors.__doc__.splitlines()[2].split(maxsplit=1)[0] == "NkiError"


@pytest.mark.parametrize("error", CLASSES, ids=lambda e: e.__name__)
def test_every_class_has_a_sentence_a_family_and_a_code_of_that_family(error):
    assert "code" in vars(error)
    assert re.fullmatch(r"NKI\d{3}", error.code)
    first = (vars(error).get("__doc__") or "").split("\n")[0]
    assert 15 <= len(first) <= 110
    assert first.endswith(".")
    if error is not NkiError:
        [family] = [f for f in FAMILIES if issubclass(error, f)]
        assert error.code[:4] == family.code[:4]
        assert (error.code == family.code) is (error is family)


def test_codes_are_unique():
    assert len({error.code for error in CLASSES}) == len(CLASSES) > 20


def test_every_stage_has_its_file():
    assert {kind.__module__.rpartition(".")[2] for kind in FAMILIES if kind is not KernelErrors} == {
        "language", "instruction", "resource", "simulation", "toolchain", "usage",
    }  # fmt: skip
    for kind in CLASSES:
        family = next((f for f in FAMILIES if issubclass(kind, f)), kind)
        assert kind.__module__ in (family.__module__, "nki_lab.errors.beta1")  # of one dialect


def test_an_error_is_one_block_wherever_it_stands():
    class Misplaced(UsageError):
        """Something was put where it does not belong."""

        code = "NKI699"
        page = """
            Put it back.

                here
            """
        wrong = "nisa.misplaced(t)"
        right = wrong.replace("misplaced", "placed")

    assert error_classes()[-1] is Misplaced
    assert explain("NKI699", TRN2) == explain("Misplaced", TRN2)
    assert explain("nki699", TRN2).splitlines() == [
        "NKI699 Misplaced", "", "Something was put where it does not belong.", "", "Put it back.", "", "    here", "",
        "one kind of UsageError (NKI600)", "",
        "wrong (lines of a kernel that has loaded its argument `x` [128, 4] into the tile `t`):", "",
        "    nisa.misplaced(t)", "", "right:", "", "    nisa.placed(t)",
    ]  # fmt: skip
    assert "## NKI699 Misplaced\n" in error_page()
    assert catalog()["codes"]["NKI699"] == "Something was put where it does not belong."
    del Misplaced
    gc.collect()
    assert error_classes() == CLASSES


def test_a_code_belongs_to_one_class():
    with pytest.raises(
        TypeError, match=r"usage\.UsageError and .*Other have the same code, NKI600"
    ):

        class Other(UsageError):
            code = "NKI600"

    def cell():
        class Again(UsageError):
            code = "NKI698"

        return Again

    first, second = cell(), cell()  # as a cell that is run again does
    assert first is not second
    assert error_classes()[-1] is second


def test_a_class_without_a_code_is_no_kind():
    class Special(UsageError):
        pass

    assert Special.code == "NKI600"
    assert UsageError in error_classes()
    assert Special not in error_classes()


def test_errors_are_also_the_python_errors_an_author_would_expect():
    for name, kind in {
        "ViewError": ValueError, "OutOfBounds": IndexError, "TensorOperator": TypeError, "UnknownName": AttributeError,
        "WrongCall": TypeError, "RuleBroken": ValueError, "OverCapacity": MemoryError, "CheckFailed": AssertionError,
        "TimedOut": TimeoutError, "BadFile": ValueError,
    }.items():  # fmt: skip
        assert issubclass(getattr(errors, name), kind)


# -- what an error says ----------------------------------------------------------------------------------------------

TEXT = """\
def helper(x):
    raise_here(x, 'ö')

def kernel():
    helper(1)

kernel()
"""


def raised(filename, message="found 1, expected 2", error=RuleBroken, **facts):
    """Return an error at two places of a text in `filename`."""
    linecache.cache[filename] = (len(TEXT), None, TEXT.splitlines(keepends=True), filename)
    made = []

    def raise_here(*_):
        stack = stack_of_frame(sys._getframe(1), None)[:2]
        made.append(error(message, stack=stack, **facts))

    exec(compile(TEXT, filename, "exec"), {"raise_here": raise_here})
    return made[0]


WANTED = """\
error[NKI203]: found 1, expected 2
  --> kernels.py, line 2
   2 |     raise_here(x, 'ö')
     |     ^^^^^^^^^^^^^^^^^^
  called from kernels.py, line 5 in kernel
  note: x = 1
  note: y = 2
  help: write 2"""


def test_an_error_has_a_place_facts_and_a_next_step():
    error = raised("/home-of-one/someone/kernels.py", notes=["x = 1", "y = 2"], help="write 2")
    assert str(error) == WANTED
    assert [(s.line, s.function) for s in error.spans] == [(2, "helper"), (5, "kernel")]
    assert error.span == error.spans[0]


def test_an_error_is_the_same_wherever_its_file_lies():
    texts = {str(raised(f"{folder}/kernels.py", notes=["n"])) for folder in ("/a", "/b/c", "C:/d")}
    assert len(texts) == 1
    assert not re.search(r"/|0x[0-9a-f]{4,}", texts.pop())


def test_a_call_that_stands_in_no_function_names_none():
    error = NkiError("found 1", stack=(Span("k.py", 2, function="helper"), Span("k.py", 7)))
    assert str(error).splitlines()[-1] == "  called from k.py, line 7"


def test_a_cells_number_is_shown_by_the_notebook_only():
    name = "/tmp/ipykernel_3/99.py"
    register_cell(name, 12)
    error = raised(name)
    assert "  --> cell, line 2" in str(error).splitlines()
    assert "  called from cell, line 5 in kernel" in str(error).splitlines()
    assert error._render_traceback_()[1] == "  --> cell [12], line 2"
    assert "  called from cell [12], line 5 in kernel" in error._render_traceback_()


def test_an_error_without_a_place():
    error = ViewError("no")
    assert str(error) == "error[NKI105]: no"
    assert (error.span, error.spans) == (None, [])


def test_an_error_of_a_text_has_its_line_instead_of_a_place():
    error = BadKernelText("odd", line=12, column=3, text="\tλ?", help="mend it", notes=["n"])
    assert str(error).splitlines() == [
        "error[NKI606]: line 12, column 3: odd",
        "   12 | \tλ?",
        "      | \t ^",
        "  note: n",
        "  help: mend it",
    ]


def test_errors_of_a_kernel_are_in_the_order_of_their_lines():
    first, second = raised("/x/a.py", "second"), raised("/x/a.py", "first", error=ViewError)
    second.stack = second.stack[1:]  # line 5
    lost = ViewError("lost")
    together = KernelErrors([lost, second, first])
    assert together.errors == (first, second, lost)
    assert in_order([second, lost, first]) == [first, second, lost]
    assert together.stack == first.stack
    lines = str(together).splitlines()
    assert [line for line in lines if line.startswith("error")] == [
        "error[NKI203]: second", "error[NKI105]: first", "error[NKI105]: lost",
    ]  # fmt: skip
    assert lines[-1] == "3 errors in this kernel"


@pytest.mark.parametrize(("name", "text"), [
    ("tensor_tensr", "did you mean `tensor_tensor` or `tensor_scalar`?"),
    ("activatoin", "did you mean `activation`?"),
    ("zzz", ""),
])  # fmt: skip
def test_close_matches(name, text):
    assert close_matches(name, ["tensor_tensor", "activation", "tensor_scalar"]) == text


# Kernels' and commands' own exceptions, which nobody here can correct; comparisons, which show where arrays differ.
_WITHOUT_HELP = {
    "cli/kernel_file.py": "UsageError",
    "migration/modules.py": "UsageError",
    "session/evaluate.py": "UsageError CheckFailed",
    "errors/tracebacks.py": "NkiError",
}


def test_every_error_says_what_to_write_instead():
    kinds = {error.__name__: error for error in CLASSES if error is not KernelErrors}
    package = Path(errors.__file__).parents[1]
    without = {}
    for file in sorted(package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        own = set(re.findall(r"^class (\w+)", text, re.MULTILINE))  # of the same name, but no error
        for call in ast.walk(ast.parse(text)) if "nki_lab.errors" in text else ():
            kind = isinstance(call, ast.Call) and kinds.get(getattr(call.func, "id", ""))
            if not kind or kind.usual_help or kind.__name__ in own or not call.args:
                continue
            if not any(k.arg in ("help", None) for k in call.keywords):
                name = file.relative_to(package).as_posix()
                without.setdefault(name, set()).add(kind.__name__)
    assert without == {name: set(kinds.split()) for name, kinds in _WITHOUT_HELP.items()}
