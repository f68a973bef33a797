"""Lets the modules of NKI lack the names that a kernel's version does not have, while such a kernel is traced.

`hasattr(nl, "tiles")` is false then, so that a kernel may be written for several versions, and what a branch names that
does not run is no error.
"""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from nki_lab.dialects import NKI
from nki_lab.ir.building.findings import not_yet
from nki_lab.ir.tensor.trace import active
from nki_lab.source import Span, is_internal
from nki_lab.versions import NEWEST, VERSIONS, Version, named_since


class _Dated(ModuleType):
    """A module of which kernels see the names of their version."""

    def __getattribute__(self, name: str) -> Any:
        builder = active.builder
        since = None if builder is None else _newer_names().get((id(self), name))
        if since is not None and since.number > builder.version.number:
            frame = sys._getframe(1)
            # An import of the name goes on: Python would make another error of it, and its use is refused.
            is_import = frame.f_code.co_code[frame.f_lasti] == _IMPORT
            if not is_import and not is_internal(frame.f_code):
                stack = builder.stack()
                written = (Span.of(stack[0]).covered or "") if stack else ""
                official = f"{_OFFICIAL[super().__getattribute__('__name__')]}.{name}"
                is_name = re.fullmatch(rf"\w+(\.\w+)*\.{name}", written)
                what = written if is_name else official
                raise not_yet(what, since, builder.version, stack)
        return super().__getattribute__(name)


_IMPORT = dis.opmap["IMPORT_FROM"]
_lock = Lock()
_users: list[Version] = []
_modules: list[tuple[ModuleType, type[ModuleType]]] = []
_OFFICIAL = {home: name for name, home in NKI.modules.items()}


@cache
def _newer_names() -> dict[tuple[int, str], Version]:
    """Return the version of each name that is newer than the first version, by its module."""
    found = {}
    for official in (name for version in VERSIONS for name in version.added):
        owner, _, name = official.rpartition(".")
        module = sys.modules.get(NKI.modules.get(owner, ""))
        if module is not None and named_since(official) is not VERSIONS[0]:
            found[id(module), name] = named_since(official)
    return found


@contextmanager
def dated_modules(version: Version) -> Iterator[None]:
    """Let modules of NKI have the names of a version inside the block, as far as kernels ask for them."""
    if version is NEWEST:
        yield
        return
    with _lock:  # other threads may trace as well: the last to end gives the modules back
        if not _users:
            _newer_names.cache_clear()  # a module may have been imported since
            _modules[:] = [(module, type(module)) for module in NKI.namespaces()]
            for module, _ in _modules:
                module.__class__ = _Dated
        _users.append(version)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                for module, kind in _modules:
                    module.__class__ = kind
