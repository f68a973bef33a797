"""Tests that cells with mistakes fail where notebooks are tested, and that good ones pass."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest

from tests.magics.notebook import ADD, ARRAYS, cell

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


def nbval(folder: Path, cells: list[str]) -> list[str]:
    """Run a notebook that was never executed; return per cell "" or what its failure says."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    file = folder / "cells.ipynb"
    nbformat.write(notebook, file)
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-q"]
    command += ["-p", "no:cacheprovider", "--nbval-cell-timeout", "60", "--color", "no"]
    command += ["--rootdir", str(folder), "-c", os.devnull, f"--junitxml={folder / 'out.xml'}"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(folder / "ipython")}
    environment.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
    subprocess.run(
        [*command, str(file)], cwd=folder, env=environment, capture_output=True, timeout=300
    )
    cases = ElementTree.parse(folder / "out.xml").getroot().iter("testcase")
    return ["".join(f.text or "" for f in case.iter("failure")) for case in cases]


def test_wrong_cells_fail_with_message_and_line(tmp_path: Path):
    load, option, name, statement, good = nbval(
        tmp_path,
        [
            f"%load_ext nki_lab\n{ARRAYS}",
            cell("--rnu 'add(a, b)'"),
            cell(body=ADD.replace("nl.load(b)", "undefined_function(b)")),
            cell(body=ADD.replace("    return out", "    async def other(): pass")),
            cell("--run 'add(a, b)' --check 'a + b'"),
        ],
    )
    # nbval keeps no history, so that cells have no numbers there.
    assert load == ""
    assert "%%nki has no option `--rnu`" in option
    assert "did you mean `--run`" in option
    assert "--> cell, line 1" in option
    assert "name `undefined_function` is not defined" in name
    assert "--> cell, line 5" in name
    assert "`async` is not supported in a kernel" in statement
    assert "--> cell, line 6" in statement
    assert good == ""


def test_edited_kernels_helpers_and_constants_are_followed(tmp_path: Path):
    plus = (
        "@nki.jit\ndef plus(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, helper(nl.load(x)))\n    return out\n"
    )
    options = "--run 'plus(a)' --check 'a + 10'"
    helper = "import nki.language as nl\ndef helper(t):\n    return nl.add(t, STEP)\nSTEP = 10.0"
    outcomes = nbval(
        tmp_path,
        [
            f"%load_ext nki_lab\n{ARRAYS}",
            helper,
            cell(options, plus),
            cell(options, plus.replace("helper(nl.load(x))", "nl.add(nl.load(x), 11.0)")),
            cell(options, plus),
            "def helper(t):\n    return nl.add(t, STEP + 1)",
            "%nki " + options,
            "STEP = 9.0",
            "%nki " + options,
        ],
    )
    failed = [number for number, text in enumerate(outcomes) if text]
    assert failed == [3, 6]
    assert "max abs error 1," in outcomes[3]
    assert "max abs error 1," in outcomes[6]


def test_an_extension_that_cannot_be_loaded_fails_the_first_cell(tmp_path: Path):
    broken = tmp_path / "broken"  # not where pytest runs, whose own plugin would be the broken one
    broken.mkdir()
    (broken / "nki_lab.py").write_text("raise RuntimeError('this is not the package')\n")
    (outcome,) = nbval(
        tmp_path, [f"import sys; sys.path.insert(0, {str(broken)!r})\n%load_ext nki_lab"]
    )
    assert "this is not the package" in outcome
