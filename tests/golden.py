"""A fixture that compares long output with a file, and renews that file when asked.

`golden(text, "cases/add.txt")` compares with a file beside the test. Run pytest with
`--update-golden` to write what the program says today, then read the diff before committing it.
"""

from pathlib import Path
from typing import Protocol

import pytest


class Golden(Protocol):
    """Compare `actual` with the text in `path`, relative to the folder of the test."""

    def __call__(self, actual: str, path: str | Path) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files from what the program says now instead of comparing",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return the comparison with golden files that lie beside the requesting test."""
    folder = request.path.parent
    update = request.config.getoption("--update-golden")

    def compare(actual: str, path: str | Path) -> None:
        file = folder / path
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, encoding="utf-8", newline="\n")
            return
        if not file.exists():
            pytest.fail(f"{file} does not exist; write it with --update-golden", pytrace=False)
        expected = file.read_text(encoding="utf-8")
        assert actual == expected, f"{file.name} differs; if that is meant, use --update-golden"

    return compare
