"""Tests the way from the launcher and the palette to a kernel that runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab, Notebook

pytestmark = pytest.mark.browser

_CELLS = """() => {
  const cells = window.jupyterapp.shell.currentWidget?.content?.model?.cells;
  return cells ? Array.from({length: cells.length}, (_, i) => cells.get(i).sharedModel.getSource()) : [];
}"""


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab, whose launcher opens in its root."""
    with Lab(tmp_path_factory.mktemp("start")) as lab:
        yield lab


def open_launcher(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.url}/lab/workspaces/start?reset")
    page.wait_for_selector(".jp-Launcher")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


def execute(page: Page, command: str, **arguments: str) -> None:
    page.evaluate(
        "([command, args]) => { window.jupyterapp.commands.execute(command, args) }",
        [f"nki-lab:{command}", arguments],
    )


def test_the_card_makes_a_notebook_that_runs_and_views_show_it(lab: Lab, page: Page) -> None:
    open_launcher(lab, page)
    card = page.locator(".jp-LauncherCard", has_text="nki_lab workshop")
    Notebook(page).screenshot("launcher")
    card.click()
    page.wait_for_function(f"() => ({_CELLS})().length === 2")
    notebook = Notebook(page)
    notebook.wait_for_kernel()
    assert notebook.run_all()
    assert page.evaluate(_CELLS)[0].startswith("%load_ext nki_lab")

    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1 }")
    execute(page, "show-last-run", magic="%nki_profile")
    page.wait_for_function(f"() => ({_CELLS})()[2] === '%nki_profile'")
    page.locator(".jp-CodeCell").nth(2).locator(".nki-view").first.wait_for()
    notebook.screenshot("new-notebook")


@pytest.mark.thorough
def test_the_card_opens_the_workshop_where_it_is(lab: Lab, page: Page) -> None:
    (lab.root / "nki-workshop").mkdir()
    lab.write("nki-workshop/00_setup.ipynb", "1 + 1")
    open_launcher(lab, page)
    page.locator(".jp-LauncherCard", has_text="nki_lab workshop").click()
    page.wait_for_function(f"() => ({_CELLS})()[0] === '1 + 1'")


@pytest.mark.thorough
def test_a_cell_for_the_chosen_chip_by_keyboard(lab: Lab, page: Page) -> None:
    lab.set("nki-lab:settings", defaultTarget="trn1")
    try:
        lab.open(page, lab.write("insert.ipynb", "1"))
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        page.locator(".cm-content").first.click()
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        page.keyboard.press("k")
        page.wait_for_function(f"() => ({_CELLS})().length === 2")
        assert page.evaluate(_CELLS)[1].startswith("%%nki --target trn1 --run")
    finally:
        lab.set("nki-lab:settings")


@pytest.mark.thorough
def test_the_palette_has_the_commands(lab: Lab, page: Page) -> None:
    lab.open(page, lab.write("palette.ipynb", "1"))
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    page.keyboard.press("Control+Shift+c")
    page.locator(".lm-CommandPalette-input").fill("NKI")
    labels = page.locator(".lm-CommandPalette-itemLabel")
    labels.first.wait_for()
    Notebook(page).screenshot("palette")
    found = "\n".join(labels.all_inner_texts())
    for label in (
        "NKI: New Notebook",
        "NKI: Insert a %%nki Cell",
        "NKI: Explain the Word under the Cursor",
        "NKI: Show Timeline of the Last Run",
        "nki_lab workshop",
    ):
        assert label in found


@pytest.mark.thorough
def test_no_question_about_news_covers_the_first_result(lab: Lab, page: Page) -> None:
    toasts = page.locator(".Toastify__toast", has_text="Jupyter news")
    plugin = "@jupyterlab/apputils-extension:notification"
    name = lab.write("first.ipynb", "1 + 1")
    lab.set(plugin, checkForUpdates=False, fetchNews="none")  # as JupyterLab is without our default
    lab.open(page, name)
    toasts.first.wait_for()
    lab.set(plugin, checkForUpdates=False)
    assert lab.open(page, name).run_all()
    page.wait_for_timeout(2000)
    assert toasts.count() == 0
