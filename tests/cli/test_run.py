"""Tests that `nki-lab run` runs kernels of files as they are, and fails clearly where it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nki_lab.profiler.profile import Profile
from tests.hardware.neffs import write_neff
from tests.profiler import captures

ROOT = Path(__file__).parents[2]
TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n"
ADD = (
    HEAD
    + """
@nki.jit
def add(a, b, factor=1.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.add(nl.load(a), nl.load(b)), factor))
    return out


def reference(a, b, factor):
    return (a.astype(np.float32) + b.astype(np.float32)) * factor
"""
)
ARRAYS = ("--input", "a=randn:128x24", "--input", "b=randn:128x24")


def test_a_kernel_is_run_and_checked(command, write):
    write("add.py", ADD)
    done = command("run", "add.py:add", *ARRAYS, "--check", "a + b", "--target", "trn2")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("add on trn2: ")
    assert lines[0].endswith(" us modelled")
    assert lines[1].startswith("matches: max abs error 0,")
    assert "bound by" in done.stdout
    assert done.stderr == ""


def test_literals_and_names_of_the_file_may_be_used(command, write):
    write("add.py", ADD)
    done = command(
        "run", "add.py", *ARRAYS, "--arg", "factor=-2.5", "--check", "reference(a, b, factor)"
    )
    assert "matches:" in done.stdout


def test_dtypes_and_operators_are_named(command, write):
    kernel = """
def changed(x, op, dtype):
    tile = nl.ndarray(x.shape, dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, nl.load(x), op, 3.0)
    out = nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""
    write("f.py", HEAD + kernel)
    done = command(
        "run", "f.py:changed", "--input", "x=randn:64x8", "--arg", "op=nl.multiply", "--arg", "dtype=nl.int16",
        "--check", "np.rint(3 * x)", "--show", "none",
    )  # fmt: skip
    assert "matches:" in done.stdout, done.output


def test_every_dtype_is_carried(command, write):
    write("add.py", ADD)
    for dtype in ("bf16", "fp16", "f8e5m2", "int8", "int32", "uint8"):
        done = command(
            "run", "add.py:add", "--input", f"a=randint(0,4):128x8:{dtype}",
            "--input", f"b=randint(0,4):128x8:{dtype}", "--check", "(a + b).astype(a.dtype)", "--show", "none",
        )  # fmt: skip
        assert "matches:" in done.stdout, done.output


def test_a_failed_check_is_exit_code_1(command, write):
    write("add.py", ADD)
    done = command("run", "add.py:add", *ARRAYS, "--check", "a - b")
    assert done.exit_code == 1
    assert done.stderr.startswith("error[NKI601]: the result differs in ")
    assert done.stdout.startswith("the result differs in ")
    assert "partitions 0 to 127, elements 0 to " in done.stdout and "worst at" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_seed_changes_the_inputs(command, write):
    body = HEAD + "def show(a):\n    return a\n"
    write("f.py", body)
    texts = set()
    for seed in ("1", "2", "1"):
        done = command(
            "run", "f.py:show", "--input", "a=randn:4x4", "--seed", seed, "--quiet",
            "--check", "print(a.sum()) or a",
        )  # fmt: skip
        assert done.exit_code == 0
        texts.add(done.stdout)
    assert len(texts) == 2


def test_a_call_may_be_written_out(command, write):
    write("bump.py", HEAD + "def bump(x):\n    nl.store(x, nl.add(nl.load(x), 1.0))\n")
    done = command(
        "run", "bump.py:bump", "--input", "x=arange:128x4", "--run", "(bump(x), x)[1]",
        "--check", "x + 1", "--show", "none",
    )  # fmt: skip
    assert "matches: max abs error 0" in done.stdout
    done = command(
        "run",
        "bump.py:bump",
        "--input",
        "a=arange:128x4",
        "--run",
        "(bump(a), a)[1]",
        "--check",
        "a + 1",
    )
    assert (
        "matches: max abs error 0" in done.stdout
    )  # names of an expression need not be parameters
    done = command("run", "bump.py:bump", "--input", "x=arange:128x4", "--run", "x")
    assert done.exit_code == 1
    assert "--run called no kernel" in done.stderr


def test_the_file_may_choose_the_target_and_the_option_wins(command, write):
    write("add.py", f"import os\nos.environ['{TARGET}'] = 'trn1'\n" + ADD)
    assert "add on trn1" in command("run", "add.py:add", *ARRAYS).stdout
    assert "add on trn2" in command("run", "add.py:add", *ARRAYS, "--target", "trn2").stdout


