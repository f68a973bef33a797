"""Measures what a call of an operator costs above running its compiled kernel on NumPy arrays.

python -m benchmarks.operator_speed            # a table for PyTorch, and one for JAX
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import nki_lab.jax
import nki_lab.language as nl
import nki_lab.torch
from benchmarks.stopwatch import best, quiet
from nki_lab.api import nki

#: The call that the others are compared with.
ALONE = "compiled kernel"


@nki.jit
def scaled(x, y, factor=2.0):
    """Return (x + y) * factor."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.add(nl.load(x), nl.load(y)), factor))
    return out


def _arrays() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((2, 128, 64)).astype(np.float32)


def _alone() -> dict[str, Callable[[], object]]:
    x, y = _arrays()
    compiled = scaled.compile(x, y)
    return {ALONE: lambda: compiled(x, y), "kernel, called directly": lambda: scaled(x, y)}


def torch_calls() -> dict[str, Callable[[], object]]:
    """Return the compiled kernel, and calls of an operator of PyTorch."""
    import torch

    operator = nki_lab.torch.custom_op("bench::scaled", scaled, backward="auto")
    x, y = map(torch.from_numpy, _arrays())
    recorded = x.clone().requires_grad_()
    return {
        **_alone(),
        "torch": lambda: operator(x, y),
        "torch, recorded for the backward": lambda: operator(recorded, y),
    }


def jax_calls() -> dict[str, Callable[[], object]]:
    """Return the compiled kernel, and calls of an operator of JAX."""
    import jax

    operator = nki_lab.jax.custom_op("bench::scaled", scaled, backward="auto")
    x, y = map(jax.numpy.asarray, _arrays())
    jitted = jax.jit(operator)
    return {
        **_alone(),
        "jax": lambda: operator(x, y),
        "jax.jit": lambda: jitted(x, y).block_until_ready(),
    }


def measured(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the shortest time of this thread for each call, in microseconds."""
    with quiet():
        times = best(*calls.values(), times=50, least=seconds, clock=time.thread_time)
    return {name: 1e6 * t for name, t in zip(calls, times, strict=True)}


def python_calls(call: Callable[[], object]) -> int:
    """Return how many functions a call calls from Python, which is the same on a busy machine."""
    for _ in range(3):
        call()
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def main() -> None:
    """Print both tables."""
    print(f"{'call':<36}{'time':>12}{'above':>12}{'ratio':>8}{'functions':>12}")
    for calls in (torch_calls(), jax_calls()):
        times = measured(calls, 3.0)
        alone = times[ALONE]
        for name, each in times.items():
            print(f"{name:<36}{each:>9.1f} us{each - alone:>9.1f} us{each / alone:>8.2f}"
                  f"{python_calls(calls[name]):>12}")  # fmt: skip


if __name__ == "__main__":
    main()
