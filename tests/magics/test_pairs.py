"""Tests that every option acts beside every other one, or that an error says why it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nki_lab.magics import nki_magic
from nki_lab.session import request
from nki_lab.session.questions import choice_named, options_of
from tests.magics.notebook import Notebook, cell
from tests.thorough import first


@dataclass
class Seen:
    """What a cell did.

    Attributes:
        text: what it printed.
        views: names of the views that were shown.
        limit: its time limit.
        tolerances: of its check.
        result: its run.
    """

    text: str = ""
    views: list[str] = field(default_factory=list)
    limit: float | None = None
    tolerances: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    names: set[str] = field(default_factory=set)

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document that was printed; empty where there is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    def tells(self, key: str, words: str) -> bool:
        """Tell whether an answer was given, as a part of the document or in words."""
        return bool(self.document.get(key)) or words in self.text


# Option -> what is typed, and what shows that it acted.
ACTS: dict[str, tuple[str, Callable[[Seen], bool]]] = {
    "run": ("--run 'kernel(a)'", lambda s: s.result is not None),
    "check": ("--check 'a + a'", lambda s: len(s.tolerances) == 1),
    "rtol": ("--rtol 0.5", lambda s: s.tolerances[0]["rtol"] == 0.5),
    "atol": ("--atol 0.25", lambda s: s.tolerances[0]["atol"] == 0.25),
    "target": ("--target trn2", lambda s: s.result.compiled.target.name == "trn2"),
    "show": ("--show memory", lambda s: s.views == ["memory"]),
    "name": ("--name other_name", lambda s: "other_name" in s.names),
    "quiet": ("--quiet", lambda s: s.text == "" and s.views == []),
    "analyse": ("--analyse path", lambda s: s.tells("analyses", "critical path: ")),
    "what_if": ("--what-if free-loads", lambda s: s.tells("what_if", "if loads")),
    "bench": ("--bench", lambda s: s.tells("benchmark", "us for one call")),
    "compare": ("--compare earlier", lambda s: s.tells("comparison", "\nsecond  ")),
    "save": ("--save FOLDER/kept.json", lambda s: True),  # looked at in the test
    "json": ("--json", lambda s: s.document["kernel"] == "kernel"),
    "lnc": ("--lnc 2", lambda s: len(s.result.others) == 1),
    "timeout": ("--timeout 77", lambda s: s.limit == 77),
    "capacity": ("--capacity finding", lambda s: s.result.options.capacity == "finding"),
    "skip_passes": ("--skip schedule", lambda s: s.result.options.skip_passes == ("schedule",)),
    "strict": ("--strict", lambda s: s.result.options.strict),
    "allow": ("--allow NKI206", lambda s: s.result.options.allow == ("NKI206",)),
    "nki": ("--nki 0.4", lambda s: s.result.options.nki == "0.4"),
    "dialect": ("--dialect nki", lambda s: s.result.options.dialect == "nki"),
    "max_trips": ("--max-trips 1000", lambda s: s.result.options.max_trips == 1000),
    "backend": ("--backend simulator", lambda s: s.result.options.backend == "simulator"),
    "core": ("--core 3", lambda s: s.result.options.core == 3),
    "warmup": ("--warmup 0", lambda s: s.result.options.warmup == 0),
    "iters": ("--iters 7", lambda s: s.result.options.iters == 7),
    "debug": ("--debug", lambda s: s.result.options.debug),
}
# A cell that is to end with an error shows no run, one that is moved compares two (tests/migration), and operators need
# their framework (tests/frameworks).
NOT_OF_A_RUN = {"expect", "migrate", "accept", "torch", "jax"}
BODY = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    width = a.shape[1] // nl.num_programs()
    columns = nl.ds(nl.program_id(0) * width, width)
    tile = nl.load(a[:, columns])
    nl.store(out[:, columns], nl.add(tile, tile))
    return out
"""
#: Pairs that cannot both act, and a word of why; `check_together`, and errors of kernels.
REFUSED = {
    **{frozenset(("quiet", n)): "nothing would be shown" for n in choice_named("quiet").against},
    frozenset(("debug", "lnc")): "a debug run has one core",
}


def test_every_option_is_here():
    assert set(ACTS) | NOT_OF_A_RUN == {option.name for option in options_of("%%nki")}


