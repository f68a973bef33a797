"""Every error is reached by its wrong example, and its right example runs."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from nki_lab import errors
from nki_lab.api.install import aliases
from nki_lab.dialects import NKI
from nki_lab.errors import NkiError, error_classes
from nki_lab.ir.program.verify import verify
from nki_lab.ir.text.parser import parse_kernel
from nki_lab.runtime.run import run
from nki_lab.source import is_cell
from tests.cli.conftest import Command, command  # noqa: F401
from tests.golden import Golden
from tests.magics.notebook import Notebook, bare, notebook, shell  # noqa: F401

X = np.random.default_rng(3).standard_normal((128, 4)).astype(np.float32)
COPY = """\
import nki
import nki.language as nl


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""
#: Stages, of which an author only meets the kinds.
ABSTRACT = {errors.NkiError, errors.LanguageError, errors.ResourceError}
#: The errors that this package defines; a test elsewhere may define others.
KINDS = [kind for kind in error_classes() if kind.__module__.startswith("nki_lab.")]
EXAMPLES = [kind for kind in KINDS if kind.wrong]


def test_every_error_that_can_be_raised_has_an_example():
    assert set(EXAMPLES) == set(KINDS) - ABSTRACT


class Runner:
    """Runs an example, whatever it is, and returns the text of the error it ends with."""

    def __init__(self, folder: Path, cells: Notebook, run_command: Command, monkeypatch):
        self.folder, self.notebook, self.command = folder, cells, run_command
        self.monkeypatch = monkeypatch

    def __call__(self, text: str) -> str:
        if text.startswith("%%nki"):
            return self.cell(text)
        if text.startswith("$ "):
            return self.shell(text[2:])
        try:
            with aliases():
                self.python(text)
        except NkiError as error:
            return str(error)
        return ""

    def python(self, text: str) -> None:
        self.monkeypatch.setenv(
            "NEURON_LOGICAL_NC_CONFIG", ""
        )  # what an example sets ends with its test
        if text.startswith("nkir"):
            for error in verify(parse_kernel(text)):
                raise error
            return
        script = text.startswith(("import ", "from "))
        module = text if script else NKI.subset.module_of(text)
        file = self.folder / "example.py"
        file.write_text(module)
        space = {"__name__": "example"}
        exec(compile(module, str(file), "exec"), space)
        if not script:
            run(space["kernel"], X)

    def cell(self, text: str) -> str:
        self.notebook.shell.user_ns["x"] = X.copy()
        error = self.notebook.run(text).error
        assert error is None or isinstance(error, NkiError), error
        assert error is None or not error.stack or is_cell(error.span.filename)
        return "" if error is None else str(error)

    def shell(self, text: str) -> str:
        (self.folder / "copy.py").write_text(COPY)
        words = shlex.split(text)
        while "=" in words[0]:
            self.monkeypatch.setenv(*words.pop(0).split("=", 1))
        result = self.command(*words[1:])
        assert result.exit_code == (1 if result.stderr else 0), result.output
        return result.stderr.rstrip("\n") if result.exit_code else ""


@pytest.fixture
def example(tmp_path, notebook, command, monkeypatch):  # noqa: F811
    return Runner(tmp_path, notebook, command, monkeypatch)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.code)
def test_the_wrong_example_ends_with_its_error(
    kind: type[NkiError], example: Runner, golden: Golden
):
    text = example(kind.wrong)
    code = "2 errors" if kind is errors.KernelErrors else f"error[{kind.code}]: "
    assert code in text
    golden(text + "\n", f"{kind.code}.txt")


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.code)
def test_the_right_example_ends_well(kind: type[NkiError], example: Runner):
    assert example(kind.right) == ""


def test_examples_are_short():
    for kind in EXAMPLES:
        for text in (kind.wrong, kind.right):
            assert len(text.splitlines()) <= 16, kind
            assert max(map(len, text.splitlines())) <= 100, kind
        assert kind.wrong != kind.right
