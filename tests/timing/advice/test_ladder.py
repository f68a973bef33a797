"""Tests that the advice on each rung of the ladder of matrix products names the next one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from tests.thorough import first

from .ladder import LADDER

# rhs, 32 MiB, does not fit into SBUF; lhs_t does.
K, M, N = 2048, 512, 8192


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(11)
    return tuple(
        rng.standard_normal((K, size), dtype=np.float32).astype(ml_dtypes.bfloat16)
        for size in (M, N)
    )


@pytest.mark.parametrize("target", first(["trn2", "trn1"]))
def test_each_rung_names_the_next(operands, target) -> None:
    expected = operands[0].astype(np.float32).T @ operands[1].astype(np.float32)
    times = []
    for kernel, next_step in LADDER:
        result = nki_lab.run(kernel, *operands, target=target)
        assert nki_lab.compare(result.value, expected).ok
        times.append(result.profile.total_ns)
        reloads = result.advice().of("reloaded input")
        if next_step:
            assert any(next_step in advice.help for advice in reloads), kernel.__name__
        else:
            assert not reloads
    assert times == sorted(times, reverse=True)
