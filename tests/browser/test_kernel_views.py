"""Tests the views of a kernel's lines, elements, products and data flow in a real JupyterLab.

With NKI_LAB_PICTURES=1 pictures are left in .ci/out/ for a person to look at.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.lab import Lab
from tests.browser.test_views import (
    DATA,
    DOUBLE,
    MATMUL,
    SETUP,
    colours,
    opened,
    set_theme,
    settle,
    tab,
    view_of,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]

GATHER = """\
%%nki --run "gather(x, index)" --target trn2
def gather(x, index):
    result = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    at = nl.load(index)
    rows = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x.ap([[512, 64], [1, 128]], vector_offset=at))
    part = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=rows[0:64, 0:128:8])
    nl.store(result, rows)
    nl.store(result[:, 0:16], part)
    return result"""
HEADS = """\
%%nki --run "heads(x)" --target trn2
def heads(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for b in nl.affine_range(x.shape[0]):
        for h in nl.affine_range(x.shape[1]):
            tile = nl.load(x[b, h])
            nl.store(result[b, h], nl.add(tile, tile))
    return result"""
ROWS = """\
x = rng.standard_normal((256, 512)).astype(np.float32)
x[3, 5] = np.nan
index = np.arange(64, dtype=np.int32)[::-1].reshape(64, 1) * 3"""


def chosen_line(view: Locator) -> str:
    line = view.locator("[role=tabpanel]:visible .nki-code [aria-selected=true]").first
    line.wait_for()
    return line.inner_text()


def test_lines_findings_and_program_lead_to_each_other(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "lines", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "source")
        costly = panel.locator(".nki-row", has=page.locator(".nki-stack"))
        assert costly.count() == 5
        panel.get_by_text("Costliest line").click()
        assert "nl.load(b[k*128:(k+1)*128" in chosen_line(view)
        assert re.search(r"DMA [\d.]+ us for 2 MiB", panel.locator(".nki-detail").inner_text())
        notebook.screenshot("source_line", view)

        # From the keyboard: to the program and back.
        page.keyboard.press("Enter")
        assert "dma_copy(" in chosen_line(view) and "src=%b" in chosen_line(view)
        program = tab(view, "ir")
        program.get_by_text("16 lines of the program came from here.").wait_for()
        lines = program.locator(".nki-code [aria-selected=true]").all_inner_texts()
        assert len(lines) == 16 and all("src=%b" in line for line in lines)
        tab(view, "ir").get_by_text("Show in source").click()
        assert "nl.load(b[k*128:(k+1)*128" in chosen_line(view)

        # What is heat can be chosen: the longest waiting is another line.
        panel.locator("select").select_option("wait")
        panel.get_by_text("Costliest line").click()
        assert "res = nl.copy(acc" in chosen_line(view)

        findings = tab(view, "findings")
        text = findings.inner_text()
        assert "loads `b` [128, 512]" in text and "What would make it faster" in text
        notebook.screenshot("findings", view)
        findings.get_by_text("Show in source").first.click()
        assert "a = nl.load(aT[" in chosen_line(view)


def test_enter_lists_the_instructions_of_a_line_where_the_source_is_alone(
    lab: Lab, chromium: str
) -> None:
    alone = MATMUL.replace("--target", "--show source --target")
    with opened(lab, chromium, "alone", SETUP, alone) as (page, notebook):
        view = view_of(notebook)
        assert not view.get_by_role("tablist").is_visible()
        panel = tab(view, "source")
        panel.get_by_text("Costliest line").click()
        page.keyboard.press("Enter")
        listed = panel.locator("[aria-selected=true] .nki-instructions > div")
        listed.first.wait_for()
        texts = listed.all_inner_texts()
        assert len(texts) == 16 and all("src=%b" in text for text in texts)
        notebook.screenshot("source_instructions", view)
        page.keyboard.press("Enter")
        listed.first.wait_for(state="hidden")


def test_a_pass_is_read_by_its_differences(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "differences", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "ir")
        panel.locator(".nki-passes").get_by_text("settle_accumulate").click()
        panel.get_by_text("lines after settle_accumulate: 16 changed (±)").wait_for()
        panel.get_by_label("only differences").check()
        # Each changed line stands once, with what is new in it marked.
        assert panel.locator(".nki-rewritten").count() == 16
        assert panel.locator(".nki-row.nki-taken, .nki-row.nki-fresh").count() == 0
        new = panel.locator(".nki-rewritten ins").all_inner_texts()
        assert set(new) == {", accumulate=False", ", accumulate=True"}
        notebook.screenshot("ir_differences", view)

        panel.get_by_label("only differences").uncheck()
        panel.locator(".nki-bar select").select_option(label="Tensor")
        texts = panel.locator(".nki-row").all_inner_texts()
        assert len(texts) == 16 and all("nc_matmul" in text for text in texts)

        # A tensor tells where it lies, and its other uses stand out.
        panel.locator(".nki-operand", has_text="%acc").first.hover()
        assert "storage %acc" in panel.locator(".nki-detail").inner_text()
        assert panel.locator(".nki-lit").count() == 4
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        panel.get_by_text("Copy", exact=True).click()
        panel.get_by_text("16 lines are on the clipboard").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert len(copied.splitlines()) == 16 and copied.lstrip().startswith("nc_matmul(dst=%acc")


def access(panel: Locator, position: int, text: str) -> None:
    """Show the operands of an instruction whose text begins with `text`."""
    field = panel.get_by_label("number of the instruction")
    field.fill(str(position))
    field.press("Enter")
    panel.locator("section code", has_text=text).first.wait_for()


def tip_at(page: Page, canvas: Locator, across: float, down: float) -> str:
    """Point at a place of a drawing and return what is shown there."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + across, box["y"] + down)
    tip = canvas.locator("xpath=..").locator(".nki-tip")
    tip.wait_for()
    page.wait_for_timeout(60)
    return tip.inner_text()


def test_the_elements_of_operands_are_named_with_index_address_and_value(
    lab: Lab, chromium: str
) -> None:
    with opened(lab, chromium, "elements", SETUP, ROWS, GATHER) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "layout")
        access(panel, 1, "dma_copy(dst=%rows")
        operands = panel.locator(".nki-access")
        assert operands.locator("strong").all_inner_texts() == ["dst", "src", "indices of src"]
        source = operands.nth(1)
        assert "rows chosen by %at" in source.inner_text()
        canvas = source.locator("canvas")
        touched = 0
        for down in range(19, 90, 5):
            for across in (61, 200, 400):
                text = tip_at(page, canvas, across, down)
                row, column = map(int, re.match(r"x\[(\d+), (\d+)\]\n", text).groups())
                assert f"byte {row * 2048 + column * 4:,} of the tensor"[:9] in text
                is_read = row % 3 == 0 and row < 192 and column < 128
                assert ("\nreads" in text, "not touched" in text) == (is_read, not is_read)
                touched += is_read
        assert touched > 0
        assert re.search(r"value -?[\d.e-]+\nbefore instruction 1, computed again", text)
        notebook.screenshot("elements_gathered", view)

        access(panel, 2, "tensor_copy(")
        strided = panel.locator(".nki-access").nth(1)
        assert "every 8th element" in strided.inner_text()
        text = tip_at(page, strided.locator("canvas"), 61, 40)
        assert "partition" in text and "as element [" in text
        notebook.screenshot("elements_strided", view)


