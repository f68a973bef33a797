"""Each message of the contract becomes its error, with what to do, and with the original text below."""

import re

import pytest

from nki_lab import errors
from nki_lab.errors import DeviceBusy, ProcessDied, ToolchainError
from nki_lab.hardware.diagnose import HARMLESS, MESSAGES, diagnose, without_harmless
from tests.hardware.standins import contract

CONTRACT = contract()["messages"]


def text_of(message) -> str:
    harmless = contract()["harmless"][0]["line"]
    lines = [
        harmless,
        *message["lines"],
        f"{message.get('raises', 'RuntimeError')}: {message.get('error', '')}",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("name", CONTRACT)
def test_a_message_becomes_its_error(name):
    message = CONTRACT[name]
    error = diagnose(text_of(message), tool=message.get("tool", ""), code=message.get("exit", 1))
    assert type(error) is getattr(errors, message["becomes"])
    assert error.help and error.message
    told = [*message["lines"], message.get("error", "")]
    assert any(line and any(line[:150] in note for note in error.notes) for line in told)
    assert not any("CCOM" in note for note in error.notes)


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row.pattern[:30])
def test_every_row_is_reached_by_a_message(row):
    """A row that no message of the contract needs has no page, and belongs out of the table."""
    reached = set()
    for message in CONTRACT.values():
        for line in text_of(message).splitlines():
            reached |= {r.pattern for r in MESSAGES if re.search(r.pattern, line)}
    assert row.pattern in reached
    assert row.source


def test_processes_that_hold_cores_are_named():
    error = diagnose(text_of(CONTRACT["busy"]), users=("process 17 (python other.py)",))
    assert type(error) is DeviceBusy
    assert error.notes[0] == "cores are held by process 17 (python other.py)"
    assert "nc1-nc1; 0 are free" in error.message
    assert not any(
        "held" in n for n in diagnose(text_of(CONTRACT["oob"]), users=("process 17",)).notes
    )


def test_an_unknown_text_is_shown_as_it_is():
    error = diagnose("one\ntwo\n\n", tool="neuron-explorer", code=3)
    assert type(error) is ToolchainError
    assert error.message == "neuron-explorer ended with exit code 3: two"
    assert error.notes == ("neuron-explorer printed: one", "neuron-explorer printed: two")
    assert diagnose("").message == "the process that ran the kernel failed: it printed nothing"


def test_a_signal_is_named():
    error = diagnose("half a li", code=-9)
    assert type(error) is ProcessDied
    assert "SIGKILL" in error.message
    assert error.notes == ("it printed: half a li",)


def test_harmless_lines_go_and_others_stay():
    lines = [row["line"] for row in contract()["harmless"]]
    assert len({next(p for p, _ in HARMLESS if re.search(p, line)) for line in lines}) == len(
        HARMLESS
    )
    assert without_harmless("a\n" + "\n".join(lines) + "\nb\n") == "a\nb\n"
    assert without_harmless("an error about OFI\n") == "an error about OFI\n"
