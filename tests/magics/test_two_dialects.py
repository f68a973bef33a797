"""Tests that cells of two dialects in one notebook keep their own modules, though they share names such as `nl`."""

import pytest

from nki_lab.dialects import NKI
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import MixedDialects
from tests.magics.notebook import bare, notebook, shell  # noqa: F401

# Fixtures are parameters of tests.
# ruff: noqa: F811

OLDER_IMPORTS = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
TODAYS_IMPORTS = "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
# Only today's has an operand `dst`; only the older dialect has index tensors.
TODAYS = """\
def helped(t, x):
    nisa.activation(dst=t, op=nl.exp, data=x)

@nki.jit
def today(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    helped(t, nl.load(a))
    nl.store(out, t)
    return out
"""
OLDER = """\
def place():
    return nl.arange(128)[:, None], 23 - nl.arange(24)[None, :]

@nki.jit
def older(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_p, i_f = place()
    nl.store(out, nl.load(a[i_p, i_f]))
    return out
"""
# It means the same in both dialects.
SHARED = """\
%%nki --run "twice(a)" --check "a * 2"
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out
"""
MIXED = """\
@jit
def today(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nl.store(out, t)
    return out
"""
CHECK_TODAY = '--run "today(a)" --check "np.exp(a)"'
CHECK_OLDER = '--run "older(a)" --check "a[:, ::-1]"'
TODAY_CELL = f"%%nki {CHECK_TODAY}\n{TODAYS}"
OLDER_CELL = f"%%nki {CHECK_OLDER}\n{OLDER_IMPORTS}{OLDER}"


def _both_run(notebook):
    for _ in range(2):
        notebook.good(f"%nki {CHECK_TODAY}")
        notebook.good(f"%nki {CHECK_OLDER}")
    assert notebook["today"].source.dialect is NKI
    assert notebook["older"].source.dialect is BETA1


@pytest.mark.parametrize("imports", ["", TODAYS_IMPORTS], ids=["ready names", "imports"])
def test_kernels_keep_the_modules_of_their_cells(notebook, imports):
    today = f"%%nki {CHECK_TODAY}\n{imports}{TODAYS}"
    notebook.good(today)
    notebook.good(OLDER_CELL)
    _both_run(notebook)
    for cell in (today, OLDER_CELL, today):  # each is run again
        notebook.good(cell)
        _both_run(notebook)


def test_it_is_the_same_with_kernels_of_plain_cells(notebook):
    notebook.good(TODAYS_IMPORTS + TODAYS)
    notebook.good(OLDER_IMPORTS + OLDER)
    _both_run(notebook)


def test_a_run_is_traced_again_with_the_modules_that_it_had(notebook):
    notebook.good(TODAY_CELL)
    first = notebook["today_result"]
    notebook.good(OLDER_CELL)
    retrace = first.retrace
    assert retrace.iterations(first.compiled.kernel) is not None
    notebook.good("%nki_layout today_result")
    notebook.good(
        "compiled = today.compile(a)\nassert np.allclose(compiled(a), np.exp(a), rtol=1e-5)"
    )


def test_a_cell_without_imports_has_the_modules_that_it_had_or_what_plain_python_imports(notebook):
    notebook.good(SHARED)
    assert notebook["twice"].source.dialect is NKI
    notebook.good(OLDER_CELL)
    notebook.good(SHARED)
    assert notebook["twice"].source.dialect is NKI


def test_a_cell_without_imports_follows_what_plain_python_imports(notebook):
    notebook.good(SHARED)
    notebook.good(OLDER_IMPORTS)
    notebook.good(SHARED)
    assert notebook["twice"].source.dialect is BETA1


def test_a_cell_takes_ready_names_of_the_dialect_that_it_imports(notebook):
    notebook.good(TODAY_CELL)  # which leaves today's nisa
    text = OLDER.replace(
        "nl.load(a[i_p, i_f])", "nisa.activation(op=nl.copy, data=nl.load(a[i_p, i_f]))"
    )
    notebook.good(f"%%nki {CHECK_OLDER}\n{OLDER_IMPORTS}{text}")


def test_a_cell_that_mixes_dialects_is_refused(notebook):
    imports = "import neuronxcc.nki.language as nl\nfrom nki import isa as nisa, jit\n"
    outcome = notebook.bad(f"%%nki {CHECK_TODAY}\n{imports}{MIXED}")
    assert isinstance(outcome.error, MixedDialects)
    assert "uses two dialects" in str(outcome.error)


METHOD = TODAYS.replace("def helped", "class C:\n  @staticmethod\n  def helped")
METHOD = METHOD.replace("    nisa.", "      nisa.").replace("    helped(t", "    C.helped(t")


def test_what_cannot_keep_its_modules_is_told(notebook):
    """A method reads the globals of the notebook, whatever kernel calls it."""
    notebook.good(TODAYS_IMPORTS + METHOD)
    notebook.good(f"%nki {CHECK_TODAY}")
    notebook.good(f"{OLDER_IMPORTS}import neuronxcc.nki.isa as nisa\n")
    outcome = notebook.bad(f"%nki {CHECK_TODAY}")
    assert isinstance(outcome.error, MixedDialects)
    assert "has imported another dialect as `nisa`" in str(outcome.error)