def test_tensors_of_any_rank_are_reached_by_their_index(lab: Lab, chromium: str) -> None:
    data = DATA.replace("np.ones((128, 64)", "np.ones((4, 3, 128, 64)")
    with opened(lab, chromium, "rank", data, HEADS) as (page, notebook):
        panel = tab(view_of(notebook), "layout")
        canvas = panel.locator("canvas").first
        fields = panel.locator(".nki-fields input")
        # More rows than are shown at once: the outer axes begin at 0.
        assert [field.input_value() for field in fields.all()] == ["0", "0"]
        assert tip_at(page, canvas, 300, 100).startswith("x[0, 0, ")
        fields.nth(0).fill("2")
        fields.nth(1).fill("1")
        page.mouse.move(0, 0)
        text = tip_at(page, canvas, 300, 100)
        row, column = map(int, re.match(r"x\[2, 1, (\d+), (\d+)\]\n", text).groups())
        first = (((2 * 3 + 1) * 128 + row) * 64 + column) * 4
        byte = int(re.search(r"byte ([\d,]+) of", text)[1].replace(",", ""))
        assert first <= byte < first + 4
        assert "%x[2, 1, 0:128, 0:64]" in text
        fields.nth(0).fill("")  # all of it
        settle(page)
        notebook.screenshot("rank_4", panel)


def test_values_are_coloured_and_what_is_no_number_is_flagged(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "values", SETUP, ROWS, GATHER) as (page, notebook):
        view = view_of(notebook)
        for dark in (False, True):
            set_theme(page, dark)
            panel = tab(view, "layout")
            panel.locator("select").nth(1).select_option("values")
            panel.get_by_text("131,072 values: 1 NaN").wait_for()
            settle(page)
            limit = "ff7b8b" if dark else "b00020"
            assert limit in colours(panel.locator("canvas").first)
            assert "the argument, as it is now" in panel.locator(".nki-legend").inner_text()
            notebook.screenshot(f"values_{'dark' if dark else 'light'}", view)
        assert panel.locator(".nki-histogram span").count() == 40
        assert re.search(r"value -?[\d.e-]+", tip_at(page, panel.locator("canvas").first, 200, 120))
        panel.locator("select").first.select_option(label="rows  64 x 128  float32")
        panel.get_by_text("computed again").wait_for()


