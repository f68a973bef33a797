"""The chips: numbers only, each with the page it came from. A chip is one file here that builds a Target."""

from __future__ import annotations

import copyreg
import os
from importlib import import_module

from nki_lab.errors import UnknownTarget, close_matches
from nki_lab.targets.facts import Fact, Status
from nki_lab.targets.spec import Target
from nki_lab.targets.trn1 import TRN1
from nki_lab.targets.trn2 import TRN2
from nki_lab.targets.trn3 import TRN3

__all__ = [
    "ALL_TARGETS",
    "TRN1",
    "TRN2",
    "TRN3",
    "Fact",
    "Status",
    "Target",
    "get_target",
    "target_names",
]


def _chips() -> tuple[Target, ...]:
    """Return the targets that the files of this folder build, oldest first."""
    names = [
        file[:-3]
        for file in os.listdir(__path__[0])
        if file.endswith(".py") and file != "__init__.py"
    ]
    modules = [import_module(f"{__name__}.{name}") for name in names]
    values = {v for module in modules for v in vars(module).values() if isinstance(v, Target)}
    return tuple(sorted(values, key=lambda target: target.generation))


#: Every chip, oldest first.
ALL_TARGETS: tuple[Target, ...] = _chips()

_BY_NAME = {name: target for target in ALL_TARGETS for name in (target.name, *target.aliases)}


def target_names() -> tuple[str, ...]:
    """Return every name `get_target` accepts: chips and their aliases."""
    return tuple(_BY_NAME)


def get_target(name: str | Target) -> Target:
    """Return the target of this name, such as trn2, or of an alias, such as gen3.

    Upper and lower case are the same; a Target is returned as it is. Raises UnknownTarget.
    """
    if isinstance(name, Target):
        return name
    target = _BY_NAME.get(name.strip().lower())
    if target is None:
        raise UnknownTarget(
            f"there is no target `{name}`; expected one of {', '.join(_BY_NAME)}",
            help=close_matches(name.lower(), _BY_NAME),
        )
    return target


# One object per chip: copies and child processes get the same one by name.
copyreg.pickle(Target, lambda target: (get_target, (target.name,)))
