"""Can a newcomer open the first notebook in JupyterLab, run it to the end, and see what it shows?"""

import shutil

import nbformat
import pytest

from tests.browser.lab import ROOT, Console, Lab, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "01_first_kernel.ipynb"


def texts(outputs) -> str:
    return "".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


def test_the_first_notebook_runs_and_shows_what_is_stored(chromium, tmp_path):
    stored = shutil.copy(ROOT / "workshop" / NAME, tmp_path)
    code = [c for c in nbformat.read(stored, as_version=4).cells if c.cell_type == "code"]
    with Lab(tmp_path) as lab, browser(chromium) as page:
        console = Console().listen(page)
        notebook = lab.open(page, NAME)
        notebook.screenshot("first_notebook_opened")
        assert notebook.run_all()

        assert [texts(outputs) for outputs in notebook.outputs()] == [
            texts(cell.outputs) for cell in code
        ]
        report = notebook.cell("def add(a, b):")
        report.scroll_into_view_if_needed()
        report.get_by_text("modelled from public documents").first.wait_for()
        notebook.screenshot("first_notebook_kernel")
        mistake = notebook.cell("--expect NKI107")
        mistake.scroll_into_view_if_needed()
        mistake.get_by_text("256 partitions, the memory has 128").wait_for()
        notebook.screenshot("first_notebook_mistake", mistake)
        timeline = notebook.cell('add_tiles(a_tall, b_tall)" --show timeline')
        timeline.scroll_into_view_if_needed()
        timeline.get_by_text("TENSOR_TENSOR").first.wait_for()
        notebook.screenshot("first_notebook_timeline", timeline)

        assert console.errors == []
        assert console.requests == []
