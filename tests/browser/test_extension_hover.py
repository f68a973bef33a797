"""Tests that a name is explained where one points at it, or asks with the keyboard, and within sight."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.lab import Lab
from tests.thorough import first

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

KERNEL = """\
%%nki --target trn2 --run 'multiply(a, b)'
@nki.jit
def multiply(a, b):
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    return acc"""


def point_at(page: Page, text: str, kind: str) -> Locator:
    """Move the pointer over a marked name and return the card that comes."""
    card = move_to(page, text, kind)
    card.wait_for()
    return card


def move_to(page: Page, text: str, kind: str) -> Locator:
    """Move the pointer over a marked name, and return where a card may come."""
    page.mouse.move(5, 5)
    card = page.locator(".nki-card")
    card.wait_for(state="detached")
    name = page.locator(f".cm-content .nki-{kind}").filter(has_text=text).first
    box = name.bounding_box()
    assert box
    x, y = box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2
    page.mouse.move(x, y, steps=5)
    return card


def assert_in_sight(page: Page, card: Locator) -> None:
    box, size = card.bounding_box(), page.viewport_size
    assert box and size
    assert box["x"] >= 0 and box["x"] + box["width"] <= size["width"]
    assert box["y"] >= 0 and box["y"] + box["height"] <= size["height"]
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).closest('.nki-card') !== null", middle
    )


@pytest.mark.parametrize("theme", first(["JupyterLab Light", "JupyterLab Dark"]))
def test_an_instruction_is_explained(lab: Lab, page: Page, theme: str) -> None:
    name = theme.lower().replace(" ", "-")
    notebook = lab.open(page, lab.write(f"hover-{name}.ipynb", KERNEL))
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    card = point_at(page, "nisa.nc_matmul", "isa")
    notebook.screenshot(f"hover-{name}")
    assert_in_sight(page, card)
    text = card.inner_text()
    assert text.startswith("nisa.nc_matmul(dst, stationary, moving")
    for part in ("Multiply", "SBUF", "PSUM", "tensor", "trn1", "MATMUL: 512 cycles", "Limits"):
        assert part in text

    card = point_at(page, "--target", "option")
    notebook.screenshot(f"hover-option-{name}")
    assert_in_sight(page, card)
    assert "Chip to compile for" in card.inner_text()


def test_the_keyboard_asks_and_escape_ends(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("keys.ipynb", KERNEL))
    page.locator(".cm-content").first.click()
    page.keyboard.press("Control+Home")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+F1")
    card = page.locator(".nki-card")
    card.wait_for()
    notebook.screenshot("hover-by-keyboard")
    assert card.inner_text().startswith("nisa.nc_matmul(")
    page.keyboard.press("Escape")
    card.wait_for(state="detached")
    assert page.locator(".jp-Notebook.jp-mod-editMode").count() == 1, "Escape also left the cell"


@pytest.mark.thorough
def test_it_can_be_turned_off(lab: Lab, page: Page) -> None:
    lab.set("nki-lab:settings", hover=False)
    try:
        lab.open(page, lab.write("hover-off.ipynb", KERNEL))
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        card = move_to(page, "nisa.nc_matmul", "isa")
        page.wait_for_timeout(2_000)  # a card would have come by then
        assert not card.count()
    finally:
        lab.set("nki-lab:settings")
