"""The chips: numbers only, each with the page it came from. A chip is one file here that builds a Target."""

from __future__ import annotations

import copyreg
import os
from importlib import import_module
from typing import Any

from nki_lab.errors import UnknownTarget, close_matches
from nki_lab.targets.facts import Fact, Status
from nki_lab.targets.overlay import checked, overlaid, replaced_constants, target_with
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
    "target_data",
    "target_names",
    "target_of",
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

    `trn2+mine.toml` is trn2 with the constants of an overlay file (`nki_lab.targets.overlay`). Upper and lower case are
    the same; a Target is returned as it is. Raises UnknownTarget, and BadFile for a file that is no overlay.
    """
    if isinstance(name, Target):
        return name
    chip, plus, file = name.strip().partition("+")
    target = _BY_NAME.get(chip.lower())
    if target is None:
        raise UnknownTarget(
            f"there is no target `{chip}`; expected one of {', '.join(_BY_NAME)}",
            help=close_matches(chip.lower(), _BY_NAME),
        )
    return overlaid(target, file) if plus else target


def target_data(target: Target) -> Any:
    """Return what files say of a target: its name, and of one with an overlay what that replaces."""
    if "+" not in target.name:
        return target.name
    return {"name": target.name, "constants": replaced_constants(target)}


def target_of(data: Any) -> Target:
    """Return the target of what `target_data` returned; the file of its overlay need not be there.

    Raises UnknownTarget, and TypeError or KeyError for other data.
    """
    if isinstance(data, str):
        if "+" in data:  # a file that somebody sent reads no other
            raise _no_overlay("an overlay is given with its constants")
        return get_target(data)
    if not isinstance(data, dict) or not isinstance(data["name"], str):
        raise TypeError("a target is a name, or a name with constants")
    base = get_target(data["name"].partition("+")[0])
    for constant, value in data["constants"].items():
        if message := checked(base, constant, value):
            raise _no_overlay(message)
    return target_with(base, data["name"], data["constants"])


def _no_overlay(message: str) -> UnknownTarget:
    return UnknownTarget(message, help="write the file again with nki_lab")


# One object per chip: copies and child processes get the same one by name.
copyreg.pickle(Target, lambda target: (target_of, (target_data(target),)))
