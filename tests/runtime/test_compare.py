"""Tests that `nki_lab.compare` takes runs as well as arrays, and refuses a mixture."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
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


def rows_of_two(x, y):
    """Add in tiles of 128 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[0] // 128):
        a, b = nl.load(x[nl.ds(r * 128, 128)]), nl.load(y[nl.ds(r * 128, 128)])
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
        nl.store(out[nl.ds(r * 128, 128)], a)
    return out


def renamed(first, second):
    """Do the same under other names, with a line more."""
    result = nl.ndarray(first.shape, dtype=first.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(first.shape[0] // 128):
        left, right = nl.load(first[nl.ds(r * 128, 128)]), nl.load(second[nl.ds(r * 128, 128)])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.activation(dst=left, op=nl.relu, data=left)
        nl.store(result[nl.ds(r * 128, 128)], left)
    return result


def test_lines_that_were_renamed_are_known_by_their_loops_and_opcodes() -> None:
    x = np.ones((256, 64), np.float32)
    found = {
        d.name: d
        for d in nki_lab.compare(nki_lab.run(rows_of_two, x, x), nki_lab.run(renamed, x, x)).lines
    }
    both = {
        tuple(name.split(" -> ")) for name, d in found.items() if d.first_count and d.second_count
    }
    assert both == {
        (
            "a, b = nl.load(x[nl.ds(r * 128, 128)]), nl.load(y[nl.ds(r * 128, 128)])",
            "left, right = nl.load(first[nl.ds(r * 128, 128)]), nl.load(second[nl.ds(r * 128, 128)])",
        ),
        (
            "nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)",
            "nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)",
        ),
        ("nl.store(out[nl.ds(r * 128, 128)], a)", "nl.store(result[nl.ds(r * 128, 128)], left)"),
    }
    (new,) = [d for d in found.values() if not d.first_count]
    assert new.name == "nisa.activation(dst=left, op=nl.relu, data=left)"
