"""Imports two files of nki-library that were published half edited.

core/mlp/mlp.py of d2ad3a5 closes the docstring of `mlp` before half of it is repeated: it is not Python. Here the first
closing quotes are taken for a blank line, so that the repetition is part of the docstring. core/mlp/mlp_tkg/mlp_tkg.py
uses two names that it does not import; here they are the ones that other files import. Nothing else is touched.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

_MODULE = "nkilib_src.nkilib.core.mlp.mlp"
_CLOSED_TWICE = ('    """\n', "\n", "        TKG mode supports:\n")


def install() -> None:
    """Let imports of the file take the mended text, where it needs mending."""
    sys.meta_path.insert(0, _Finder())


def complete() -> None:
    """Give the file what it forgot to import, where it has been imported."""
    file = sys.modules.get("nkilib_src.nkilib.core.mlp.mlp_tkg.mlp_tkg")
    if file is not None:
        places = {"SbufManager": "allocator", "Logger": "logging"}
        for name, place in places.items():
            module = sys.modules[f"nkilib_src.nkilib.core.utils.{place}"]
            if not hasattr(file, name):
                setattr(file, name, getattr(module, name))


class _Finder:
    """Finds that module and no other."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name == _MODULE else None
        if found is None or found.origin is None:
            return None
        return spec_from_file_location(name, found.origin, loader=_Loader(name, found.origin))


class _Loader(SourceFileLoader):
    """Reads the text, mended; what looks the source up later gets the same."""

    def get_code(self, fullname: str) -> object:
        text = _mended(self.get_data(self.path).decode())
        linecache.cache[self.path] = (len(text), None, text.splitlines(keepends=True), self.path)
        return compile(text, self.path, "exec", dont_inherit=True)


def _mended(text: str) -> str:
    try:
        ast.parse(text)
    except SyntaxError:
        return text.replace("".join(_CLOSED_TWICE), "\n" + "".join(_CLOSED_TWICE[1:]), 1)
    return text
