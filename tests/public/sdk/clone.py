"""Finds a clone, and runs a file of it with `import nki` meaning nki_lab."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

from nki_lab.api.install import aliases

SDK_VARIABLE = "NKI_SDK_ROOT"
SAMPLES_VARIABLE = "NKI_SAMPLES_ROOT"


def root(variable: str) -> Path | None:
    """Return the clone that an environment variable names."""
    named = os.environ.get(variable)
    return Path(named).resolve() if named else None


@contextmanager
def official_names(*folders: Path) -> Iterator[None]:
    """Let `import nki` find nki_lab, and files in `folders` find each other; all is as before afterwards."""
    before = set(sys.modules)
    with aliases(), mock.patch.dict(os.environ), mock.patch.object(sys, "path", list(sys.path)):
        sys.path[:0] = map(str, folders)
        try:
            yield
        finally:
            for name in set(sys.modules) - before:
                origin = getattr(sys.modules[name], "__file__", None) or ""
                if any(Path(origin).is_relative_to(folder) for folder in folders):
                    del sys.modules[name]


def load(path: Path, changes: Mapping[str, str] | None = None) -> ModuleType:
    """Import a file under a name of its own, with words replaced; call it inside `official_names`."""
    text = path.read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text, f"{path.name} has no {old!r}"
        text = text.replace(old, new)
    module = ModuleType(path.stem.replace("-", "_"))
    module.__file__ = str(path)
    name = f"{path} (changed)" if changes else str(path)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", dont_inherit=True), vars(module))
    return module
