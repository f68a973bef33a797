"""Tests that the driver of JupyterLab sees results, and cells that raise."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.lab import Console, Lab, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def write(path, *cells):
    # Without it JupyterLab asks which kernel to take.
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=kernel)
    nbformat.write(notebook, path)


def test_results_and_raised_errors_are_seen(chromium, tmp_path):
    write(tmp_path / "right.ipynb", "import nki_lab", "print(6 * 7)")
    # The kernel drops cells that wait when one raises, so the second one is given time to arrive.
    write(tmp_path / "wrong.ipynb", "import time\ntime.sleep(1)\n1 / 0", "print('not reached')")
    with Lab(tmp_path) as lab, browser(chromium) as page:
        console = Console().listen(page)
        notebook = lab.open(page, "right.ipynb")
        assert notebook.run_all()
        assert [[o["text"] for o in cell] for cell in notebook.outputs()] == [[], ["42\n"]]
        notebook.cell("6 * 7").locator("pre", has_text="42").wait_for()
        assert console.requests == []
        notebook = lab.open(page, "wrong.ipynb")
        assert not notebook.run_all()
        first, second = notebook.outputs()
        assert [o["ename"] for o in first] == ["ZeroDivisionError"]
        assert second == []
