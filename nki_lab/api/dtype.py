"""The module `nki.dtype`: the element types, under their second import name."""

from typing import Any

from nki_lab.dtypes import DTYPES, DType
from nki_lab.errors import UnknownName, close_matches

__all__ = ["DType", *DTYPES]

globals().update(DTYPES)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"nki.dtype has no `{name}`", help=close_matches(name, __all__))
