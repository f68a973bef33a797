"""The dialects that kernels are written in, one file each; every function is of the one that its names come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import Any

from nki_lab.dialects.beta1 import BETA1
from nki_lab.dialects.dialect import Dialect, dialects_in, names_of_dialects
from nki_lab.dialects.nki import NKI

#: All dialects; a new one is added here. The first is that of a function whose names tell nothing.
DIALECTS: list[Dialect] = [NKI, BETA1]


def dialects_of(code: CodeType, scope: Mapping[str, Any]) -> dict[Dialect, str]:
    """Return the dialects whose modules a function's names come from, each with the first such name."""
    return dialects_in(DIALECTS, code, scope)


def owners_of(scope: Mapping[str, Any]) -> dict[str, list[Dialect]]:
    """Return the names in a scope that stand for something of NKI's, each with the dialects that offer it."""
    return names_of_dialects(DIALECTS, scope)
