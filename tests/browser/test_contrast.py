"""Tests that all text of every view can be read: its contrast with what is behind it, as the browser computed both."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab.views.registry import view_names
from nki_lab.widgets.theme import ON_FILL, SERIES, contrast, rgb
from tests.browser.gallery import KERNELS, THEMES
from tests.browser.lab import NOTE_TEXT, browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]

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
    const isRead = Boolean(node.closest('p, li, td, pre, code'));
    texts.push([text.slice(0, 60), hex(over(colour, ground)), hex(ground), isRead]);
  }
  return texts;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_text_of_every_view_can_be_read(theme: str, chromium: str, tmp_path: Path) -> None:
    page_of_run = KERNELS["matmul"]().show(*view_names()).save_html(tmp_path / "run.html")
    pale, read = {}, 0
    with browser(chromium, width=1250, height=1100, anew=True) as page:
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


# How many pixels of the canvases of a panel have exactly the colour of each chip of its legend or list.
_CHIPS = """(panel) => {
  const counts = new Map();
  for (const canvas of panel.querySelectorAll('canvas')) {
    if (!canvas.width || !canvas.height) continue;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let k = 0; k < data.length; k += 4) {
      const colour = `rgb(${data[k]}, ${data[k + 1]}, ${data[k + 2]})`;
      if (data[k + 3] === 255) counts.set(colour, (counts.get(colour) || 0) + 1);
    }
  }
  return [...panel.querySelectorAll('.nki-chip')].filter((chip) => chip.checkVisibility())
    .map((chip) => getComputedStyle(chip).backgroundColor).map((colour) => [colour, counts.get(colour) || 0]);
}"""

# How many pixels of a canvas have one of some colours.
_DRAWN = """(canvas, colours) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let k = 0; k < data.length; k += 4) count += colours.includes(`rgb(${data[k]}, ${data[k + 1]}, ${data[k + 2]})`);
  return count;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_what_is_drawn_has_the_colours_of_its_legend(
    theme: str, chromium: str, tmp_path: Path
) -> None:
    page_of_run = (
        KERNELS["matmul"]().show("layout", "memory", "timeline").save_html(tmp_path / "run.html")
    )
    series = [getattr(colour, theme) for colour in SERIES]
    lines = {f"rgb{rgb(colour)}" for colour in series}
    with browser(chromium, width=1250, height=1100, anew=True) as page:
        page.emulate_media(color_scheme=theme)
        page.add_init_script(f"({NOTE_TEXT})()")
        page.goto(page_of_run.as_uri())
        for view in ("layout", "timeline"):
            page.locator(f"[role=tab][id$=-tab-{view}]").click()
            panel = page.locator(f"[role=tabpanel][id$=-{view}][data-ready=true]")
            panel.wait_for()
            chips = [(colour, n) for colour, n in panel.evaluate(_CHIPS) if colour in lines]
            assert chips and all(n > 20 for _, n in chips), (view, chips)
            if view == "layout":  # the index in each slice of an array in HBM
                written = panel.locator("canvas").first.evaluate("(canvas) => canvas.written")
                indices = [text for text in written if text["text"].startswith("[")]
                assert indices
                assert {text["colour"] for text in indices} == {getattr(ON_FILL, theme)}
        page.locator("[role=tab][id$=-tab-memory]").click()
        panel = page.locator("[role=tabpanel][id$=-memory][data-ready=true]")
        panel.wait_for()
        drawn = panel.locator("canvas").first.evaluate(_DRAWN, sorted(lines))
        assert drawn > 1000  # tiles, in the colours of their lines as they are