def test_a_file_imports_its_neighbours(command, write):
    write("neighbour_of_add.py", "FACTOR = 3.0\n")
    text = ADD.replace("factor)", "FACTOR)", 1)
    write("add.py", "from neighbour_of_add import FACTOR\n" + text)
    assert "matches:" in command("run", "add.py:add", *ARRAYS, "--check", "(a + b) * 3").stdout


def test_a_file_called_like_a_module_does_not_replace_it(command, write):
    write("json.py", ADD)
    assert command("run", "json.py:add", *ARRAYS, "--check", "a + b").exit_code == 0
    assert sys.modules["json"] is json


def test_views_and_silence(command, write):
    write("add.py", ADD)
    shown = command("run", "add.py:add", *ARRAYS, "--show", "ir,memory").stdout
    assert "kernel add on trn3" in shown
    assert "bytes/partition" in shown
    assert command("run", "add.py:add", *ARRAYS, "--quiet").stdout == ""


UNWRITTEN = (
    HEAD
    + """@nki.jit
def k(x):
    t = nl.ndarray(x.shape, x.dtype)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nl.store(out, t)
    return out
"""
)


@pytest.mark.parametrize(
    ("words", "in_report"),
    [
        ((), True),
        (("--show", "report,layout"), True),
        (("--show", "none"), False),
        (("--show", "timeline"), False),
        (("--quiet",), False),
    ],
)
def test_serious_findings_are_told_whatever_is_shown(command, write, words, in_report):
    write("k.py", UNWRITTEN)
    done = command("run", "k.py", "--input", "x=ones:128x4", *words)
    assert done.exit_code == 0
    line = "uninitialized: "
    assert [text.count(line) for text in (done.stdout, done.stderr)] == (
        [1, 0] if in_report else [0, 1]
    )


def test_a_failed_check_and_a_profile_tell_serious_findings(command, write):
    write("k.py", UNWRITTEN)
    failed = command("run", "k.py", "--input", "x=ones:128x4", "--check", "x")
    assert failed.exit_code == 1
    assert "k.py, line" in failed.stderr and "uninitialized: " in failed.stderr
    profiled = command("profile", "k.py", "--input", "x=ones:128x4")
    assert profiled.exit_code == 0
    assert "uninitialized: " in profiled.stderr
    # As an error does, a finding shows the line and marks what it is about.
    marked = "   9 |     nl.store(out, t)\n     |     ^^^^^^^^^^^^^^^^\n  help: "
    assert marked in failed.stderr and marked in profiled.stderr


def test_a_time_limit_is_kept(command, write):
    write("endless.py", HEAD + "def endless(x):\n    while True:\n        nl.load(x)\n")
    done = command("run", "endless.py:endless", "--input", "x=ones:4x4", "--timeout", "0.3")
    assert done.exit_code == 1
    assert "error[NKI602]: not finished after 0.3 seconds" in done.stderr


def test_strict_and_capacity_act(command, write):
    body = "    t = nl.ndarray(x.shape, nl.float32)\n    out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)\n"
    write("k.py", HEAD + "def k(x):\n" + body + "    nl.store(out, t)\n    return out\n")
    assert command("run", "k.py:k", "--input", "x=ones:128x4").exit_code == 0
    assert "error[NKI401]" in command("run", "k.py:k", "--input", "x=ones:128x4", "--strict").stderr
    large = ("run", "k.py:k", "--input", "x=ones:128x70000", "--show", "none")
    assert "error[NKI301]" in command(*large).stderr
    assert command(*large, "--capacity", "finding").exit_code == 0


OLDER = """
def k(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t, src=t, engine=5)
    for _ in nl.dynamic_range(20):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
    nl.store(out, t)
    return out
"""


