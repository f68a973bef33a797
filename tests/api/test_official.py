"""Tests that the count of official names finds what is missing, not modelled or has other parameters."""

import pytest

import nki_lab.language as nl
from nki_lab.api import isa
from nki_lab.api.official import coverage, same_signature, states
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.versions import version_named


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
    assert totals["nki.collectives", "functions"] == 15
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


# -- the names of each version ---------------------------------------------------------------------------------------


def names_of(version: str) -> dict[str, tuple[str, str]]:
    return {s.name: (s.state, s.note) for s in states(version_named(version))}


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
def test_everything_of_the_versions_with_complete_stubs_can_be_used(version):
    assert {state for state, _ in names_of(version).values()} == {"complete"}


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_of_the_others_only_names_that_went_cannot_be_used(version):
    others = {name for name, (state, _) in names_of(version).items() if state != "complete"}
    assert others == {f"nki.isa.tensor_copy_dynamic_{end}" for end in ("dst", "src")}


def test_each_version_has_the_names_of_its_stubs():
    """The counts are those of the stubs and pages (nki/api/nki of each release)."""
    assert names_of("0.6").keys() - names_of("0.5").keys() == {
        "nki.collectives.all_gather_v",
        "nki.isa.NkiInstruction",
        "nki.isa.NkiInstruction.depends_on",
        "nki.isa.topk",
        "nki.language.DType",
        "nki.language.fori_loop",
        "nki.language.while_loop",
    }
    assert "nki.language.load" not in names_of("0.2") and "nki.language.load" in names_of("0.3")
    state, note = names_of("0.3")["nki.isa.tensor_copy_dynamic_src"]
    assert state == "absent" and "scalar_offset" in note
    assert "nki.isa.tensor_copy_dynamic_src" not in names_of("0.4")


def test_what_was_not_seen_of_0_7_is_said_by_name():
    names = names_of("0.7")
    assert names["nki.isa.scalar_store"] == ("complete", "")
    assert names["nki.isa.activation_reduce"] == (
        "seen in part",
        "not seen: rules behind reading out the registers; they are those of 0.6",
    )
    for name, (state, note) in names.items():  # and what is done about it
        assert (
            state != "seen in part" or "; " in note or " is assumed" in note or " an error" in note
        ), name
    assert not [name for name, (state, _) in names.items() if state == "absent"]
    assert {
        "nki.language.tiles",
        "nki.isa.sendrecv_compute",
        "nki.compiler.CompileConfig",
    } <= names.keys()


def test_an_absent_name_is_absent_in_every_version_that_has_it(monkeypatch):
    monkeypatch.delitem(vars(isa), "topk")
    assert names_of("0.6")["nki.isa.topk"][0] == "absent"
    assert "nki.isa.topk" not in names_of("0.5")
