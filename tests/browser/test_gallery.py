"""Tests that every picture of every view shows something and stays inside its frame."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from nki_lab.views.registry import view_names
from tests.browser.gallery import THEMES, live_pictures, still_pictures
from tests.browser.lab import OUT, Console, browser
from tests.widgets.test_picture import decode

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.thorough]


@pytest.mark.parametrize("kernel", ["add", "attention"])
def test_every_view_fits_its_frame_in_both_themes(kernel: str, chromium: str) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with browser(chromium, width=1250, height=1100, anew=True) as page:
        console = Console().listen(page)
        seen = []
        for path in live_pictures(page, kernel, view_names(), OUT):
            seen.append(path)
            panel = page.locator("[role=tabpanel]:visible")
            wide, room = panel.evaluate("(p) => [p.scrollWidth, p.clientWidth]")
            assert wide <= room, f"{path.name}: {wide} pixels in {room}"
            assert panel.locator(".error").count() == 0 and panel.inner_text().strip()
        assert len(set(seen)) == len(view_names()) * len(THEMES) and all(
            p.stat().st_size for p in seen
        )
        assert console.errors == []


def ink(pixels: np.ndarray) -> np.ndarray:
    """Return the share of each row that is not background, which a pixel inside the border is."""
    return (pixels != pixels[3, 3]).any(-1).mean(axis=1)


def test_still_pictures_show_the_same_as_png_and_as_svg(chromium: str, tmp_path: Path) -> None:
    with browser(chromium, width=1250, height=1100, anew=True) as page:
        console = Console().listen(page)
        paths = list(still_pictures(page, "attention", view_names(), tmp_path))
        assert console.errors == []
        assert len(paths) == 2 * len(view_names()) * len(THEMES)
        for drawn, shown in zip(paths[::2], paths[1::2], strict=True):
            mine = decode(drawn.read_bytes())
            page.goto("about:blank")
            page.set_content(f"<img id=i src='data:image/png;base64,{_base64(shown)}'>")
            theirs = np.array(page.evaluate(_ROWS))
            theirs = theirs[np.arange(len(mine)) * len(theirs) // len(mine)]  # at the same scale
            assert 0.005 < ink(mine).mean() < 0.9, drawn.name
            # Letters differ, since a browser has fonts of its own; what is drawn is at the same places.
            assert ((ink(mine) > 0.02) == (theirs > 0.02)).mean() > 0.8, drawn.name


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# The same of an image of the page.
_ROWS = """async () => {
  const image = document.getElementById('i');
  await image.decode();
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const pen = Object.assign(document.createElement('canvas'), { width, height }).getContext('2d');
  pen.drawImage(image, 0, 0);
  const words = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);
  return Array.from({ length: height }, (_, y) => words.subarray(y * width, (y + 1) * width)
    .reduce((sum, word) => sum + Number(word !== words[3 * width + 3]), 0) / width);
}"""
