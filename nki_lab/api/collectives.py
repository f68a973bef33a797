"""What does `nki.collectives` offer? Its names can be imported; calling one says that it is not modelled."""

from __future__ import annotations

from typing import Any

from nki_lab.api.absent import Absent
from nki_lab.errors import UnknownName, close_matches
from nki_lab.language.nkiobject import NKIObject

_FUNCTIONS = (
    "all_gather all_gather_v all_reduce all_to_all all_to_all_v collective_permute collective_permute_implicit"
    " collective_permute_implicit_current_processing_rank_id collective_permute_implicit_reduce rank_id"
    " reduce_scatter"
).split()


class ReplicaGroup(NKIObject):
    """Groups of ranks that communicate: a list of lists of ranks without overlap."""

    replica_groups: Any


globals().update({n: Absent("nki.collectives", n) for n in _FUNCTIONS})

__all__ = ["ReplicaGroup", *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"nki.collectives has no `{name}`", help=close_matches(name, __all__))
