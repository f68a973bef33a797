"""Tests that profiles and compiled kernels open from the file browser in views, and that a bad file gives one
message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Locator, Page

from nki_lab.profiler.formats.chrome import save_chrome_trace
from nki_lab.profiler.formats.files import save
from tests.browser.lab import Lab, picture
from tests.hardware.neffs import write_neff
from tests.thorough import first
from tests.views.runs import added

pytestmark = pytest.mark.browser

SHOWN = ".jp-Document:not(.lm-mod-hidden)"


def write_runs(folder: Path) -> None:
    """Leave a run in every form, and some files that are none."""
    profile = added().profile
    for name in ("add.profile.json", "plain.json", "add.pftrace", "add.parquet", "add.csv"):
        save(profile, folder / name)
    save_chrome_trace(profile, folder / "trace.nki.json")
    added().compiled.save(folder / "add.nkic")
    write_neff(folder / "k.neff")
    (folder / "cut.profile.json").write_bytes((folder / "plain.json").read_bytes()[:2000])
    (folder / "numbers.json").write_text("[1, 2, 3]")


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab whose server makes pages."""
    folder = tmp_path_factory.mktemp("files")
    write_runs(folder)
    with Lab(folder) as lab:
        yield lab


def start(lab: Lab, page: Page, workspace: str) -> None:
    if page.url.startswith(lab.url):  # the test before has left it
        command = "filebrowser:go-to-path"
        page.evaluate(f"window.jupyterapp.commands.execute('{command}', {{ path: '' }})")
        return
    page.goto(f"{lab.url}/lab/workspaces/{workspace}?reset")
    page.wait_for_selector(".jp-DirListing-item")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


def item(page: Page, name: str) -> Locator:
    return page.locator(".jp-DirListing-item").filter(has=page.get_by_text(name, exact=True))


def views(page: Page) -> FrameLocator:
    """Return the page in the document in front, once it is there."""
    page.locator(f"{SHOWN} iframe.nki-page-frame").wait_for()
    frame = page.frame_locator(f"{SHOWN} iframe.nki-page-frame")
    frame.locator(".nki-view").wait_for()
    return frame


def tabs(frame: FrameLocator) -> list[str]:
    return frame.get_by_role("tab").all_inner_texts()


def change_theme(page: Page, theme: str) -> None:
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


PROFILE_TABS = ["Report", "Source", "Timeline", "Charts"]
KERNEL_TABS = [
    "Report", "Findings", "Source", "IR", "Layout", "Array", "Memory", "Timeline", "Charts", "Graph"
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    first(
        [
            ("add.nkic", KERNEL_TABS),
            ("add.profile.json", PROFILE_TABS),
            ("trace.nki.json", PROFILE_TABS),
            ("add.pftrace", PROFILE_TABS),
        ]
    ),
)
def test_a_file_opens_in_views(name: str, expected: list[str], lab: Lab, page: Page) -> None:
    start(lab, page, name.replace(".", "-"))
    item(page, name).dblclick()
    frame = views(page)
    assert tabs(frame) == expected
    assert frame.locator(".nki-title").inner_text() == "add_halves"
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        change_theme(page, theme)
        dark = theme.endswith("Dark")
        frame.locator(".nki-view.nki-dark" if dark else ".nki-view:not(.nki-dark)").wait_for()
        for tab in expected:
            frame.get_by_role("tab", name=tab, exact=True).click()
            panel = frame.locator(".nki-panel:not([hidden])")
            panel.and_(frame.locator("[data-ready=true]")).wait_for()
            assert panel.locator(".error").count() == 0
            picture(page, f"renderer-{name}-{tab}-{'dark' if dark else 'light'}")


@pytest.mark.thorough
def test_a_program_of_the_official_compiler_opens_in_views(lab: Lab, page: Page) -> None:
    start(lab, page, "neff")
    item(page, "k.neff").dblclick()
    frame = views(page)
    assert tabs(frame) == ["Memory", "IR"]
    assert frame.locator(".nki-badge").inner_text() == "compiled, not run"
    frame.locator("[data-ready=true]").first.wait_for()
    picture(page, "renderer-neff")


@pytest.mark.parametrize("member", first(["Instruction.parquet", "Summary.parquet"]))
def test_a_table_leads_to_the_profile_it_belongs_to(member: str, lab: Lab, page: Page) -> None:
    start(lab, page, f"table-{member[:7]}")
    item(page, "add.parquet").dblclick()
    item(page, member).dblclick()
    assert tabs(views(page)) == PROFILE_TABS


