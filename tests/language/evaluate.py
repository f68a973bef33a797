"""Runs a function of nki.language in a kernel on the simulator."""

import numpy as np

import nki_lab.language as nl
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.simulator import Program
from nki_lab.targets import get_target


def run_kernel(kernel, *arrays, target="trn3", strict=False):
    """Return the outputs of a kernel, which need not be decorated, and the program it became."""
    compiled = compile_kernel(
        SourceKernel.of(kernel), arrays, {}, get_target(target), Choices(strict=strict)
    ).kernel
    return Program(compiled).run(list(arrays)), compiled


def stored(tile):
    """Return a tensor in HBM with the values of a tile, as a kernel returns it."""
    result = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nl.store(result, nl.copy(tile) if tile.buffer == nl.psum else tile)
    return result


def evaluate(function, *arrays, target="trn3"):
    """Return what `function` gives for tiles that hold the arrays."""
    kernels = {
        1: lambda a: stored(function(nl.load(a))),
        2: lambda a, b: stored(function(nl.load(a), nl.load(b))),
        3: lambda a, b, c: stored(function(nl.load(a), nl.load(b), nl.load(c))),
    }
    (result,), _ = run_kernel(kernels[len(arrays)], *arrays, target=target)
    return result


def error_against(result, expected):
    """Return the largest error, relative for large values and absolute for small ones."""
    assert result.shape == expected.shape
    difference = np.abs(result.astype(np.float64) - expected)
    return float(np.max(difference / (1 + np.abs(expected))))
