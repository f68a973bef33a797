"""Tests that cells, files and checks find out which dialect they are written in."""

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.dialects import NKI
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import MixedDialects, NotModelled
from tests.cli.conftest import command, write  # noqa: F401
from tests.magics.notebook import bare, notebook, shell  # noqa: F401

# Fixtures are parameters of tests.
# ruff: noqa: F811

IMPORTS = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
"""
KERNEL = """\
@nki.jit
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out
"""
TODAY = """\
import nki.language as modern
def today(a):
    out = modern.ndarray(a.shape, dtype=a.dtype, buffer=modern.shared_hbm)
    modern.store(out, modern.load(a))
    return out
"""


def test_a_cell_is_of_the_dialect_that_it_imports(notebook):
    notebook.good(f'%%nki --run "twice(a)" --check "a * 2"\n{IMPORTS}{KERNEL}')
    assert notebook["twice"].source.dialect is BETA1


@pytest.mark.parametrize("option", ["--dialect beta1", "--nki beta1"])
def test_a_cell_without_imports_says_it_with_an_option(notebook, option):
    notebook.good(f'%%nki {option} --run "twice(a)" --check "a * 2"\n{KERNEL}')
    assert notebook["twice"].source.dialect is BETA1


def test_a_function_without_a_decorator_is_a_kernel_of_its_names_dialect(notebook):
    notebook.good(
        f'%%nki --run "twice(a)" --check "a * 2"\n{IMPORTS}{KERNEL.removeprefix("@nki.jit")}'
    )
    assert notebook["twice"].source.dialect is BETA1
    notebook.good(f'%%nki --run "today(a)" --check a\n{TODAY}')
    assert notebook["today"].source.dialect is NKI


def test_names_that_the_cell_does_not_import_are_of_the_dialect_that_it_does(notebook):
    text = KERNEL.replace("nl.load(a) * 2.0", "nisa.activation(op=nl.exp, data=nl.load(a))")
    notebook.good(f'%%nki --run "twice(a)" --check "np.exp(a)"\n{IMPORTS}{text}')


TWO_KERNELS = f"""\
%%nki
from nki import jit
{IMPORTS}{KERNEL}
@jit
{TODAY.partition("def")[1]}{TODAY.partition("def")[2]}"""


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (TWO_KERNELS, "kernels of two dialects: `twice` of the older dialect (neuronxcc.nki), and `today` of today's"),
        (f"%%nki --dialect nki\n{IMPORTS}{KERNEL}", "in the older dialect (neuronxcc.nki), and dialect nki is asked"),
        (f"%%nki --nki 0.6\n{IMPORTS}{KERNEL}", "and version 0.6 is asked for"),
        (f"%%nki --nki beta1\n{TODAY}", "`today` is written in today's NKI (nki), and dialect beta1 is asked for"),
        (f'%%nki --run "twice(a)"\nimport nki.language as modern\n{IMPORTS}{KERNEL.replace("nl.load", "modern.load")}',
         "`twice` uses two dialects"),
    ],
    ids=["two kernels", "--dialect nki", "--nki 0.6", "--nki beta1", "one kernel"],
)  # fmt: skip
def test_what_mixes_dialects_is_refused(notebook, cell, message):
    notebook.good("import nki.language as modern")
    outcome = notebook.bad(cell)
    assert isinstance(outcome.error, MixedDialects)
    assert message in outcome.text.replace("\n", " ")


@pytest.mark.parametrize("comment", ["# nki: beta1\n", ""])
def test_a_file_says_it_by_imports_or_a_comment(command, write, comment):
    write("k.py", f"{comment}{IMPORTS}\n{KERNEL}")
    done = command("run", "k.py:twice", "--input", "a=randn:128x8", "--check", "a * 2")
    assert done.exit_code == 0, done.stderr
    refused = command(
        "run", "k.py:twice", "--input", "a=randn:128x8", "--check", "a * 2", "--dialect", "nki"
    )
    assert refused.exit_code == 1 and "dialect nki is asked for" in refused.stderr
    for version in () if comment else ("0.6", "0.7"):  # what a comment says holds for any version
        other = command("run", "k.py:twice", "--input", "a=randn:128x8", "--nki", version)
        assert other.exit_code == 1 and f"version {version} is asked for" in other.stderr


def test_the_modules_are_there_only_where_they_are_asked_for():
    with aliases():
        import neuronxcc.nki.compiler as ncc
        import neuronxcc.nki.isa.constants as constants
        import neuronxcc.nki.typing as nt
        from neuronxcc import nki
        from neuronxcc.nki.language.constants import sizeinbytes

        assert nki.compiler is ncc and nki.typing is nt
        types = (np.float32, nki.language.bfloat16, nki.language.float8_e4m3, "int16")
        assert [sizeinbytes(dtype) for dtype in types] == [4, 2, 1, 2]
        assert constants.oob_mode is nki.isa.oob_mode
        with pytest.raises(
            NotModelled, match="attention: there is no prebuilt kernel `flash_fwt`"
        ) as e:
            from neuronxcc.nki.kernels.attention import flash_fwt  # noqa: F401
        assert "did you mean `flash_fwd`" in e.value.help
