"""A fixture that runs a command in a folder of the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nki_lab.cli.main import app

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"
Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Return a function that runs `nki-lab` with arguments; everything it changes is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TARGET, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    runner = CliRunner()
    yield lambda *words: runner.invoke(app, [str(word) for word in words])
    for name in set(sys.modules) - modules:
        if not hasattr(sys.modules[name], "__file__") or str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]
    os.environ.pop(TARGET, None)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a file into the folder commands run in."""

    def write_file(name: str, text: str) -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write_file