@pytest.mark.parametrize("name", ["run", "profile", "compile"])
def test_older_kernels_are_allowed(command, write, name):
    write("k.py", HEAD + OLDER)
    words = (name, "k.py:k", "--input", "x=ones:128x4", "--target", "trn2")
    done = command(*words)
    assert done.exit_code == 1
    assert "error[NKI206]: tensor_copy: engine=5, a raw value of Engine" in done.stderr
    assert "error[NKI120]: nl.dynamic_range is refused since NKI 0.7" in done.stderr
    assert "NKI 0.2 was the last version that took it" in done.stderr
    assert "no version has it beside `nl.load`" in done.stderr
    words += ("--nki", "0.6")
    assert "error[NKI120]" not in command(*words).stderr
    done = command(*words, "--allow", "NKI206")
    assert done.exit_code == 0, done.output
    assert "engine=5, a raw value" in done.output
    assert "nl.dynamic_range is deprecated" in done.output
    if name == "compile":
        assert (
            command("run", "k.nkic", "--input", "x=ones:128x4", "--check", "x + 20").exit_code == 0
        )
    else:
        done = command(*words, "--allow", "NKI206", "--max-trips", "19")
        assert "error[NKI407]" in done.stderr


WRONG_USAGE = [
    (("run",), "Missing argument"),
    (("run", "nix.py:add"), "there is no file nix.py"),
    (("run", "ad.py:add"), "did you mean `add.py`?"),
    (("run", "add.py:ad", *ARRAYS), "did you mean `add`?"),
    (("run", "add.py:add"), "parameter `a` of add has no value"),
    (("run", "add.py:add", *ARRAYS, "--input", "c=ones:2"), "add has no parameter `c`"),
    (("run", "add.py:add", *ARRAYS, "--input", "a=ones:2"), "`a` is given twice"),
    (("run", "add.py:add", *ARRAYS, "--arg", "factor"), "expected NAME=LITERAL"),
    (("run", "add.py:add", *ARRAYS, "--arg", "factor=os"), "`os` is not a Python literal"),
    (("run", "add.py:add", *ARRAYS, "--arg", "factor=nl.bfloat17"), "did you mean `bfloat16`"),
    (
        ("run", "add.py:add", *ARRAYS, "--arg", "factor=nisa.engine.tensr"),
        "there is no `nisa.engine.tensr`",
    ),
    (("run", "add.py:add", "--input", "a=randn:4:q8"), "`q8` is not a dtype"),
    (("run", "add.py:add", "--target", "trn0"), "there is no target `trn0`"),
    (("run", "add.py:add", "--show", "irr"), "did you mean `ir`?"),
    (("run", "add.py:add", "--timeout", "0"), "not a positive number of seconds"),
    (("run", "add.py:add", "--capacity", "x"), "error, finding"),
    (("run", "add.py:add", "--check", "a +"), "invalid syntax"),
    (("run", "add.py:add", "--quiet=1"), "--quiet"),
    (("run", "add.py:add", "--allow", "NKI203"), "NKI206"),
    (("run", "add.py:add", "--max-trips", "0"), "whole number above 0"),
    (("run", "add.py:add", "--strict=1"), "--strict"),
    (("run", "add.py:add", "--seed", "-1"), "--seed"),
    (("run", "add.py:add", "--shwo", "ir"), "No such option"),
    (("rum",), "No such command"),
]


@pytest.mark.parametrize(("words", "text"), WRONG_USAGE)
def test_a_wrong_command_line_is_exit_code_2(command, write, words: tuple[str, ...], text: str):
    write("add.py", ADD)
    done = command(*words)
    assert done.exit_code == 2, done.output
    assert text in done.stderr
    assert "Traceback" not in done.stderr


WRONG_FILES = [
    ("x = (1\n", "k.py:k", "error[NKI116]: this is not Python", "k.py, line 1"),
    ("x = 1 / 0\n", "k.py:k", "ZeroDivisionError: division by zero", "k.py, line 1"),
    ("import sys\nsys.exit(3)\n", "k.py:k", "SystemExit: 3", "k.py, line 2"),
    ("import not_there\n", "k.py:k", "ModuleNotFoundError: No module named 'not_there'", "line 1"),
    ("k = 3\n", "k.py:k", "is not a kernel (its type is int)", "help"),
    (HEAD, "k.py", "k.py holds no kernel", "write @nki.jit above"),
    (
        ADD + ADD.replace("def add", "def plus"),
        "k.py",
        "k.py holds 2 kernels: add, plus",
        "k.py:add",
    ),
    (HEAD + "def k():\n    return 1 / 0\n", "k.py:k", "error[NKI109]: ZeroDivisionError", "line 6"),
    (
        HEAD + "# nki: 0.6\ndef k():\n    global kept\n    kept = 1\n",
        "k.py:k",
        "`global`",
        "line 7",
    ),
]


