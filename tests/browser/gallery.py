"""Draws every view for three kernels, in light and dark.

    python -m tests.browser.gallery FOLDER              every picture
    python -m tests.browser.gallery FOLDER matmul       of one kernel
    python -m tests.browser.gallery FOLDER matmul ir    of one view of it

Of each view four pictures are written: as a browser shows it, and as the PNG that stands for it where nothing is
alive, each in light and dark; beside them the same as SVG, drawn by the browser. They are for a person to look at;
`test_gallery.py` says what must hold of all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
from playwright.sync_api import Page

from benchmarks.kernels import add, attention, matmul
from nki_lab.runtime import Result, run
from nki_lab.views.registry import view_names
from tests.browser.lab import browser
from tests.chromium import installed

THEMES = ("light", "dark")


def _made(kernel: Callable, *shapes: tuple[int, ...], dtype: type = np.float32) -> Result:
    rng = np.random.default_rng(0)
    return run(kernel, *(rng.standard_normal(s).astype(dtype) for s in shapes), target="trn2")


#: The kernels: small enough that each of their instructions can be seen.
KERNELS: dict[str, Callable[[], Result]] = {
    "add": cache(lambda: _made(add, (256, 512), (256, 512))),
    "matmul": cache(lambda: _made(matmul, (512, 256), (512, 1024), dtype=ml_dtypes.bfloat16)),
    "attention": cache(lambda: _made(attention, (128, 512), (128, 512), (512, 128))),
}


def live_pictures(page: Page, name: str, views: tuple[str, ...], folder: Path) -> Iterator[Path]:
    """Show a run's saved page and yield a picture of each view in both themes."""
    file = KERNELS[name]().show(*view_names()).save_html(folder / f"{name}.html")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.goto(file.as_uri())
        for view in views:
            page.locator(f"[role=tab][id$=-tab-{view}]").click()
            page.locator(f"[role=tabpanel][id$=-{view}][data-ready=true]").wait_for()
            page.wait_for_timeout(150)  # what is drawn frame by frame
            path = folder / f"{name}_{view}_{theme}_live.png"
            page.locator(".nki-view").screenshot(path=path)
            yield path


def still_pictures(page: Page, name: str, views: tuple[str, ...], folder: Path) -> Iterator[Path]:
    """Yield the pictures of each view that stand where nothing is alive: PNG, and SVG as a browser draws it."""
    shown = KERNELS[name]().show(*view_names())
    for theme in THEMES:
        for view in views:
            path = folder / f"{name}_{view}_{theme}_still.png"
            path.write_bytes(shown.to_image("png", view, theme))
            yield path
            drawing = path.with_suffix(".svg")
            drawing.write_bytes(shown.to_image("svg", view, theme))
            page.goto(drawing.as_uri())
            page.locator("svg").screenshot(path=folder / f"{name}_{view}_{theme}_svg.png")
            yield folder / f"{name}_{view}_{theme}_svg.png"


def write_all(folder: Path, kernels: tuple[str, ...], views: tuple[str, ...]) -> Iterator[Path]:
    """Write the pictures of some views of some kernels into a folder and yield each."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser(installed(), width=1250, height=1100, anew=True) as page:
        for name in kernels:
            yield from live_pictures(page, name, views, folder)
            yield from still_pictures(page, name, views, folder)


if __name__ == "__main__":
    target, *words = sys.argv[1:]
    chosen = tuple(w for w in words if w in KERNELS) or tuple(KERNELS)
    for written in write_all(
        Path(target), chosen, tuple(w for w in words if w in view_names()) or view_names()
    ):
        print(written)
