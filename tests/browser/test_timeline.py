"""Tests what the timeline answers: what waited for what, where the time went, what changed.

With NKI_LAB_PICTURES=1 pictures are left in .ci/out/ for a person to look at.
"""

from __future__ import annotations

import csv
import re

import pytest
from playwright.sync_api import Locator

from nki_lab.views.display import display
from nki_lab.views.run import ViewData
from tests.browser.lab import NOTE_TEXT, Console, Lab, browser
from tests.browser.test_views import (
    MATMUL,
    SETUP,
    colours,
    displayed,
    opened,
    set_theme,
    settle,
    status,
    tab,
    view_of,
    written,
)
from tests.views.runs import many_events

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TRN1 = MATMUL.replace("--target trn2", "--target trn1 --show none --name before")


def drag(panel: Locator, a: tuple[float, float], b: tuple[float, float]) -> None:
    box = panel.locator("canvas").bounding_box()
    mouse = panel.page.mouse
    mouse.move(box["x"] + a[0], box["y"] + a[1])
    mouse.down()
    mouse.move(box["x"] + b[0], box["y"] + b[1], steps=4)
    mouse.up()


def test_idle_lanes_fold_and_the_last_mark_is_the_end(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "idle", SETUP, MATMUL) as (page, notebook):
        page.evaluate(NOTE_TEXT)
        view = view_of(notebook)
        panel = tab(view, "timeline")
        canvas, idle = panel.locator("canvas"), panel.get_by_text("Idle: Scalar, GpSimd")
        settle(page)
        low, texts = canvas.bounding_box()["height"], written(canvas)
        assert "Vector" in texts and "Scalar" not in texts and "idle" not in texts
        # The marks of the axis come first; the last one is the end of the run, as the status says.
        axis = [text for text in texts if text.endswith(" us")]
        assert status(panel).split(" to ")[1].startswith(axis[-1])
        idle.click()
        settle(page)
        assert canvas.bounding_box()["height"] > low
        assert {"Scalar", "GpSimd", "idle"} <= set(written(canvas))
        idle.click()
        settle(page)
        assert canvas.bounding_box()["height"] == low

        # What an event counts has a unit, and what it does not count is left out.
        canvas.focus()
        page.keyboard.press("]")
        rows = panel.locator(".nki-detail table tbody tr")
        rows.first.wait_for()
        facts = dict(row.locator("td").all_inner_texts() for row in rows.all())
        assert facts["duration_ns"].endswith(" ns") and facts["transfer_bytes"].endswith(" bytes")
        del facts["start_ts"]
        assert not [text for text in facts.values() if re.fullmatch(r"0 \w+|false|", text)]


@pytest.mark.thorough
def test_the_path_and_the_dependences_are_drawn(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "path", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "timeline")
        canvas, detail = panel.locator("canvas"), panel.locator(".nki-detail")
        canvas.focus()
        red = {False: "b00020", True: "ff7b8b"}  # theme.LIMIT
        for dark in (False, True):
            set_theme(page, dark)
            settle(page)
            assert red[dark] not in colours(canvas)
            page.keyboard.press("c")
            detail.get_by_text("critical path: ").wait_for()
            assert "stand out: critical path" in status(panel)
            settle(page)
            assert red[dark] in colours(canvas)
            notebook.screenshot(f"timeline_path_{'dark' if dark else 'light'}", view)
            page.keyboard.press("Escape")
            assert "stand out" not in status(panel)
            canvas.focus()

        # Stepping along the path goes from event to event; each says what it waited for and leads there.
        page.keyboard.press("c")
        page.keyboard.press("[")  # from the end of the path
        detail.get_by_text("Loop variables:").wait_for()
        assert "m=1, n=1" in detail.inner_text()
        detail.get_by_text("Depends on").first.wait_for()
        notebook.screenshot("timeline_dependences", view)
        heading = detail.locator("h4").inner_text()
        detail.locator("li button").first.click()
        assert detail.locator("h4").inner_text() != heading

        # To the line in the source, and back from it.
        detail.get_by_text("Show in source").click()
        source = view.locator("[role=tabpanel][id$=-source]")
        source.get_by_text("Show in timeline").click()
        panel.locator("h4").wait_for()
        assert ", line " in status(panel).split("stand out: ")[1]
        notebook.screenshot("timeline_of_a_line", view)


