"""Tests that everything that the notebooks show is also seen where nothing is alive: exported, reopened, not trusted.

README has the table of front ends; what it calls tested is tested here, by nbval and in tests/browser.
"""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

from nki_lab.views.registry import view_names
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE
from nki_lab.widgets.picture import Picture
from tests.browser.lab import Console, Lab, browser
from tests.notebooks.front_ends import (
    Shown,
    displays,
    every_view,
    executed,
    exported,
    faults,
    offline,
    page_faults,
)
from tests.thorough import first

ROOT = Path(__file__).parents[2]
# Exercises that nobody has solved raise, so solved notebooks run; those without exercises have no solutions.
SOLVED = {path.name: path for path in (ROOT / "workshop" / "solutions").glob("*.ipynb")}
NOTEBOOKS = [SOLVED.get(p.name, p) for p in sorted((ROOT / "workshop").glob("*.ipynb"))]

pytestmark = [pytest.mark.notebook, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory):
    """Return the notebook of every view, executed."""
    return executed(every_view(), tmp_path_factory.mktemp("every"))


def test_every_view_leaves_text_and_a_picture_and_is_seen_offline(every, chromium, tmp_path):
    stored = displays(every)
    assert len(stored) == 1 + len(view_names()) + 1 + 4
    assert [fault for shown in stored for fault in faults(shown)] == []
    with browser(chromium) as page:
        console = Console().listen(page)
        offline(page, exported(every), tmp_path)
        assert list(page_faults(page, stored)) == []
        assert not any("nki" in error for error in console.errors)


@pytest.mark.parametrize("path", first(NOTEBOOKS), ids=lambda path: path.stem)
def test_the_workshop_is_seen_offline(path: Path, chromium, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    stored = displays(
        notebook
    )  # as stored in the file: that it is what comes out is nbval's to check
    assert [fault for shown in stored for fault in faults(shown)] == []
    with browser(chromium) as page:
        offline(page, exported(notebook), tmp_path)
        assert list(page_faults(page, stored)) == []


def test_what_jupyterlab_saves_is_seen_offline(every, chromium, tmp_path):
    """It stores the id of the live view, but no state of it unless that is asked for."""
    notebook = nbformat.from_dict(every)
    notebook.metadata.pop("widgets", None)
    stored = displays(notebook)
    for cell in notebook.cells[1:]:
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data[LIVE_TYPE] = {}
                output.data[WIDGET_TYPE] = {
                    "version_major": 2,
                    "version_minor": 0,
                    "model_id": "gone",
                }
    with browser(chromium) as page:
        offline(page, exported(notebook), tmp_path)
        assert list(page_faults(page, stored)) == []


@pytest.mark.thorough
def test_it_is_seen_in_jupyterlab_without_a_kernel_and_without_trust(every, chromium, tmp_path):
    notebook = nbformat.from_dict(every)
    notebook.metadata["kernelspec"] = {"name": "nowhere", "display_name": "Nowhere"}
    nbformat.write(notebook, tmp_path / "every.ipynb")  # by somebody else: nothing has signed it
    stored = displays(notebook)
    with Lab(tmp_path) as lab, browser(chromium) as page:
        console = Console().listen(page)
        page.goto(f"{lab.url}/lab/workspaces/every/tree/every.ipynb?reset")
        page.get_by_role("button", name="No Kernel", exact=True).click()
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        trusted = (
            "[...window.jupyterapp.shell.currentWidget.content.widgets].map((c) => c.model.trusted)"
        )
        assert True not in page.evaluate(trusted)[1:]
        for number in {shown.cell for shown in stored}:
            page.locator(
                f".jp-Cell[data-windowed-list-index='{number}']"
            ).scroll_into_view_if_needed()
        seen = [f for s in stored for f in _in_lab(page, s)]
        assert seen == []
        assert console.requests == []


def _in_lab(page, shown: Shown):
    """Yield what is wrong with a display in JupyterLab, which draws cells that are near only."""
    cell = page.locator(".jp-Cell").nth(shown.cell)
    cell.scroll_into_view_if_needed()
    picture = cell.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg").first
    picture.wait_for()
    box = picture.bounding_box()
    if box is None or box["width"] < 100 or box["height"] < 40:
        yield f"cell {shown.cell}: its picture cannot be seen"


def test_faults_are_found(chromium, tmp_path):
    picture = Picture(600, 300)
    picture.fill(50, 50, 400, 200, "#1557d6")
    png = base64.b64encode(picture.done()).decode()
    good = {"text/plain": "a run", "image/png": png}
    assert list(faults(Shown(1, good))) == []
    assert list(faults(Shown(1, {**good, "text/plain": " "}))) == ["has no text"]
    assert list(faults(Shown(1, {"text/plain": "a run"}))) == ["has no picture"]
    assert "needs" not in next(faults(Shown(1, {**good, "image/png": png * 2000})))
    assert [*faults(Shown(1, {**good, WIDGET_TYPE: {}}))] == [
        f"has forms that need a kernel or a script: {WIDGET_TYPE}"
    ]
    bad = "<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"
    assert list(faults(Shown(1, {**good, "image/svg+xml": bad}))) == ["has a script"]

    # A page on which a live view was preferred to the picture shows none; one with another picture is told.
    pixels = np.random.default_rng(0).integers(0, 255, (300, 600, 3), dtype=np.uint8)
    other = BytesIO()
    Image.fromarray(pixels).save(other, "png")
    output = nbformat.v4.new_output(
        "display_data", {"image/png": base64.b64encode(other.getvalue()).decode()}
    )
    cell = nbformat.v4.new_code_cell("x", outputs=[output])
    with browser(chromium) as page:
        offline(page, exported(nbformat.v4.new_notebook(cells=[cell])), tmp_path)
        assert "looks otherwise" in next(page_faults(page, [Shown(0, good)]))
        output.data = {
            WIDGET_TYPE: {"model_id": "m", "version_major": 2, "version_minor": 0},
            "image/png": png,
        }
        notebook = nbformat.v4.new_notebook(cells=[cell])
        state = {
            "m": {"model_name": "LayoutModel", "model_module": "@jupyter-widgets/base", "state": {}}
        }
        notebook.metadata["widgets"] = {
            "application/vnd.jupyter.widget-state+json": {
                "version_major": 2,
                "version_minor": 0,
                "state": state,
            }
        }
        offline(page, exported(notebook), tmp_path)
        assert list(page_faults(page, [Shown(0, good)])) == ["0 pictures are shown of 1"]
