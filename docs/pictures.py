"""Makes the two pictures at the top of README.md in a real JupyterLab: one of a run, and one that moves.

    python -m docs.pictures

Needs Chromium. Each picture carries what it was made from (`RECIPE`), which a test compares with this file: after a
change of the cells or of the steps the pictures are made anew.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from pathlib import Path

from PIL import Image, PngImagePlugin
from playwright.sync_api import Locator, Page

from tests.browser.lab import Lab, Notebook, browser
from tests.chromium import installed

FOLDER = Path(__file__).parent / "static"
STILL, MOVING = FOLDER / "run.png", FOLDER / "run.gif"
#: Size of the window in pixels. The still picture has twice as many of them.
WIDTH, HEIGHT = 960, 880
#: What is in front of a view in the moving picture, and for how many milliseconds.
STEPS = (("report", 3000), ("source", 2500), ("timeline", 3000), ("memory", 2500), ("ir", 2500))
BEFORE_MS, STILL_VIEW = 2000, "timeline"

INPUTS = """\
%load_ext nki_lab
%nki_target trn2
import numpy as np
x = np.random.default_rng(0).standard_normal((512, 1024), dtype=np.float32)"""
KERNEL = """\
%%nki --run "softmax(x)" --check "np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)"
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        rows = nl.load(x[start : start + 128])
        e, total = nl.empty_like(rows), nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=e, op=nl.exp, data=rows, reduce_op=nl.add, reduce_res=total,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=total)
        nl.store(out[start : start + 128], e)
    return out"""

#: What the pictures are made from, as one number; it is stored in them.
RECIPE = hashlib.sha256(
    repr((WIDTH, HEIGHT, STEPS, BEFORE_MS, STILL_VIEW, INPUTS, KERNEL)).encode()
).hexdigest()[:16]


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        with browser(installed(), WIDTH, HEIGHT) as page:
            frames = [_open(lab, page, "moving"), *(_shot(page, view) for view, _ in STEPS)]
        with browser(installed(), WIDTH, HEIGHT, scale=2) as page:
            _open(lab, page, "softmax")
            still = _shot(page, STILL_VIEW)
    facts = PngImagePlugin.PngInfo()
    facts.add_text("recipe", RECIPE)
    _palette(still).save(STILL, pnginfo=facts, optimize=True)
    first, *rest = map(_palette, frames)
    durations = [BEFORE_MS, *(ms for _, ms in STEPS)]
    first.save(
        MOVING, save_all=True, append_images=rest, duration=durations, loop=0, comment=RECIPE.encode(), optimize=True
    )  # fmt: skip


def _open(lab: Lab, page: Page, name: str) -> Image.Image:
    """Open a notebook without the file browser, run its cells, and return how it looked before that."""
    notebook = lab.open(page, lab.write(f"{name}.ipynb", INPUTS, KERNEL))
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    page.wait_for_timeout(500)
    before = _image(page)
    assert notebook.run_all()
    return before


def _shot(page: Page, view: str) -> Image.Image:
    """Bring a view to the front and return the window with the kernel's cell at its top."""
    cell = Notebook(page).cell("def softmax")
    cell.get_by_role("tab", name=view, exact=False).first.click()
    _ready(cell).wait_for()
    cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    page.mouse.move(WIDTH - 4, HEIGHT - 60)
    page.wait_for_timeout(500)
    return _image(page)


def _ready(cell: Locator) -> Locator:
    return cell.locator(".nki-panel[data-ready=true]").and_(cell.locator(":visible"))


def _image(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _palette(image: Image.Image) -> Image.Image:
    return image.quantize(128, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
