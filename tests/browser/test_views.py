"""Tests the views of a run in a real JupyterLab: every tab, by mouse and keyboard, light and dark.

With NKI_LAB_PICTURES=1 pictures are left in .ci/out/ for a person to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nbconvert
import nbformat
import pytest
from playwright.sync_api import Locator, Page

from nki_lab.views.registry import view_names
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE
from nki_lab.widgets.theme import SERIES
from tests.browser.lab import NOTE_TEXT, Console, Lab, Notebook, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SETUP = """\
%load_ext nki_lab
import ml_dtypes, numpy as np
rng = np.random.default_rng(0)
aT = rng.standard_normal((512, 256)).astype(ml_dtypes.bfloat16)
b = rng.standard_normal((512, 1024)).astype(ml_dtypes.bfloat16)"""
MATMUL = """\
%%nki --run "matmul(aT, b)" --target trn2
@nki.jit
def matmul(aT, b):
    K, M = aT.shape
    _, N = b.shape
    out = nl.ndarray((M, N), dtype=aT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 512):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                a = nl.load(aT[k*128:(k+1)*128, m*128:(m+1)*128])
                w = nl.load(b[k*128:(k+1)*128, n*512:(n+1)*512])
                nisa.nc_matmul(dst=acc, stationary=a, moving=w)
            res = nl.copy(acc, dtype=aT.dtype)
            nl.store(out[m*128:(m+1)*128, n*512:(n+1)*512], res)
    return out"""


@contextmanager
def opened(lab: Lab, chromium: str, name: str, *cells: str) -> Iterator[tuple[Page, Notebook]]:
    """Run a notebook with these cells; nothing may go wrong on the page, nothing be asked from outside."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, lab.root / f"{name}.ipynb")
    with browser(chromium, width=1250, height=1000) as page:
        console = Console().listen(page)
        shown = lab.open(page, f"{name}.ipynb")
        assert shown.run_all(), shown.outputs()
        yield page, shown
        assert console.errors == []
        assert console.requests == []


def tab(view: Locator, name: str) -> Locator:
    """Bring a view to the front, wait until it is there, and return its panel."""
    button = view.locator(f"[role=tab][id$=-tab-{name}]")
    if button.is_visible():  # a view by itself has no tabs
        button.click()
    panel = view.locator(f"[role=tabpanel][id$=-{name}]")
    panel.and_(view.page.locator("[data-ready=true]")).wait_for()
    return panel


def settle(page: Page) -> None:
    """Let what was asked for with requestAnimationFrame be drawn."""
    page.evaluate(
        "() => new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(ok)))"
    )


def set_theme(page: Page, dark: bool) -> None:
    name = "JupyterLab Dark" if dark else "JupyterLab Light"
    page.evaluate(
        "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name
    )
    page.wait_for_function(
        "light => document.body.dataset.jpThemeLight === light", arg="false" if dark else "true"
    )


def colours(canvas: Locator) -> set[str]:
    """Return the opaque colours a canvas shows, as rrggbb."""
    return set(
        canvas.evaluate(
            """(canvas) => {
              const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              const seen = new Set();
              for (let k = 0; k < data.length; k += 4) {
                if (data[k + 3] === 255) seen.add((data[k] << 16) | (data[k + 1] << 8) | data[k + 2]);
              }
              return [...seen].map((word) => word.toString(16).padStart(6, '0'));
            }"""
        )
    )


def status(panel: Locator) -> str:
    return panel.locator("[aria-live]").inner_text()


def span_of(text: str) -> float:
    """Return the length in ns that the status of a timeline tells in brackets."""
    value, unit = re.search(r"\(([\d.,]+) (ns|us)\)", text).groups()
    return float(value.replace(",", "")) * {"ns": 1, "us": 1000}[unit]


def displayed(notebook: Notebook, cell: int) -> dict[str, Any]:
    """Return the forms of what a cell displays."""
    return next(o["data"] for o in notebook.outputs()[cell] if o["output_type"] == "display_data")


def view_title(name: str) -> str:
    return "IR" if name == "ir" else name.capitalize()


def view_of(notebook: Notebook, number: int = 0) -> Locator:
    view = notebook.page.locator(".nki-view").nth(number)
    view.wait_for()
    view.scroll_into_view_if_needed()
    return view


