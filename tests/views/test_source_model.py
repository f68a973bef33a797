"""Tests that the source view holds the kernel's text with its costs, and the list of findings every finding."""

import inspect

import numpy as np

from nki_lab import run
from nki_lab.views.findings.view import findings_parts
from nki_lab.views.run import Remark
from nki_lab.views.source.model import source_parts
from nki_lab.widgets.packing import unpack
from tests.profiler import example
from tests.profiler.faults import turns
from tests.views.runs import add_halves, added, by_hand


def test_the_kernels_text_is_there_line_by_line() -> None:
    meta, _ = unpack(source_parts(added().view_data))
    (listing,) = meta["listings"]
    lines, first = inspect.getsourcelines(add_halves)
    assert listing["lines"] == [line.rstrip("\n") for line in lines]
    assert (listing["heading"], listing["first"]) == ("runs.py", first)
    for cost in meta["costs"]:
        assert cost["place"] == f"runs.py, line {cost['line']}"
        assert listing["lines"][cost["line"] - first] == cost["text"]
    moved = {cost["text"].strip()[:8]: cost["bytes"] for cost in meta["costs"] if cost["bytes"]}
    assert moved == {"total = ": 2 * 96 * 600 * 4, "nl.store": 96 * 600 * 4}


def test_findings_are_marked_at_their_lines() -> None:
    meta, _ = unpack(source_parts(by_hand()))
    assert meta["remarks"] == {"cell [3], line 4": ["advice: nothing to see"]}


def test_serious_findings_come_first_and_all_are_listed() -> None:
    remarks = [Remark("advice", f"number {k}") for k in range(3)]
    serious = Remark("hazard", "a race", "wait", is_serious=True)
    meta, _ = unpack(findings_parts(by_hand(findings=[*remarks, serious])))
    assert [f["message"] for f in meta["findings"]] == [
        "a race",
        "number 0",
        "number 1",
        "number 2",
    ]
    assert [f["serious"] for f in meta["findings"]] == [True, False, False, False]
    assert meta["warnings"] == [
        {"kind": "not modelled", "message": "the cost of `rng` on GpSimd is assumed"}
    ]


def test_advice_of_a_run_is_listed_with_its_lines() -> None:
    x = np.linspace(-1, 1, 128 * 16384, dtype=np.float32).reshape(128, 16384)
    data = run(turns(False), x, target="trn2").view_data
    given = data.profile.advice(None)
    meta, _ = unpack(findings_parts(data))
    assert [a["rule"] for a in meta["advice"]] == [a.rule for a in given] != []
    first, expected = meta["advice"][0], given[0]
    assert (first["gain"], first["help"]) == (expected.gain, expected.help)
    headings = [place.replace(":", ", line ") for place in expected.places]
    assert [heading for heading, _ in first["places"]] == headings
    assert all(text.strip() for _, text in first["places"])
    assert all(w["kind"] != "advice" for w in meta["warnings"])
    marked = unpack(source_parts(data))[0]["remarks"]
    assert any(expected.rule in text for text in marked[first["places"][0][0]])


def test_advice_of_a_profile_from_a_file_is_what_its_warnings_say() -> None:
    warning = {"message": ["small DMAs: too small. Help: move more."], "category": "advice"}
    data = by_hand(profile=example.profile(Warning=warning))
    meta, _ = unpack(findings_parts(data))
    assert [(a["message"], a["help"]) for a in meta["advice"]] == [
        ("small DMAs: too small", "move more.")
    ]
    assert meta["warnings"] == []
