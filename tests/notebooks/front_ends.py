"""Shows a notebook where nothing is alive: no kernel, no network, no script of ours.

    python -m tests.notebooks.front_ends workshop/solutions/01_first_kernel.ipynb

runs a notebook as other programs do (nbclient), looks at what it stored, exports it to HTML as `jupyter nbconvert
--to html` does, and opens that page in Chromium without network. It prints what it has found, and fails where a display
of nki_lab has no text, no picture, a script, too many bytes, or a picture that the page does not show as it is.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Page, Route

from nki_lab.views.registry import view_names
from tests.browser.lab import browser
from tests.chromium import installed

#: Bytes that one display may leave in a notebook.
BYTES_MAX = 500_000
#: What a notebook that any viewer shows may hold; plotly's data is only read by front ends that have plotly.
STATIC = {"text/plain", "text/html", "image/png", "image/svg+xml", "application/vnd.plotly.v1+json"}
#: Mean difference of a pixel's colour, 0 to 255, up to which two pictures are the same one.
SAME = 10.0

_SETUP = """\
%load_ext nki_lab
import ml_dtypes, numpy as np
rng = np.random.default_rng(0)
aT = rng.standard_normal((256, 128)).astype(ml_dtypes.bfloat16)
b = rng.standard_normal((256, 512)).astype(ml_dtypes.bfloat16)"""
_KERNEL = """\
%%nki --run "product(aT, b)" --target trn2 --show report
def product(aT, b):
    out = nl.ndarray((128, 512), dtype=aT.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(aT.shape[0] // 128):
        rows = nl.ds(k * 128, 128)
        nisa.nc_matmul(dst=acc, stationary=nl.load(aT[rows]), moving=nl.load(b[rows]))
    nl.store(out, nl.copy(acc, dtype=aT.dtype))
    return out"""
_CHARTS = ("utilisation", "roofline", "transfer_sizes", "transfer_rates")


class Shown(NamedTuple):
    """A display that nki_lab left in a notebook: the number of its cell, and its forms."""

    cell: int
    data: dict[str, Any]


def every_view() -> Any:
    """Return a notebook whose cells show every view, a comparison, and every chart."""
    cells = [_SETUP, _KERNEL]
    cells += [f'product_result.show("{view}")' for view in view_names()]
    cells += ["product_result.show(compare=product_result)"]
    cells += [f"product_result.chart({name!r})" for name in _CHARTS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return notebook


def executed(notebook: Any, folder: Path) -> Any:
    """Run a notebook as any program does that uses nbclient, and return it with all that was stored."""
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
    return notebook


def displays(notebook: Any) -> list[Shown]:
    """Return what cells with our magics or results display, in order."""
    found = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            for output in cell.outputs:
                forms = output.get("data", {})
                if {"image/png", "image/svg+xml"} & set(forms):
                    found.append(Shown(number, dict(forms)))
    return found


def faults(shown: Shown) -> Iterator[str]:
    """Yield what is wrong with a stored display."""
    forms = shown.data
    if not forms.get("text/plain", "").strip():
        yield "has no text"
    if not {"image/png", "image/svg+xml"} & set(forms):
        yield "has no picture"
    if more := set(forms) - STATIC:
        yield f"has forms that need a kernel or a script: {', '.join(sorted(more))}"
    if (size := len(str(forms))) > BYTES_MAX:
        yield f"takes {size:,} bytes"
    if re.search(
        r"<script|javascript:|\son\w+=",
        f"{forms.get('image/svg+xml', '')} {forms.get('text/html', '')}",
        re.IGNORECASE,
    ):
        yield "has a script"


def exported(notebook: Any) -> str:
    """Return the page that `jupyter nbconvert --to html` writes, without options."""
    return HTMLExporter().from_notebook_node(notebook)[0]


def offline(page: Page, html: str, folder: Path) -> None:
    """Open a page that can ask for nothing."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")

    def answer(route: Route) -> None:
        if route.request.url == file.as_uri():
            route.continue_()
        else:
            route.abort()

    page.route("**/*", answer)
    page.goto(file.as_uri(), wait_until="domcontentloaded")


def page_faults(page: Page, stored: list[Shown]) -> Iterator[str]:
    """Yield which displays an open page does not show; a PNG is compared with what is seen, pixel by pixel."""
    pictures = page.locator(".jp-OutputArea-output img, .jp-OutputArea-output > svg").all()
    if len(pictures) != len(stored):
        yield f"{len(pictures)} pictures are shown of {len(stored)}"
        return
    for shown, picture in zip(stored, pictures, strict=True):
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        if box is None or box["width"] < 100 or box["height"] < 40:
            yield f"cell {shown.cell}: its picture cannot be seen"
        elif "image/svg+xml" not in shown.data:
            seen = f"data:image/png;base64,{base64.b64encode(picture.screenshot()).decode()}"
            stored_picture = _SOURCE.search(shown.data.get("text/html", ""))
            expected = (
                stored_picture[1]
                if stored_picture
                else f"data:image/png;base64,{shown.data['image/png']}"
            )
            difference = page.evaluate(_DIFFERENCE, [seen, expected])
            if difference > SAME:
                yield f"cell {shown.cell}: its picture looks otherwise, by {difference:.1f} of 255"


# Where a display of HTML has its picture.
_SOURCE = re.compile(r'<img [^>]*src="([^"]*)"')
# The mean difference of a colour, of both pictures made so small that how letters were scaled does not matter.
_DIFFERENCE = """async (pictures) => {
  const images = await Promise.all(pictures.map(async (text) => {
    const image = new Image();
    image.src = text;
    await image.decode();
    return image;
  }));
  const [width, height] = [200, Math.max(1, Math.round(200 * images[0].naturalHeight / images[0].naturalWidth))];
  const [one, other] = images.map((image) => {
    const pen = Object.assign(document.createElement('canvas'), { width, height }).getContext('2d');
    pen.imageSmoothingQuality = 'high';
    pen.drawImage(image, 0, 0, width, height);
    return pen.getImageData(0, 0, width, height).data;
  });
  return one.reduce((sum, value, k) => sum + Math.abs(value - other[k]), 0) / one.length;
}"""


def main(paths: list[Path]) -> int:
    """Check notebooks and tell what was found; returns how many have faults."""
    failed = 0
    with browser(installed()) as page, tempfile.TemporaryDirectory() as folder:
        for path in paths or [None]:
            notebook = every_view() if path is None else nbformat.read(path, as_version=4)
            ran = executed(notebook, Path(folder) if path is None else path.resolve().parent)
            stored = displays(ran)
            found = [f"cell {s.cell} {fault}" for s in stored for fault in faults(s)]
            offline(page, exported(ran), Path(folder))
            found += page_faults(page, stored)
            name = "a notebook of every view" if path is None else path.name
            print(f"{name}: {len(stored)} displays; {'; '.join(found) or 'all shown offline'}")
            failed += bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]]))
