"""Tests that NKI's names are coloured in `%%nki` cells, and nowhere else."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab
from tests.thorough import first

pytestmark = pytest.mark.browser

KERNEL = """\
@nki.jit
def double(a):
    t = nl.load(a)  # nl.load copies a tile into SBUF
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out"""
MAGIC = "%%nki --target trn2 --show none --run 'double(a)' --check 'a + a'"
IMPORTS = "import nki, nki.isa as nisa, nki.language as nl\n\n"
SETUP = """\
%load_ext nki_lab
import numpy as np
a = np.arange(512, dtype=np.float32).reshape(128, 4)"""


def marked(page: Page, cell: int, kind: str) -> list[str]:
    found = page.locator(".jp-CodeCell").nth(cell).locator(f".nki-{kind}")
    return [text.strip() for text in found.all_inner_texts()]


@pytest.mark.thorough
def test_names_and_options_are_coloured(lab: Lab, page: Page) -> None:
    name = lab.write("coloured.ipynb", SETUP, f"{MAGIC}\n{KERNEL}", IMPORTS + KERNEL)
    notebook = lab.open(page, name)
    succeeded = notebook.run_all()
    notebook.screenshot("extension")
    assert succeeded, "the kernel that is shown does not run"

    assert marked(page, 1, "magic-line") == [MAGIC]
    assert marked(page, 1, "magic") == ["%%nki"]
    assert marked(page, 1, "option") == ["--target", "--show", "--run", "--check"]
    assert marked(page, 1, "value") == ["trn2", "none"]
    assert marked(page, 1, "isa") == ["nisa.tensor_tensor", "nisa.dma_copy"]
    assert marked(page, 1, "api") == ["nki.jit"]
    names = ["nl.load", "nl.add", "nl.ndarray", "nl.shared_hbm"]
    assert marked(page, 1, "language") == names

    for cell in (0, 2):
        assert page.locator(".jp-CodeCell").nth(cell).locator("[class*='nki-']").count() == 0


OLDER = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    nl.store(out, t + t)  # in float32
    return out"""


@pytest.mark.thorough
def test_a_cell_that_is_moved_is_inserted_below(lab: Lab, page: Page) -> None:
    name = lab.write(
        "moved.ipynb", SETUP, f"%%nki --migrate --run 'double(a)'\n{OLDER}", "last = 1"
    )
    notebook = lab.open(page, name)
    assert notebook.run_all()
    page.wait_for_function("() => document.querySelectorAll('.jp-CodeCell').length === 4")
    notebook.screenshot("migrated")
    cells = page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets.map(w => w.model.sharedModel.getSource())"
    )
    new = "import nki\nimport nki.language as nl\n" + OLDER.partition("nl\n")[2]
    assert cells[2] == "%%nki --run 'double(a)'\n" + new.replace("t + t", "nl.add(t, t)")
    assert cells[3] == "last = 1"


@pytest.mark.parametrize("theme", first(["JupyterLab Light", "JupyterLab Dark"]))
def test_our_colour_wins_over_that_of_python(lab: Lab, page: Page, theme: str) -> None:
    name = theme.lower().replace(" ", "-")
    notebook = lab.open(page, lab.write(f"{name}.ipynb", f"{MAGIC}\n{KERNEL}"))
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    notebook.screenshot(f"extension-{name}")

    text, own, parts = page.evaluate(
        """() => {
          const colour = element => getComputedStyle(element).color;
          const name = document.querySelector('.nki-isa');
          return [
            colour(document.querySelector('.cm-content')),
            colour(name),
            [...name.querySelectorAll('*')].map(colour),
          ];
        }"""
    )
    assert parts, "Python's highlighting is gone below ours"
    assert set(parts) == {own}
    assert own != text


@pytest.mark.thorough
def test_marks_follow_the_text(lab: Lab, page: Page) -> None:
    lab.open(page, lab.write("edited.ipynb", "nisa.tensor_tensor"))
    cell = page.locator(".jp-CodeCell").first
    assert cell.locator(".nki-isa").count() == 0

    page.evaluate("() => window.jupyterapp.commands.execute('notebook:enter-edit-mode')")
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%nki\n")
    cell.locator(".nki-isa").wait_for()
    assert marked(page, 0, "isa") == ["nisa.tensor_tensor"]

    page.keyboard.press("Control+End")
    page.keyboard.type("x")
    cell.locator(".nki-isa").wait_for(state="detached")


def test_marks_and_views_on_one_page_keep_their_own_styles(lab: Lab, page: Page) -> None:
    shown = f"{MAGIC.replace('none', 'report')}\n{KERNEL}"
    notebook = lab.open(page, lab.write("beside.ipynb", SETUP, shown))
    assert notebook.run_all()
    page.locator(".nki-view .nki-value").first.wait_for()
    notebook.screenshot("extension-beside-a-report")

    def style(selector: str) -> list[str]:
        return page.evaluate(
            """(selector) => {
              const style = getComputedStyle(document.querySelector(selector));
              return [style.fontSize, style.color];
            }""",
            selector,
        )

    value, option = style(".cm-editor .nki-value"), style(".cm-editor .nki-option")
    assert value[0] == option[0] == style(".cm-content")[0]
    assert style(".nki-view .nki-value")[1] == style(".nki-view")[1] != value[1]
    assert style(".nki-view .nki-value")[0] != value[0]
