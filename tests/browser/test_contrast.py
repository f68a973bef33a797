"""Tests that all text of every view can be read: its contrast with what is behind it, as the browser computed both."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab.views.registry import view_names
from nki_lab.widgets.theme import contrast
from tests.browser.gallery import KERNELS, THEMES
from tests.browser.lab import browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]

#: Least contrast of text (WCAG 2.2, 1.4.3), and of text that is read on (1.4.6): lists, paragraphs, tables, code.
TEXT, READING = 4.5, 7.0

# Every piece of text that is shown: [text, its colour, the colour behind it, whether it is read on].
_TEXTS = """(panel) => {
  const parts = (text) => {
    const mixed = text.match(/^color\\(srgb ([\\d.]+) ([\\d.]+) ([\\d.]+)(?: \\/ ([\\d.]+))?\\)/);
    if (mixed) return [...mixed.slice(1, 4).map((c) => 255 * c), mixed[4] === undefined ? 1 : Number(mixed[4])];
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, k) => c * a + below[k] * (1 - a));
  const behind = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) layers.push(parts(getComputedStyle(n).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const faded = (node) => {
    let share = 1;
    for (let n = node; n && n !== panel; n = n.parentElement) share *= Number(getComputedStyle(n).opacity);
    return share;
  };
  const hex = (colour) => '#' + colour.map((c) => Math.round(c).toString(16).padStart(2, '0')).join('');
  const texts = [];
  const walk = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || node.closest('option')) continue;
    const ground = behind(node);
    const style = getComputedStyle(node);
    const colour = parts(node.namespaceURI.endsWith('svg') ? style.fill : style.color);
    colour[3] *= faded(node);
    texts.push([text.slice(0, 60), hex(over(colour, ground)), hex(ground), Boolean(node.closest('p, li, td, pre, code'))]);
  }
  return texts;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_text_of_every_view_can_be_read(theme: str, chromium: str, tmp_path: Path) -> None:
    page_of_run = KERNELS["matmul"]().show(*view_names()).save_html(tmp_path / "run.html")
    pale, read = {}, 0
    with browser(chromium, width=1250, height=1100) as page:
        page.emulate_media(color_scheme=theme)
        page.goto(page_of_run.as_uri())
        for view in view_names():
            page.locator(f"[role=tab][id$=-tab-{view}]").click()
            panel = page.locator(f"[role=tabpanel][id$=-{view}][data-ready=true]")
            panel.wait_for()
            texts = page.locator(".nki-view").evaluate(_TEXTS)
            assert len(texts) > len(view_names()), view  # the tabs alone are that many
            for text, colour, ground, is_read in texts:
                read += is_read
                least = READING if is_read else TEXT
                if contrast(colour, ground) < least:
                    pale[view, text] = (colour, ground, round(contrast(colour, ground), 2), least)
    assert pale == {}
    assert read > 100
