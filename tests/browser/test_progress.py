"""Tests that the work of a cell is shown while it runs, and that its button stops it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab, Notebook
from tests.long_kernel import LONG

pytestmark = pytest.mark.browser

# The loop is long for everybody, and its values do not matter.
SETUP = f"""\
%load_ext nki_lab
import numpy as np, time
a = np.ones((128, 512), np.float32)

{LONG}"""
NEXT = "before = time.monotonic()\nprint(float(long(a, 1)[0, 0]), 'is right')"


@pytest.fixture(scope="module")
def bare_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab in which our extension is switched off."""
    with Lab(tmp_path_factory.mktemp("bare")) as lab, lab.without_extension():
        yield lab


def write(lab: Lab, name: str, *cells: str) -> str:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, lab.root / name)
    return name


def start_all(page: Page) -> None:
    page.evaluate(
        "() => { window.ran = window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
    )


def texts(outputs: list[dict]) -> list[str]:
    return [o.get("text", "") or o.get("ename", "") for o in outputs]


def test_a_bar_is_shown_and_its_button_stops_the_cell(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, write(lab, "stopped.ipynb", SETUP, "long(a, 10_000_000)", "1 + 1"))
    start_all(page)  # from a fresh kernel: whether the extension is there is known by then
    bar = page.locator(".nki-progress")
    bar.wait_for()
    assert bar.count() == 1
    assert notebook.cell("long(a, 10_000_000)").locator(".nki-progress").count() == 1
    page.wait_for_function(
        "() => document.querySelector('.nki-progress span').textContent.includes('simulating')"
    )
    assert "long: simulating" in bar.inner_text()
    assert notebook.outputs()[1] == [], "the bar is no output"
    notebook.screenshot("progress")

    pressed = time.monotonic()
    bar.get_by_role("button", name="Stop").click()
    page.wait_for_function("() => window.ran.then(() => true)")
    took = time.monotonic() - pressed
    assert took < 5, "a second on a machine that does nothing else"
    bar.wait_for(state="detached")
    notebook.screenshot("progress-stopped")
    first, stopped, never = notebook.outputs()
    assert first == []
    assert [o["output_type"] for o in stopped] == ["error"]
    assert stopped[0]["ename"] == "KeyboardInterrupt"
    assert never == [], "a cell that was stopped ends Run All"

    run_cell(notebook, "1 + 1", NEXT)
    assert texts(notebook.outputs()[2]) == ["0.7615941762924194 is right\n"]


@pytest.mark.thorough
def test_work_that_ends_leaves_nothing(lab: Lab, page: Page) -> None:
    body = "_ = long(a, 20_000)"
    notebook = lab.open(page, write(lab, "ended.ipynb", SETUP, body, NEXT))
    start_all(page)
    page.locator(".nki-progress").wait_for()
    page.wait_for_function("() => window.ran.then(() => true)")
    page.locator(".nki-progress").wait_for(state="detached")
    assert notebook.outputs()[1] == []
    assert texts(notebook.outputs()[2]) == ["0.7615941762924194 is right\n"]


@pytest.mark.thorough
def test_without_the_extension_an_output_is_updated(bare_lab: Lab, page: Page) -> None:
    body = "print('first')\n_ = long(a, 20_000)\nprint('last')"
    notebook = bare_lab.open(page, write(bare_lab, "bare.ipynb", SETUP, body))
    start_all(page)
    page.locator(".jp-OutputArea progress").wait_for()
    notebook.screenshot("progress-output")
    assert page.locator(".nki-progress").count() == 0
    page.wait_for_function("() => window.ran.then(() => true)")
    assert page.locator(".jp-OutputArea progress").count() == 0
    notebook.screenshot("progress-output-ended")
    first, empty, last = notebook.outputs()[1]
    assert first["text"] == "first\n"
    assert (empty["output_type"], empty["data"]) == ("display_data", {})
    assert last["text"] == "last\n"


def run_cell(notebook: Notebook, old: str, new: str) -> None:
    """Put another text into a cell and run it."""
    notebook.page.evaluate(
        """async ([old, text]) => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          const at = notebook.widgets.findIndex(c => c.model.sharedModel.getSource() === old);
          notebook.activeCellIndex = at;
          notebook.widgets[at].model.sharedModel.setSource(text);
          await window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        [old, new],
    )
