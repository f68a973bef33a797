"""Tests that `nki-lab profile --analyse`, `--what-if` and `nki-lab compare` agree with the Python API."""

from __future__ import annotations

import pytest

from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.answers import ANALYSES
from nki_lab.profiler.profile import Profile

from .test_run import ADD, ARRAYS


def test_analyses_are_printed_below_the_report(command, write, tmp_path):
    write("add.py", ADD)
    done = command(
        "profile", "add.py:add", *ARRAYS, "--target", "trn2", "-o", "add.json",
        "--analyse", ",".join(ANALYSES), "--what-if", "free-loads,free-stores",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    profile = Profile.load(tmp_path / "add.json")
    for name in ("path", "stalls", "roofline"):  # these need the tables alone
        assert f"\n{ANALYSES[name](profile)}\n" in done.stdout
    assert "what if (" in done.stdout
    assert "if loads took no time and stores took no time: " in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--analyse", "paths"), "`paths` is not one of path, stalls"),
        (("--what-if", "free-load"), "did you mean `free-loads`"),
        (("--what-if", "line=99"), "no instruction comes from line 99"),
    ],
)
def test_what_cannot_be_asked(command, write, options, message):
    write("add.py", ADD)
    done = command("profile", "add.py:add", *ARRAYS, *options)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_question_without_an_answer_loses_no_profile(command, write, tmp_path):
    write("add.py", ADD)
    done = command("profile", "add.py:add", *ARRAYS, "-o", "add.json", "--what-if", "line=99")
    assert done.exit_code == 2 and "no instruction comes from line 99" in done.stderr
    assert Profile.load(tmp_path / "add.json").total_ns > 0


def test_two_profiles_are_compared(command, write, tmp_path):
    write("add.py", ADD)
    for target in ("trn1", "trn2"):
        assert (
            command(
                "profile", "add.py:add", *ARRAYS, "-o", f"{target}.json", "--target", target
            ).exit_code
            == 0
        )
    done = command("compare", "trn1.json", "trn2.json")
    assert done.exit_code == 0, done.output
    first, second = (Profile.load(tmp_path / f"{target}.json") for target in ("trn1", "trn2"))
    assert done.stdout == f"{compare_profiles(first, second)}\n"
    missing = command("compare", "trn1.json", "none.json")
    assert missing.exit_code == 1 and "none.json cannot be read" in missing.stderr
