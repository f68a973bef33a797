"""Tests that every command and magic that opens files reports a file that is not what it seems in one line."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.profiler.formats.profile_json import FORMAT_VERSION
from tests.cli.conftest import Command
from tests.magics.notebook import Notebook

OPENED: list[str] = []


class Hostile:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self) -> Any:
        return OPENED.append, ("executed",)


def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a profile in each format and a compiled kernel."""
    folder = tmp_path_factory.mktemp("good")
    a = np.ones((128, 8), np.float32)
    result = nki_lab.run(add, a, a)
    for ending in ("json", "parquet", "csv", "pftrace"):
        result.profile.save(folder / f"p.{ending}")
    result.compiled.save(folder / "k.nkic")
    return folder


def cut(name: str) -> Callable[[Path, Path], None]:
    def make(good: Path, bad: Path) -> None:
        data = (good / name).read_bytes()
        bad.write_bytes(data[: len(data) * 2 // 3])

    return make


def cut_table(good: Path, bad: Path) -> None:
    bad.mkdir()
    for file in (good / "p.parquet").iterdir():
        data = file.read_bytes()
        whole = file.name != "Instruction.parquet"
        (bad / file.name).write_bytes(data if whole else data[: len(data) // 2])


def climbing(good: Path, bad: Path) -> None:
    bad.mkdir()
    secret = bad.parent / "secret.csv"
    secret.write_text("secret\n")
    index = json.loads((good / "p.csv" / "profile.json").read_text())
    index["tables"] = {"../secret": {"rows": 1, "columns": ["secret"]}}
    (bad / "profile.json").write_text(json.dumps(index, separators=(",", ":")))


def newer(good: Path, bad: Path) -> None:
    text = (good / "p.json").read_text()
    bad.write_text(text.replace(f'"version":{FORMAT_VERSION}', '"version":99', 1))


def nested(good: Path, bad: Path) -> None:
    head = f'{{"format":"nki_lab profile","version":{FORMAT_VERSION},"target":"trn2","x":'
    bad.write_text(head + "[" * 1_000_000)


BAD: dict[str, Callable[[Path, Path], None]] = {
    "cut.json": cut("p.json"),
    "cut.pftrace": cut("p.pftrace"),
    "cut.nkic": cut("k.nkic"),
    "cut.parquet": cut_table,
    "climbing.csv": climbing,
    "newer.json": newer,
    "pickle.json": lambda good, bad: bad.write_bytes(pickle.dumps(Hostile())),
    "pickle.nkic": lambda good, bad: bad.write_bytes(pickle.dumps(Hostile())),
    "nested.json": nested,
    "empty.json": lambda good, bad: bad.write_bytes(b""),
    "empty.parquet": lambda good, bad: bad.mkdir(),
    "other.json": lambda good, bad: bad.write_text('{"cells": []}'),
    "<img src=x onerror=alert(1)>.json": cut("p.json"),
    "two\nlines \x1b[2J.json": cut("p.json"),
}
COMMANDS = {
    "profile": ("profile", "BAD"),
    "compare": ("compare", "GOOD/p.json", "BAD"),
    "disasm": ("disasm", "BAD"),
    "diff": ("diff", "GOOD/k.nkic", "BAD"),
    "run": ("run", "BAD"),
}
MAGICS = (
    "%nki_timeline BAD",
    "%nki_timeline BAD --from 0 --to 1000",
    "%nki_profile BAD",
    "%nki_summary BAD",
    "%nki_compare GOOD/p.json BAD",
)


@pytest.fixture(params=list(BAD))
def bad(request: pytest.FixtureRequest, good: Path, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    BAD[request.param](good, path)
    return path


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_command_tells_it_in_one_line(command: Command, bad: Path, good: Path, name: str):
    words = [w.replace("BAD", str(bad)).replace("GOOD", str(good)) for w in COMMANDS[name]]
    done = command(*words)
    assert done.exit_code in (1, 2), done.stdout
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error[NKI")
    assert len(done.stderr) < 2000
    assert OPENED == []
    assert "secret\n" not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize("magic", MAGICS)
def test_a_magic_tells_it_in_one_line(notebook: Notebook, bad: Path, good: Path, magic: str):
    if "\n" in bad.name:
        pytest.skip("a line magic ends with its line")
    line = magic.replace("BAD", repr(str(bad))).replace("GOOD", str(good))
    outcome = notebook.bad(line)
    lines = [text for text in outcome.text.splitlines() if not text.startswith("  ")]
    assert len(lines) == 1, outcome.text
    assert OPENED == []


def test_a_file_given_to_compare_with_is_told_too(notebook: Notebook, bad: Path):
    notebook.good("path = " + repr(str(bad)))
    outcome = notebook.bad("%%nki --run 'add(a, b)' --compare path --show none\n" + ADD)
    assert outcome.code == "NKI604"
    assert OPENED == []


ADD = """\
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out
"""


def test_a_pipe_is_not_waited_for(command: Command, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    for words in (("profile", "pipe.json"), ("compare", "pipe.json", "pipe.json")):
        done = command(*words)
        assert done.exit_code in (1, 2)
