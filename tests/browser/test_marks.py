"""Tests that JupyterLab marks mistakes in cells, checks cells without running them, applies changes, and lists runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import Console, Lab, Notebook, browser

pytestmark = pytest.mark.browser

LOAD = "%load_ext nki_lab"
SETUP = f"{LOAD}\nimport numpy as np\na = np.arange(1024, dtype=np.float32).reshape(128, 8)"
DOUBLE = """\
%%nki --run 'double(a)' --show none
@nki.jit
def double(a):
    t = nl.load(a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(t, t))
    return out"""
WRONG = DOUBLE.replace("double", "wrong").replace("nl.add", "nl.ad")
HELPER = "import nki, nki.language as nl\n\n\ndef both(t):\n    return nl.multiply(t, t, dtpe=nl.float32)"
CALLER = DOUBLE.replace("double", "caller").replace("nl.add(t, t)", "both(t)")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """Open a page; its test fails when a script on it raises or an error is logged."""
    with browser(chromium) as page:
        console = Console().listen(page)
        yield page
        # Lab asks for what it knows may not be there, and minds what a reload or a closed notebook ends.
        allowed = ("404", "debugger state", "Canceled future for create_subshell_request")
        assert [e for e in console.errors if not any(known in e for known in allowed)] == []


def command(page: Page, name: str, args: dict[str, Any] | None = None) -> None:
    page.evaluate(
        "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
        [name, args or {}],
    )


def activate(page: Page, index: int) -> None:
    page.evaluate(
        """(index) => {
          const { content } = window.jupyterapp.shell.currentWidget;
          content.activeCellIndex = index;
        }""",
        index,
    )


def run_cell(page: Page, index: int) -> None:
    activate(page, index)
    command(page, "notebook:run-cell")


def source(page: Page, index: int) -> str:
    return page.evaluate(
        "(i) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.getSource()",
        index,
    )


def squiggles(page: Page, index: int, kind: str = "error") -> Locator:
    return cells(page).nth(index).locator(f".cm-lintRange-{kind}")


def cells(page: Page) -> Locator:
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")


def panel(page: Page) -> Locator:
    command(page, "nki-lab:show-panel")
    return page.locator("#nki-lab-panel")


def theme(page: Page, name: str) -> None:
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name
    )
    page.wait_for_selector(f"body[data-jp-theme-name='{name}']", state="attached")
    page.wait_for_timeout(500)


def test_an_error_is_marked_explained_and_mended(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("mended.ipynb", SETUP, WRONG))
    assert notebook.run_all() is False
    mark = squiggles(page, 1)
    expect(mark).to_have_count(1)
    assert mark.inner_text() == "nl.ad"
    expect(cells(page).nth(1).locator(".cm-lint-marker-error")).to_have_count(1)
    assert cells(page).nth(0).locator(".cm-gutter-lint").count() == 0

    mark.hover()
    tip = page.locator(".cm-tooltip-lint")
    expect(tip).to_contain_text("error[NKI108]: nki.language has no `ad`")
    expect(tip).to_contain_text("help: did you mean `add`")
    for name in ("JupyterLab Light", "JupyterLab Dark"):
        theme(page, name)
        page.mouse.move(5, 5)
        mark.hover()
        tip.wait_for()
        notebook.screenshot(f"marks-tooltip-{name.split()[1].lower()}")
    tip.locator(".cm-diagnosticAction", has_text="Replace ad by add").click()
    assert source(page, 1) == WRONG.replace("nl.ad(", "nl.add(")
    expect(squiggles(page, 1)).to_have_count(0)

    run_cell(page, 1)
    expect(squiggles(page, 1)).to_have_count(0)
    assert "wrong on trn3" in str(notebook.outputs()[1])


@pytest.mark.thorough
def test_a_mark_follows_edits_and_goes_with_its_text(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("edited_marks.ipynb", SETUP, WRONG))
    notebook.run_all()
    expect(squiggles(page, 1)).to_have_count(1)
    activate(page, 1)
    command(page, "notebook:enter-edit-mode")
    page.keyboard.press("Control+Home")
    page.keyboard.press("End")
    page.keyboard.type("\n# a line above")
    expect(squiggles(page, 1)).to_have_text("nl.ad")

    # The key mends it at the place it has moved to; undo brings the text back, not the mark.
    page.keyboard.press("Control+.")
    assert "nl.add(t, t)" in source(page, 1)
    expect(squiggles(page, 1)).to_have_count(0)

    run_cell(page, 1)
    expect(squiggles(page, 1)).to_have_count(0)


@pytest.mark.thorough
def test_an_error_in_another_cell_is_marked_in_both(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("two_cells.ipynb", SETUP, HELPER, CALLER))
    assert notebook.run_all() is False
    expect(squiggles(page, 1)).to_have_count(1)
    expect(squiggles(page, 2)).to_have_text("both(t)")
    activate(page, 1)
    command(page, "notebook:enter-edit-mode")
    command(page, "nki-lab:fix")
    assert "dtype=nl.float32" in source(page, 1)
    assert notebook.run_all() is True
    expect(squiggles(page, 1)).to_have_count(0)
    expect(squiggles(page, 2)).to_have_count(0)


def test_cells_are_checked_without_running(lab: Lab, page: Page) -> None:
    unread = DOUBLE.replace("double", "later").replace("(a)' ", "(missing)' ")
    name = lab.write("checked.ipynb", SETUP, WRONG, DOUBLE, unread)
    notebook = lab.open(page, name)
    run_cell(page, 0)
    activate(page, 1)
    command(page, "nki-lab:check-cell")
    expect(squiggles(page, 1)).to_have_text("nl.ad")
    assert notebook.outputs()[1] == []
    command(page, "nki-lab:check-notebook")
    shown = panel(page)
    expect(shown).to_contain_text("looked at 3 and compiled 1")
    expect(shown).to_contain_text("--run names `missing`, which the notebook does not have yet")
    assert notebook.outputs()[1:] == [[], [], []]


@pytest.mark.thorough
def test_a_notebook_is_checked_when_it_is_saved(lab: Lab, page: Page) -> None:
    lab.open(page, lab.write("saved.ipynb", SETUP, WRONG))
    run_cell(page, 0)
    command(page, "docmanager:save")
    page.wait_for_timeout(1500)
    expect(squiggles(page, 1)).to_have_count(0)

    command(page, "settingeditor:open", {"query": "NKI"})
    box = page.get_by_label("Check kernels when a notebook is saved")
    box.wait_for()
    with page.expect_response(lambda reply: "/api/settings/nki-lab" in reply.url):
        box.check()
    command(page, "docmanager:open", {"path": lab.path("saved.ipynb")})
    activate(page, 1)
    command(page, "notebook:enter-edit-mode")
    page.keyboard.press("Control+End")
    page.keyboard.type(" ")
    command(page, "docmanager:save")
    expect(squiggles(page, 1)).to_have_count(1)


@pytest.mark.thorough
def test_runs_memory_and_marks_are_listed_and_lead_to_views_and_lines(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("listed.ipynb", SETUP, DOUBLE, WRONG))
    notebook.run_all()
    shown = panel(page)
    run = shown.locator(".nki-run")
    expect(run).to_have_count(1)
    expect(run).to_contain_text("double")
    expect(run).to_contain_text(" us")
    expect(run).to_contain_text("cell [2]")
    expect(shown.locator(".nki-mark-where")).to_have_text("cell [3], line 6")
    meter = shown.get_by_role("meter", name="SBUF, peak")
    assert meter.get_attribute("aria-valuenow") == "64"
    assert shown.get_by_role("meter").count() == 2
    for name in ("JupyterLab Light", "JupyterLab Dark"):
        theme(page, name)
        notebook.screenshot(f"nki-panel-{name.split()[1].lower()}")

    mark = shown.locator(".nki-mark")
    expect(mark).to_contain_text("nki.language has no `ad`")
    activate(page, 0)
    mark.click()
    where = page.evaluate(
        """() => {
          const { content } = window.jupyterapp.shell.currentWidget;
          const { state } = content.activeCell.editor.editor;
          const { from, to } = state.selection.main;
          return [content.activeCellIndex, state.sliceDoc(from, to)];
        }"""
    )
    assert where == [2, "nl.ad"]

    shown.get_by_role("button", name="Timeline").click()
    page.locator(".nki-view").first.wait_for()
    assert source(page, 2) == "%nki_timeline double_result"
    shown.get_by_role("button", name="Timeline").click()
    page.wait_for_timeout(1000)
    assert cells(page).count() == 4


@pytest.mark.thorough
def test_the_target_is_switched_in_the_panel_and_the_status_bar(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("target.ipynb", SETUP, "%nki_target"))
    bar = page.locator("#jp-main-statusbar .nki-status")
    expect(bar.locator("visible=true")).to_have_count(0)
    run_cell(page, 0)
    expect(bar).to_have_text("NKI: trn3")
    bar.click()
    items = page.locator(".lm-Menu-item:visible")
    expect(items).to_have_text(["trn1", "trn2", "trn3"])
    expect(items.filter(has=page.locator(".lm-Menu-itemIcon svg"))).to_have_text("trn3")
    page.keyboard.press("ArrowUp")
    notebook.screenshot("nki-status-menu")
    page.keyboard.press("Enter")
    expect(bar).to_have_text("NKI: trn2")
    panel(page).get_by_label("Chip").select_option("trn1")
    expect(bar).to_have_text("NKI: trn1")
    run_cell(page, 1)
    assert "target trn1" in str(notebook.outputs()[1])


@pytest.mark.thorough
def test_two_notebooks_keep_their_own_state_and_the_panel_follows(lab: Lab, page: Page) -> None:
    lab.write("second_one.ipynb", SETUP, DOUBLE.replace("double", "other"))
    notebook = lab.open(page, lab.write("first_one.ipynb", SETUP, DOUBLE, WRONG))
    notebook.run_all()
    shown = panel(page)
    expect(shown.locator(".nki-run-name")).to_have_text(["double"])
    command(page, "docmanager:open", {"path": lab.path("second_one.ipynb")})
    page.locator(".jp-NotebookPanel").nth(1).wait_for()
    expect(shown.locator("h2")).to_have_text("second_one.ipynb")
    expect(shown).to_contain_text("nki_lab is not loaded")
    Notebook(page).wait_for_kernel()
    assert Notebook(page).run_all()
    expect(shown.locator(".nki-run-name")).to_have_text(["other"])
    expect(shown.locator(".nki-mark")).to_have_count(0)
    shown.get_by_label("Chip").select_option("trn1")
    expect(shown.get_by_label("Chip")).to_have_value("trn1")
    command(page, "docmanager:open", {"path": lab.path("first_one.ipynb")})
    expect(shown.locator(".nki-run-name")).to_have_text(["double"])
    expect(shown.locator(".nki-mark")).to_have_count(1)
    expect(shown.get_by_label("Chip")).to_have_value("trn3")


@pytest.mark.thorough
def test_the_panel_follows_names_and_cells(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("named.ipynb", SETUP, WRONG))
    notebook.run_all()
    shown = panel(page)
    expect(shown.locator(".nki-mark")).to_have_count(1)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.rename('other_name.ipynb')")
    expect(shown.locator("h2")).to_have_text("other_name.ipynb")
    activate(page, 1)
    command(page, "notebook:delete-cell")
    expect(shown.locator(".nki-mark")).to_have_count(0)
    command(page, "notebook:undo-cell-action")
    expect(shown.locator(".nki-mark")).to_have_count(1)
    expect(squiggles(page, 1)).to_have_text("nl.ad")
    activate(page, 1)
    command(page, "notebook:change-cell-to-markdown")
    expect(shown.locator(".nki-mark")).to_have_count(0)


def test_a_restart_clears_all_and_says_so_and_a_reload_finds_all_again(
    lab: Lab, page: Page
) -> None:
    notebook = lab.open(page, lab.write("restarted.ipynb", SETUP, DOUBLE, WRONG))
    notebook.run_all()
    expect(panel(page).locator(".nki-run-name")).to_have_text(["double"])
    command(page, "docmanager:save")
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    shown = panel(page)
    expect(shown.locator(".nki-run-name")).to_have_text(["double"])
    expect(squiggles(page, 2)).to_have_count(1)

    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(shown).to_contain_text("The kernel was restarted")
    expect(squiggles(page, 2)).to_have_count(0)
    expect(page.locator("#jp-main-statusbar .nki-status:visible")).to_have_count(0)
    notebook.screenshot("nki-panel-restarted")
    notebook.wait_for_kernel()
    shown.get_by_role("button", name="Run %load_ext nki_lab").click()
    expect(shown).to_contain_text("No kernel has run yet")
    assert cells(page).count() == 3

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(shown).to_contain_text("no running kernel")


@pytest.mark.thorough
def test_a_kernel_without_nki_lab_is_told_as_such(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("without.ipynb", "1 + 1"))
    assert notebook.run_all()
    shown = panel(page)
    expect(shown).to_contain_text("nki_lab is not loaded in the kernel of this notebook.")
    notebook.screenshot("nki-panel-unloaded")
    command(page, "nki-lab:check-cell")
    expect(page.locator(".jp-Notification-Status")).to_contain_text("1")
    shown.get_by_role("button", name="Run %load_ext nki_lab").click()
    expect(shown).to_contain_text("No kernel has run yet")
    assert source(page, 0) == LOAD


def test_text_of_users_is_shown_literally(lab: Lab, page: Page) -> None:
    body = f"%%nki\ndef f(a):\n    return a\n\nraise ValueError({HOSTILE!r})"
    notebook = lab.open(page, lab.write("hostile.ipynb", SETUP, body))
    notebook.run_all()
    shown = panel(page)
    expect(shown.locator(".nki-mark-message")).to_contain_text(HOSTILE)
    squiggles(page, 1).hover()
    expect(page.locator(".cm-tooltip-lint")).to_contain_text(HOSTILE)
    assert page.locator("#nki-lab-panel img, .cm-tooltip img, #nki-lab-panel b").count() == 0


@pytest.mark.thorough
def test_the_next_mark_is_reached_and_mended_with_keys_alone(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("keys.ipynb", SETUP, WRONG, CALLER))
    notebook.run_all()
    run_cell(page, 2)
    activate(page, 0)
    page.locator(".jp-Notebook").focus()
    page.keyboard.press("Alt+F8")
    listed = cells(page).nth(1).locator(".cm-panel-lint")
    expect(listed).to_contain_text("error[NKI108]: nki.language has no `ad`")
    notebook.screenshot("marks-keys")
    page.keyboard.press("Alt+F8")
    expect(listed).to_have_count(0)
    expect(cells(page).nth(2).locator(".cm-panel-lint")).to_contain_text("`both` is not defined")
    page.keyboard.press("Escape")
    expect(cells(page).nth(2).locator(".cm-panel-lint")).to_have_count(0)
    page.keyboard.press("Alt+F8")
    expect(listed).to_have_count(1)
    page.keyboard.press("Escape")
    expect(listed).to_have_count(0)
    page.keyboard.press("Control+.")
    assert "nl.add(t, t)" in source(page, 1)


@pytest.mark.thorough
def test_a_view_of_the_same_cell_and_a_closed_notebook(lab: Lab, page: Page) -> None:
    notebook = lab.open(page, lab.write("views.ipynb", SETUP, WRONG))
    notebook.run_all()
    command(page, "notebook:create-output-view")
    expect(squiggles(page, 1)).to_have_count(1)
    shown = panel(page)
    page.evaluate(
        """() => {
          const panels = [...window.jupyterapp.shell.widgets('main')];
          panels.forEach(panel => panel.context?.model && panel.dispose());
        }"""
    )
    expect(shown).to_contain_text("Open a notebook")
