"""Kernels that go to worker processes by their name, and what the workers do with them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit


@jit
def scaled(x, by=3.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), by))
    return out


def plain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.negative(nl.load(x)))
    return out


negated = jit(plain)


@jit
def row(x, index):
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    pattern = [[x.shape[1], 1], [1, x.shape[1]]]
    nisa.dma_copy(out, x.ap(pattern, scalar_offset=nl.load(index), indirect_dim=0))
    return out


@jit
def refused(x):
    tile = nl.load(x)
    return tile + unknown_name  # noqa: F821


class Layer:
    """Has kernels as methods."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @jit
    def forward(self, x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), self.factor))
        return out

    @staticmethod
    @jit
    def half(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 0.5))
        return out


def called(kernel: Any, *args: np.ndarray) -> Any:
    return kernel(*args)


def launched(kernel: Any, *args: np.ndarray) -> Any:
    return nki_lab.run(kernel, *args, target="trn2")


def profile_of(kernel: Any, *args: np.ndarray) -> Any:
    return launched(kernel, *args).profile


def compiled(kernel: Any, *args: np.ndarray) -> Any:
    return kernel.compile(*args)


def looked_at(result: Any) -> tuple[Any, ...]:
    """Return what a run says in the process that it was sent to."""
    return repr(result), result.profile.total_ns, len(result.steps.order), result.outputs[0]


def again(data: bytes) -> bytes:
    return pickle.dumps(pickle.loads(data))
