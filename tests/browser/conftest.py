"""What do the tests of the extension share?  A JupyterLab, and a page that reports what scripts raise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.lab import Lab, browser


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return variables that show a server both halves of nki_lab, its own and the browser's, as they are here."""
    share = tmp_path_factory.mktemp("share")
    (share / "labextensions").mkdir()
    (share / "labextensions" / "nki-lab").symlink_to(ROOT / "nki_lab" / "labextension")
    enabled = tmp_path_factory.mktemp("etc") / "jupyter_server_config.d"
    enabled.mkdir()
    (enabled / "nki_lab.json").symlink_to(ROOT / "extension" / "jupyter_server_config.json")
    return {"JUPYTER_PATH": str(share), "JUPYTER_CONFIG_PATH": str(enabled.parent)}


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start a JupyterLab."""
    with Lab(tmp_path_factory.mktemp("notebooks")) as lab:
        yield lab


@pytest.fixture
def page(chromium: str) -> Iterator[Page]:
    """Open a page; its test fails when a script on it raises."""
    with browser(chromium) as page:
        raised: list[str] = []
        page.on("pageerror", lambda error: raised.append(str(error)))
        yield page
        assert raised == []
