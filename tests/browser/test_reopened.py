"""Tests what a reopened notebook shows of a run: a live view, or its picture, its text, and how to make it live.

One server shows the notebooks in JupyterLab and in Notebook 7. Each is a copy of one that was run and saved, so its
outputs name a view that another kernel does not have.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import Locator, Page, expect

from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE
from tests.browser.lab import Console, Lab, Notebook, browser
from tests.browser.test_extension import KERNEL, MAGIC, SETUP

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

SHOWN = f"{MAGIC.replace('none', 'report')}\n{KERNEL}"
HINT = "This is a stored picture. Run the cells up to this one to make it live."
KERNELS = ("same", "new", "no")
NAMES = {(k, t): f"{k}-{'trusted' if t else 'foreign'}" for k in KERNELS for t in (True, False)}
LIVE = ("same", True)


class Files:
    """The notebooks of one server."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._notary = NotebookNotary(data_dir=str(lab.data))

    def run(self, page: Page, name: str) -> None:
        """Write a notebook, run it in JupyterLab and save it; its kernel stays."""
        notebook = self.lab.open(page, self.lab.write(f"{name}.ipynb", SETUP, SHOWN))
        assert notebook.run_all(), notebook.outputs()
        page.locator(".nki-view .nki-value").first.wait_for()
        command(page, "docmanager:save")
        # So that the next one is opened by a page that knows nothing of this one.
        page.goto("about:blank")

    def copy(self, source: str, name: str, trusted: bool, kernel: str = "") -> None:
        """Write a saved notebook anew, signed or as if somebody else had written it."""
        notebook = nbformat.read(self.lab.root / f"{source}.ipynb", as_version=4)
        [output] = [o for o in notebook.cells[1].outputs if "data" in o]
        assert {LIVE_TYPE, WIDGET_TYPE, "image/png", "text/plain"} <= set(output.data)
        output.data["text/plain"] += f"\n{name}"  # no copy is what the server has signed
        if kernel:
            notebook.metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
        nbformat.write(notebook, self.lab.root / f"{name}.ipynb")
        if trusted:
            self._notary.sign(notebook)

    def sessions(self) -> dict[str, Any]:
        """Return the sessions of the server by path."""
        with urllib.request.urlopen(f"{self.lab.url}/api/sessions") as reply:
            return {session["path"]: session for session in json.load(reply)}

    def shut_down(self, name: str) -> None:
        """End the session of a notebook, if it has one, as the list of running kernels does."""
        if session := self.sessions().get(f"{name}.ipynb"):
            address = f"{self.lab.url}/api/sessions/{session['id']}"
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).read()


@pytest.fixture(scope="module")
def window(chromium: str) -> Iterator[Page]:
    """Open the one browser."""
    with browser(chromium) as page:
        yield page


@pytest.fixture
def page(window: Page) -> Iterator[Page]:
    """Open a page; its test fails when something of ours raises."""
    page = window.context.new_page()
    console = Console().listen(page)
    yield page
    page.close()
    assert [text for text in console.errors if "nki" in text.lower()] == []


