"""Tests that the built files of the extension are what its sources give, in any folder, and that its tests pass."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "nki_lab" / "labextension"
_NODE = 20


@pytest.fixture(scope="module")
def npm() -> str:
    """Return the path of npm; skip without it, fail where NKI_LAB_REQUIRE_NODE is set (as in CI)."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
        if int(version.removeprefix("v").partition(".")[0]) >= _NODE:
            return npm
    reason = f"no npm with Node.js {_NODE} or newer on PATH: the extension is not built anew"
    if os.environ.get("NKI_LAB_REQUIRE_NODE"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources, in a folder where nothing has been built."""
    copy = tmp_path_factory.mktemp("clone") / "extension"
    shutil.copytree(ROOT / "extension", copy, ignore=shutil.ignore_patterns("node_modules", "lib"))
    return copy


def run(npm: str, *arguments: str, folder: Path) -> None:
    # The build calls jupyter-builder, which is installed beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    outcome = subprocess.run(
        [npm, *arguments],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_the_built_files_are_small() -> None:
    """They are loaded with every JupyterLab, whether or not it shows a kernel."""
    assert sum(map(len, contents(BUILT).values())) < 500_000


def test_the_committed_files_were_built_from_these_sources() -> None:
    """By the digest that the build writes last; a thorough run builds anew and compares every byte."""
    digest = runpy.run_path(str(ROOT / "extension" / "digest.py"))
    committed = (ROOT / digest["WRITTEN"]).read_text().strip()
    assert committed == digest["digest"](ROOT / "extension"), "run `make extension` and commit it"


@pytest.mark.parametrize(
    "name", ["src/new.ts", "style/live.css", "schema/settings.json", "package-lock.json"]
)
def test_a_changed_source_has_another_digest(name: str, tmp_path: Path) -> None:
    digest = runpy.run_path(str(ROOT / "extension" / "digest.py"))["digest"]
    copy = tmp_path / "extension"
    shutil.copytree(ROOT / "extension", copy, ignore=shutil.ignore_patterns("node_modules", "lib"))
    before = digest(copy)
    with (copy / name).open("a") as file:
        file.write(" ")
    assert digest(copy) != before


@pytest.mark.slow
@pytest.mark.thorough
def test_the_committed_files_are_what_the_sources_give(npm: str, copy: Path) -> None:
    run(npm, "ci", folder=copy)
    run(npm, "test", folder=copy)
    run(npm, "run", "build:prod", folder=copy)

    built, committed = contents(copy.parent / "nki_lab" / "labextension"), contents(BUILT)
    different = sorted(f for f in built.keys() | committed if built.get(f) != committed.get(f))
    assert different == [], "run `make extension` and commit nki_lab/labextension"
