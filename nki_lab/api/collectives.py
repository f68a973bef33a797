"""The module `nki.collectives`: the instructions by which ranks work together, as the registry defines them."""

from __future__ import annotations

from typing import Any

from nki_lab.errors import UnknownName, close_matches
from nki_lab.isa import instructions_of
from nki_lab.isa.collectives_variable import SPLIT
from nki_lab.language.nkiobject import NKIObject


class ReplicaGroup(NKIObject):
    """Groups of ranks that communicate: a list of lists of ranks without overlap, e.g. [[0, 1], [2, 3]].

    The order of a list is the order of its ranks: which part of a gathered tensor is whose, and who is next in a ring.
    """

    replica_groups: Any


_FUNCTIONS = instructions_of("nki.collectives") | SPLIT
globals().update(_FUNCTIONS)

__all__ = ["ReplicaGroup", *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"nki.collectives has no `{name}`", help=close_matches(name, __all__))
