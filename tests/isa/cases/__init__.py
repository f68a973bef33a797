"""Cases of every instruction, a module per family; `ALL` is all of them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.isa.case import Case

ALL: tuple[Case, ...] = tuple(
    case
    for module in sorted(m.name for m in iter_modules(__path__))
    for case in import_module(f"{__name__}.{module}").CASES
)
