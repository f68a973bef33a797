"""Tests that the count of official names finds what is missing, not modelled or has other parameters."""

import pytest

import nki_lab.language as nl
from nki_lab.api import isa
from nki_lab.api.official import coverage, same_signature
from nki_lab.ir.tensor.view import NkiTensor


def missing() -> dict[tuple[str, str], tuple[str, ...]]:
    return {(c.module, c.kind): c.missing for c in coverage()}


def test_every_kind_of_name_is_counted():
    """The numbers are those of the stubs (nki/api/nki/*/__init__.py), and what 0.7 adds."""
    totals = {(c.module, c.kind): c.total for c in coverage()}
    assert totals["nki", "functions"] == 2
    assert totals["nki.isa", "functions"] == 55
    assert totals["nki.isa", "enums"] == 8
    assert totals["nki.isa", "constants and classes"] == 9
    assert totals["nki.language", "functions"] == 107
    assert totals["nki.language", "constants and classes"] + totals["nki.language", "enums"] == 35
    assert totals["nki.language", "NkiTensor methods"] == 20
    assert totals["nki.collectives", "functions"] == 11
    assert all(total > 0 for total in totals.values())


def test_all_names_can_be_used():
    assert {key: names for key, names in missing().items() if names} == {}


def test_another_signature_counts_as_missing(monkeypatch):
    monkeypatch.setattr(nl, "ds", lambda start, count: None)
    monkeypatch.setattr(NkiTensor, "slice", lambda self, dim, start, end, step=2: None)
    found = missing()
    assert found["nki.language", "functions"] == ("ds",)
    assert found["nki.language", "NkiTensor methods"] == ("slice",)


def test_absent_names_and_members_count_as_missing(monkeypatch):
    monkeypatch.delitem(vars(nl), "sin")
    monkeypatch.delattr(NkiTensor, "reinterpret_cast")
    monkeypatch.setattr(isa, "oob_mode", isa.dge_mode)
    monkeypatch.delitem(vars(isa), "VirtualRegister")
    found = missing()
    assert found["nki.language", "functions"] == ("sin",)
    assert found["nki.language", "NkiTensor attributes"] == ("reinterpret_cast",)
    assert found["nki.isa", "enums"] == ("oob_mode",)
    assert found["nki.isa", "constants and classes"] == ("VirtualRegister",)


def test_an_instruction_without_a_meaning_counts_as_missing(monkeypatch):
    monkeypatch.delitem(isa.max8.facets, "semantics")
    assert missing()["nki.isa", "functions"] == ("max8",)


@pytest.mark.parametrize(
    ("official", "same"),
    [
        ("a b=1 *rest", True),
        ("a b=... *rest", True),
        ("a b=2 *rest", False),
        ("b a=1 *rest", False),
        ("a b=1 rest", False),
        ("a b=1 *rest c=3", False),
    ],
)
def test_parameters_their_order_and_defaults_are_compared(official, same):
    def function(a, b=1, *rest): ...

    assert same_signature(function, official) is same
