"""Tests that each option of `%%nki` acts, and that a cell follows the latest text and values."""

import numpy as np
import pytest

from nki_lab.errors import CheckFailed, NoKernel, OverCapacity, UninitializedRead
from nki_lab.runtime import Result
from tests.magics.notebook import ADD, Notebook, cell

RUN = "--run 'add(a, b)'"
TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"

# 70,000 float32 in each partition are more than SBUF of any chip has.
LARGE = """
def large(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""
UNWRITTEN = """
def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nl.store(out, tile)
    return out
"""


def test_a_run_computes_and_keeps_the_result(notebook: Notebook):
    notebook.good(cell(RUN))
    result = notebook["add_result"]
    assert isinstance(result, Result)
    np.testing.assert_array_equal(result.value, notebook["a"] + notebook["b"])


def test_a_run_says_where_it_ran_and_how_long_it_took(notebook: Notebook):
    first = notebook.good(cell(RUN + " --target trn2")).splitlines()[0]
    nanoseconds = notebook["add_result"].profile.total_ns
    assert first == f"add on trn2: {nanoseconds / 1000:,.3f} us modelled; in `add_result`"


def test_the_same_cell_prints_the_same_text(notebook: Notebook):
    assert notebook.good(cell(RUN)) == notebook.good(cell(RUN))


def test_a_check_that_holds_is_reported(notebook: Notebook):
    text = notebook.good(cell(RUN + " --check 'a + b' --show none"))
    assert text.splitlines()[1].startswith("matches: max abs error 0, max rel error 0")


def test_a_check_that_fails_fails_the_cell(notebook: Notebook):
    outcome = notebook.bad(cell(RUN + " --check 'a + b + (a > 4.99)'"))
    assert isinstance(outcome.error, CheckFailed)
    wrong = int(np.count_nonzero(notebook["a"] > 4.99))
    assert f"differs in {wrong} of {128 * 24} elements: max abs error 1" in outcome.text
    assert "the run is in `add_result`" in outcome.text
    assert isinstance(notebook["add_result"], Result)


def test_a_failed_check_shows_where_and_then_the_views(notebook: Notebook):
    text = notebook.bad(cell(RUN + " --check 'a + b + (a > 4.99)'")).text
    wrong = notebook["a"] > 4.99
    title = f"the result differs in {wrong.sum()} of 3,072 elements\n"
    _, _, *lines = text[text.index(title) :].splitlines()
    drawn = [
        line.strip() for line in lines[:16]
    ]  # blocks of 8 partitions, a column for each element
    assert {(r // 8, c) for r, c in np.argwhere(wrong)} == {
        (r, c) for r, line in enumerate(drawn) for c, letter in enumerate(line) if letter != "."
    }
    assert "worst at" in text and "total time" in text[text.index("worst at") :]
    shown = notebook.bad(cell(RUN + " --check 'a + b + 1' --show memory")).text
    assert "in program order" in shown and "total time" not in shown
    assert "from top to bottom" not in notebook.bad(cell(RUN + " --check 'a + b + 1' --quiet")).text


TOTAL = """
import nki.collectives as ncc

def total(x, groups):
    mine, sums, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3))
    nisa.dma_copy(mine, x)
    ncc.all_reduce([mine], [sums], ncc.ReplicaGroup(groups), nl.add)
    nisa.dma_copy(out, sums)
    return out
