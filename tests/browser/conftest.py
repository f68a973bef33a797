"""What do the tests of the extension share?  A JupyterLab that has it, and a page that reports what scripts raise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.lab import ROOT, Lab, browser


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab with the extension as it is in this folder, whatever is installed."""
    share = tmp_path_factory.mktemp("share")
    (share / "labextensions").mkdir()
    (share / "labextensions" / "nki-lab").symlink_to(ROOT / "nki_lab" / "labextension")
    folder = tmp_path_factory.mktemp("notebooks")
    with Lab(folder, {"JUPYTER_PATH": str(share)}) as lab:
        yield lab


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """Open a page; its test fails when a script on it raises."""
    with browser(chromium) as page:
        raised: list[str] = []
        page.on("pageerror", lambda error: raised.append(str(error)))
        yield page
        assert raised == []
