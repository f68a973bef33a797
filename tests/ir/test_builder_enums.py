"""Tests that a raw value is taken for the enum member it stands for, and reported."""

from __future__ import annotations

import pytest

from nki_lab.errors import WrongOperand
from nki_lab.ir.building.builder import Builder
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.enums import dge_mode, matmul_perf_mode
from nki_lab.isa.matmul import nc_matmul
from nki_lab.targets import TRN2
from nki_lab.targets.spaces import PSUM, SHARED_HBM


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


def test_a_string_that_is_a_value_becomes_the_member_too():
    """As published kernels pass perf_mode="double_row"."""
    builder = Builder(TRN2)
    with builder.active():
        stationary, moving = (
            builder.allocate((128, 2, 64), "float8_e4m3", name=name) for name in ("a", "b")
        )
        nc_matmul(
            builder.allocate((64, 64), "float32", PSUM), stationary, moving, perf_mode="double_row"
        )
    assert not builder.errors
    assert builder.body[-1].perf_mode is matmul_perf_mode.double_row
    (finding,) = builder.findings.values()
    assert "perf_mode='double_row', a raw value of matmul_perf_mode" in finding.message


def test_member_is_no_finding():
    builder = copy_with(dge_mode.none)
    assert not builder.findings
    assert not builder.errors


@pytest.mark.parametrize("value", [9, "none", 3.0])
def test_what_stands_for_no_member_is_an_error(value):
    (error,) = copy_with(value).errors
    assert isinstance(error, WrongOperand) or error.code.startswith("NKI2")
    assert "dge_mode" in error.message
