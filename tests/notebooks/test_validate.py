"""Tests that `nki-lab validate` fails what nbval lets pass, and only that."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from nki_lab.cli import validate
from nki_lab.cli.main import app
from nki_lab.cli.notebook_checks import SANITIZE, misplaced_magic
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE
from tests.thorough import first

ROOT = Path(__file__).parents[2]
RAISES = {"tags": ["raises-exception"]}
LOAD = "%load_ext nki_lab\nimport numpy as np\nx = np.ones((128, 64), dtype=np.float32)"
KERNEL = """\
%%nki --run "double(x)" --check "x + x"
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out"""


#: A magic that shows what went wrong and goes on, as %%time of older releases of IPython does.
SWALLOWS = '''\
import types
text = """
def swallow(line):
    shell = get_ipython()
    try:
        eval(line, {})
    except Exception:
        shell.showtraceback()
"""
room = types.ModuleType("room")
room.get_ipython = get_ipython
exec(text, room.__dict__)
get_ipython().register_magic_function(room.swallow, "line")'''


def error(name: str):
    return new_output("error", ename=name, evalue="division by zero", traceback=[])


def shown(text: str, name: str = "stdout"):
    return new_output("stream", name=name, text=text)


def stored(source: str, *outputs, **metadata):
    return new_code_cell(source, execution_count=1, outputs=list(outputs), metadata=metadata)


pytestmark = [pytest.mark.notebook, pytest.mark.slow]


class Spot(NamedTuple):
    """A notebook with something that nbval lets pass, what becomes of its cells, and what is said.

    Outcomes are one letter a cell: . passed, F failed, s not run.
    """

    cells: list
    lax: str
    strict: str
    said: tuple[str, ...] = ()


def unexecuted(*sources: str) -> list:
    return [new_code_cell(source) for source in sources]


SPOTS = {
    "magics": Spot(
        [
            *(stored(s) for s in ["%nosuch 1", "%%nosuch\n1 / 0", "%matplotlib --bad"]),
            stored("%nosuch", shown("UsageError: Line magic function `%nosuch` not found.\n", "stderr")),
            stored("%%time\n1 / 0"),
            stored("x = 1"),
        ],
        "FFFFF.",
        "FFFFF.",
        (
            "cell [1]: ends with UsageError: Line magic function `%nosuch` not found.\n"
            "help: load the extension that has `%nosuch` in a cell above, or correct the name",
            "cell [2]: ends with UsageError: Cell magic `%%nosuch` not found.\n"
            "help: load the extension that has `%%nosuch` in a cell above, or correct the name",
            "cell [3]: ends with UsageError: unrecognized arguments: --bad\nhelp: correct the line of the magic",
            "cell [4]: ends with UsageError",
            "ZeroDivisionError",
        ),
    ),
    "before_loading": Spot(
        unexecuted("%%nki\ndef f(): pass"),
        "F",
        "F",
        ("Cell magic `%%nki` not found.\nhelp: run %load_ext nki_lab in a cell above",),
    ),
    "comment_above": Spot(
        [
            stored("# NBVAL_IGNORE_OUTPUT\n\n%%time\nraise_here"),
            stored("\n\n%%capture\nprint(1)"),
            stored("%%capture\n# below\nprint(1)"),
        ],
        "F..",
        "F..",
        (
            "comment_above.ipynb, cell [1]: line 3 is `%%time` with a comment above it",
            "help: begin the cell with `%%time`, and write the comment below that line",
        ),
    ),
    "expected": Spot(
        [
            stored("1 / 1", error("ZeroDivisionError"), **RAISES),
            stored("1 / 0", error("ZeroDivisionError"), **RAISES),
            stored("int('a')", error("ZeroDivisionError"), **RAISES),
            stored("# NBVAL_RAISES_EXCEPTION\n2"),
        ],
        "F.FF",
        "F.FF",
        (
            "cell [1]: is marked `raises-exception`, and ended without an error\nhelp: take the mark away",
            "cell [3]: was to raise ZeroDivisionError, and ends with ValueError: invalid literal",
            "cell [4]: is marked `raises-exception`, and ended without an error",
        ),
    ),
    "expected_unexecuted": Spot(
        [new_code_cell(s, metadata=RAISES) for s in ("1 / 1", "1 / 0", "%nosuch")],
        "F.F",
        "FFF",
        ("cell [3]: was to raise an error of Python, and ends with UsageError",),
    ),
    "hidden": Spot(
        [
            stored("%%capture\nassert 1 == 2, 'hidden'"),
            stored("%%capture caught\n%%time\n1 / 0"),
            stored("%%capture\n%nosuch"),
            stored("%%capture\ndef f(:"),
            stored("%%capture\nprint(1)"),
            stored(SWALLOWS),
            stored("%swallow 1 / 0"),
            stored("%swallow 1"),
            stored("x = get_ipython().run_cell('1 / 0')"),
            stored("try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()"),
            stored("%%capture\n1 / 0", error("ZeroDivisionError"), **RAISES),
            stored("assert caught is not None"),
        ],
        "FFFF..F.FF..",  # nbval itself fails what shows an error
        "FFFF..F.FF..",  # nbval itself fails what shows an error
        (
            "AssertionError: hidden",
            "cell [3]: ends with UsageError: Line magic function `%nosuch` not found",
        ),
    ),
    "hidden_check": Spot(
        [stored(LOAD), stored("%%capture\n" + KERNEL.replace("x + x", "x + 1.5"))],
        ".F",
        ".F",
        ("error[NKI601]: the result differs",),
    ),
    "dead": Spot(
        [stored("x = 1"), stored("import os\nos._exit(1)"), stored("x"), stored("1 / 0")],
        ".Fss",
        ".Fss",
        ("dead.ipynb, cell [2]: the kernel ended while it ran\nhelp: look for exit()",),
    ),
    "never_executed": Spot(
        [
            *unexecuted("x = 1", "", "# NBVAL_CHECK_OUTPUT\nx", "# NBVAL_IGNORE_OUTPUT\nx"),
            new_markdown_cell("text"),
            new_code_cell("1 / 0", metadata={"tags": ["nbval-skip"]}),
        ],
        "..F.s",
        "F.F.s",
        ("cell [3]: was never executed, so there is no output to compare with",),
    ),
    "differs": Spot(
        [stored("print(2)", shown("1\n")), stored("object", shown("y\n"))], "..", "FF", ()
    ),
    "sanitized": Spot(
        [
            stored("print('0x7f0012345678')", shown("0x7f9999999999\n")),
            stored("print('build 8 of Monday')", shown("build 7 of Monday\n")),
            stored(
                "print('matches: max abs error 4.77e-07, max rel error 1.19e-07 (rtol 1e-05, atol 2)')",
                shown("matches: max abs error 0, max rel error 0 (rtol 1e-05, atol 2)\n"),
            ),
            stored(
                "print('differs in 1 of 2 elements: max abs error 3, max rel error 1 (rtol 1e-05, atol 2)')",
                shown("differs in 1 of 2 elements: max abs error 2, max rel error 1 (rtol 1e-05, atol 2)\n"),
            ),
        ],
        "....",
        "...F",
    ),
    "kernels": Spot(
        unexecuted(
            LOAD,
            KERNEL.replace("--check", "--chekc"),
            KERNEL.replace("nl.load(x)", "nl.load(y)"),
            KERNEL.replace("    tile", "    yield 1\n    tile", 1),
            KERNEL,
        ),
        ".FFF.",
        "FFFFF",
        (
            "error[NKI603]: %%nki has no option `--chekc`\n  --> cell, line 1\n",
            "error[NKI108]: name `y` is not defined\n  --> cell, line 4\n",
            "error[NKI110]: `yield` is not supported in a kernel\n  --> cell, line 4\n",
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lessons")
    for name, spot in SPOTS.items():
        nbformat.write(new_notebook(cells=spot.cells), folder / f"{name}.ipynb")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "old.ipynb").write_text("{")
    (folder / "more.cfg").write_text(r"regex: build \d+" + "\nreplace: build\n")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    return folder


class Validated(NamedTuple):
    """What one call of the command printed, and the outcome of each cell by notebook."""

    code: int
    text: str
    outcomes: dict[str, str]


@pytest.fixture(scope="module", params=first(["lax", "strict"]))
def validated(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Validated]:
    words = f"-m nki_lab validate --{request.param} --timeout 60 --sanitize more.cfg --junit r.xml"
    # The dead one is named twice and runs once.
    command = [sys.executable, *words.split(), ".", "dead.ipynb"]
    command += ["-n2"] if request.param == "lax" else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    outcomes: dict[str, str] = {}
    seconds = {}
    for case in ET.parse(folder / "r.xml").iter("testcase"):
        kinds = {child.tag for child in case}
        letter = "F" if "failure" in kinds else "s" if "skipped" in kinds else "."
        name = case.attrib["classname"].rpartition(".ipynb")[0] or case.attrib["classname"]
        outcomes[name] = outcomes.get(name, "") + letter
        seconds[name] = max(seconds.get(name, 0.0), float(case.attrib["time"]))
    assert seconds["dead"] < 30, "nbval waited for the time limit of 60 seconds"
    return request.param, Validated(done.returncode, done.stdout + done.stderr, outcomes)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SPOTS)
def test_each_blind_spot_is_seen(validated: tuple[str, Validated], name: str):
    mode, run = validated
    spot = SPOTS[name]
    assert run.outcomes[name] == getattr(spot, mode), run.text
    text = re.sub(r"\x1b\[[0-9;]*m", "", run.text)
    assert [words for words in spot.said if words not in text] == []


def test_nothing_else_was_run_and_the_exit_code_says_that_something_failed(validated):
    _, run = validated
    assert set(run.outcomes) == set(SPOTS)
    assert run.code == 1
    assert re.search(r" failed, .* in \d", run.text.rstrip().splitlines()[-1])


def test_what_ipython_drops_above_a_magic_is_no_fault():
    assert misplaced_magic("\n \n%%time\nx") is None
    assert misplaced_magic("x = 1\n# c\ntext = '''\n%%time\n'''") is None
    assert misplaced_magic("%%bash\n# c\n%%time") is None
    assert misplaced_magic("# only comments") is None
    assert misplaced_magic("# c\n  %%time") is not None


def invoke(*words: object):
    return CliRunner().invoke(app, ["validate", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.ipynb"], 2, "there is no file missing.ipynb"),
        (["script.py"], 2, "script.py is not a notebook: its name does not end in .ipynb"),
        (["empty"], 2, "there is no notebook in the folder empty"),
        (["broken.ipynb"], 1, "broken.ipynb is not a notebook: "),
        ([".", "--sanitize", "missing.cfg"], 2, "there is no file missing.cfg"),
        ([".", "--sanitize", "script.py"], 2, "script.py has no line `regex: ...`"),
        ([".", "--sanitize", "bad.cfg"], 2, "bad.cfg: `(` is not a regular expression: missing )"),
        (["--timeout", "0"], 2, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_validated_is_told_in_one_line_and_a_help(
    tmp_path, monkeypatch, words, code, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(validate.subprocess, "call", lambda *a, **k: pytest.fail("was started"))
    (tmp_path / "empty" / ".ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "script.py").touch()
    (tmp_path / "bad.cfg").write_text("regex: (\nreplace: x\n")
    for file in ("broken.ipynb", "empty/.ipynb_checkpoints/n.ipynb"):
        (tmp_path / file).write_text("{")
    outcome = invoke(*words)
    assert outcome.exit_code == code
    assert said in outcome.output
    if "timeout" not in words[0]:
        _, help = outcome.output.splitlines()
        assert help.startswith("  help: ")


@pytest.mark.parametrize(("package", "name"), [("nbval", "nbval"), ("xdist", "pytest-xdist")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, package, name):
    found = importlib.util.find_spec
    monkeypatch.setattr(validate, "find_spec", lambda n: None if n == package else found(n))
    outcome = invoke("-n", "2", ROOT / "workshop")
    assert outcome.exit_code == 1
    assert (
        f"{name} is not installed\n  help: {sys.executable} -m pip install '{name}'"
        in outcome.output
    )


@pytest.mark.parametrize(
    ("pytest_code", "code"), [(0, 0), (1, 1), (2, 130), (3, 1), (4, 1), (5, 1)]
)
def test_exit_codes_are_ours(monkeypatch, pytest_code: int, code: int):
    commands = []
    monkeypatch.setattr(
        validate.subprocess, "call", lambda c, env: commands.append(c) or pytest_code
    )
    assert invoke(ROOT / "workshop", "-n", "2").exit_code == code
    assert commands[0][:3] == [sys.executable, "-m", "pytest"]
    assert "--dist=loadfile" in commands[0]


def test_make_test_runs_the_workshop_in_the_same_way():
    make = (ROOT / "Makefile").read_text()
    [options] = re.findall(r"\$\(if \$\(NOTEBOOKS\),(.*)\)", make)
    assert shlex.split(options) == validate.nbval_options(lax=False, timeout=60)
    assert invoke("--help").exit_code == 0


def test_the_workshop_says_nothing_that_is_left_out_of_the_comparison():
    """The sanitize file lets through addresses, ids of widgets, and errors, which are exactly 0 in the workshop."""
    text = SANITIZE.read_text()
    for file in (ROOT / "workshop").glob("*.ipynb"):
        for cell in nbformat.read(file, as_version=4).cells:
            for output in cell.get("outputs", ()):
                for pattern in re.findall("^regex: (.*)$", text, re.MULTILINE):
                    said = output.get("text", "").replace("max abs error 0, max rel error 0 (", "")
                    assert not re.search(pattern, said)


def test_nbval_passes_over_live_views_that_jupyterlab_saved(tmp_path: Path):
    forms = {"text/plain": "a run", LIVE_TYPE: {}, WIDGET_TYPE: {"model_id": "gone"}}
    source = "display({'text/plain': 'a run'}, raw=True)"  # what a program gets that runs the cell
    notebook = new_notebook(cells=[stored(source, new_output("display_data", forms))])
    nbformat.write(notebook, tmp_path / "saved.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval-current-env"]
    command += ["--nbval", "saved.ipynb"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout
