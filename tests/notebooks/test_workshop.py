"""Tests that the notebooks of the workshop can be read without a kernel, and fail clearly without nki_lab.

That they run, and that each stored output is what comes out, is nbval's to check (`make test`).
"""

import importlib
import importlib.machinery
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from nki_lab.cli.notebook_file import clean

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "workshop").rglob("*.ipynb"))
BYTES_MAX = 500_000
# Kinds of output that every viewer shows, GitHub's included.
STATIC = {"text/plain", "text/html", "image/png", "image/svg+xml"}

PLOTLY = "application/vnd.plotly.v1+json"

every_notebook = pytest.mark.parametrize(
    "path",
    NOTEBOOKS,
    ids=lambda path: path.relative_to(ROOT / "workshop").with_suffix("").as_posix(),
)


def code_cells(path: Path) -> list:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@every_notebook
def test_it_is_stored_as_execute_writes_it(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    clean(notebook)
    assert path.read_text("utf-8") == nbformat.writes(notebook).rstrip("\n") + "\n"
    assert path.stat().st_size < BYTES_MAX


@every_notebook
def test_cells_have_names_as_ids(path: Path):
    ids = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    assert [i for i in ids if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", i)] == []
    assert len(set(ids)) == len(ids)


@every_notebook
def test_it_has_run_in_order(path: Path):
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))
    assert any(cell.outputs for cell in code_cells(path))


@every_notebook
def test_its_outputs_are_static_and_without_errors(path: Path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
            kinds = set(output.get("data", {}))
            # The data of a chart is for JupyterLab; other viewers show the picture beside it.
            assert kinds - {PLOTLY} <= STATIC and (PLOTLY not in kinds or "image/svg+xml" in kinds)
            assert "\\u001b" not in json.dumps(output)  # no escape codes


@pytest.mark.thorough
@pytest.mark.notebook
@pytest.mark.slow
def test_solved_notebooks_come_out_the_same_on_another_cpu(tmp_path):
    """Run three that show arithmetic with the loops of NumPy and OpenBLAS for a CPU without AVX2 and FMA."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    features = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    older = {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    for name in ("01_first_kernel", "13_reductions", "31_dynamic_loops"):
        shutil.copy(ROOT / "workshop" / "solutions" / f"{name}.ipynb", tmp_path)
    command = [sys.executable, "-m", "nki_lab", "validate", str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, **older}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@every_notebook
def test_it_chooses_its_chip_before_anything_names_one(path: Path):
    _, target, *_ = code_cells(path)
    assert re.fullmatch(r"%nki_target trn[123]", target.source)


@every_notebook
def test_links_lead_to_files(path: Path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            for link in re.findall(r"\]\(([^)#]+)\)", cell.source):
                assert link.startswith("https://") or (path.parent / link).exists()


@every_notebook
def test_without_nki_lab_the_first_cell_says_where_to_install_it(path: Path, monkeypatch):
    first, *_ = code_cells(path)
    magic, *comments = first.source.splitlines()
    assert magic == "%load_ext nki_lab"
    assert len(comments) == 1
    # The comment quotes what a Python without nki_lab says, and is shown with it.
    monkeypatch.setitem(sys.modules, "nki_lab", None)
    monkeypatch.delitem(sys.modules, "nki_lab")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("nki_lab")
    assert f'"{caught.value}"?' in comments[0]
    assert "%pip install 'nki-lab[workshop]'" in comments[0]


def test_all_of_them_together_are_small():
    files = [p for p in (ROOT / "workshop").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert sum(p.stat().st_size for p in files) < 6_000_000
