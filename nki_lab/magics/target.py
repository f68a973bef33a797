"""Which chip has a notebook chosen, and how does it choose one?"""

from __future__ import annotations

import os

from nki_lab.settings import VARIABLES
from nki_lab.targets import get_target

_TARGET = VARIABLES["target"].name
# What was chosen last: the environment may have been changed by something else since.
_chosen: list[str] = []


def choose_target(name: str) -> None:
    """Compile for a chip from now on, in this process and those it starts; UnknownTarget for a name without data."""
    _chosen[:] = [get_target(name).name]
    os.environ[_TARGET] = _chosen[0]


def forget_choice() -> None:
    """Forget what was chosen: a chip that is in force is from the environment again."""
    _chosen.clear()


def whose_choice() -> str:
    """Say in a few words where the chip that is in force comes from."""
    set_to = os.environ.get(_TARGET)
    if not set_to:
        return "the default"
    return "chosen with %nki_target" if [set_to] == _chosen else f"set by {_TARGET}"
