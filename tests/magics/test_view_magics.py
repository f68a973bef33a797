"""Tests that the magics that show a run again find it by its name, in a file, or as the last one."""

import json
import re

import numpy as np
import pytest

from nki_lab import errors as e
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES
from nki_lab.views.registry import view_names
from tests.hardware.neffs import write_neff
from tests.magics.notebook import Notebook, cell
from tests.profiler import captures

RUN = cell("--run 'add(a, b)' --quiet --target trn2")


@pytest.fixture
def ran(notebook: Notebook) -> Notebook:
    notebook.good(RUN)
    return notebook


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%nki_ir", "tensor_tensor(dst="),
        ("%nki_ir add_result", "tensor_tensor(dst="),
        ("%nki_layout", "sbuf"),
        ("%nki_profile _nki", "bound by"),
        ("%nki_timeline", "engine or queue"),
        ("%nki_vary", "fastest: dtype="),
        ("%nki_vary add_result target=trn2,trn1 dtype=float32,nl.bfloat16", "trn1    bfloat16"),
        ("%nki_vary add_result target=[trn1,trn2] dtype=[nl.bfloat16]", "trn1    bfloat16"),
        ("%nki_summary", "total_time"),
        ("%nki_compare add_result _nki", "both take the same time"),
    ],
)
def test_the_run_is_shown_again(ran: Notebook, line: str, words: str):
    assert words in ran.good(line)


def test_the_summary_has_the_numbers_of_the_profile_with_their_units(ran: Notebook):
    text = ran.good("%nki_summary")
    rows = re.findall(r"^  (\w+) +([\d.,e+-]+)(?: (\w+))?$", text, re.MULTILINE)
    zeros = re.findall(
        r"\w+", " ".join(re.findall(r"^  0: (.*(?:\n     .*)*)", text, re.MULTILINE))
    )
    expected = ran["add_result"].profile.summary
    assert sorted([name for name, _, _ in rows] + zeros) == sorted(expected)
    assert {name: expected[name] for name in zeros} == dict.fromkeys(zeros, 0)
    for name, number, unit in rows:
        assert float(number.replace(",", "")) == pytest.approx(expected[name], rel=1e-5)
        kind = TABLES["Summary"][name].unit
        assert unit == {"-": "", "B": "bytes"}.get(kind, kind)
    found = {name: (number, unit) for name, number, unit in rows}
    assert found["hbm_read_bytes"] == (f"{2 * 128 * 24 * 4:,}", "bytes")
    assert found["total_time"][1] == "s"
    ends = {line.index(number) + len(number) for line in text.splitlines()
            for number in re.findall(r"^  \w+ +([\d.,e+-]+)", line)}  # fmt: skip
    assert len(ends) == 1, "numbers are not aligned"


@pytest.mark.parametrize("name", ["p.json", "p.csv", "p.pftrace", "a name with spaces.json"])
def test_a_stored_profile_is_shown_and_compared(ran: Notebook, tmp_path, monkeypatch, name: str):
    monkeypatch.chdir(tmp_path)
    ran["add_result"].profile.save(name)
    quoted = f"'{name}'" if " " in name else name
    for magic in ("%nki_timeline", "%nki_profile"):
        assert ran.good(f"{magic} {quoted}") == ran.good(magic)
    assert ran.good(f"%nki_summary {quoted}") == ran.good("%nki_summary")
    assert ran.good(f"%nki_compare {quoted} add_result").count("add on trn2, modelled") == 2


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("%nki_ir add_resul", e.UsageError, "did you mean `add_result`?"),
        ("%nki_ir add_result _nki", e.UsageError, "takes one run, found add_result, _nki"),
        ("%nki_ir a", e.UsageError, "found ndarray, expected a run"),
        ("%nki_ir 'open", e.UsageError, "close the quotes"),
        ("%nki_compare add_result", e.UsageError, "takes two runs, found 1"),
        ("%nki_timeline nothing.json", e.UsageError, "neither a run in a variable nor a file"),
        ("%nki_timeline damaged.json", e.BadFile, "damaged.json"),
        ("%nki_ir stored.json", e.UsageError, "needs the program of a run"),
        ("%nki_timeline .", e.BadFile, ". is not a profile"),
        ("%nki_vary dtype=", e.UsageError, "a value of dtype is missing"),
        ("%nki_vary dtype=[]", e.UsageError, "a value of dtype is missing"),
        ("%nki_vary dtype=nl.float32,,nl.bfloat16", e.UsageError, "a value of dtype is missing"),
        ("%nki_vary dtype=[nl.float32,nl.bfloat16", e.UsageError, "holds no values of dtype"),
        ("%nki_vary dtype=str(3)", e.UsageError, "`str(3)` is not a value for dtype"),
        ("%nki_vary target=trn1 target=trn2", e.UsageError, "target is given twice"),
    ],
)
def test_what_is_no_run_is_an_error(ran: Notebook, tmp_path, monkeypatch, line, kind, words):
    monkeypatch.chdir(tmp_path)
    ran["add_result"].profile.save("stored.json")
    (tmp_path / "damaged.json").write_bytes((tmp_path / "stored.json").read_bytes()[:500])
    outcome = ran.bad(line)
    assert isinstance(outcome.error, kind)
    assert words in outcome.text