"""


def test_ranks_are_launched_in_a_cell(notebook: Notebook):
    notebook.good("import nki_lab\nx = np.arange(24, dtype=np.float32).reshape(4, 2, 3)")
    alone = notebook.bad(f"%%nki --run 'total(x[0], ((0, 1),))'\n{TOTAL}")
    assert "nki_lab.launch(kernel, ranks=2, inputs=[...])" in alone.text
    launched = "[r.value for r in nki_lab.launch(total, 4, [(y, ((0, 1, 2, 3),)) for y in x])]"
    text = notebook.good(f"%%nki --run '{launched}' --check '[x.sum(0)] * 4'\n{TOTAL}")
    assert text.count("total on trn3: ") == 1
    assert text.count("matches: max abs error 0") == 4


def test_a_reference_is_taken_before_inputs_are_updated(notebook: Notebook):
    body = "def bump(x):\n    nl.store(x, nl.add(nl.load(x), 10.0))\n"
    notebook.good("before = a.copy()")
    notebook.good(cell("--run '(bump(a), a)[1]' --check 'a + 10' --quiet", body))
    np.testing.assert_array_equal(notebook["a"], notebook["before"] + 10)


def test_several_outputs_are_checked_one_by_one(notebook: Notebook):
    body = ADD.replace("return out", "return out, out")
    text = notebook.good(cell(RUN + " --check '(a + b, b + a)' --show none", body))
    assert text.count("matches:") == 2
    assert "the result [1] differs" in notebook.bad(cell(RUN + " --check '(a + b, b)'", body)).text


def test_options_win_over_the_session_and_the_environment(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(TARGET, "trn1")
    assert " on trn1:" in notebook.good(cell(RUN))
    notebook.good("%nki_target trn2")
    assert " on trn2:" in notebook.good(cell(RUN))
    assert " on trn3:" in notebook.good(cell(RUN + " --target gen4"))
    assert " on trn2:" in notebook.good(cell(RUN))


def test_views_are_shown_as_asked(notebook: Notebook):
    text = notebook.good(cell(RUN + " --show memory,ir --target trn2"))
    assert text.index("kernel add on trn2") < text.index("bytes/partition")
    assert "total time" not in text
    assert "total time" in notebook.good(cell(RUN))
    assert len(notebook.good(cell(RUN + " --show none")).splitlines()) == 1


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("report", "bound by"),
        ("ir", "return %out"),
        ("layout", "0 to 127"),
        ("memory", "cell, line 5"),
        ("timeline", "modelled from public documents"),
    ],
)
def test_each_view_has_a_text(notebook: Notebook, view: str, words: str):
    assert words in notebook.good(cell(RUN + f" --show {view}"))


def test_quiet_prints_nothing(notebook: Notebook):
    assert notebook.good(cell(RUN + " --check 'a + b' --quiet")) == ""
    assert notebook.good(cell("--quiet")) == ""


def test_what_does_not_fit_is_an_error_or_a_finding(notebook: Notebook):
    notebook.good("x = np.ones((128, 70_000), np.float32)")
    assert isinstance(notebook.bad(cell("--run 'large(x)'", LARGE)).error, OverCapacity)
    text = notebook.good(cell("--run 'large(x)' --capacity finding --check x", LARGE))
    assert "capacity:" in text


def test_strict_makes_findings_errors(notebook: Notebook):
    assert "uninitialized:" in notebook.good(cell("--run 'unwritten(a)'", UNWRITTEN))
    outcome = notebook.bad(cell("--run 'unwritten(a)' --strict", UNWRITTEN))
    assert isinstance(outcome.error, UninitializedRead)
    assert "--> cell [4], line 5" in outcome.text


@pytest.mark.parametrize(
    "quiet", ["--quiet", "--show none", "--show timeline", "--show report", ""]
)
def test_serious_findings_are_printed_whatever_is_shown(notebook: Notebook, quiet: str):
    text = notebook.good(cell(f"--run 'unwritten(a)' {quiet}", UNWRITTEN))
    assert "cell, line 5: uninitialized: " in text
    if quiet == "--quiet":
        assert [line[:8] for line in text.splitlines()] == [
            "cell, li",
            "   5 |  ",
            "     |  ",
            "  help: ",
        ]
    line = notebook.good(f"%nki --run 'unwritten(a)' {quiet}")
    assert "cell, line 5: uninitialized: " in line
    notebook.good("x = np.ones((128, 70_000), np.float32)")
    text = notebook.good(cell(f"--run 'large(x)' --capacity finding {quiet}", LARGE))
    assert "capacity: " in text


def test_serious_findings_of_every_run_are_printed_once(notebook: Notebook):
    both = UNWRITTEN.lstrip() + UNWRITTEN.replace("unwritten", "other")
    decorated = both.replace("def ", "@nki.jit\ndef ")
    calls = "--run '(unwritten(a), unwritten(b), other(a), add(a, b))' --quiet"
    notebook.good(cell())
    text = notebook.good(cell(calls, decorated))
    assert text.count("uninitialized: ") == 2


OLDER = """
def older(x):
    tile = nl.load(x)
    for _ in nl.dynamic_range(2):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


