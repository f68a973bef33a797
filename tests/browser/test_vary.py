"""Tests that the sliders of a kernel's parameters redraw its timeline in a real JupyterLab.

With NKI_LAB_PICTURES=1 pictures are left in .ci/out/ for a person to look at.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.browser.lab import Lab
from tests.browser.test_views import SETUP, opened, set_theme, settle, tab, view_of

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]

TILED = """\
%%nki --run "tiled(aT, b)" --target trn2 --show vary
def tiled(aT, b, tile_n=256):
    K, M = aT.shape
    _, N = b.shape
    out = nl.ndarray((M, N), dtype=aT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // tile_n):
            acc = nl.ndarray((128, tile_n), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                a = nl.load(aT[k*TILE_K:(k+1)*TILE_K, m*128:(m+1)*128])
                w = nl.load(b[k*TILE_K:(k+1)*TILE_K, n*tile_n:(n+1)*tile_n])
                nisa.nc_matmul(dst=acc, stationary=a, moving=w)
            nl.store(out[m*128:(m+1)*128, n*tile_n:(n+1)*tile_n], nl.copy(acc, dtype=aT.dtype))
    return out
TILE_K = 128"""


def shown(panel: Locator, key: str) -> str:
    """Wait until the timeline of a combination is drawn, and return what its status says."""
    panel.and_(panel.page.locator(f"[data-variant='{key}']")).wait_for()
    panel.locator(".nki-bar >> text=/of .* events/").wait_for()
    settle(panel.page)
    return panel.locator(".nki-holder .nki-bar").inner_text()


def picture(panel: Locator) -> str:
    """Return what the timeline's canvas shows."""
    return panel.locator(".nki-holder canvas").evaluate("(canvas) => canvas.toDataURL()")


def test_a_slider_moved_with_the_keyboard_redraws_the_timeline(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "vary", SETUP, TILED) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "vary")
        shown(panel, "2-0-1-2")
        before = picture(panel)
        slider = panel.get_by_label("tile_n", exact=True)
        slider.focus()
        page.keyboard.press("ArrowRight")
        shown(panel, "3-0-1-2")
        assert slider.get_attribute("aria-valuetext") == "512"
        assert picture(panel) != before
        assert "compared with the start" in panel.locator(".nki-figures").inner_text()
        assert slider.evaluate("(s) => s === document.activeElement")
        for dark in (False, True):
            set_theme(page, dark)
            settle(page)
            notebook.screenshot(f"vary_{'dark' if dark else 'light'}", view)
        page.keyboard.press("ArrowRight")  # more than a bank of PSUM holds
        error = panel.locator(".nki-problem")
        error.get_by_text("does not compile").wait_for()
        assert "NKI203" in error.inner_text() and "split `moving`" in error.inner_text()
        notebook.screenshot("vary_error", view)
        page.keyboard.press("Home")
        shown(panel, "0-0-1-2")
        assert error.inner_text() == ""
        panel.get_by_label("target", exact=True).select_option("trn1")
        shown(panel, "0-0-0-2")
        panel.locator("label", has_text="beside the start").locator("select").select_option("both")
        panel.get_by_text("tiled on trn1, ").wait_for()
        settle(page)
        notebook.screenshot("vary_beside", view)
        panel.get_by_role("button", name="Try 12 combinations").click()
        panel.get_by_text("13 combinations tried").wait_for()
        panel.locator("summary", has_text="combinations tried").scroll_into_view_if_needed()
        notebook.screenshot("vary_table", view)
        set_theme(page, dark=False)
        panel.get_by_role("button", name="Back to the start").click()
        shown(panel, "2-0-1-2")
        assert picture(panel) == before


COPIED = """\
%%nki --run "copied(aT)" --target trn2 --show vary
def copied(x, columns=256):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[1], columns):
        tile = nl.load(x[:128, start:start + columns])
        nl.store(out[:128, start:start + columns], tile)
    return out"""


def test_a_memory_without_tiles_is_not_used(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "vary-copied", SETUP, COPIED) as (_, notebook):
        panel = tab(view_of(notebook), "vary")
        figures = panel.locator(".nki-figures")
        figures.wait_for()
        assert "not used" in figures.inner_text() and "not known" not in figures.inner_text()
