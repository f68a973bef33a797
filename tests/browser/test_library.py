"""Tests what JupyterLab shows of a comparison and of an explained kernel, also in a saved notebook without a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Console, Lab, Notebook, browser

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

CELLS = (
    "from nki_lab import kernels",
    'kernels.compare("attention", sizes=[128, 256], target="trn2")',
    'kernels.get("softmax").explain()',
)


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab in an empty folder."""
    with Lab(tmp_path_factory.mktemp("library")) as lab:
        yield lab


def look_at_charts(page: Page) -> None:
    """Find the charts and the table that plotly has drawn."""
    chart = page.locator(".js-plotly-plot")
    chart.locator(".scatterlayer .trace").first.wait_for(state="attached")
    assert chart.locator(".scatterlayer .trace").count() == 6  # three quantities of two kernels
    texts = chart.locator(".table text").all_text_contents()
    shown = {text.replace("\u00a0", " ").strip() for text in texts}
    assert {"flash_attention", "time us", "256.00 KiB"} <= shown


def look_at_tiles(notebook: Notebook) -> None:
    """Find a drawn tile, and the lines of a step."""
    explained = notebook.cell("explain")
    explained.locator("img[alt^='x: SBUF, 128 partitions (rows)']").wait_for()
    explained.locator("summary").first.click()
    lines = explained.locator("pre", has_text="tiles_of_rows").first
    assert "for part, size, tile in" in (lines.text_content() or "")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_charts_and_tiles_are_drawn_and_saved(lab: Lab, chromium: str, theme: str) -> None:
    with browser(chromium, 1100) as page:
        console = Console().listen(page)
        name = f"{theme.split()[-1].lower()}.ipynb"
        notebook = lab.open(page, lab.write(name, *CELLS))
        page.evaluate(
            "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        assert notebook.run_all(), notebook.outputs()
        notebook.show_all_cells()
        look_at_charts(page)
        look_at_tiles(notebook)
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.goto("about:blank")
        text = Path(lab.root / name).read_text(encoding="utf-8")
        assert "plotly" in text and "<script" not in text
        notebook = lab.open(page, name)
        # plotly's extension has stored a picture of its own, and draws it where there is no kernel.
        notebook.cell("compare").locator("img, .js-plotly-plot").first.wait_for()
        notebook.show_all_cells()
        look_at_tiles(notebook)
        notebook.screenshot(f"library-{name[:-6]}")
        assert console.errors == [] and console.requests == []
