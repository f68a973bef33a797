"""Is a raw integer taken for the enum member it stands for, and said to be one?"""

from __future__ import annotations

import pytest

from nki_lab.errors import WrongOperand
from nki_lab.ir.builder import Builder
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.enums import dge_mode
from nki_lab.targets import TRN2
from nki_lab.targets.spaces import SHARED_HBM


def copy_with(mode: object) -> Builder:
    builder = Builder(TRN2)
    with builder.active():
        source = builder.allocate((64, 32), "float32", SHARED_HBM, "source", origin="input")
        tile = builder.allocate((64, 32), "float32", name="tile")
        dma_copy(dst=tile, src=source, dge_mode=mode)
    return builder


def test_raw_integer_becomes_the_member_and_a_finding():
    builder = copy_with(3)
    (made,) = builder.body
    assert made.dge_mode is dge_mode.none
    (finding,) = builder.findings.values()
    assert finding.kind == "portability"
    assert "dge_mode=3" in finding.message
    assert finding.help == "write dge_mode=nisa.dge_mode.none"


def test_member_is_no_finding():
    builder = copy_with(dge_mode.none)
    assert not builder.findings
    assert not builder.errors


@pytest.mark.parametrize("value", [9, "none", 3.0])
def test_what_stands_for_no_member_is_an_error(value):
    (error,) = copy_with(value).errors
    assert isinstance(error, WrongOperand) or error.code.startswith("NKI2")
    assert "dge_mode" in error.message