@pytest.mark.usefixtures("nki_0_6")
def test_other_findings_of_runs_without_a_report_are_printed(notebook: Notebook):
    deprecated = "nl.dynamic_range is deprecated"
    notebook.good(cell("", ADD))
    both = cell("--run '(older(a), add(a, a))'", OLDER)
    assert notebook.good(both).count(deprecated) == 1
    assert notebook.good(cell("--run '(add(a, a), older(a))'", OLDER)).count(deprecated) == 1
    assert notebook.good(cell("--run '(older(a), older(a))'", OLDER)).count(deprecated) == 1
    others = ("--show timeline", "--show report,layout", "--show findings", "--check 'a + 2'")
    for quiet in ("--quiet", "--show none", *others):
        text = notebook.good(cell(f"--run 'older(a)' {quiet}", OLDER))
        assert text.count(deprecated) == 1
    outcome = notebook.bad(cell("--run 'older(a)' --check a", OLDER))
    assert outcome.text.count(deprecated) == 1


@pytest.mark.parametrize("shown", ["", "--show report", "--show none", "--show layout", "--quiet"])
def test_a_serious_finding_is_printed_once(notebook: Notebook, shown: str):
    text = notebook.good(cell(f"--run 'unwritten(a)' {shown}", UNWRITTEN))
    assert text.count("uninitialized: ") == 1
    both = UNWRITTEN.lstrip() + UNWRITTEN.replace("unwritten", "other")
    body = both.replace("def ", "@nki.jit\ndef ")
    text = notebook.good(cell(f"--run '(unwritten(a), other(a))' {shown}", body))
    assert text.count("uninitialized: ") == 2


def test_serious_findings_are_printed_when_the_check_fails(notebook: Notebook):
    outcome = notebook.bad(cell("--run 'unwritten(a)' --check a --quiet", UNWRITTEN))
    assert isinstance(outcome.error, CheckFailed)
    assert "uninitialized: " in outcome.text


def test_findings_are_no_warnings_on_stderr(notebook: Notebook, recwarn: pytest.WarningsRecorder):
    notebook.good(cell("--run 'unwritten(a)'", UNWRITTEN))
    assert [str(w.message) for w in recwarn.list] == []


def test_a_kernel_called_by_the_cell_itself_is_shown(notebook: Notebook):
    text = notebook.good(cell(body=ADD + "one = add(a, b)\ntwo = add(one, b)\n"))
    assert text.startswith("2 kernel runs; the last: add on trn3:")
    np.testing.assert_array_equal(notebook["two"], notebook["a"] + notebook["b"] + notebook["b"])


def test_a_kernel_of_an_earlier_cell_is_run_by_the_line_magic(notebook: Notebook):
    notebook.good(cell())
    text = notebook.good("%nki --run 'add(a, b)' --check 'a + b' --target trn2 --show none")
    assert text.startswith("add on trn2:")
    assert "matches:" in text


def test_other_ways_of_calling_count_as_runs(notebook: Notebook):
    notebook.good("import nki_lab")
    for call in (
        "add[1](a, b)",
        "nki.simulate(add)(a, b)",
        "nki_lab.run(add, a, b)",
        "add(a, b) * 1",
    ):
        notebook.good(cell(f"--run '{call}' --check 'a + b' --quiet"))


def test_an_expression_that_runs_no_kernel_is_refused(notebook: Notebook):
    outcome = notebook.bad(cell("--run 'a + b'"))
    assert isinstance(outcome.error, NoKernel)
    assert "--run 'add(a)'" in outcome.text


def test_editing_a_kernel_is_honest(notebook: Notebook):
    body = "def plus(x):\n    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
    body += "    nl.store(out, nl.add(nl.load(x), 10.0))\n    return out\n"
    options = "--run 'plus(a)' --check 'a + 10' --quiet"
    notebook.good(cell(options, body))
    edited = notebook.bad(cell(options, body.replace("10.0", "11.0")))
    assert isinstance(edited.error, CheckFailed)
    assert "max abs error 1," in edited.text


def test_a_kernel_follows_its_helpers_and_globals(notebook: Notebook):
    body = "def shift(x):\n    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
    body += "    nl.store(out, nl.multiply(step(nl.load(x)), FACTOR))\n    return out\n"
    notebook.good(
        "import nki.language as nl\nFACTOR = 2.0\ndef step(t):\n    return nl.add(t, 1.0)"
    )
    notebook.good(cell("--run 'shift(a)' --check '(a + 1) * 2' --quiet", body))
    notebook.good("def step(t):\n    return nl.add(t, 5.0)")
    notebook.good("%nki --run 'shift(a)' --check '(a + 5) * 2' --quiet")
    notebook.good("FACTOR = -3.0")
    notebook.good("%nki --run 'shift(a)' --check '(a + 5) * -3' --quiet")
    np.testing.assert_allclose(
        notebook["shift"](notebook["a"]), (notebook["a"] + 5) * -3, rtol=1e-6
    )