def test_a_measured_profile_and_a_neff_are_shown(ran: Notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    captures.renamed(_trace(tmp_path, ran["add_result"].profile), "ntff.pftrace")
    write_neff(tmp_path / "k.neff")
    assert "does not say which chip" in ran.bad("%nki_timeline ntff.pftrace").text
    assert "measured" in ran.good("%nki_timeline ntff.pftrace --target trn2")
    assert "measured on trn2" in ran.good(
        "%nki_profile ntff.pftrace --target trn2 --from 0 --to 3000"
    )
    assert "no file is named" in ran.bad("%nki_timeline add_result --target trn2").text
    for line in ("%neff_layout k.neff", "%neff_layout k.neff add_result"):
        shown = ran.good(line)
        assert "official" in shown and "nki_lab" in shown and "not run" in shown
    assert "found 3 words" in ran.bad("%neff_layout k.neff add_result a").text
    assert "not a NEFF" in ran.bad("%neff_layout ntff.pftrace").text


def _trace(folder, profile: Profile):
    (folder / "made.pftrace").write_bytes(captures.trace(profile))
    return folder / "made.pftrace"


def test_nothing_has_run(notebook: Notebook):
    assert isinstance(notebook.bad("%nki_ir").error, e.NoKernel)


# -- options of %%nki that are about a run ---------------------------------------------------------------------------


def test_a_run_is_compared_with_another_one(ran: Notebook):
    before = ran["add_result"].profile.total_ns
    text = ran.good(cell("--run 'add(a, b)' --target trn1 --show none --compare add_result"))
    after = ran["add_result"].profile.total_ns
    assert "trn1" in text and "trn2" in text
    assert f"{before / 1000:,.3f}" in text and f"{after / 1000:,.3f}" in text
    outcome = ran.bad(cell("--run 'add(a, b)' --compare 3"))
    assert isinstance(outcome.error, e.UsageError) and "found int, expected a run" in outcome.text


def test_the_times_of_one_call_and_of_many(notebook: Notebook):
    text = notebook.good(cell("--run 'add(a, b)' --show none --bench"))
    found = notebook["add_result"].benchmark()
    assert f"{found.latency_ns / 1000:,.3f} us for one call" in text
    assert found.latency_ns == notebook["add_result"].profile.total_ns


def test_the_tolerance_of_a_check_may_be_given(notebook: Notebook):
    off = "--run 'add(a, b)' --show none --check '(a + b) * 1.01'"
    assert notebook.bad(cell(off)).code == e.CheckFailed.code
    assert "rtol 0.02" in notebook.good(cell(f"{off} --rtol 0.02"))
    assert notebook.bad(cell(f"{off} --rtol 0 --atol 0.0001")).code == e.CheckFailed.code
    assert "atol 0.1" in notebook.good(cell(f"{off} --rtol 0 --atol 0.1"))


def test_a_run_is_kept_in_files(notebook: Notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = notebook.good(
        cell("--run 'add(a, b)' --show none --save run.json,page.html,add.nkic,t.pftrace")
    )
    total = notebook["add_result"].profile.total_ns
    assert Profile.load("run.json").total_ns == Profile.load("t.pftrace").total_ns == total
    assert "<html" in (tmp_path / "page.html").read_text()
    assert text.count("written to") == 4
    notebook.good("import nki_lab; again = nki_lab.load('add.nkic')(a, b)")
    np.testing.assert_array_equal(notebook["again"], notebook["a"] + notebook["b"])
    outcome = notebook.bad(cell("--run 'add(a, b)' --save nowhere/run.json"))
    assert isinstance(outcome.error, e.BadFile)


def test_a_run_as_a_document(notebook: Notebook):
    text = notebook.good(cell("--run 'add(a, b)' --check 'a + b' --json"))
    found = json.loads(text)
    result = notebook["add_result"]
    assert (found["kernel"], found["total_ns"]) == ("add", result.profile.total_ns)
    assert found["checks"][0]["matches"] and found["is_simulation"]
    assert found["summary"]["hbm_read_bytes"] == result.profile.summary["hbm_read_bytes"]
    assert found["outputs"] == [{"shape": [128, 24], "dtype": "float32"}]


def test_a_document_of_a_run_whose_check_fails(notebook: Notebook):
    outcome = notebook.bad(cell("--run 'add(a, b)' --check 'a - b' --json"))
    assert isinstance(outcome.error, e.CheckFailed)
    found, _ = json.JSONDecoder().raw_decode(outcome.text)
    assert [check["matches"] for check in found["checks"]] == [False]
    assert found["check_failed"] == outcome.error.message


TOO_FAR = """\
def far(x, index):
    t = nl.load(index)
    out = nl.ndarray((1, 24), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray((1, 24), dtype=x.dtype, buffer=nl.sbuf)
    number = nisa.register_alloc()
    nisa.register_load(number, t)
    nisa.dma_copy(row, x.select(0, number).reshape((1, 24)))
    nl.store(out, row)
    return out
"""


@pytest.mark.parametrize("views", ["stepper", "report"])
def test_a_failure_says_how_to_step_up_to_it(notebook: Notebook, views: str):
    notebook.good("import numpy as np, nki_lab; at = np.array([[900]], np.int32)")
    outcome = notebook.bad(f"%%nki --run 'far(a, at)' --show {views}\n{TOO_FAR}")
    assert isinstance(outcome.error, e.AddressOutOfRange)
    assert ("nki_lab.step(" in outcome.text) == (views == "stepper")
    notebook.good("steps = nki_lab.step(far, a, at)")
    assert isinstance(notebook["steps"].error, e.AddressOutOfRange)


def test_the_number_of_cores(notebook: Notebook):
    code = "import nki.language as nl\n"
    body = (
        "def cores(x):\n"
        "    out = nl.ndarray((2, 4, 8), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.load(x)\n"
        "    for k in range(2 if nl.num_programs() == 1 else 1):\n"
        "        nl.store(out[nl.program_id(0) + k] if nl.num_programs() > 1 else out[k], t)\n"
        "    return out\n"
    )
    notebook.good(code + "import numpy as np\nx = np.ones((4, 8), np.float32)")
    run = "%%nki --run 'cores(x)' --check 'np.ones((2, 4, 8))' --show none --target trn2"
    for lnc, others in (("", 0), (" --lnc 1", 0), (" --lnc 2", 1)):
        notebook.good(f"{run}{lnc}\n{body}")
        assert len(notebook["cores_result"].others) == others
    notebook.good(f"{run.replace('cores(x)', 'cores[1](x)')} --lnc 2\n{body}")
    assert len(notebook["cores_result"].others) == 0, "what the call says wins"
    assert isinstance(notebook.bad(f"{run} --lnc 3\n{body}").error, e.UnknownOption)
    outcome = notebook.bad(f"{run.replace('trn2', 'trn1')} --lnc 2\n{body}")
    assert isinstance(outcome.error, e.NotOnTarget)


LONG = """
@nki.jit
def long(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for n in range(60):
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=f"t{n}")
        nisa.tensor_scalar(dst=other, data=tile, op0=nl.add, operand0=float(n))
        product = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum, name=f"p{n}")
        nisa.nc_matmul(dst=product, stationary=other, moving=other)
        nisa.tensor_copy(dst=tile, src=product)
    nl.store(out, tile)
    return out
"""
CALL = "--run 'long(np.full((32, 32), 0.01, np.float32))' --target trn2"


@pytest.mark.parametrize("view", view_names())
def test_no_view_of_a_long_kernel_has_40_lines(notebook: Notebook, view: str):
    told = notebook.good(f"%%nki {CALL} --show {view}\n{LONG}").rstrip("\n").split("\n")
    assert len(told) < 40
    if view in ("ir", "timeline", "layout", "memory"):
        assert len(told) > 20, "it is too short for this test"
    text = repr(notebook["long_result"].show(view))
    assert len(text.split("\n")) < 40


def test_no_magic_on_a_long_kernel_prints_40_lines(notebook: Notebook):
    notebook.good(f"%%nki {CALL} --quiet\n{LONG}")
    for magic in ("ir", "layout", "profile", "timeline", "vary", "compare long_result"):
        text = notebook.good(f"%nki_{magic} long_result").rstrip("\n")
        assert 1 < len(text.split("\n")) < 40, magic
    told = notebook.good("%nki_summary")
    assert all(name in told for name in notebook["long_result"].profile.summary)  # none is cut off
