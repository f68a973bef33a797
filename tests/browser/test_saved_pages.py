"""Tests that a saved page works by itself: no kernel, no server, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page

from nki_lab.frameworks.model_trace import Rows, Tensor, Work
from nki_lab.views.display import display
from nki_lab.views.models.trace import ModelTrace
from nki_lab.views.registry import view_names
from nki_lab.views.run import ViewData
from nki_lab.widgets.theme import SERIES
from tests.browser.lab import Console, browser, picture
from tests.browser.test_views import colours, settle, tab
from tests.views.runs import added
from tests.views.test_display import HOSTILE, hostile_run

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]


@contextmanager
def page_of(data: ViewData, chromium: str, folder: Path, dark: bool = False) -> Iterator[Page]:
    """Open the saved page of a run; nothing may go wrong, and nothing be asked for."""
    file = display(data, view_names()).save_html(folder / "run.html")
    with browser(chromium, width=1200, height=900, anew=True) as page:
        console = Console().listen(page)
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(file.as_uri())
        yield page
        assert console.errors == []
        assert console.requests == [file.as_uri()]


@pytest.mark.parametrize("dark", [False, True])
def test_every_view_of_a_saved_page_is_shown(dark: bool, chromium: str, tmp_path: Path) -> None:
    with page_of(added().view_data, chromium, tmp_path, dark) as page:
        view = page.locator(".nki-view")
        assert ("nki-dark" in view.get_attribute("class")) == dark
        for name in view_names():
            panel = tab(view, name)
            settle(page)
            picture(page, f"saved_{name}_{'dark' if dark else 'light'}")
            assert panel.locator(".error").count() == 0
        series = {False: SERIES[0].light[1:], True: SERIES[0].dark[1:]}
        assert series[dark] in colours(tab(view, "timeline").locator("canvas"))


def test_a_saved_page_shows_names_with_markup_as_they_are(chromium: str, tmp_path: Path) -> None:
    for text in HOSTILE[:2]:
        with page_of(hostile_run(text), chromium, tmp_path) as page:
            assert page.locator(".nki-title").inner_text() == text
            for name in view_names():
                panel = tab(page.locator(".nki-view"), name)
                ours = "[src^='data:image/svg+xml,']"
                assert panel.locator(f"img:not({ours}), script").count() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_a_traced_model_is_shown_with_its_kernels(
    dark: bool, chromium: str, tmp_path: Path
) -> None:
    rows = Rows("trn2")
    given = [Tensor("float32", (128, 512), 128 * 512 * 4)]
    rows.add("lab::added", "norm", given, given, [added()])
    rows.add("aten::mm", "up", given, given, work=Work(10**9, 10**6, 4))
    trace = ModelTrace("model", "trn2", tuple(rows.rows), {"x": "float32[128, 512]"}, None)
    file = trace.show().save_html(tmp_path / "model.html")
    with browser(chromium, width=560 if dark else 1200, height=900, anew=True) as page:
        console = Console().listen(page)
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(file.as_uri())
        view = page.locator(".nki-view").first
        kernel, product = tab(view, "operators").locator(".nki-row").all()
        assert "~" not in kernel.inner_text() and "~" in product.inner_text()
        picture(page, f"model_operators_{dark}")
        kernel.click()
        view.get_by_role("button", name="Show in graph").click()
        chosen = tab(view, "graph").locator(".nki-kernel.nki-chosen .nki-node-name")
        assert chosen.text_content() == "lab::added"
        picture(page, f"model_graph_{dark}")
        view.get_by_role("button", name="Show its views").last.click()
        inner = view.locator(".nki-nested .nki-view")
        for name in view_names():
            assert tab(inner, name).locator(".error").count() == 0
        picture(page, f"model_kernels_{dark}")
        assert "AwsNeuronCustomNativeKernel" in tab(view, "calls").inner_text()
        assert console.errors == [] and console.requests == [file.as_uri()]
