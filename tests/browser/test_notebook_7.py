"""Tests what the extension does in Notebook 7, which has only some of JupyterLab's parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import Console, Lab, Notebook, browser, picture
from tests.browser.test_extension import IMPORTS, KERNEL, MAGIC, SETUP, marked
from tests.browser.test_extension_hover import point_at
from tests.browser.test_marks import DOUBLE, WRONG
from tests.browser.test_renderers import (
    KERNEL_TABS,
    PROFILE_TABS,
    item,
    tabs,
    views,
    write_runs,
)

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


@pytest.fixture(scope="module")
def notebook_7(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a Notebook 7 with both halves of nki_lab; skip where it is not installed."""
    pytest.importorskip("notebook")
    folder = tmp_path_factory.mktemp("files")
    write_runs(folder)
    with Lab(folder, application="notebook") as lab:
        yield lab


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """Open a page; its test fails when something of ours raises or logs an error.

    Notebook 7 raises an error of its own at its start, without us as well.
    """
    with browser(chromium) as page:
        console = Console().listen(page)
        stacks: list[str] = []
        page.on("pageerror", lambda error: stacks.append(error.stack or ""))
        yield page
        assert [stack for stack in stacks if "nki-lab" in stack] == []
        # A refused file is answered with 422, which the browser logs, too.
        errors = [text for text in console.errors if "status of 422" not in text]
        assert [text for text in errors if "nki" in text.lower()] == []


def open_notebook(lab: Lab, page: Page, name: str) -> Notebook:
    page.goto(f"{lab.url}/notebooks/{name}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    notebook = Notebook(page)
    notebook.wait_for_kernel()
    return notebook


def test_names_are_coloured_and_views_are_alive(notebook_7: Lab, page: Page) -> None:
    shown = f"{MAGIC.replace('none', 'report')}\n{KERNEL}"
    name = notebook_7.write("coloured.ipynb", SETUP, shown, IMPORTS + KERNEL)
    notebook = open_notebook(notebook_7, page, name)
    assert notebook.run_all()
    view = page.locator(".nki-view")
    view.locator(".nki-value").first.wait_for()
    notebook.screenshot("notebook7-views")
    assert marked(page, 1, "isa") == ["nisa.tensor_tensor", "nisa.dma_copy"]
    assert marked(page, 1, "option") == ["--target", "--show", "--run", "--check"]
    assert marked(page, 2, "isa") == []


def test_a_mistake_is_marked_at_its_place(notebook_7: Lab, page: Page) -> None:
    notebook = open_notebook(
        notebook_7, page, notebook_7.write("wrong.ipynb", SETUP, DOUBLE, WRONG)
    )
    assert not notebook.run_all()
    mark = page.locator(".jp-CodeCell").nth(2).locator(".cm-lintRange")
    expect(mark.first).to_be_visible()
    notebook.screenshot("notebook7-marks")
    assert "ad" in "".join(mark.all_inner_texts())


def test_names_are_explained_and_completed(notebook_7: Lab, page: Page) -> None:
    notebook = open_notebook(
        notebook_7, page, notebook_7.write("names.ipynb", f"{MAGIC}\n{KERNEL}")
    )
    card = point_at(page, "nisa.tensor_tensor", "isa")
    notebook.screenshot("notebook7-hover")
    assert card.inner_text().startswith("nisa.tensor_tensor(dst")
    page.locator(".jp-CodeCell .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\n    nisa.tensor_ten")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer-item").filter(has_text="tensor_tensor")
    offered.first.wait_for()
    notebook.screenshot("notebook7-completion")


@pytest.mark.parametrize(
    ("name", "expected"), [("add.nkic", KERNEL_TABS), ("add.profile.json", PROFILE_TABS)]
)
def test_a_file_opens_in_views(name: str, expected: list[str], notebook_7: Lab, page: Page) -> None:
    page.goto(f"{notebook_7.url}/tree")
    item(page, name).wait_for()
    with page.context.expect_page() as opened:
        item(page, name).dblclick()
    shown = opened.value
    shown.set_viewport_size({"width": 1400, "height": 1000})
    frame = views(shown)
    assert tabs(frame) == expected
    picture(shown, f"renderer-notebook7-{name}")


def test_a_corrupt_file_is_one_message(notebook_7: Lab, page: Page) -> None:
    page.goto(f"{notebook_7.url}/edit/cut.profile.json?factory=NKI%20views")
    alert = page.locator(".jp-Document [role=alert]")
    alert.wait_for()
    assert alert.inner_text().startswith("cut.profile.json is not a readable profile")