SLOW = """\
from dataclasses import replace
from nki_lab.views.display import display
import time
run = gather_result.view_data
def held(*moment):
    time.sleep(1.5)
    return run.held(*moment)
display(replace(run, held=held), ("layout",))"""


def test_a_first_look_that_takes_its_time_says_what_it_waits_for(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "slow", SETUP, ROWS, GATHER, SLOW) as (page, _):
        page.locator(".jp-CodeCell").nth(3).scroll_into_view_if_needed()
        panel = tab(page.locator(".jp-CodeCell").nth(3).locator(".nki-view"), "layout")
        panel.locator("select").nth(1).select_option("values")
        panel.get_by_text("Running the kernel once more, on copies of its arguments").wait_for()
        panel.get_by_text("131,072 values: 1 NaN").wait_for()
        assert "Running" not in panel.locator(".nki-legend").inner_text()


def test_a_product_is_played_and_stepped(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "array", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "array")
        status = panel.locator(".nki-status")
        canvas = panel.locator("canvas")
        assert "16,384 of 16,384 multipliers work" in status.inner_text()
        notebook.screenshot("array_middle", view)
        canvas.focus()
        page.keyboard.press("Home")
        assert status.inner_text().startswith("step 0 of")
        assert "0 of 128 columns are in place" in status.inner_text()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        assert status.inner_text().startswith("step 17 of")
        page.keyboard.press("End")
        assert "65,536 of 65,536 sums are complete" in status.inner_text()
        settle(page)
        notebook.screenshot("array_end", view)
        page.keyboard.press(" ")
        assert panel.get_by_text("Pause").is_visible()
        page.wait_for_function(
            "(s) => /step (?!0 )\\d+ of/.test(s.textContent)", arg=status.element_handle()
        )
        page.keyboard.press(" ")
        assert panel.get_by_text("Play", exact=True).is_visible()
        still = status.inner_text()
        page.wait_for_timeout(200)
        assert status.inner_text() == still
        page.keyboard.press("]")
        panel.locator("code", has_text="accumulate=True").first.wait_for()
        panel.get_by_text("Elements").click()
        elements = tab(view, "layout").locator(".nki-access").first
        elements.wait_for()
        assert "K, summed over" in tab(view, "layout").inner_text()


def test_the_data_flow_is_followed_with_the_keyboard(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "graph", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        for dark in (False, True):
            set_theme(page, dark)
            panel = tab(view, "graph")
            assert panel.locator(".nki-node").count() == 8
            notebook.screenshot(f"graph_lines_{'dark' if dark else 'light'}", view)
        panel.locator(".nki-node", has_text="nc_matmul").click()
        detail = panel.locator(".nki-detail")
        assert "nisa.nc_matmul(dst=acc" in detail.inner_text()
        page.keyboard.press("ArrowDown")  # the graph runs down
        assert "res = nl.copy(acc" in detail.inner_text()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        assert "nl.load(" in detail.inner_text()
        assert panel.locator(".nki-node.nki-pale").count() > 0
        panel.get_by_label("nodes are").select_option("instructions")
        panel.get_by_text("59 nodes").wait_for()
        notebook.screenshot("graph_instructions", view)
        panel.locator(".nki-node", has_text="tensor_copy").first.click()
        detail.get_by_text("Show in IR").click()
        assert "tensor_copy(" in chosen_line(view)


def test_two_views_on_a_page_do_not_know_each_other(lab: Lab, chromium: str) -> None:
    shown = DOUBLE.replace(" --show none", "")
    with opened(lab, chromium, "two", DATA, shown, "double_result") as (page, notebook):
        notebook.show_all_cells()
        views = [view_of(notebook, k) for k in range(2)]
        for view in views:
            tab(view, "graph")
        ids = page.evaluate("[...document.querySelectorAll('.nki-view [id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids)) > 20
        views[0].locator(".nki-node").first.click()
        assert views[0].locator(".nki-chosen").count() > 0
        assert views[1].locator(".nki-chosen").count() == 0


CHARTS = "matmul_result.chart('roofline')"


def test_rooflines_and_rates_are_drawn_by_plotly(lab: Lab, chromium: str) -> None:
    rates = CHARTS.replace("roofline", "transfer_rates")
    with opened(lab, chromium, "roofline", SETUP, MATMUL, CHARTS, rates) as (page, notebook):
        charts = page.locator(".js-plotly-plot")
        for dark in (False, True):
            set_theme(page, dark)
            for k, name in enumerate(("roofline", "transfer_rates")):
                notebook.page.locator(".jp-CodeCell").nth(2 + k).scroll_into_view_if_needed()
                charts.nth(k).locator(".scatterlayer .point").first.wait_for()
                notebook.screenshot(f"{name}_{'dark' if dark else 'light'}", charts.nth(k))
        assert charts.first.locator(".scatterlayer .point").count() == 1
        assert charts.first.locator(".scatterlayer .trace").count() == 3