@pytest.fixture(scope="module")
def files(window: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """Write a notebook for every kernel and trust."""
    pytest.importorskip("notebook")
    with Lab(tmp_path_factory.mktemp("reopened"), application="notebook") as lab:
        files = Files(lab)
        for trusted in (True, False):
            files.run(window, NAMES["same", trusted])
        for trusted in (True, False):
            files.copy(NAMES[LIVE], NAMES["new", trusted], trusted)
            files.copy(NAMES[LIVE], NAMES["no", trusted], trusted, "nowhere")
            name = NAMES["same", trusted]
            files.copy(name, name, trusted)
        yield files


def command(page: Page, name: str, **args: Any) -> None:
    page.evaluate(
        "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
        [name, args],
    )


def output(page: Page) -> Locator:
    """Return the output of the second cell of the notebook in front."""
    cells = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
    return cells.nth(1).locator(".jp-OutputArea-output").last


def in_view(part: Locator) -> dict[str, float]:
    part.wait_for()
    part.scroll_into_view_if_needed()
    box = part.bounding_box()
    assert box is not None
    return box


def shows_live(page: Page) -> None:
    """Assert that the live view is seen, and nothing in its place."""
    view = output(page).locator(".nki-view")
    box = in_view(view)
    assert box["width"] > 500 and box["height"] > 150
    expect(view.locator(".nki-value").first).to_be_visible()
    expect(output(page).locator("img")).not_to_be_visible()
    expect(output(page).get_by_text(HINT)).not_to_be_visible()
    no_error(page)


def shows_stored(page: Page) -> None:
    """Assert that picture, text, and the line are seen."""
    picture = output(page).locator("img[alt*='us modelled']")
    box = in_view(picture)
    assert box["width"] > 500 and box["height"] > 100
    assert picture.evaluate("(image) => image.naturalWidth") >= 1200
    expect(output(page).get_by_text(HINT, exact=True)).to_be_visible()
    text = output(page).locator(".nki-live-text")
    text.locator("summary").click()
    assert "double on trn2" in text.inner_text()
    assert text.locator("pre").is_visible()
    text.locator("summary").click()
    expect(output(page).locator(".nki-view")).to_have_count(0)
    no_error(page)


def no_error(page: Page) -> None:
    shown = page.locator("body").inner_text()
    for words in ("Error displaying widget", "model not found", "Loading widget"):
        assert words not in shown


def shows(page: Page, kernel: str, trusted: bool) -> None:
    """Assert what a notebook must show, and that it has the kernel and the trust that it is meant to have."""
    if kernel == "no":
        page.locator(".jp-Dialog").get_by_role("button", name="No Kernel", exact=True).click()
    else:
        Notebook(page).wait_for_kernel()
    cells = "[...window.jupyterapp.shell.currentWidget.content.widgets]"
    output(page).wait_for()
    assert page.evaluate(f"{cells}[1].model.trusted") is trusted
    has_kernel = "Boolean(window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel)"
    assert page.evaluate(has_kernel) is (kernel != "no")
    if (kernel, trusted) == LIVE:
        shows_live(page)
    else:
        shows_stored(page)


PAGES = {"jupyterlab": "lab/workspaces/{}/tree/{}.ipynb", "notebook7": "notebooks/{1}.ipynb"}


def address(files: Files, page: str, name: str) -> str:
    return f"{files.lab.url}/{PAGES[page].format(name, name)}"


@pytest.mark.parametrize(("kernel", "trusted"), NAMES)
@pytest.mark.parametrize("front_end", PAGES)
def test_opened_and_reloaded(
    front_end: str, kernel: str, trusted: bool, files: Files, page: Page
) -> None:
    name = NAMES[kernel, trusted]
    files.shut_down(NAMES["new", trusted])
    page.goto(address(files, front_end, name))
    shows(page, kernel, trusted)
    Notebook(page).screenshot(f"reopened-{front_end}-{name}")
    files.shut_down(NAMES["new", trusted])
    page.reload()
    shows(page, kernel, trusted)


def test_the_kernel_is_replaced(files: Files, page: Page) -> None:
    """Restarts it with the page open, runs all cells, opens a second page, shuts it down."""
    path = address(files, "jupyterlab", NAMES[LIVE])
    page.goto(path)
    shows_live(page)
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    shows_stored(page)
    notebook = Notebook(page)
    notebook.wait_for_kernel()
    assert notebook.run_all()
    shows_live(page)
    command(page, "docmanager:save")

    second = page.context.new_page()
    second.goto(path.replace("workspaces/", "workspaces/second-"))
    shows_live(second)
    shows_live(page)
    assert notebook.run_all()  # which closes the view that the second page shows
    shows_live(page)
    shows_stored(second)
    second.close()

    files.shut_down(NAMES[LIVE])
    shows_stored(page)


def test_a_kernel_that_is_chosen_later_makes_it_live(files: Files, page: Page) -> None:
    page.goto(address(files, "jupyterlab", NAMES["no", True]))
    shows(page, "no", True)
    page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.changeKernel({ name: 'python3' })"
        ".then(() => null)"
    )
    notebook = Notebook(page)
    notebook.wait_for_kernel()
    shows_stored(page)
    assert notebook.run_all()
    shows_live(page)


def test_without_our_extension(files: Files, page: Page) -> None:
    """Keeps what README says of a JupyterLab that has not got it."""
    with files.lab.without_extension():
        page.goto(address(files, "jupyterlab", NAMES["new", False]))
        in_view(output(page).locator("img[alt*='us modelled']"))
        expect(page.get_by_text(HINT)).to_have_count(0)
        page.goto(address(files, "jupyterlab", NAMES["new", True]))
        expect(output(page)).to_have_text("Error displaying widget: model not found")
