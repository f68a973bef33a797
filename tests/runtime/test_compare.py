"""Does `nki_lab.compare` take runs as well as arrays, and refuse a mixture?"""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
from nki_lab.errors import UsageError
from tests.timing import kernels


def longer(x):
    """Do what `kernels.chain` does after one more instruction on Vector."""
    from tests.timing.kernels import activation, dma_copy, nl, tensor_scalar

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    u = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    v = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    dma_copy(t, x)
    tensor_scalar(t, t, op0=nl.subtract, operand0=3.0)
    activation(u, nl.exp, t)
    tensor_scalar(v, u, op0=nl.add, operand0=1.0)
    dma_copy(out, v)
    return out


def test_lines_of_two_versions_line_up():
    x = np.random.default_rng(5).standard_normal((128, 384), dtype=np.float32)
    after, before = (nki_lab.run(k, x, target="trn2") for k in (kernels.chain, longer))
    found = nki_lab.compare(before, after)
    assert (found.first_ns, found.second_ns) == (before.profile.total_ns, after.profile.total_ns)
    assert found.speedup > 1
    gone = [line for line in found.lines if not line.second_count]
    assert [line.name for line in gone] == ["tensor_scalar(t, t, op0=nl.subtract, operand0=3.0)"]
    # Of the same length as the other instruction on Vector, which is in both.
    same = next(line for line in found.lines if "operand0=1.0" in line.name)
    assert gone[0].first_ns == pytest.approx(same.first_ns, abs=1)  # rounded at both ends
    assert same.first_ns == pytest.approx(same.second_ns, abs=1)
    assert (same.first_count, same.second_count) == (1, 1)
    assert nki_lab.compare(before.profile, after).second_ns == found.second_ns
    assert before.what_if("free-vector").gain_ns > found.first_ns - found.second_ns
    assert before.critical_path().total_ns == before.profile.total_ns == found.first_ns
    assert before.roofline().total_ns == before.profile.total_ns
    assert before.stalls().of("scalar").wait_ns > 0


def test_a_run_is_no_array():
    result = nki_lab.run(kernels.chain, np.ones((128, 8), np.float32))
    with pytest.raises(UsageError, match="a run can be compared with a run"):
        nki_lab.compare(result, np.ones((128, 8), np.float32))
    assert nki_lab.compare(result.value, np.full((128, 8), np.e + 1, np.float32)).ok
