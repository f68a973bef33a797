"""Runs cells as a notebook does, and shows what its reader would see."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@dataclass(frozen=True)
class Outcome:
    """What one cell did: the text it printed, and the exception it ended with."""

    text: str
    error: BaseException | None

    @property
    def code(self) -> str:
        """Code of our error, "" where there is none."""
        return getattr(self.error, "code", "")


@dataclass
class Notebook:
    """An IPython whose cells are numbered from 1."""

    shell: InteractiveShell
    capture: pytest.CaptureFixture[str] = field(repr=False)

    def run(self, cell: str) -> Outcome:
        """Run a cell as a front end does, and return what it showed."""
        self.capture.readouterr()
        result = self.shell.run_cell(cell, store_history=True)
        shown = self.capture.readouterr()
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown.out + shown.err)
        return Outcome(text, result.error_before_exec or result.error_in_exec)

    def good(self, cell: str) -> str:
        """Run a cell that must succeed, and return the text it printed."""
        outcome = self.run(cell)
        assert outcome.error is None, outcome.text
        return outcome.text

    def bad(self, cell: str) -> Outcome:
        """Run a cell that must fail with one of our errors, without any of our frames shown."""
        outcome = self.run(cell)
        assert outcome.code, outcome.text or "the cell succeeded"
        assert "nki_lab" + "/" not in outcome.text
        assert "Traceback" not in outcome.text
        return outcome

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    @property
    def names(self) -> set[str]:
        """Names of the user's namespace, IPython's own history left out."""
        return {n for n in self.shell.user_ns if not re.fullmatch(r"_i\d+|_\d+", n)}


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> InteractiveShell:
    """Return one IPython that keeps nothing on disk."""
    folder = tmp_path_factory.mktemp("ipython")
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    return InteractiveShell(config=config, ipython_dir=str(folder))


@pytest.fixture
def bare(
    shell: InteractiveShell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Notebook]:
    """Return a fresh notebook in which nki_lab is not loaded."""
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    shell.reset()
    # A reset collects garbage. What is alive by then, most of all what other tests have imported and
    # kept, need not be looked through by the next one, of which there are hundreds.
    gc.freeze()
    yield Notebook(shell, capsys)
    shell.run_cell("%unload_ext nki_lab")
    capsys.readouterr()


@pytest.fixture
def notebook(bare: Notebook) -> Notebook:
    """Return a fresh notebook with nki_lab loaded and two arrays, `a` and `b`."""
    bare.good("%load_ext nki_lab")
    bare.good(ARRAYS)
    return bare


ARRAYS = """\
import numpy as np
a = np.linspace(-3, 5, 128 * 24, dtype=np.float32).reshape(128, 24)
b = a[::-1].copy()"""

ADD = """
@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out
"""


def cell(options: str = "", body: str = ADD) -> str:
    """Return a `%%nki` cell."""
    return f"%%nki {options}".rstrip() + "\n" + body.lstrip("\n")
