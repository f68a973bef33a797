"""Names the parameters of a test that a plain run leaves out: they vary what the first has shown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

#: Whether this run takes everything.
THOROUGH = bool(os.environ.get("NKI_LAB_THOROUGH"))


def first(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Mark all `values` but the first `count` as thorough: only a run with NKI_LAB_THOROUGH=1 takes them."""
    return [
        value
        if at < count
        else pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough
        )
        for at, value in enumerate(values)
    ]


def examples(count: int) -> int:
    """Return how many examples a random test takes: `count` of them in thorough runs, a third in others."""
    return count if THOROUGH else -(-count // 3)