IN_A_CLASS = (
    HEAD
    + """
class Scale:
    by = -3.0

    @nki.jit
    def kernel(x):
        return scaled(x, 2.0)

    @nki.jit
    def method(self, x):
        return scaled(x, self.by)


def scaled(x, by):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=by)
    nl.store(out, tile)
    return out
"""
)


@pytest.mark.parametrize(
    ("words", "by"),
    [
        (["k.py::Scale.kernel"], 2),
        (["k.py:Scale.kernel"], 2),
        (["k.py:Scale.kernel", "--run", "Scale.kernel(x)"], 2),
        (["k.py", "--run", "Scale().method(x)"], -3),
    ],
)
def test_a_kernel_in_a_class_is_run(command, write, words, by):
    write("k.py", IN_A_CLASS)
    done = command(
        "run", *words, "--input", "x=arange:4x8", "--check", f"np.arange(32.0).reshape(4, 8) * {by}"
    )
    assert done.exit_code == 0, done.output
    assert "matches: max abs error 0" in done.output


def test_a_method_without_its_object_says_how_to_call_it(command, write):
    write("k.py", IN_A_CLASS)
    done = command("run", "k.py:Scale.method", "--input", "x=arange:4x8")
    assert done.exit_code == 2
    assert "--run 'Scale().method(...)'" in done.stderr
    assert "Scale.kernel, Scale.method" in command("run", "k.py").stderr


@pytest.mark.parametrize(("text", "place", "message", "where"), WRONG_FILES)
def test_a_wrong_file_is_exit_code_1(
    command, write, text: str, place: str, message: str, where: str
):
    write("k.py", text)
    done = command("run", place)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert where in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ending", ["json", "parquet", "csv", "pftrace"])
def test_a_stored_profile_is_shown_and_written_in_another_format(command, write, ending: str):
    write("add.py", ADD)
    file = f"add.{ending}"
    made = command("profile", "add.py:add", *ARRAYS, "-o", file)
    assert made.exit_code == 0
    shown = command("profile", file, "-o", "again.json")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[:-1] == made.stdout.splitlines()[:-1]
    assert Profile.load("again.json") == Profile.load(file)


def test_a_stored_profile_takes_no_arguments(command, write):
    write("add.py", ADD)
    assert command("profile", "add.py:add", *ARRAYS, "-o", "add.json").exit_code == 0
    done = command("profile", "add.json", *ARRAYS)
    assert done.exit_code == 2
    assert "add.json is a profile: nothing is run" in done.stderr


def test_a_profile_is_not_made_for_a_file_that_cannot_be_written(command, write):
    write("add.py", ADD)
    done = command("profile", "add.py:add", *ARRAYS, "-o", "add.xlsx")
    assert done.exit_code == 2
    assert "a profile is not written as .xlsx" in done.stderr
    assert "total time" not in done.stdout