def test_every_view_is_shown_in_both_themes(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "themes", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        seen: dict[bool, dict[str, set[str]]] = {}
        for dark in (False, True):
            set_theme(page, dark)
            seen[dark] = {}
            for name in view_names():
                panel = tab(view, name)
                settle(page)
                notebook.screenshot(f"view_{name}_{'dark' if dark else 'light'}", view)
                canvases = panel.locator("canvas").all()
                seen[dark][name] = set().union(*map(colours, canvases)) if canvases else set()
        series = {False: SERIES[0].light[1:], True: SERIES[0].dark[1:]}
        for dark in (False, True):
            assert series[dark] in seen[dark]["timeline"]
            assert series[not dark] not in seen[dark]["timeline"]
        # Only what is near the part in sight exists; each instruction is a row of several elements.
        assert len(view.locator("*").all()) < 1800


@pytest.mark.thorough
def test_the_report_tells_what_bounds_the_run(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "report", SETUP, MATMUL) as (_, notebook):
        view = view_of(notebook)
        panel = tab(view, "report")
        text = panel.inner_text()
        assert "total time" in text and "bound by" in text
        assert "nisa.nc_matmul(dst=acc, stationary=a, moving=w)" in text
        assert view.locator(".nki-badge").inner_text() == "modelled"
        panel.get_by_text("As text").click()
        assert "modelled from public documents" in panel.locator("pre").inner_text()
        # What a notebook saves as text leaves out lines where it gets long, and says how many; the view has all.
        saved = displayed(notebook, 1)["text/plain"].splitlines()
        whole = panel.locator("pre").inner_text().splitlines()
        at = 0
        for line in saved:
            left_out = re.fullmatch(r"\s*\.\.\. ([\d,]+) more( lines)?", line)
            if table := re.fullmatch(r"lines +(\d+): print\(result\) shows their times", line):
                assert whole[at] == "" and whole[at + 1].startswith("line ")
                at += 2 + int(table[1])
            elif not left_out or whole[at] == line:
                assert line == whole[at]
                at += 1
            elif left_out[2]:
                at += int(left_out[1].replace(",", ""))
            else:  # advice: entries of several lines, some of which the view leaves out as well
                entries = 0
                while re.match(r"  \d+\. | {5}", whole[at]):
                    entries += not whole[at].startswith("   ")
                    at += 1
                if more := re.fullmatch(r"  \.\.\. (\d+) more", whole[at]):
                    entries += int(more[1])
                    at += 1
                assert entries == int(left_out[1])
        assert at == len(whole) and 30 < len(saved) <= 40


@pytest.mark.thorough
def test_the_timeline_zooms_moves_and_explains(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "timeline", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "timeline")
        canvas = panel.locator("canvas")
        canvas.scroll_into_view_if_needed()
        assert status(panel).endswith("108 of 108 events")
        box = canvas.bounding_box()
        left = box["x"] + box["width"] - 500

        # The wheel zooms at the pointer: the moment under it stays.
        page.mouse.move(left, box["y"] + 60)
        page.wait_for_timeout(400)  # the page was scrolled a moment ago
        for _ in range(6):
            page.mouse.wheel(0, -200)
        page.wait_for_function(
            "(s) => !s.textContent.startsWith('0 us')",
            arg=panel.locator("[aria-live]").element_handle(),
        )
        zoomed = status(panel)
        shown, total = (
            int(word) for word in zoomed.replace(" events", "").split(": ")[1].split(" of ")
        )
        assert 0 < shown < total == 108

        # The label of a track tells how busy it is in what is shown.
        page.mouse.move(box["x"] + 30, box["y"] + 24 + 5 * 23 + 10)
        assert re.search(
            r"Vector\n4 instructions, .*\nin view: busy \d+\.\d %",
            panel.locator(".nki-tip").inner_text(),
        )

        # Dragging zooms to a span, or moves where that was asked for; double click shows everything.
        page.mouse.move(left, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(left - 120, box["y"] + 60, steps=4)
        page.mouse.up()
        closer = status(panel)
        assert span_of(closer) < span_of(zoomed)
        panel.get_by_label("drag").select_option("pan")
        page.mouse.move(left, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(left - 120, box["y"] + 60, steps=4)
        page.mouse.up()
        assert status(panel) != closer and span_of(status(panel)) == span_of(closer)
        settle(page)
        notebook.screenshot("timeline_zoomed", view)
        page.mouse.dblclick(left, box["y"] + 15)
        assert status(panel).startswith("0 us")

        # The keyboard does the same, and none of JupyterLab's shortcuts act.
        canvas.focus()
        cells = page.locator(".jp-Cell").count()
        for key in ("w", "w", "d", "a", "d", "d", "s"):
            page.keyboard.press(key)
        assert not status(panel).startswith("0 us")
        page.keyboard.press("0")
        assert status(panel).endswith("108 of 108 events")
        assert page.locator(".jp-Cell").count() == cells

        # Stepping through events tells about each, with what only the kernel knows.
        page.keyboard.press("]")
        detail = panel.locator(".nki-detail")
        detail.get_by_text("transfer_bytes").wait_for()
        assert "w = nl.load(b[k*128:(k+1)*128, n*512:(n+1)*512])" in detail.inner_text()
        notebook.screenshot("timeline_event", view)

        # Hovering names the event; its line is the author's.
        box = canvas.bounding_box()
        vector = box["y"] + 24 + 5 * 23 + 10
        for x in range(int(box["x"]) + 160, int(box["x"] + box["width"]), 3):
            page.mouse.move(x, vector)
            tip = panel.locator(".nki-tip")
            if tip.is_visible() and "on Vector" in tip.inner_text():
                break
        assert "res = nl.copy(acc, dtype=aT.dtype)" in panel.locator(".nki-tip").inner_text()
        notebook.screenshot("timeline_hover", view)

        # Clicking it leads to the program's text.
        page.mouse.click(x, vector)
        detail.get_by_text("Show in IR").click()
        chosen = view.locator(".nki-code [aria-selected=true]")
        chosen.wait_for()
        assert "tensor_copy(" in chosen.inner_text()
        notebook.screenshot("ir_from_timeline", view)


@pytest.mark.thorough
def test_passes_are_listed_and_lines_lead_to_the_kernel(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "ir", SETUP, MATMUL) as (page, notebook):
        panel = tab(view_of(notebook), "ir")
        names = panel.locator(".nki-passes button span:first-child")
        before = names.all_inner_texts()
        assert before[0] == "trace" and "find_uninitialized" not in before
        panel.get_by_text("passes that changed nothing").click()
        assert "find_uninitialized" in names.all_inner_texts()
        panel.get_by_text("allocate_sbuf").click()
        panel.get_by_text("lines after allocate_sbuf").wait_for()
        line = panel.locator(".nki-code .nki-rewritten", has_text="storage %w:").first
        # What the pass wrote into the line is marked, not the line.
        assert re.fullmatch(r", at \(0, \d+\)", line.locator("ins").inner_text())
        line.hover()
        assert (
            "w = nl.load(b[k*128:(k+1)*128, n*512:(n+1)*512])"
            in panel.locator(".nki-detail").inner_text()
        )
        notebook.screenshot("ir_line", panel)
        panel.get_by_placeholder("find in the text").fill("nc_matmul")
        page.keyboard.press("Enter")
        assert "nc_matmul" in panel.locator(".nki-code [aria-selected=true]").inner_text()


def written(canvas: Locator) -> list[str]:
    """Return the texts that were written onto a canvas after NOTE_TEXT, when it was last painted."""
    return canvas.evaluate("(canvas) => canvas.written.map((one) => one.text)")


@pytest.mark.thorough
def test_the_layout_names_slices_and_axes(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "layout", SETUP, MATMUL) as (page, notebook):
        page.evaluate(NOTE_TEXT)
        view = view_of(notebook)
        panel = tab(view, "layout")
        canvas = panel.locator("canvas")
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 80, box["y"] + 60)
        tip = panel.locator(".nki-tip")
        assert re.match(r"aT\[5\d, \d\]\nbyte [\d,]+ of the tensor", tip.inner_text())
        assert "%aT[0:128, 0:128]: read by 2" in tip.inner_text()
        page.mouse.click(box["x"] + 80, box["y"] + 60)
        assert "reads" in panel.locator(".nki-detail").inner_text()
        notebook.screenshot("layout_slice", view)
        panel.locator("select").first.select_option(label="acc  128 x 512  float32")
        panel.get_by_text("acc 128 x 512 float32 in PSUM").wait_for()
        assert "partition axis: axis 0 (128); free axis 1: 512 float32" in canvas.get_attribute(
            "aria-label"
        )
        settle(page)
        # The scale above counts elements, as slices do, the one below bytes; the tile is partitions, not one box.
        texts = written(canvas)
        assert "all 128 partitions x 512 elements" in texts
        assert "free axis 1: 512 float32 per partition (2,048 bytes)" in texts
        elements, of_bytes = texts.index("512"), texts.index("2,048 B")
        assert texts[elements - 1] != "2,048" and of_bytes > elements
        notebook.screenshot("layout_psum", view)
        assert 20 <= canvas.evaluate(_LINES_ACROSS) <= 64


@pytest.mark.thorough
def test_memory_names_the_tile_under_the_pointer(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "memory", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "memory")
        panel.get_by_text("PSUM: 4 tiles; at most 2,048 of 16,384 bytes").wait_for()
        psum = panel.locator("canvas").nth(1)
        psum.scroll_into_view_if_needed()
        box = psum.bounding_box()
        lowest = (
            box["y"] + box["height"] - 48 - 8
        )  # above the numbers and the curve of what is in use
        for x in range(int(box["x"]) + 76, int(box["x"] + box["width"]) - 8, 4):
            page.mouse.move(x, lowest)
            if panel.locator(".nki-tip").nth(1).is_visible():
                break
        text = panel.locator(".nki-tip").nth(1).inner_text()
        assert text.startswith(
            "acc [128, 512] float32\nbytes 0 to 2,047 (2,048) of partitions 0 to 127"
        )
        assert "acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)" in text
        page.mouse.click(x, lowest)
        assert "Show in IR" in panel.locator(".nki-detail").inner_text()
        page.keyboard.press("]")
        assert "acc.1 [128, 512] float32" in panel.locator(".nki-detail").inner_text()
        panel.locator("select").first.select_option("whole")
        settle(page)
        panel.locator("canvas").first.scroll_into_view_if_needed()
        notebook.screenshot("memory_whole", view)


@pytest.mark.thorough
def test_tabs_are_moved_through_by_keyboard(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "tabs", SETUP, MATMUL) as (page, notebook):
        view = view_of(notebook)
        view.get_by_role("tab", name="Report").focus()
        for expected in (*map(view_title, view_names()[1:]), "Report"):
            page.keyboard.press("ArrowRight")
            assert view.locator("[role=tab][aria-selected=true]").inner_text() == expected
            assert page.evaluate("document.activeElement.textContent") == expected
        assert view.locator("[role=tabpanel]:visible").count() == 1


# Counts the rows of a canvas, right of its middle, that differ from the row above and the row below alike.
_LINES_ACROSS = """(canvas) => {
  const pen = canvas.getContext('2d');
  const { data } = pen.getImageData(Math.round(canvas.width * 0.7), 0, 1, canvas.height);
  const light = Array.from({ length: canvas.height }, (_, y) => data[4 * y] + data[4 * y + 1] + data[4 * y + 2]);
  const differ = (a, b) => (a > b + 20) - (a < b - 20);
  const both = (own, a, b) => differ(own, a) && differ(own, a) === differ(own, b);
  return light.filter((own, y) => both(own, light[y - 1], light[y + 1])).length;
}"""


HOSTILE = """\
from nki_lab.views.run import *
from nki_lab.views.run import Held, Listing
from nki_lab.views.display import display
text = '<img src=x onerror="window.pwned=1"></script><script>window.pwned=1</script>'
place = Place(text, text, text)
run = double_result.view_data
lines = [CodeLine(text, place, 0)] * 3
hostile = ViewData(
    text, run.profile, operations=[Operation(text, "vector", text, place)] * 9,
    stages=[ProgramStage(text, lambda: lines)], findings=[Remark(text, text, text, place)],
    tensors=[Tensor(text, "sbuf", (8, 4), "float32", 4, "input", True, (0, 0), (0, 2), place)],
    slices=lambda n: [Slice(text, (8, 2), (4, 1), 0, 4, [0], [1])],
    make_lines=lambda: (np.zeros(9, dtype=np.int64), [place]),
    accesses=lambda p: [ShownAccess(text, way, 0, text, (8, 4), (4, 1), 0, 4, text, names)
        for way, names in (("reads", (text, "M")), ("reads", (text, "N")), ("writes", ("M", "N")))],
    held=lambda *_: Held(np.full((8, 4), np.nan), text), find_products=lambda: np.arange(3),
    make_listings=lambda: [Listing(text, text, 1, (text, text))])
display(hostile)"""
DOUBLE = """\
%%nki --run "double(x)" --target trn2 --show none
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out"""
DATA = "%load_ext nki_lab\nimport numpy as np\nx = np.ones((128, 64), dtype=np.float32)"


def test_names_with_markup_are_shown_as_they_are(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "hostile", DATA, DOUBLE, HOSTILE) as (page, notebook):
        view = view_of(notebook)
        assert '<img src=x onerror="window.pwned=1">' in view.locator(".nki-title").inner_text()
        for name in view_names():
            panel = tab(view, name)
            settle(page)
            # Charts are pictures that the page itself holds; names of tensors make none.
            assert panel.locator("img:not([src^='data:image/svg+xml']), script").count() == 0
            box = panel.bounding_box()
            for x, y in ((0.3, 0.3), (0.5, 0.4), (0.7, 0.6)):
                page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
            notebook.screenshot(f"hostile_{name}", view)
        assert page.evaluate("window.pwned") is None


def test_running_a_cell_again_replaces_its_views(lab: Lab, chromium: str) -> None:
    again = DOUBLE.replace(" --show none", "")
    with opened(lab, chromium, "again", DATA, again, "double_result", "double_result") as (
        page,
        notebook,
    ):
        count = "len(__import__('ipywidgets').widgets.widget._instances)"
        ask = """(code) => new Promise((ok) => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            const future = kernel.requestExecute({code: '', user_expressions: {n: code}, silent: false});
            future.onReply = (message) => ok(message.content.user_expressions.n.data['text/plain']);
        })"""
        first = page.evaluate(ask, count)
        notebook.show_all_cells()
        assert page.locator(".nki-view").count() == 3
        for _ in range(3):
            assert notebook.run_all()
        assert page.evaluate(ask, count) == first == "6"  # three views with a layout each
        notebook.show_all_cells()
        assert page.locator(".nki-view").count() == 3


MANY = """\
from tests.views.runs import many_events
from nki_lab.views.run import ViewData
from nki_lab.views.display import display
import time
run = ViewData("many", many_events({count}))
run.profile.summary
start = time.perf_counter()
shown = display(run, tabs=("timeline",))
bundle = shown._repr_mimebundle_()
took = time.perf_counter() - start
shown"""


@pytest.mark.thorough
def test_a_hundred_thousand_events_are_all_there(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "many", MANY.format(count=100_000)) as (page, notebook):
        view = view_of(notebook)
        panel = tab(view, "timeline")
        panel.get_by_text("100,000 of 100,000 events").wait_for()
        settle(page)
        notebook.screenshot("timeline_100k", view)
        canvas = panel.locator("canvas")
        canvas.focus()
        for _ in range(30):
            page.keyboard.press("w")
        settle(page)
        notebook.screenshot("timeline_100k_zoomed", view)


def test_an_exported_page_shows_picture_and_text_without_kernel_and_network(
    lab: Lab, chromium: str
) -> None:
    shown = DOUBLE.replace(" --show none", "")
    with opened(lab, chromium, "export", DATA, shown, HOSTILE) as (page, notebook):
        view_of(notebook)
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    stored = nbformat.read(lab.root / "export.ipynb", as_version=4)
    forms = [o.data for cell in stored.cells[1:] for o in cell.outputs if "data" in o]
    for form in forms:
        assert set(form) == {"text/plain", "image/png", "text/html", LIVE_TYPE, WIDGET_TYPE}
        assert len(str(form)) < 100_000
        del form[LIVE_TYPE], form[WIDGET_TYPE]  # as `nki-lab execute --write` stores it
    exported, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(stored)
    with browser(chromium, anew=True) as page:
        console = Console().listen(page)
        page.set_content(exported)
        pictures = page.locator("img[src^='data:image/'][alt*='us modelled']")
        assert pictures.count() == 2
        assert all(p.evaluate("(img) => img.naturalWidth") == 1200 for p in pictures.all())
        assert page.evaluate("window.pwned") is None
        assert console.errors == [] and console.requests == []


CHARTS = "matmul_result.chart('utilisation')"


@pytest.mark.thorough
def test_charts_are_drawn_by_plotly(lab: Lab, chromium: str) -> None:
    sizes = CHARTS.replace("utilisation", "transfer_sizes")
    with opened(lab, chromium, "charts", SETUP, MATMUL, CHARTS, sizes) as (page, notebook):
        charts = page.locator(".js-plotly-plot")
        for k in range(2):
            notebook.page.locator(".jp-CodeCell").nth(2 + k).scroll_into_view_if_needed()
            charts.nth(k).locator(".barlayer .point").first.wait_for()
            notebook.screenshot(f"chart_{k}", charts.nth(k))
        assert charts.first.locator(".barlayer .point").count() == 6
