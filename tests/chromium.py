"""Finds the Chromium that browser tests drive; they are skipped where there is none.

Debian's own package is used, never a downloaded build. Without one the test is skipped; where
`NKI_LAB_REQUIRE_CHROMIUM` is set (as CI does) it fails instead, so that CI cannot pass by skipping.
"""

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def installed() -> str:
    """Return the path of the browser's executable, or "" where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), "")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of the browser's executable."""
    if path := installed():
        return path
    reason = "no Chromium on PATH (on Debian: apt-get install chromium)"
    if os.environ.get("NKI_LAB_REQUIRE_CHROMIUM"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
