"""Tests that a version refuses the same in a cell, on the command line, in `run`, in `simulate` and in a call."""

import runpy

import numpy as np
import pytest

import nki_lab
from nki_lab.api import nki
from nki_lab.errors import NkiError
from tests.magics.notebook import Notebook, cell

X = np.random.default_rng(29).integers(-9, 9, (32, 6)).astype(np.float32)
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
DOORS = ["cell", "command", "run", "simulate", "call"]

NESTED = """\
@nki.jit(compile_config=nki.compiler.CompileConfig(prefetch_auto=True))
def double(t):
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)


@nki.jit
def kernel(x):
    t, out = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    double(t)
    nl.store(out, t)
    return out
"""
OVERRIDDEN = NESTED.replace(
    "@nki.jit\n",
    "@nki.jit(specialization_config=nki.compiler.SpecializationConfig(allow_nested_config_override=True))\n",
)
MIXED = """\
# nki: 0.5
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x, dge_mode=2)
    nl.fori_loop(0, 2, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0))
    nl.store(out, t)
    return out
"""
UNKNOWN = MIXED.replace("0.5", "0.9")
TOO_NEW = NESTED.replace("@nki.jit\n", "# nki: 0.6\n@nki.jit\n")

ERRORS = {
    "nested": (NESTED, ("kernel `double` has another configuration", "prefetch_auto=True")),
    "mixed": (MIXED, ("mixes two versions of NKI", "is new in 0.6", "ended with 0.2")),
    "unknown": (UNKNOWN, ("# nki=0.9", "`0.9` is not one of 0.1, 0.2")),
    "too new": (TOO_NEW, ("`compile_config` is new in NKI 0.7", "`double` is written for NKI 0.6")),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ERRORS)
def test_the_error_is_the_same_through_every_door(
    name, door, notebook: Notebook, command, tmp_path
):
    text, words = ERRORS[name]
    if door == "cell":
        notebook.shell.user_ns["x"] = X
        said = notebook.bad(cell("--run 'kernel(x)'", HEAD + text)).text
    elif door == "command":
        (tmp_path / "kernels.py").write_text(HEAD + text)
        done = command("run", "kernels.py:kernel", "--input", "x=randn:32x6")
        assert done.exit_code in (1, 2)  # 2: the file is not what it must be
        said = done.output
    else:
        with pytest.raises(NkiError) as caught:
            called(door, kernel_of(text, tmp_path))
        said = str(caught.value)
    joined = " ".join(said.split())
    assert all(word in joined for word in words), said


@pytest.mark.usefixtures("notebook")  # which makes `import nki` ours
@pytest.mark.parametrize("door", ["run", "simulate", "call"])
def test_an_override_runs_under_the_configuration_of_the_caller(door, tmp_path):
    value = called(door, kernel_of(OVERRIDDEN, tmp_path))
    np.testing.assert_array_equal(value, 2 * X)


def test_an_unknown_version_as_an_option(notebook: Notebook, command, tmp_path):
    text = MIXED.replace("# nki: 0.5\n", "")
    notebook.shell.user_ns["x"] = X
    (tmp_path / "kernels.py").write_text(HEAD + text)
    done = command("run", "kernels.py:kernel", "--input", "x=randn:32x6", "--nki", "0.9")
    assert done.exit_code != 0
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel_of(text, tmp_path), X, nki="0.9")
    for said in (
        notebook.bad(cell("--nki 0.9 --run 'kernel(x)'", HEAD + text)).text,
        done.output,
        str(caught.value),
    ):
        assert "0.9" in said and "0.1, 0.2" in said, said


def kernel_of(text: str, folder):
    file = folder / "kernels.py"
    file.write_text(HEAD + text)
    return runpy.run_path(str(file))["kernel"]


def called(door: str, kernel):
    if door == "run":
        return nki_lab.run(kernel, X).value
    return (nki.simulate(kernel) if door == "simulate" else kernel)(X)