@pytest.mark.parametrize("folder", first(["add.csv", "add.parquet"]))
def test_a_folder_of_tables_opens_from_its_menu(folder: str, lab: Lab, page: Page) -> None:
    start(lab, page, folder.replace(".", "-"))
    item(page, folder).click(button="right")
    page.get_by_role("menuitem", name="Open NKI Views").click()
    assert tabs(views(page)) == PROFILE_TABS


@pytest.mark.thorough
def test_ordinary_files_stay_what_they_were(lab: Lab, page: Page) -> None:
    start(lab, page, "ordinary")
    for name in ("numbers.json", "plain.json"):
        item(page, name).dblclick()
        page.locator(f"{SHOWN} .jp-RenderedJSON, {SHOWN} .cm-content").first.wait_for()
        assert page.locator("iframe.nki-page-frame").count() == 0
    item(page, "plain.json").click(button="right")
    label = page.locator(".lm-Menu-itemLabel")
    label.filter(has_text="Open With").hover()
    label.filter(has_text="NKI views").click()
    assert tabs(views(page)) == PROFILE_TABS


def test_a_corrupt_file_is_one_message_until_it_is_whole(lab: Lab, page: Page) -> None:
    start(lab, page, "corrupt")
    item(page, "cut.profile.json").dblclick()
    alert = page.locator(f"{SHOWN} [role=alert]")
    alert.wait_for()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        change_theme(page, theme)
        picture(page, f"renderer-corrupt-{'dark' if theme.endswith('Dark') else 'light'}")
    said = "cut.profile.json is not a readable profile: the JSON is damaged or cut off"
    assert alert.inner_text().splitlines()[0] == said
    assert page.locator(".jp-Dialog").count() == 0

    (lab.root / "cut.profile.json").write_bytes((lab.root / "plain.json").read_bytes())
    assert tabs(views(page)) == PROFILE_TABS
    (lab.root / "cut.profile.json").unlink()
    alert.wait_for()
    assert alert.inner_text().strip() == "there is no file cut.profile.json"


@pytest.mark.thorough
def test_a_view_comes_back_with_the_workspace(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.url}/lab/workspaces/kept?reset")
    # The workspace is stored a moment after it has changed.
    with page.expect_response(
        lambda r: (
            "/api/workspaces/" in r.url
            and r.request.method == "PUT"
            and "nkic" in r.request.post_data
        )
    ):
        item(page, "add.nkic").dblclick()
    page.goto(f"{lab.url}/lab/workspaces/kept")
    assert tabs(views(page)) == KERNEL_TABS


def test_the_frame_reaches_nothing_and_gives_what_is_asked_for(lab: Lab, page: Page) -> None:
    start(lab, page, "frame")
    item(page, "add.profile.json").dblclick()
    views(page)
    (inner,) = [frame for frame in page.frames if frame.url == "about:srcdoc"]
    assert inner.evaluate("() => window.origin") == "null"
    reach = """(url) => Promise.all([
      fetch(url).then(() => 'reached', () => 'refused'),
      new Promise(done => { try { parent.document; done('reached'); } catch { done('refused'); } }),
      new Promise(done => { try { done(document.cookie && 'reached' || 'refused'); } catch { done('refused'); } }),
    ])"""
    assert inner.evaluate(reach, f"{lab.url}/api/contents") == ["refused"] * 3


@pytest.mark.thorough
def test_a_lab_whose_server_makes_no_pages_offers_none(
    chromium: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, page: Page
) -> None:
    write_runs(tmp_path)
    # Wherever nki_lab is installed its server part is enabled; what is said here goes before.
    switched_off = tmp_path_factory.mktemp("config") / "jupyter_server_config.d"
    switched_off.mkdir()
    (switched_off / "nki_lab.json").write_text(
        '{"ServerApp": {"jpserver_extensions": {"nki_lab.server": false}}}'
    )
    with Lab(tmp_path, {"JUPYTER_CONFIG_PATH": str(switched_off.parent)}) as lab:
        errors: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        start(lab, page, "alone")
        item(page, "add.nkic").dblclick()
        page.locator(f"{SHOWN} .cm-content").wait_for()
        assert [text for text in errors if "nki" in text.lower()] == []
