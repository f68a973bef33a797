"""Fixtures for tests of the extension: a JupyterLab, and a page that reports what scripts raise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab, browser, one_chromium


# While a Chromium is driven an event loop runs in this thread, so both end with the last test of this folder.
@pytest.fixture(scope="package", autouse=True)
def _one_chromium() -> Iterator[None]:
    """Keep one Chromium for the tests of this folder."""
    with one_chromium():
        yield


@pytest.fixture(scope="package")
def one_lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab."""
    with Lab(tmp_path_factory.mktemp("notebooks")) as lab:
        yield lab


@pytest.fixture(scope="module")
def lab(one_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Give the one JupyterLab with a folder for the notebooks of a module."""
    with one_lab.inside(request.path.stem) as lab:
        yield lab


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """Open a page; its test fails when a script on it raises."""
    with browser(chromium) as page:
        raised: list[str] = []
        page.on("pageerror", lambda error: raised.append(str(error)))
        yield page
        assert raised == []
