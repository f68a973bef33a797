"""Tests that a cell, `%nki` and `nki-lab run` answer the same request with the same words."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nki_lab.cli.main import app
from tests.magics.notebook import Notebook, bare, notebook, shell

__all__ = ["bare", "notebook", "shell"]  # fixtures

KERNEL = """
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out
"""
FILE = f"import nki\nimport nki.language as nl\n\n@nki.jit{KERNEL}"
DATA = "import numpy as np\na = np.ones((128, 8), np.float32)"


def said(notebook: Notebook, folder: Path, options: list[str]) -> list[str]:
    """Return what the cell, the line magic and the command say."""
    line = " ".join(f'"{word}"' if " " in word or "(" in word else word for word in options)
    notebook.run(DATA)
    cell = notebook.run(f"%%nki --run twice(a) {line}{KERNEL}").text
    magic = notebook.run(f"%nki --run twice(a) {line}").text
    file = folder / "twice.py"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["run", str(file), "--input", "a=ones:128x8", *options])
    return [cell, magic, done.output]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--check", "a + a"], "matches: max abs error 0, max rel error 0"),
        (["--check", "a"], "the result differs in 1024 of 1024 elements"),
        (["--check", "a[0]"], "the result has shape [128, 8], the reference [8]"),
        (["--rtol", "1"], "--rtol is a tolerance of --check, but --check is not given"),
        (["--bench"], "us for one call"),
        (["--analyse", "path"], "critical path: "),
        (["--what-if", "line=99"], "no instruction comes from line 99"),
        (["--target", "trn0"], "--target: there is no target `trn0`"),
        (["--show", "irr"], "--show: unknown view `irr`"),
        (["--timeout", "x"], "--timeout: `x` is not a positive number of seconds"),
        (["--quiet", "--bench"], "--bench cannot be combined with --quiet: nothing would be shown"),
        (["--target", "trn1"], "twice on trn1: "),
    ],
)
def test_faces_say_the_same(notebook: Notebook, tmp_path: Path, options: list[str], words: str):
    cell, magic, command = said(notebook, tmp_path, options)
    assert words in cell
    assert words in magic
    assert words in command
