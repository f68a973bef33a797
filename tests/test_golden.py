"""Tests that the golden fixture notices a difference, and writes only when asked."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)


def run_on(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(f"def test_it(golden):\n    golden({text!r}, 'cases/it.txt')\n")
    return pytester.runpytest_inprocess("-p", "tests.golden", *options)


def test_golden_is_written_on_request_and_compared_after(pytester: pytest.Pytester) -> None:
    file = Path(pytester.path, "cases", "it.txt")

    missing = run_on(pytester, "one\n")
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*it.txt does not exist; write it with --update-golden"])
    assert not file.exists()

    run_on(pytester, "one\n", "--update-golden").assert_outcomes(passed=1)
    assert file.read_text() == "one\n"

    run_on(pytester, "one\n").assert_outcomes(passed=1)
    run_on(pytester, "two\n").assert_outcomes(failed=1)
    assert file.read_text() == "one\n"
