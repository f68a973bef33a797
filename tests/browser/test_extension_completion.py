"""Tests what is offered while one writes, from the catalog alone: without a kernel, and beside one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

_SHUT_DOWN = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()"


def write_in(page: Page, cell: int, text: str) -> None:
    """Write behind the text of a code cell, with the keyboard."""
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)


def offered(page: Page) -> list[str]:
    """Press Tab, return what the list offers, in its order, and close the list."""
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").first.wait_for()
    names = page.locator(".jp-Completer-item .jp-Completer-match").all_inner_texts()
    page.keyboard.press("Escape")
    return names


@pytest.mark.thorough
def test_without_a_kernel(lab: Lab, page: Page) -> None:
    cells = ("%%nki", "import nki.isa as ni", "")
    notebook = lab.open(page, lab.write("no_kernel.ipynb", *cells))
    page.evaluate(_SHUT_DOWN)
    page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.sessionContext.session"
    )

    write_in(page, 0, " --ta")
    page.keyboard.press("Tab")
    page.locator(".jp-Completer-item").wait_for()
    page.keyboard.press("Enter")
    assert page.locator(".cm-content").first.inner_text() == "%%nki --target"
    page.keyboard.type(" ")
    assert offered(page)[:2] == ["trn1", "inf2"]
    page.keyboard.type("trn2 --show report,")
    assert "timeline" in offered(page)

    page.keyboard.type("none\nnisa.tensor_t")
    assert offered(page) == ["tensor_tensor", "tensor_tensor_scan"]
    page.keyboard.type("ensor(")
    assert offered(page) == ["dst=", "data1=", "data2=", "op=", "engine=", "name="]
    page.keyboard.type("dst=a, data1=b, data2=c, op=nl.b")
    notebook.screenshot("completion")
    assert offered(page) == ["bitwise_and", "bitwise_or", "bitwise_xor"]
    page.keyboard.type("itwise_or, engine=")
    assert sorted(offered(page)) == [f"nisa.engine.{e}" for e in ("gpsimd", "unknown", "vector")]

    write_in(page, 2, "ni.nc_m")
    assert offered(page) == ["nc_match_replace8", "nc_matmul", "nc_matmul_mx"]


@pytest.mark.thorough
def test_names_of_the_user_stay(lab: Lab, page: Page) -> None:
    cells = ("%load_ext nki_lab\nnisa_of_mine, nlx = 1, 2", "%%nki\n", "")
    notebook = lab.open(page, lab.write("beside.ipynb", *cells))
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.executionCount === 1"
    )
    write_in(page, 1, "nis")
    for _ in range(40):  # JupyterLab waits a second for a kernel, which takes longer the first time
        page.keyboard.press("Tab")
        page.locator(".jp-Completer-item").first.wait_for()
        if page.locator(".jp-Completer-item").count() > 1:
            break
        page.keyboard.press("Escape")
    names = page.locator(".jp-Completer-item .jp-Completer-match").all_inner_texts()
    notebook.screenshot("completion-beside-the-kernel")
    assert names[0] == "nisa"
    assert "nisa_of_mine" in names

    page.keyboard.press("Escape")
    write_in(page, 2, "nl")
    assert offered(page) == ["nlx"]


@pytest.mark.thorough
def test_it_can_be_turned_off(lab: Lab, page: Page) -> None:
    lab.set("nki-lab:settings", completion=False)
    lab.open(page, lab.write("off.ipynb", "%%nki\n"))
    write_in(page, 0, "zzz(nisa.tensor_t")
    page.keyboard.press("Tab")
    page.wait_for_timeout(1500)
    assert page.locator(".jp-Completer-item").count() == 0
    lab.set("nki-lab:settings")
