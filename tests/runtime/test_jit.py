"""Tests what can be made a kernel, and the errors when it cannot run."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import NotModelled
from nki_lab.runtime import jit


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @jit
    def scale(self, x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), self.factor))
        return out


def test_a_method_can_be_a_kernel():
    x = np.array([[1.0, -2.0, 3.5]], np.float32)
    np.testing.assert_array_equal(Scaler(2.0).scale(x), 2 * x)
    np.testing.assert_array_equal(Scaler(-3.0).scale[1](x), -3 * x)
    np.testing.assert_array_equal(Scaler.scale(Scaler(4.0), x), 4 * x)


def test_a_computer_with_too_little_memory_says_so(monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError("Unable to allocate 64.0 GiB")

    kernel = jit(Scaler.scale.func)
    monkeypatch.setattr("nki_lab.backends.simulated.Program", no_memory)
    with pytest.raises(NotModelled, match="too little memory to simulate it: MemoryError: Unable"):
        kernel(Scaler(1.0), np.ones((1, 2), np.float32))


def test_a_debug_run_can_be_asked_for_where_the_kernel_is_defined(capsys):
    @jit(debug=True)
    def shown(x):
        tile = nl.load(x)
        print(tile)
        nl.store(x, tile)

    shown(np.array([[1.5, -2.0]], np.float32))
    assert "[[ 1.5 -2. ]]" in capsys.readouterr().out
