"""Tests that names from files and kernels reach terminals and tables as text, whatever characters they hold."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.errors import BadFile, NkiError, UsageError
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import report, summary_text
from nki_lab.profiler.answers import ANALYSES
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.profiler.profile import Profile
from nki_lab.rewrite import close_matches
from nki_lab.session.answers import findings_lines
from nki_lab.source import printable, text_of
from nki_lab.views.display import display
from nki_lab.views.registry import view_names
from nki_lab.views.texts import view_text
from tests.cli.conftest import Command
from tests.magics.notebook import Notebook
from tests.profiler.example import profile

#: Clears a screen, begins a line, turns the direction of writing, is invisible, is half of a character.
HOSTILE = "\x1b[2J\r\nFAKE line\x9b31m\u202etxet\u2066\u200b\u2028\ud800\x00\x7f"
#: A name that a file of Linux may have.
FILE = HOSTILE.replace("\ud800", "").replace("\x00", "")


#: A name that the text of a program may have.
IN_PROGRAM = HOSTILE.replace("\ud800", "")


def faults(text: str) -> list[str]:
    """Return what of a text is no text: characters by their Unicode category, and lines that a name began."""
    odd = [
        c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    return [
        *map(ascii, odd),
        *(line for line in text.split("\n") if line.lstrip().startswith("FAKE")),
    ]


def test_the_escape_leaves_what_people_write():
    for text in ("größe ü", "行列 積", "a\u0301", "😀", "x*y \\x1b", "\u200dzwj"):
        assert printable(text) == text
    assert printable("a\tb\x1b", keep="\t") == "a\tb\\x1b"
    assert printable(printable(HOSTILE)) == printable(HOSTILE)
    assert faults(text_of([HOSTILE, "a"])) == []
    assert text_of(["a", "b"]) == "a\nb"
    [line] = text_of(["x" * 10**6]).split("\n")
    assert len(line) < 5_000 and line.endswith("... 1,000,000 characters")


def hostile_profile() -> Profile:
    """Return the example with the hostile name in every text of every table."""
    document = json.loads(to_json(profile()))
    fixed = (
        "engine",
        "queue_type",
        "in_table",
        "out_table",
        "source",
        "dest",
        "kernel_instruction_name",
        "category",
    )
    for columns in document["tables"].values():
        for name, column in columns.items():
            if isinstance(column, dict) and name not in fixed:
                column["values"] = [f"{HOSTILE}{n}" for n in range(len(column["values"]))]
    return Profile.of(from_json(json.dumps(document | {"name": HOSTILE})))


def texts_of(run: Profile) -> dict[str, str]:
    told = {
        f"view {view}": repr(display(run, (view,))) for view in ("report", "timeline", "source")
    }
    told |= {
        name: ANALYSES[name](run) for name in ("path", "stalls", "lines", "iterations", "roofline")
    }
    told |= {"report": report(run), "summary": summary_text(run), "repr": repr(run)}
    told["compare"] = str(compare_profiles(run, profile()))
    told["span"] = report(run.between(100, 900))
    return told


def test_a_profile_from_a_file_is_told_as_text():
    for door, text in texts_of(hostile_profile()).items():
        assert faults(text) == [], door
    assert "\\x1b[2J" in report(hostile_profile())
    for view in ("report", "timeline", "source"):
        assert len(view_text(display(hostile_profile()).data, view, 40).split("\n")) <= 40


def named(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=IN_PROGRAM)
    other = nl.ndarray(
        x.shape, dtype=x.dtype, buffer=nl.sbuf, name=HOSTILE.replace("\ud800", "") + "2"
    )
    nl.store(out, nl.add(tile, other))
    nl.store(out, nl.load(x))
    return out


named.__name__ = named.__qualname__ = HOSTILE


@pytest.mark.parametrize("view", view_names())
def test_a_run_is_told_as_text_in_every_view(view: str):
    x = np.ones((4, 8), np.float32)
    result = nki_lab.run(named, x)
    assert result.findings
    told = [
        repr(result),
        str(result.lines()),
        str(result.stalls()),
        str(result.benchmark()),
        str(result.advice()),
    ]
    told += [repr(result.show(view)), view_text(result.view_data, view, 40), *result.ir.values()]
    told.append(repr(result.profile))
    for text in told:
        assert faults(text) == [], text
    page = result.show(view).page()
    shown = re.search(r"<noscript><pre>(.*?)</pre>", page, re.DOTALL)
    assert shown is not None and faults(shown[1]) == []


def fails(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=IN_PROGRAM)
    nl.store(x, tile[0:99, 0:99])
    return x


def raises(x):
    raise ValueError(f"first\x1b[2J {x.name}\nsecond\u202e")


def test_findings_of_every_run_are_text():
    result = nki_lab.run(named, np.ones((4, 8), np.float32))
    lines = findings_lines([result])
    assert any("\\x1b[2J" in line for line in lines)
    assert [fault for line in lines for fault in faults(line)] == []


def test_a_name_that_is_proposed_is_one_line():
    near = HOSTILE.replace("\ud800", "")
    assert faults(str(UsageError("none", help=close_matches(near + "x", [near])))) == []


def test_errors_are_text():
    x = np.ones((4, 8), np.float32)
    for kernel, said in ((fails, "slice 0:99 on axis 0 of"), (raises, "second\\u202e")):
        with pytest.raises(NkiError) as error:
            nki_lab.run(kernel, x)
        for heading in (False, True):
            text = "\n".join(error.value.render(heading))
            assert faults(text) == []
            assert said in text
    error = UsageError(f"a {HOSTILE}", notes=[HOSTILE], help=HOSTILE.replace("\n", ""))
    assert faults(str(error)) == []
    assert len(str(error).split("\n")) == 3
    assert len(str(BadFile("x" * 10**7))) < 5_000


def test_commands_write_text(command: Command, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / f"{FILE}.json").write_text(to_json(hostile_profile()))
    (folder / f"{FILE}.txt").write_text("no profile")
    (folder / f"{FILE}.ipynb").write_text("no notebook")
    run, other, notebook = (str(folder / f"{FILE}{end}") for end in (".json", ".txt", ".ipynb"))
    for words in (
        ("profile", run), ("profile", run, "-o", str(folder / f"{FILE}2.json")), ("compare", run, run),
        ("profile", run, "--analyse", "path,stalls,lines,roofline"), ("profile", run, "--from", "0", "--to", "500"),
        ("profile", other), ("profile", other + "x"), ("compare", run, other), ("disasm", other), ("run", other),
        ("execute", notebook), ("validate", notebook), ("validate", str(folder / HOSTILE[:9])), ("explain", HOSTILE),
    ):  # fmt: skip
        done = command(*words)
        assert faults(re.sub("[│╭╮╰╯─]", "", done.output)) == [], words


def test_magics_write_text(notebook: Notebook, tmp_path: Path):
    path = tmp_path / f"{FILE}.json".replace("\n", "").replace("\r", "").replace("\u2028", "")
    path.write_text(to_json(hostile_profile()))
    bad = path.with_suffix(".txt")
    bad.write_text("no profile")
    for line in (
        f"%nki_summary {str(path)!r}", f"%nki_profile {str(path)!r}", f"%nki_timeline {str(path)!r}",
        f"%nki_compare {str(path)!r} {str(path)!r}", f"%nki_summary {str(bad)!r}", f"%nki_target {path.stem!r}",
        f"%nki_explain {path.stem!r}", f"%nki_doctor {path.stem!r}", f"%nki_exercise {path.stem!r}",
    ):  # fmt: skip
        assert faults(notebook.run(line).text) == [], ascii(line)
