"""Tests that the driver of JupyterLab sees results, and cells that raise."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

from tests.browser.lab import Console, Lab, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]


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


SLOW = """<p>0</p><script>
  let n = 0;
  setInterval(() => { if (n < 6) document.querySelector('p').textContent = ++n === 6 ? 'there' : n; }, 1000);
</script>"""


def wait_in_vain(chromium, page_of, still):
    """Wait for what never comes."""
    with browser(chromium, still=still) as page:
        page_of(page)
        page.locator("h6", has_text="never").wait_for()


def test_a_wait_lasts_while_something_moves_and_fails_when_nothing_does(chromium, tmp_path):
    (tmp_path / "slow.html").write_text(SLOW)
    waited = []

    def slow(page):
        page.goto((tmp_path / "slow.html").as_uri())
        expect(page.locator("p")).to_have_text("there")  # after six seconds
        waited.append(True)

    with pytest.raises(TimeoutError, match="nothing has moved for 3 seconds"):
        wait_in_vain(chromium, slow, still=3)
    assert waited


def test_an_open_notebook_is_still(chromium, tmp_path):
    """What JupyterLab asks its server for by itself is not taken for a move."""
    write(tmp_path / "idle.ipynb", "1 + 1")
    with Lab(tmp_path) as lab, pytest.raises(TimeoutError, match="15 seconds"):
        wait_in_vain(chromium, lambda page: lab.open(page, "idle.ipynb").run_all(), still=15)
