"""What does `import nki.collectives as ncc` offer? The instructions of the registry by which ranks work together."""

from __future__ import annotations

from typing import Any

from nki_lab.errors import UnknownName, close_matches
from nki_lab.isa import registry
from nki_lab.language.nkiobject import NKIObject

# nki/api/nki/collectives/__init__.py of NKI 0.6.0, in the order of its page.
_FUNCTIONS = (
    "all_reduce all_gather all_gather_v reduce_scatter all_to_all all_to_all_v collective_permute"
    " collective_permute_implicit collective_permute_implicit_reduce"
    " collective_permute_implicit_current_processing_rank_id rank_id"
).split()


class ReplicaGroup(NKIObject):
    """Groups of ranks that communicate: a list of lists of ranks without overlap, e.g. [[0, 1], [2, 3]].

    The order of a list is the order of its ranks: which part of a gathered tensor is whose, and who is next in a ring.
    """

    replica_groups: Any


globals().update({n: registry[n] for n in _FUNCTIONS})

__all__ = ["ReplicaGroup", *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"nki.collectives has no `{name}`", help=close_matches(name, __all__))
