"""Tests that every source file is short enough to be read in one sitting."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT = 700
SOURCES = {
    "nki_lab": {".py", ".js", ".css"},
    "tests": {".py", ".nkir"},
    "benchmarks": {".py"},
    "extension/src": {".ts", ".tsx"},
    "extension/style": {".css"},
    "extension/ui-tests": {".ts", ".py"},
}
BUILT = ROOT / "nki_lab" / "labextension"


def source_files(root: Path, sources: dict[str, set[str]]) -> list[Path]:
    return sorted(
        file
        for folder, suffixes in sources.items()
        for file in (root / folder).rglob("*")
        if file.suffix in suffixes and BUILT not in file.parents
    )


def too_long(files: list[Path]) -> dict[str, int]:
    lines = {str(file): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    return {name: count for name, count in lines.items() if count > LIMIT}


def test_no_file_is_over_700_lines() -> None:
    files = source_files(ROOT, SOURCES)
    assert Path(__file__) in files
    assert too_long(files) == {}, "split these by what they are about"


@pytest.mark.parametrize(("lines", "refused"), [(700, False), (701, True)])
def test_the_limit_is_700(tmp_path: Path, lines: int, refused: bool) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n" * lines)
    assert bool(too_long(source_files(tmp_path, {".": {".py"}}))) == refused
