"""Lets the unit tests of nki-samples import `neuronxcc.nki`, and those of its first release its own kernels.

`neuronxcc.nki.kernels` of that release is the folder `src/reference` (its `__init__.py` says so): kernels that write to
arguments. Later ones return their results.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from nki_lab.api.install import install

install()


def pytest_configure(config: pytest.Config) -> None:
    """Let `neuronxcc.nki.kernels` mean the kernels beside the tests, where they are of the first release."""
    reference = Path(config.rootpath, "src/reference")
    if reference.is_dir():
        importlib.import_module("neuronxcc.nki")
        sys.path.insert(0, str(reference))
        for name in ("attention", "vision"):
            sys.modules[f"neuronxcc.nki.kernels.{name}"] = importlib.import_module(name)
