"""Tests that every view is complete and readable at every width that an output may have."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from nki_lab.views.registry import view_names
from tests.browser.gallery import KERNELS
from tests.browser.lab import NOTE_TEXT, Console, Lab, browser
from tests.browser.test_views import MATMUL, SETUP, opened, settle, tab, view_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDTHS = (500, 600, 1000, 1400, 2000)

#: Returns what is wrong with a panel, as texts.
PROBLEMS = """(panel) => {
  const view = panel.closest('.nki-view');
  const frame = view.getBoundingClientRect();
  const wrong = [];
  const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    const isShown = element.checkVisibility({ visibilityProperty: true });
    if (!node.data.trim() || !isShown || element.closest('option, svg, .nki-tip')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 0.5);
    if (boxes.length) texts.push({ text: node.data.trim().slice(0, 60), element, boxes });
  }
  for (const { text, element, boxes } of texts) {
    const [left, right] = [Math.min(...boxes.map((b) => b.left)), Math.max(...boxes.map((b) => b.right))];
    if (left < frame.left - 1 || right > frame.right + 1) wrong.push(`outside the view: ${text}`);
    for (let around = element; around !== view; around = around.parentElement) {
      const style = getComputedStyle(around);
      if (style.display === 'inline') continue;
      const box = around.getBoundingClientRect();
      if (style.overflowX !== 'visible' && (right > box.right + 1 || left < box.left - 1)) {
        wrong.push(`cut at the side of ${around.className || around.tagName}: ${text}`);
      }
      const isCut = style.overflowY === 'hidden' && boxes.some((b) => b.bottom > box.bottom + 3);
      if (isCut) wrong.push(`cut below: ${text}`);
    }
  }
  // Lines of text do not cover each other. What stays while the rest scrolls does, and is left out.
  const lines = texts.filter(({ element }) => !element.closest('.nki-stay, .nki-stay-above'))
    .flatMap(({ text, boxes }) => boxes.map((box) => ({ text, box })));
  lines.sort((a, b) => a.box.top - b.box.top);
  lines.forEach((a, k) => {
    for (let n = k + 1; n < lines.length && lines[n].box.top < a.box.bottom; n++) {
      const b = lines[n];
      const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (across > 2 && down > 6) wrong.push(`one above the other: ${a.text} | ${b.text}`);
    }
  });
  for (const select of panel.querySelectorAll('select, input[type=search]')) {
    if (!select.checkVisibility() || select.getBoundingClientRect().right <= frame.right) continue;
    wrong.push(`outside the view: ${select.outerHTML.slice(0, 60)}`);
  }
  // Nothing scrolls inside what scrolls, and nothing sideways.
  const all = [...view.querySelectorAll('*')].filter((e) => e.checkVisibility());
  const rolls = (e, way) => ['auto', 'scroll'].includes(getComputedStyle(e)[`overflow${way}`]) &&
    (way === 'Y' ? e.scrollHeight > e.clientHeight + 1 : e.scrollWidth > e.clientWidth + 1);
  for (const e of all) {
    if (rolls(e, 'X')) wrong.push(`scrolls sideways: ${e.className || e.tagName}`);
    if (!rolls(e, 'Y')) continue;
    for (let around = e.parentElement; around !== view.parentElement; around = around.parentElement) {
      if (rolls(around, 'Y')) wrong.push(`${e.className || e.tagName} scrolls inside ${around.className}`);
    }
  }
  // As high as what is in it, and at most as the screen.
  if (frame.height > innerHeight) wrong.push(`${frame.height} pixels high on a screen of ${innerHeight}`);
  const bottom = (e) => e.getBoundingClientRect().bottom;
  const last = Math.max(...[...panel.children].filter((e) => e.checkVisibility()).map(bottom));
  if (bottom(panel) - last > 40 && panel.scrollHeight <= panel.clientHeight) wrong.push('empty space below');
  // Drawings: no label is cut. Names inside a bar are, where the bar is short; they are told beside the pointer.
  const onFill = new Set(['#ffffff', '#0b0d10', '#111111', '#000000']);
  for (const canvas of all.filter((e) => e.tagName === 'CANVAS')) {
    const box = canvas.getBoundingClientRect();
    for (const { text, colour, ends } of canvas.written || []) {
      if (text.endsWith('…') && !onFill.has(colour)) wrong.push(`cut in a drawing: ${text}`);
      if (ends.some((x) => x < -1 || x > box.width + 1)) wrong.push(`outside a drawing: ${text}`);
    }
  }
  return [...new Set(wrong)];
}"""


#: Returns the words that stand on two lines each.
BROKEN = """(panel) => {
  const broken = [];
  const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    const element = node.parentElement;
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('code, option, svg')) continue;
    for (const word of node.data.matchAll(/[A-Za-z]{2,}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0.5);
      if (new Set(boxes.map((box) => Math.round(box.top))).size > 1) broken.push(`broken: ${word[0]}`);
    }
  }
  return [...new Set(broken)];
}"""


def problems(page: Page, view: Locator, name: str) -> list[str]:
    """Return what is wrong with a view as it is shown now."""
    panel = tab(view, name)
    for _ in range(3):  # a drawing may find its height while it is drawn
        settle(page)
    return [f"{name}: {problem}" for problem in panel.evaluate(PROBLEMS)]


@pytest.mark.thorough
@pytest.mark.parametrize("kernel", ["add", "attention"])
def test_every_view_is_complete_at_every_width(kernel: str, chromium: str, tmp_path: Path) -> None:
    file = KERNELS[kernel]().show(*view_names()).save_html(tmp_path / "run.html")
    wrong = []
    with browser(chromium, height=1000, anew=True) as page:
        console = Console().listen(page)
        page.add_init_script(f"({NOTE_TEXT})()")
        page.goto(file.as_uri())
        view = page.locator(".nki-view")
        for width in WIDTHS:
            page.set_viewport_size({"width": width + 32, "height": 1000})
            assert view.bounding_box()["width"] == width
            for name in view_names():
                found = problems(page, view, name)
                if width >= 1000:
                    found += tab(view, name).evaluate(BROKEN)
                wrong += [f"{width} pixels, {name}, {problem}" for problem in found]
        assert console.errors == []
    assert not wrong, "\n".join(wrong)


@pytest.mark.thorough
def test_every_live_view_is_complete_beside_the_file_browser(lab: Lab, chromium: str) -> None:
    with opened(lab, chromium, "widths", SETUP, MATMUL) as (page, notebook):
        page.evaluate(NOTE_TEXT)
        view = view_of(notebook)
        page.evaluate("window.jupyterapp.commands.execute('filebrowser:activate')")
        assert page.locator(".jp-DirListing").is_visible()
        wrong = []
        for width in (1000, 1400, 2000):
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_timeout(300)  # the notebook follows the window late
            for name in view_names():
                found = problems(page, view, name)
                wrong += [f"a window of {width} pixels, {problem}" for problem in found]
                notebook.screenshot(f"width_{name}_{width}", view)
    assert not wrong, "\n".join(wrong)
