"""Tests stepping through a run and its memory: by mouse and keyboard, with and without a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from nki_lab.runtime import Result, run
from tests.browser.lab import Console, Lab, browser, picture
from tests.browser.test_views import (
    DATA,
    DOUBLE,
    MATMUL,
    SETUP,
    colours,
    opened,
    settle,
    tab,
    view_of,
)
from tests.simulator.kernels import one
from tests.simulator.test_device_loops import ROWS, counted
from tests.simulator.test_stepping import logarithms
from tests.thorough import first

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@contextmanager
def saved(
    result: Result, chromium: str, folder: Path, *views: str, dark: bool = False
) -> Iterator[tuple[Page, Locator]]:
    """Open the saved page of a run; nothing may go wrong on it."""
    file = result.show(*views).save_html(folder / "run.html")
    with browser(chromium, width=1200, height=1300, anew=True) as page:
        console = Console().listen(page)
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto(file.as_uri())
        yield page, page.locator(".nki-view")
        assert console.errors == []
        assert console.requests == [file.as_uri()]


def said(panel: Locator) -> str:
    return panel.locator("[aria-live]").first.inner_text()


def at_step(panel: Locator, number: int) -> None:
    panel.get_by_text(re.compile(rf"^Step {number:,}: ")).wait_for()


@pytest.mark.parametrize("dark", first([True, False]))
def test_a_loop_is_gone_through_by_keyboard(dark: bool, chromium: str, tmp_path: Path) -> None:
    result = run(counted, ROWS, one(384), target="trn2")
    count = len(result.execution.order)
    with saved(result, chromium, tmp_path, "stepper", "memory", dark=dark) as (page, view):
        panel = tab(view, "stepper")
        at_step(panel, 0)
        panel.locator(".nki-steps").focus()
        inside = [n for n, p in enumerate(result.execution.order) if result.kernel.loop_numbers[p]]
        for _ in range(inside[1]):
            page.keyboard.press("n")
        at_step(panel, inside[1])
        assert said(panel).endswith("pass 1 of 3")
        page.keyboard.press("t")  # the same instruction in the next pass
        at_step(panel, inside[4])
        assert said(panel).endswith("pass 2 of 3")
        assert "pass 2 of 3" in panel.locator(".nki-detail").first.inner_text()
        page.keyboard.press("ArrowLeft")
        at_step(panel, inside[3])
        picture(page, f"stepper_loop_{'dark' if dark else 'light'}")
        page.keyboard.press("End")
        at_step(panel, count - 1)
        page.keyboard.press("n")
        page.keyboard.press("Home")
        at_step(panel, 0)
        page.keyboard.press("N")
        panel.get_by_text("no instruction from step 0 on writes a NaN or an infinity").wait_for()


def test_one_runs_to_a_line_a_write_and_a_value_that_is_no_number(
    chromium: str, tmp_path: Path
) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
    result = run(logarithms, x, target="trn2", skip_passes="schedule")
    with saved(result, chromium, tmp_path, "stepper") as (page, view):
        panel = tab(view, "stepper")
        at_step(panel, 0)
        panel.get_by_text("Next NaN/Inf").click()
        at_step(panel, 2)
        assert "reciprocal" in said(panel)
        after = panel.locator(".nki-moment", has_text="after")
        assert "1 Inf" in after.inner_text()
        cells = after.locator(".nki-cells td").all_inner_texts()
        assert cells == ["-0.5", "-1", "Inf", "1", "0.5", "0.333333"]
        picture(page, "stepper_inf")
        panel.locator("select").nth(1).select_option(label="tile  2 x 3 float32  SBUF")
        panel.get_by_text("◀ write").click()
        at_step(panel, 1)
        panel.get_by_text("write ▶").click()
        at_step(panel, 2)
        panel.locator("select").first.select_option(index=4)
        panel.get_by_text("To line").click()
        at_step(panel, 4)
        assert "no later instruction" not in panel.inner_text()
        panel.get_by_text("To line").click()
        panel.get_by_text("no later instruction of that line").wait_for()


@pytest.mark.thorough
def test_the_memory_view_names_owners_readers_and_writers(chromium: str, tmp_path: Path) -> None:
    result = run(counted, ROWS, one(384), target="trn2")
    with saved(result, chromium, tmp_path, "memory", "stepper", "ir") as (page, view):
        panel = tab(view, "memory")
        canvas = panel.locator("canvas").first
        canvas.focus()
        page.keyboard.press("]")
        detail = panel.locator(".nki-detail")
        detail.get_by_text("written by").wait_for()
        name = detail.locator("h4").first.inner_text().split(" ")[0]
        storage = next(s for s in result.kernel.storages if s.name == name)
        kernel = result.kernel
        for way, views in (("written", "written"), ("read", "read")):
            count = sum(
                any(v.storage is storage for v in getattr(i, views)()) for i in kernel.instructions
            )
            assert f"{way} by {count}" in detail.inner_text()
        field = panel.locator("input[type=number]")
        page.keyboard.press(".")
        page.keyboard.press(".")
        before = int(field.input_value())
        page.keyboard.press(",")
        assert int(field.input_value()) == before - 1
        title = panel.locator(".nki-moment-title").first
        assert f"at instruction #{before - 1}" in title.inner_text()
        panel.locator("select").nth(2).select_option("lifetime")
        panel.get_by_text("Tiles in use at that instruction").click()
        settle(page)
        picture(page, "memory_lifetime")
        # The moment's map answers to the pointer with the owner.
        moment = panel.locator("canvas").nth(2)
        box = moment.bounding_box()
        found = set()
        for x in range(int(box["x"]) + 76, int(box["x"] + box["width"]) - 4, 6):
            page.mouse.move(x, box["y"] + 20)
            tip = panel.locator(".nki-tip:visible")
            if tip.count():
                found.add(tip.first.inner_text().split(" ")[0])
        lives = kernel.lifetimes
        owners = {
            s.name
            for s in kernel.storages
            if s.buffer.name == "sbuf"
            and s.id in lives
            and lives[s.id].first <= before - 1 <= lives[s.id].last
            and s.nbytes // s.shape[0] > 64
        }
        assert owners <= found
        panel.get_by_role("button", name="Values").click()
        tab(view, "stepper").get_by_text(re.compile(r"^Step \d+: ")).wait_for()


def test_values_are_looked_up_in_a_living_kernel(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "stepper", SETUP, MATMUL, "matmul_result.show('stepper')") as (
        page,
        notebook,
    ):
        notebook.show_all_cells()
        both = [view_of(notebook, 0), view_of(notebook, 1)]
        panels = [tab(view, "stepper") for view in both]
        for panel in panels:
            at_step(panel, 0)
        steps = int(
            re.search(r"of (\d+)", panels[0].locator(".nki-choice").first.inner_text()).group(1)
        )
        field = panels[0].locator("input[type=number]").first
        field.fill("")
        field.press_sequentially(str(steps - 1))
        field.press("Enter")
        at_step(panels[0], steps - 1)
        assert said(panels[1]).startswith("Step 0:")  # two views of one run are on their own
        canvas = panels[0].locator("canvas.nki-heat-map").first
        canvas.scroll_into_view_if_needed()
        canvas.click()
        window = panels[0].locator(".nki-window table").first
        window.wait_for()
        assert window.locator("td").count() == 64
        cells = page.locator(".jp-Cell").count()
        canvas.press("ArrowRight")
        panels[0].locator(".nki-steps").press("b")  # no key of ours: JupyterLab must not act either
        assert page.locator(".jp-Cell").count() == cells
        notebook.screenshot("stepper_live", both[0])
        assert colours(panels[0].locator("canvas.nki-heat-map").first)


@pytest.mark.thorough
def test_two_cores_say_that_they_are_not_gone_through(lab: Lab, chromium: str) -> None:
    cells = (DATA, DOUBLE, "nki_lab.run(double[2], x, target='trn2').show('stepper')")
    with opened(lab, chromium, "cores", DATA, "import nki_lab", *cells[1:]) as (_, notebook):
        panel = tab(view_of(notebook), "stepper")
        assert "a stepper follows one core" in panel.inner_text()


@pytest.mark.thorough
def test_other_views_lead_to_the_steps_of_what_they_show(chromium: str, tmp_path: Path) -> None:
    result = run(counted, ROWS, one(384), target="trn2")
    body = [p for p, n in enumerate(result.kernel.loop_numbers) if n]
    first = list(result.execution.order).index(body[1])
    with saved(result, chromium, tmp_path, "ir", "timeline", "memory", "stepper") as (page, view):
        panel = tab(view, "ir")
        line = panel.locator(".nki-code .nki-row", has_text="tensor_scalar(").first
        line.click()
        panel.get_by_role("button", name="Step to it").click()
        steps = tab(view, "stepper")
        at_step(steps, first)
        steps.get_by_role("button", name="Watch").first.click()
        assert "watching tile" in steps.inner_text()
        steps.get_by_role("button", name="Show in Memory").click()
        memory = tab(view, "memory")
        assert memory.locator("input[type=number]").input_value() == str(body[1])
        canvas = tab(view, "timeline").locator("canvas")
        canvas.focus()
        page.keyboard.press("]")
        event = tab(view, "timeline").locator(".nki-detail")
        event.get_by_role("button", name="Step to it").wait_for()
        operation = event.locator(".nki-use code").first.inner_text()
        event.get_by_role("button", name="Step to it").click()
        shown = tab(view, "stepper").locator(".nki-detail .nki-use code").first
        shown.get_by_text(operation).or_(shown.and_(page.get_by_text(operation))).wait_for()
