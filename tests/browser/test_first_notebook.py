"""Tests that a newcomer can open the first notebook in JupyterLab, run it to the end, and see every view."""

import shutil

import nbformat
import pytest
from playwright.sync_api import Locator

from nki_lab.views.registry import view_names
from tests.browser.lab import ROOT, Console, Lab, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "01_first_kernel.ipynb"
READY = ".nki-panel[data-ready=true]"


def texts(outputs: list) -> str:
    return "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


def panel(cell: Locator) -> Locator:
    """Wait for the live view below a cell and return the part of it that is in front."""
    cell.scroll_into_view_if_needed()
    shown = cell.locator(READY).and_(cell.locator(":visible"))
    shown.wait_for()
    return shown


def test_the_first_notebook_runs_and_every_view_comes_alive(chromium, tmp_path):
    # The solved one, whose cells all end well; pictures lie beside its folder.
    (tmp_path / "solutions").mkdir()
    shutil.copytree(ROOT / "workshop" / "pictures", tmp_path / "pictures")
    stored = shutil.copy(ROOT / "workshop" / "solutions" / NAME, tmp_path / "solutions")
    code = [c for c in nbformat.read(stored, as_version=4).cells if c.cell_type == "code"]
    with Lab(tmp_path) as lab, browser(chromium) as page:
        console = Console().listen(page)
        notebook = lab.open(page, f"solutions/{NAME}")
        kernel = notebook.cell("def add(a, b):")
        kernel.scroll_into_view_if_needed()
        kernel.locator("img").wait_for()  # nothing has run: the picture stored in the file
        notebook.screenshot("first_notebook_opened")

        assert notebook.run_all()
        assert [texts(outputs) for outputs in notebook.outputs()] == [
            texts(cell.outputs) for cell in code
        ]

        panel(kernel)
        assert "NeuronCore-v3" in kernel.locator(".nki-head").inner_text()
        for view in view_names():
            kernel.get_by_role("tab", name=view, exact=False).click()
            panel(kernel)
            notebook.screenshot(f"first_notebook_{view}", kernel.locator(".jp-OutputArea").first)
        for view in ("source", "ir", "layout", "memory", "timeline"):
            assert panel(notebook.cell(f'add(a, b)" --show {view}')).count() == 1

        timeline = notebook.cell('add_tiles(a_tall, b_tall)" --show timeline')
        panel(timeline)
        notebook.screenshot("first_notebook_many_tiles", timeline)
        mistake = notebook.cell("--expect NKI107")
        mistake.scroll_into_view_if_needed()
        mistake.get_by_text("129 partitions, but the memory has 128").wait_for()
        notebook.screenshot("first_notebook_mistake", mistake)

        assert console.errors == []
        assert console.requests == []