@pytest.fixture
def seen(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Collect what the cells of a notebook do."""
    found = Seen()
    notebook.good(cell("--run 'kernel(a)' --show none", BODY))
    notebook.shell.user_ns["earlier"] = notebook["kernel_result"]
    check, limit = request.check_value, request.time_limit

    def checking(*args: Any, **tolerances: Any) -> Any:
        found.tolerances.append(tolerances)
        return check(*args, **tolerances)

    def limiting(seconds: Any, *args: Any) -> Any:
        found.limit = seconds
        return limit(seconds, *args)

    def showing(result: Any, views: Any, *args: Any, **kwargs: Any) -> None:
        found.views += views or ()

    monkeypatch.setattr(request, "check_value", checking)
    monkeypatch.setattr(nki_magic, "show", showing)
    monkeypatch.setattr(request, "time_limit", limiting)
    return found


def typed(names: tuple[str, ...], folder: Path) -> str:
    """Return options as a line, with those that they need."""
    wanted = {*names, "run"} | ({"check"} if {"rtol", "atol"} & set(names) else set())
    words = " ".join(ACTS[name][0] for name in ACTS if name in wanted)
    return words.replace("FOLDER", str(folder))


#: Every pair; those that a plain run leaves out come last. Each option is in several of the others.
PAIRS = sorted(combinations(ACTS, 2), key=lambda pair: sum(map(list(ACTS).index, pair)) % 3)


@pytest.mark.parametrize(("one", "other"), first(PAIRS, len(PAIRS) // 3), ids=map("-".join, PAIRS))
def test_a_pair_acts_or_says_why_not(
    notebook: Notebook, seen: Seen, one: str, other: str, tmp_path: Path
):
    outcome = notebook.run(cell(typed((one, other), tmp_path), BODY))
    why = REFUSED.get(frozenset((one, other)))
    if why is not None:
        assert why in outcome.text
        return
    assert outcome.error is None, outcome.text
    seen.text, seen.names = outcome.text, notebook.names
    seen.result = notebook["other_name" if "name" in (one, other) else "kernel_result"]
    for name in (one, other):
        assert ACTS[name][1](seen), f"--{name} did not act:\n{outcome.text}"
    assert (tmp_path / "kept.json").exists() == ("save" in (one, other))


def test_a_file_is_kept_before_a_question_without_an_answer(notebook: Notebook, tmp_path: Path):
    line = f"--run 'kernel(a)' --what-if line=99 --save {tmp_path / 'kept.json'}"
    for words in (line, f"{line} --json"):
        outcome = notebook.bad(cell(words, BODY))
        assert "no instruction comes from line 99" in outcome.text
        assert (tmp_path / "kept.json").exists()
        (tmp_path / "kept.json").unlink()


def test_a_run_of_the_cell_itself_is_compared(notebook: Notebook):
    notebook.good(cell("--run 'kernel(a)' --show none --name earlier", BODY))
    text = notebook.good(cell("--compare earlier --show none", f"{BODY}\nkernel(a)"))
    assert "both take the same time" in text


def test_tolerances_of_the_line_magic_need_a_check(notebook: Notebook):
    notebook.good(cell("", BODY))
    assert "--check is not given" in notebook.bad("%nki --run 'kernel(a)' --rtol 1").text


def test_the_document_has_every_answer(notebook: Notebook):
    names = "path,stalls,lines,iterations,roofline,advice,what-if"
    words = f"--analyse {names} --what-if free-loads --bench --compare earlier --json"
    notebook.good(cell("--run 'kernel(a)' --show none --name earlier", BODY))
    document = json.loads(notebook.good(cell(f"--run 'kernel(a)' {words}", BODY)))
    result = notebook["kernel_result"]
    analyses = document["analyses"]
    assert list(analyses) == names.split(",")
    path = result.critical_path()
    assert analyses["path"]["total_ns"] == path.total_ns == document["total_ns"]
    spans = [step["gap_ns"] + step["span_ns"] for step in analyses["path"]["steps"]]
    assert sum(spans) == path.total_ns
    assert analyses["lines"]["count"] == len(result.lines()) == len(analyses["lines"]["rows"])
    assert analyses["what-if"]["rows"][0]["before_ns"] == document["total_ns"]
    assert document["what_if"]["after_ns"] == result.what_if("free-loads").after_ns
    assert document["benchmark"]["latency_ns"] == result.benchmark().latency_ns
    assert document["comparison"]["first_ns"] == document["comparison"]["second_ns"]