@pytest.mark.thorough
def test_search_boxes_and_marks(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "box", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "timeline")
        panel.scroll_into_view_if_needed()
        canvas, detail = panel.locator("canvas"), panel.locator(".nki-detail")
        canvas.focus()
        page.keyboard.press("/")
        page.keyboard.type("tensormatrix >1ns")
        assert status(panel).endswith("16 stand out: “tensormatrix >1ns”")
        page.keyboard.press("Enter")
        assert detail.locator("h4").inner_text() == "nc_matmul (MATMUL) on TensorMatrix"
        notebook.screenshot("timeline_search", view)
        page.keyboard.press("Escape")
        assert "stand out" not in status(panel)

        for name in ("tensor", "opcode", "stall", "engine", "line"):
            panel.get_by_label("colour by").select_option(name)
            panel.locator(".nki-legend button.nki-key").first.wait_for()
            settle(page)
            notebook.screenshot(f"timeline_by_{name}", view)
        panel.locator(".nki-legend button.nki-key").nth(2).click()
        assert "stand out: cell [2], line" in status(panel)
        page.keyboard.press("Escape")

        # A box over everything sums up what the profile says.
        page.keyboard.down("Shift")
        drag(panel, (200, 26), (1190, 215))
        page.keyboard.up("Shift")
        summary = detail.locator("h4")
        summary.wait_for()
        assert " events in " in summary.inner_text()
        with page.expect_download() as found:
            detail.get_by_text("Download CSV").click()
        rows = list(csv.DictReader(found.value.path().open(newline="")))
        assert len(rows) == int(summary.inner_text().split(" ")[0])
        assert {row["track"] for row in rows} >= {"Vector", "Sync", "TensorMatrix"}
        assert all(int(r["end_ns"]) - int(r["start_ns"]) == int(r["duration_ns"]) for r in rows)
        notebook.screenshot("timeline_box", view)

        # Two marks have a span between them.
        for x in (400, 700):
            canvas.click(position={"x": x, "y": 100}, button="right")
        panel.get_by_role("button", name="1 to 2").click()
        assert " events in " in summary.inner_text()
        notebook.screenshot("timeline_marks", view)
        assert page.locator(".lm-Menu").count() == 0


@pytest.mark.thorough
def test_two_runs_are_compared(lab: Lab, chromium: str) -> None:
    cells = (SETUP, TRN1, MATMUL, "%nki_compare before matmul_result")
    with opened(lab, chromium, "compare", *cells) as (page, notebook):
        text = displayed(notebook, 3)["text/plain"]
        assert text.split("\n")[0].endswith("matmul on trn1, modelled")
        assert len(text.split("\n")) <= 40
        notebook.cell("%nki_compare").scroll_into_view_if_needed()
        view = view_of(notebook, 1)  # two on a page
        panel = tab(view, "timeline")
        panel.get_by_text("216 of 216 events").wait_for()
        assert "matmul on trn1" in panel.inner_text() and "as long" in panel.inner_text()
        for dark in (False, True):
            set_theme(page, dark)
            for layout in ("", "paired"):
                panel.get_by_label("two runs").select_option(layout)
                settle(page)
                notebook.screenshot(f"timeline_compare_{layout}_{dark}", view)
        panel.locator("canvas").focus()
        page.keyboard.press("c")
        panel.locator(".nki-detail pre").nth(1).wait_for()


def test_a_saved_page_has_every_event_of_a_large_run(lab: Lab, chromium: str) -> None:
    display(ViewData("many", many_events(300_000)), ("timeline",)).save_html(lab.root / "many.html")
    with browser(chromium, anew=True) as page:
        console = Console().listen(page)
        page.goto((lab.root / "many.html").as_uri())
        panel = page.locator("[role=tabpanel]")
        panel.get_by_text("300,000 of 300,000 events").wait_for()
        assert console.errors == []


@pytest.mark.thorough
def test_a_line_is_found_before_the_timeline_was_ever_shown(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "line", SETUP, MATMUL) as (_, notebook):
        view = view_of(notebook)
        source = tab(view, "source")
        source.get_by_text("Costliest line").click()
        source.get_by_text("Show in timeline").click()
        panel = view.locator("[role=tabpanel][id$=-timeline]")
        panel.locator("h4").wait_for()
        assert "line 12" in status(panel).split("stand out: ")[1]
