"""Tests that the names of the older dialect are counted against its stubs (general/nki/api/nki, SDK 2.26)."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from nki_lab import language as nl
from nki_lab.api.official import BETA1_API, beta1_states, coverage, same_signature

NAMES = [(module, name) for module, names in BETA1_API["names"].items() for name in names]


def test_the_data_has_every_name_of_the_stubs():
    """The counts are those of `def`, `class` and assignments in each stub."""
    assert len(NAMES) == 192
    assert Counter(module for module, _ in NAMES) == {
        "neuronxcc.nki": 7,
        "neuronxcc.nki.language": 125,
        "neuronxcc.nki.isa": 46,
        "neuronxcc.nki.compiler": 8,
        "neuronxcc.nki.compiler.sbuf": 3,
        "neuronxcc.nki.compiler.psum": 3,
    }
    assert BETA1_API["pages"].keys() == BETA1_API["names"].keys()


def test_every_kind_of_name_is_counted():
    totals = {(c.module, c.kind): c.total for c in coverage(BETA1_API)}
    assert totals["neuronxcc.nki", "functions"] == 5
    assert totals["neuronxcc.nki.language", "functions"] == 100
    assert totals["neuronxcc.nki.isa", "functions"] == 34
    assert totals["neuronxcc.nki.isa", "enums"] == 5
    assert totals["neuronxcc.nki", "tensor methods"] == 6
    assert totals["neuronxcc.nki.compiler.psum", "functions"] == 3


def test_every_name_has_a_state_and_one_prebuilt_kernel_is_not_public():
    states = {s.name: s for s in beta1_states()}
    assert {f"{module}.{name}" for module, name in NAMES} <= states.keys()
    assert states["neuronxcc.nki.kernels.attention.flash_fwd"].state == "complete"
    isa = states["neuronxcc.nki.kernels.attention.attention_isa_kernel"]  # in no public file
    assert (isa.state, isa.note) == ("absent", "a prebuilt kernel")


@pytest.mark.parametrize(
    ("default", "text", "same"),
    [
        (np.amax, "np.amax", True),
        (np.amin, "np.amax", False),
        (nl.uint8, "np.uint8", True),
        (nl.int8, "np.uint8", False),
        (bool, "bool", True),
        (-3.5, "fp32.min", True),
        (-3, "fp32.min", False),
        (None, "fp32.max", False),
        ((), "()", True),
    ],
)
def test_a_default_that_the_stub_names_is_compared_with_what_the_name_stands_for(
    default, text, same
):
    def function(x, *, op=default): ...

    names = {"fp32": SimpleNamespace(min=-3.5)}
    assert same_signature(function, f"x * op={text}", names) is same


def test_every_name_of_the_stubs_is_there_with_its_signature():
    absent = [s.name for s in beta1_states() if s.state != "complete"]
    assert all(name.startswith("neuronxcc.nki.kernels.") for name in absent), absent
