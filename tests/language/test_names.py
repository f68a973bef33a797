"""Tests that nki_lab.language has exactly the names and signatures of nki.language."""

import re
from pathlib import Path

import pytest

import nki_lab.language as nl
from nki_lab.errors import OutsideKernel, UnknownName
from tests.official_api import ATTRIBUTES, FUNCTIONS, NAMES, signature_of


def test_the_public_names_are_the_official_ones():
    assert sorted(nl.__all__) == NAMES["nki.language"]
    assert [name for name in nl.__all__ if getattr(nl, name, None) is None] == []


@pytest.mark.parametrize("name", FUNCTIONS["nki.language"])
def test_signature(name):
    assert signature_of(getattr(nl, name)) == FUNCTIONS["nki.language"][name]


@pytest.mark.parametrize("name", FUNCTIONS["nki.language"])
def test_docstring(name):
    first = getattr(nl, name).__doc__.splitlines()[0]
    assert first.endswith((".", ";"))
    assert len(first) <= 80


TESTS = [
    *Path(__file__).parent.glob("test_*.py"),
    Path(__file__).parent.parent / "simulator/test_device_loops.py",
    Path(__file__).parent.parent / "ir/test_tensor.py",
]


@pytest.mark.parametrize("name", FUNCTIONS["nki.language"])
def test_a_test_calls_every_function(name):
    """By its name, or as a row of a table."""
    texts = [t.read_text("utf-8") for t in TESTS if t.name != Path(__file__).name]
    written = re.compile(rf"\bnl\.{name}\b|\"{name}\"")
    assert any(written.search(text) for text in texts)


@pytest.mark.parametrize(
    ("memory", "facts"),
    [
        (nl.sbuf, "is_sbuf is_on_chip"),
        (nl.psum, "is_psum is_on_chip"),
        (nl.hbm, "is_hbm"),
        (nl.private_hbm, "is_hbm"),
        (nl.shared_hbm, "is_hbm"),
    ],
)
def test_questions_about_a_memory(memory, facts):
    asked = {f.__name__: f(memory) for f in (nl.is_sbuf, nl.is_psum, nl.is_hbm, nl.is_on_chip)}
    assert {name for name, yes in asked.items() if yes} == set(facts.split())
    assert all(type(yes) is bool for yes in asked.values())


def test_tile_sizes():
    names = sorted(n for n in dir(type(nl.tile_size)) if not n.startswith("_"))
    assert names == ATTRIBUTES["nki.language"]["tile_size"]


def test_dtypes_are_strings():
    assert nl.bfloat16 == "bfloat16"
    assert str(nl.bool_) == "bool_"
    assert nl.DType is type(nl.float32)
    assert isinstance(nl.float32, str)


def test_memories():
    assert nl.hbm is nl.private_hbm is nl.MemoryRegion.private_hbm
    assert {m.name for m in nl.MemoryRegion} == {"sbuf", "psum", "private_hbm", "shared_hbm"}


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("sofmax", "did you mean `softmax`"),
        ("float3", "did you mean `float32`"),
        ("arange", "slices"),
        ("par_dim", "axis 0"),
        ("mgrid", "slices"),
    ],
)
def test_unknown_names_are_answered(name, help):
    with pytest.raises(UnknownName, match=f"(?s)has no `{name}`.*{help}"):
        getattr(nl, name)
    assert not hasattr(nl, name)


def test_names_that_published_kernels_use_undocumented():
    assert nl.range is range
    assert nl.bool is nl.bool_


@pytest.mark.parametrize("name", ["average", "bypass", "prelu"])
def test_values_for_op_cannot_be_called(name):
    with pytest.raises(OutsideKernel, match=rf"nl\.{name} is only a value"):
        getattr(nl, name)(1)