def test_a_profile_is_written_and_read_back(command, write, tmp_path: Path):
    write("add.py", ADD)
    done = command(
        "profile", "add.py:add", *ARRAYS, "-o", "add.json", "--perfetto", "trace.json", "--target", "trn2"
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "total time" in done.stdout
    profile = Profile.load(tmp_path / "add.json")
    assert (profile.name, profile.target.name, profile.is_simulation) == ("add", "trn2", True)
    assert f"{profile.total_ns / 1000:,.3f} us" in done.stdout
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_folder_that_is_missing_is_no_traceback(command, write):
    write("add.py", ADD)
    done = command("profile", "add.py:add", *ARRAYS, "-o", "nowhere/add.json")
    assert done.exit_code == 1
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_program_runs_as_a_process(tmp_path: Path):
    (tmp_path / "add.py").write_text(ADD)
    code = "from nki_lab.cli.main import app; app()"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "add.py:add", *ARRAYS, "--check", "a + 2 * b"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.startswith("the result differs in ")
    assert done.stderr.startswith("error[NKI601]")


def test_a_folder_of_neuron_explorer_is_shown(command, write, tmp_path: Path):
    write("add.py", ADD)
    made = command("profile", "add.py:add", *ARRAYS, "--target", "trn2", "-o", "add.parquet")
    assert made.exit_code == 0
    (tmp_path / "add.parquet" / "profile.json").unlink()
    refused = command("profile", "add.parquet")
    assert refused.exit_code == 1
    assert "does not say which chip it is of" in refused.stderr
    shown = command("profile", "add.parquet", "--target", "trn2")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[2:5] == made.stdout.splitlines()[2:5]


def test_a_measured_profile_is_imported_and_compared_with_the_model(command, write, tmp_path: Path):
    write("add.py", ADD)
    assert (
        command("profile", "add.py:add", *ARRAYS, "--target", "trn2", "-o", "a.json").exit_code == 0
    )
    found = captures.document(Profile.load(tmp_path / "a.json"), 1000)
    (tmp_path / "ntff.json").write_text(json.dumps(found))
    shown = command("profile", "--import", "ntff.json", "-o", "again.parquet")
    assert shown.exit_code == 0 and "measured on trn2.48xlarge, core 3" in shown.stdout
    assert Profile.load(tmp_path / "again.parquet").origin.startswith("measured on trn2.48xlarge")
    both = command("profile", "add.py:add", *ARRAYS, "--target", "trn2", "--import", "ntff.json")
    assert both.exit_code == 0 and "both take the same time" in both.stdout
    refused = command("profile", "--import", "ntff.json", *ARRAYS)
    assert refused.exit_code == 2 and "--input has no effect" in refused.stderr
    assert "nothing is named" in command("profile").stderr
    missing = command("profile", "--import", "none.json")
    assert missing.exit_code == 1 and "none.json cannot be read" in missing.stderr


def test_a_neff_is_shown_beside_a_kernel(command, write, tmp_path: Path):
    write("add.py", ADD)
    write_neff(tmp_path / "k.neff")
    alone = command("neff", "k.neff")
    assert alone.exit_code == 0 and "nki_lab" not in alone.stdout and "213" not in alone.stdout
    beside = command("neff", "k.neff", "add.py:add", *ARRAYS)
    assert beside.exit_code == 0 and "nki_lab" in beside.stdout
    assert "none is named" in command("neff", "k.neff", *ARRAYS).stderr


def test_the_document_has_what_was_asked(command, write):
    write("add.py", ADD)
    words = ("--json", "--bench", "--analyse", "stalls,path", "--what-if", "free-loads")
    done = command("run", "add.py:add", *ARRAYS, *words, "--save", "kept.json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["analyses"]) == ["stalls", "path"]
    assert document["what_if"]["changes"] == ["free-loads"]
    assert document["benchmark"]["latency_ns"] == document["total_ns"]
    assert document["saved"] == ["kept.json"]


def test_the_document_says_that_the_check_failed(command, write):
    write("add.py", ADD)
    done = command("run", "add.py:add", *ARRAYS, "--json", "--check", "a - b", "--analyse", "path")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    (check,) = document["checks"]
    assert not check["matches"] and check["max_abs_error"] > 0
    assert document["check_failed"].startswith("the result differs in")
    assert document["check_failed"] in done.stderr and list(document["analyses"]) == ["path"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--quiet", "--json"), "--json cannot be combined with --quiet: nothing would be shown"),
        (("--quiet", "--bench"), "--bench cannot be combined with --quiet"),
        (("--quiet", "--show", "report"), "--show cannot be combined with --quiet"),
        (("--json", "--show", "report"), "--show cannot be combined with --json"),
    ],
)
def test_options_that_cannot_both_act_are_refused(command, write, words, said):
    write("add.py", ADD)
    done = command("run", "add.py:add", *ARRAYS, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("flag", ["--skip=schedule", "--capacity=finding", "--debug"])
def test_options_of_compiling_are_refused_where_that_was_done(command, write, flag):
    write("add.py", ADD)
    assert command("compile", "add.py:add", *ARRAYS, "-o", "add.nkic").exit_code == 0
    done = command("run", "add.nkic", *ARRAYS, flag)
    assert done.exit_code == 2
    assert f"add.nkic is already compiled: {flag.partition('=')[0]} has no effect" in done.stderr


@pytest.mark.parametrize("flag", ["--lnc=2", "--seed=3", "--strict", "--timeout=9", "--run=f(a)"])
def test_options_of_a_run_are_refused_where_a_profile_is_read(command, write, flag):
    write("add.py", ADD)
    assert command("profile", "add.py:add", *ARRAYS, "-o", "p.json").exit_code == 0
    done = command("profile", "p.json", flag)
    assert done.exit_code == 2
    assert f"nothing is run, and {flag.partition('=')[0]} has no effect" in done.stderr
