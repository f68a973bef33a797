"""Tests README.md: its examples run, its output comes out, and its tables are complete.

Tables and the output of the example are written by `pytest tests/test_readme.py --update-golden`.
"""

import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import numpy as np
import pytest
from typer.testing import CliRunner

import nki_lab.language as nl
from nki_lab.api.install import aliases
from nki_lab.choices import from_environment
from nki_lab.cli import lab, validate
from nki_lab.cli.main import app
from nki_lab.errors import NkiError
from nki_lab.exercises.artefacts import made_profile, write_export
from nki_lab.runtime import jit, load, run, step
from nki_lab.session.questions import all_options
from nki_lab.targets import ALL_TARGETS
from tests.hardware.neffs import write_neff
from tests.magics.notebook import Notebook, bare, shell

__all__ = ["bare", "shell"]  # fixtures

X = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BLOCKS = BLOCK.findall(README.read_text("utf-8"))
PYTHON = [text for language, text in BLOCKS if language == "python"]
FILES = {text.splitlines()[0][2:]: text for text in PYTHON if text.startswith("# ")}
CELLS = [text for text in PYTHON if text.startswith("%")]
SCRIPTS = [text for text in PYTHON if text not in CELLS and text not in FILES.values()]
LINES = [line for language, text in BLOCKS if not language for line in text.splitlines()]
COMMANDS = [line for line in LINES if line.startswith("nki-lab ")]


def variables() -> str:
    rows = [f"| `{c.env}` | `{c.text(c.default)}` | {c.help_text} |" for c in from_environment()]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows, ""])


def targets() -> str:
    rows = [
        f"| `{t.name}` | {', '.join(f'`{n}`' for n in t.aliases)} | {t.core_name} |"
        for t in ALL_TARGETS
    ]
    return "\n".join(["| target | other names | NeuronCore |", "|---|---|---|", *rows, ""])


def options() -> str:
    rows = []
    for choice in all_options():
        where = [c for c in choice.commands if c in ("%%nki", "%nki", "run", "profile", "compile")]
        if where:
            typed = f"{choice.flag} {choice.metavar}".rstrip()
            commands = ", ".join(f"`{name}`" for name in where)
            rows.append(f"| `{typed}` | {commands} | {choice.help_text.replace('<', '&lt;')} |")
    head = ["| option | magics and commands | what it does |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


@pytest.fixture
def update(request: pytest.FixtureRequest):
    """Return a function that compares a part of the README, or writes it with --update-golden."""

    def compare(old: str, new: str) -> None:
        if request.config.getoption("--update-golden"):
            text = README.read_text("utf-8")
            assert text.count(old) == 1
            README.write_text(text.replace(old, new), "utf-8")
        else:
            assert old == new

    return compare


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with the files that the README shows."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    write_neff(tmp_path / "kernel.neff")
    (tmp_path / "workshop").symlink_to(ROOT / "workshop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_there_are_examples_of_every_kind():
    assert list(FILES) == ["add.py", "twice.py", "total.py"]
    assert len(CELLS) == 2
    assert len(SCRIPTS) == 5
    commands = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback]
    assert {line.split()[1] for line in COMMANDS} == set(commands)


@pytest.mark.parametrize("table", [variables, targets, options], ids=lambda table: table.__name__)
def test_tables_hold_all_there_is(update, table):
    new = table()
    head = re.escape("\n".join(new.splitlines()[:2]))
    [old] = re.findall(rf"^{head}\n(?:\|.*\n)*", README.read_text("utf-8"), re.MULTILINE)
    update(old, new)


def test_the_cell_prints_what_is_shown(update, bare: Notebook):
    load, kernel = CELLS
    bare.good(load)
    [shown] = [text for language, text in BLOCKS if language == "text"]
    update(f"```text\n{shown}```", f"```text\n{bare.good(kernel)}```")


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_work(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str):
    started = []
    for module, name in ((lab, "run_until_stopped"), (validate.subprocess, "call")):
        monkeypatch.setattr(module, name, lambda words, **_: started.append(words) or 0)
    words = shlex.split(line)[1:]
    for earlier in COMMANDS[: COMMANDS.index(line)]:
        written = earlier.partition(" -o ")[2].split(" ")[0]
        if written and written in words:
            CliRunner().invoke(app, shlex.split(earlier)[1:])
    if "export.json" in words:  # as a device would have left it
        arrays = np.ones((2, 300, 512), dtype=np.float32)
        write_export(made_profile(load("add2.nkic").launch(*arrays)), "export.json")
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == (words[0] == "diff"), outcome.output
    opens = words[0] in ("lab", "validate", "workshop") and "--check" not in words[1:]
    assert bool(started) is opens
    for option in ("-o", "--perfetto"):
        if option in words:
            assert (folder / words[words.index(option) + 1]).stat().st_size > 1000
    if "--check" in words and words[0] == "run":
        assert "matches: " in outcome.output


@pytest.mark.parametrize(
    ("script", "printed"),
    list(
        zip(
            SCRIPTS,
            ["(300, 64) ", "softmax(x)\n", "torch.Size([8, 50])\n", "%left writes [[", ""],
            strict=True,
        )
    ),
)
def test_the_scripts_run(folder: Path, script: str, printed: str):
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith(printed)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text("utf-8"))
    assert [link for link in links if ":" not in link and not (ROOT / link).exists()] == []


def test_the_make_targets_exist():
    made = {line.split()[1] for line in LINES if line.startswith("make ")}
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert made == {"lab", "test", "demo"}
    assert made <= rules


def on_a_device(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    jit(copy)(X)


def between_nodes(monkeypatch):
    with aliases():
        ncc = import_module("nki.collectives")

        def kernel(x, counts):
            # Without a NeuronSwitch displacements are only for ranks of different nodes.
            ranks = ncc.ReplicaGroup([[0, 64]])
            ncc.all_to_all_v([x], [x], ranks, counts, has_rdispls=True)

        run(jit(kernel)[2], X, np.ones((4, 2), np.uint32), target="trn2")


def step_through_two_cores(monkeypatch):
    step(jit(copy)[2], X, target="trn2")


def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


@pytest.mark.parametrize(
    ("use", "words", "row"),
    [
        (on_a_device, "device", "running on a device"),
        (between_nodes, "neuron_switch", "collectives between nodes"),
        (step_through_two_cores, "a stepper follows one core", "stepping through two cores"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_does_not_work_yet_says_so(monkeypatch, use, words: str, row: str):
    """When this fails because something works now, the README has to say so too."""
    not_yet = README.read_text("utf-8").split("| not yet |")[1].split("\n\n")[0]
    assert row in not_yet
    with pytest.raises(NkiError, match=words):
        use(monkeypatch)


def test_the_first_notebook_says_the_same():
    """Copy a changed table of the README into the last cell of the notebook."""
    notebook = nbformat.read(ROOT / "workshop" / "00_setup.ipynb", as_version=4)
    table = re.compile(r"^\| not yet \|.*\n(?:\|.*\n)*", re.MULTILINE)
    [missing] = table.findall(README.read_text("utf-8"))
    assert table.findall(notebook.cells[-1].source) == [missing]


def test_pytorch_tensors_go_in_and_come_out():
    torch = pytest.importorskip("torch", reason="PyTorch is optional")
    x = torch.arange(12.0).reshape(4, 3)
    returned = jit(copy)(x)
    assert isinstance(returned, torch.Tensor)
    assert torch.equal(returned, x)
