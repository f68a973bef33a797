"""Modules of kernels that are moved in tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """\
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

"""


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a module of kernels, below the usual imports."""

    def write(text: str, head: str = HEAD, name: str = "kernels.py") -> Path:
        path = tmp_path / name
        path.write_text(head + text)
        return path

    return write
