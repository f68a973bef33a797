"""What is the machine? Numbers only, each with the page it came from."""

from __future__ import annotations

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

#: Every chip, oldest first.
ALL_TARGETS: tuple[Target, ...] = (TRN1, TRN2, TRN3)

_BY_NAME = {name: target for target in ALL_TARGETS for name in (target.name, *target.aliases)}


def target_names() -> tuple[str, ...]:
    """Return every name `get_target` accepts: chips and their aliases."""
    return tuple(_BY_NAME)


def get_target(name: str | Target) -> Target:
    """Return the target called `name`: trn1, inf2, gen2, trn2, gen3, trn3 or gen4.

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
