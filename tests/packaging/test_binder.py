"""Would Binder build the repository, and does a kernel run in what it builds?"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
CELLS = (
    "%load_ext nki_lab\nimport numpy as np\na = np.arange(128, dtype=np.float32).reshape(64, 2)",
    """\
%%nki --run "double(a)" --check "a + a"
@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out""",
)


def test_the_requirements_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = project["dependencies"] + project["optional-dependencies"]["profile"]
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == sorted(expected)


@pytest.mark.slow
def test_binder_builds_it_and_runs_a_kernel(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone, and Binder builds from one")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "double.ipynb")
    replay = [sys.executable, ROOT / "binder" / "replay.py", tmp_path / "double.ipynb"]
    outcome = subprocess.run(replay, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "execute double.ipynb" in outcome.stdout
