"""Tests that Python can copy what a kernel holds without harm."""

import copy

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import run


def test_instructions_can_be_copied_inside_containers():
    def kernel(x):
        tile = nl.load(x)
        made = [nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)]
        again = copy.copy(made[0])
        assert again.operand0 == 2.0
        assert not hasattr(again, "nothing")
        nl.store(x, tile)

    given = np.array([[1.0, -3.0]], np.float32)
    run(kernel, given)
    np.testing.assert_array_equal(given, [[2.0, -6.0]])
