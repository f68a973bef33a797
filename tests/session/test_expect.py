"""Tests that --expect accepts the error it names, and nothing else."""

import pytest

from nki_lab.errors import (
    ErrorNotRaised,
    KernelErrors,
    NkiError,
    RuleBroken,
    TensorArgument,
    UnknownOption,
    WrongCall,
    WrongOperand,
)
from nki_lab.session.expect import expected
from nki_lab.session.reading import parse_line
from nki_lab.source import Span


def cell(line: str, error: BaseException | None = None) -> None:
    """Do what a cell with these options does when it ends with `error`."""
    with expected(parse_line("%%nki", line), lambda word, column, width: (Span("cell", 1),)):
        if error is not None:
            raise error


@pytest.mark.parametrize("name", ["NKI107", "TensorArgument", "NKI100", "LanguageError", "NKI000"])
def test_the_error_by_code_by_class_and_by_family_is_printed(name: str, capsys):
    cell(f"--expect {name}", TensorArgument("256 partitions", help="split it"))
    assert capsys.readouterr().out == "error[NKI107]: 256 partitions\n  help: split it\n"


def test_quiet_prints_nothing(capsys):
    cell("--quiet --expect NKI107", TensorArgument("256 partitions"))
    assert capsys.readouterr().out == ""


def test_no_error_is_an_error_at_the_option():
    with pytest.raises(ErrorNotRaised, match="NKI107 TensorArgument was expected") as caught:
        cell("--expect NKI107")
    assert caught.value.span == Span("cell", 1)


@pytest.mark.parametrize("error", [RuleBroken("free size"), NkiError("own")])
def test_another_error_goes_on_and_says_what_was_expected(error: NkiError, capsys):
    with pytest.raises(type(error)) as caught:
        cell("--expect NKI107", error)
    assert caught.value is error
    assert "note: NKI107 TensorArgument was expected here" in str(error)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("error", [ValueError("own"), KeyboardInterrupt()])
def test_what_is_no_error_of_ours_goes_on(error: BaseException):
    with pytest.raises(type(error)):
        cell("--expect NKI000", error)


def test_of_several_errors_each_must_be_of_the_kind(capsys):
    several = KernelErrors([RuleBroken("free size"), WrongCall("no `op`")])
    for name in ("NKI001", "NKI200"):
        cell(f"--expect {name}", several)
        assert "2 errors in this kernel" in capsys.readouterr().out
    for name in ("NKI203", "NKI201"):
        with pytest.raises(KernelErrors):
            cell(f"--expect {name}", several)
    cell("--expect WrongOperand", KernelErrors([WrongOperand("x"), WrongOperand("y")]))


def test_without_it_every_error_goes_on():
    with pytest.raises(TensorArgument):
        cell("", TensorArgument("256 partitions"))
    cell("")


@pytest.mark.parametrize(
    ("name", "help"),
    [("NKI999", "did you mean `NKI"), ("RuleBroke", "did you mean `RuleBroken`"), ("''", "code")],
)
def test_only_errors_of_ours_can_be_named(name: str, help: str):
    with pytest.raises(UnknownOption, match="nki_lab has no error") as caught:
        cell(f"--expect {name}")
    assert help in caught.value.help
