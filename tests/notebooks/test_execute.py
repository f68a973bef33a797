"""Tests that `nki-lab execute` runs notebooks as written, keeps only what lasts, and fails where they fail."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from nki_lab.cli.main import app
from nki_lab.cli.notebook_file import clean
from tests.thorough import first

ROOT = Path(__file__).parents[2]
RUN = """\
%%nki --run "double(x)" --check "x + x" --target trn2
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out"""
LOAD = "%load_ext nki_lab\nimport numpy as np\nx = np.ones((128, 64), dtype=np.float32)"

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def write(*cells: str) -> Path:
        path = tmp_path / "n.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
        return path

    return write


def execute(*words: object):
    return CliRunner().invoke(app, ["execute", *map(str, words)])


def test_the_file_is_written_only_when_asked_and_is_then_the_same_every_time(write):
    path = write(LOAD, RUN, "x.shape")
    before = path.read_bytes()
    assert "3 cells ran" in execute(path).output
    assert path.read_bytes() == before
    assert execute(path, "--write").exit_code == 0
    once = path.read_bytes()
    load, run, shape = nbformat.read(path, as_version=4).cells
    assert load.outputs == []
    assert "matches: max abs error 0" in run.outputs[0].text
    assert shape.outputs[0].data == {"text/plain": "(128, 64)"}
    assert [load.execution_count, shape.execution_count] == [1, 3]
    assert execute(path, "--write").exit_code == 0
    assert path.read_bytes() == once
    assert list(path.parent.iterdir()) == [path]


def test_a_failing_cell_keeps_the_outputs_up_to_it_and_those_stored_behind_it(write):
    path = write("1 + 1", "print('new')\n1 / 0", "2 + 2", "3 + 3")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].outputs = [new_output("stream", text="stored")]
    nbformat.write(notebook, path)
    before = path.read_bytes()
    assert execute(path).exit_code == 1
    assert path.read_bytes() == before
    outcome = execute(path, "--write")
    assert outcome.exit_code == 1
    assert "cell [2] raises ZeroDivisionError" in outcome.output
    first, failing, behind, last = nbformat.read(path, as_version=4).cells
    assert first.outputs[0].data == {"text/plain": "2"}
    assert [o.output_type for o in failing.outputs] == ["stream", "error"]
    assert behind.outputs[0].text == "stored"
    assert last.outputs == []


def test_the_report_is_that_of_the_last_run(write):
    outcome = execute("--report", write(LOAD, RUN, RUN.replace("double", "twice")))
    assert outcome.exit_code == 0
    assert "\ntwice on trn2 (NeuronCore-v3): modelled" in outcome.output
    assert "double" not in outcome.output
    outcome = execute("--report", write("1 + 1"))
    assert outcome.exit_code == 1
    assert "no kernel ran" in outcome.output


@pytest.mark.parametrize(
    ("cell", "words"),
    first(
        [
            ("1 / 0", "cell [2] raises ZeroDivisionError\n\n"),
            (RUN.replace("x + x", "x"), "cell [2] raises CheckFailed\n\nerror[NKI601]: the result"),
            ("%nosuch", "cell [2] raises UsageError\n\nUsageError: Line magic function `%nosuch`"),
            ("%%capture\n1 / 0", "cell [2] raises ZeroDivisionError\n\n"),
            ("%%capture\n%nosuch", "cell [2] raises UsageError\n\n"),
            (
                f"%%capture\n{RUN.replace('x + x', 'x')}",
                "cell [2] raises CheckFailed\n\nerror[NKI601]",
            ),
            ("import time\ntime.sleep(60)", "a cell took more than 5 seconds"),
            ("import os\nos._exit(1)", "the kernel died"),
        ],
        2,
    ),
)
def test_the_first_cell_that_fails_ends_it(write, cell: str, words: str):
    path = write(LOAD, cell, "print('not reached')")
    limit = ["--timeout=5"] if "sleep" in cell else []  # a busy machine needs longer to load
    outcome = execute(path, "--write", *limit)
    assert outcome.exit_code == 1
    assert f"n.ipynb: {words}" in outcome.output
    *_, failing, behind = nbformat.read(path, as_version=4).cells
    assert (failing.source, behind.outputs) == (cell, [])


@pytest.mark.thorough
def test_what_a_command_solves_is_not_kept_as_the_learners(write, tmp_path, monkeypatch):
    monkeypatch.setenv("NKI_LAB_PROGRESS", str(tmp_path / "progress.json"))
    ask = "from nki_lab.exercises import hint, progress\nhint('01.1')\nprint(progress().where)"
    path = write(LOAD, ask)
    assert execute(path, "--write").exit_code == 0
    assert "kept until this kernel ends" in path.read_text()
    command = [sys.executable, "-m", "nki_lab", "validate", str(path)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.ipynb"]


@pytest.mark.parametrize(
    ("text", "words"), [(None, "there is no file"), ("{", "is not a notebook")]
)
def test_what_is_no_notebook_is_refused(tmp_path, text: str | None, words: str):
    if text is not None:
        (tmp_path / "n.ipynb").write_text(text)
    outcome = execute(tmp_path / "n.ipynb")
    assert outcome.exit_code == 1
    assert words in outcome.output


def test_widgets_and_what_an_editor_leaves_behind_are_dropped():
    view = "application/vnd.jupyter.widget-view+json"
    cell = new_code_cell("f()", id="keep", execution_count=7)
    cell.metadata = {"tags": ["slow"], "collapsed": False, "execution": {"t": "1"}}
    data = {"text/plain": "report", "image/png": "AAAA", view: {"model_id": "1"}}
    cell.outputs = [nbformat.v4.new_output("display_data", data, metadata={"image/png": {"w": 1}})]
    where = new_code_cell("import sys; sys.executable", metadata={"tags": ["nbval-ignore-output"]})
    where.outputs = [nbformat.v4.new_output("stream", text="/usr/bin/python3")]
    text = new_markdown_cell("text", id="text", metadata={"editable": True})
    notebook = new_notebook(cells=[text, cell, where])
    notebook.metadata = {"widgets": {"state": {}}, "language_info": {"version": "3.11.7"}}
    clean(notebook)
    assert list(notebook.metadata) == ["kernelspec"]
    assert [c.id for c in notebook.cells[:2]] == ["text", "keep"]
    assert where.outputs == []
    assert text.metadata == {}
    assert cell.metadata == {"tags": ["slow"]}
    assert cell.execution_count == 1
    assert cell.outputs[0].data == {"text/plain": "report", "image/png": "AAAA"}
    assert cell.outputs[0].metadata == {"image/png": {"w": 1}}


@pytest.mark.thorough
def test_nbval_finds_an_output_that_is_out_of_date_and_a_wrong_option(write):
    path = write(LOAD, RUN, "print('0x7f0012345678')")
    assert execute(path, "--write").exit_code == 0
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs[0].text = notebook.cells[1].outputs[0].text.replace(" us ", "1 us ")
    notebook.cells[2].outputs[0].text = "0x7f9999999999\n"
    wrong = new_code_cell('%nki --run "double(x)" --shwo ir', execution_count=4)
    notebook.cells.append(wrong)
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "nki_lab", "validate", str(path)]
    outcome = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    assert outcome.returncode == 1
    assert "2 failed, 2 passed" in outcome.stdout
    assert re.findall(r"^_+ n.ipynb::(Cell \d) _+$", outcome.stdout, re.M) == ["Cell 1", "Cell 3"]
