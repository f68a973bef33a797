"""What stands under the name of an official function that is not modelled?"""

from __future__ import annotations

from typing import Any, NoReturn

from nki_lab.errors import NotModelled


class Absent:
    """A function that can be imported, and raises NotModelled when called."""

    def __init__(self, module: str, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = module
        self.__doc__ = f"Refuse {module}.{name}: not modelled yet."

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotModelled, naming the function."""
        raise NotModelled(f"{self.__module__}.{self.__name__} is not modelled yet")

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}: not modelled yet>"
