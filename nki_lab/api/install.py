"""Makes `import nki` find nki_lab, and never hides an official package that is installed.

install()           for the process; does nothing where the official package is installed
with aliases(): ... for a block, e.g. while a notebook cell runs on the simulator; the official package is back after
aliases()           for the process, also where the official package is installed
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from nki_lab.dialects import DIALECTS, Dialect
from nki_lab.errors import close_matches


class AliasLoader(Loader):
    """Gives the module of nki_lab itself, so that both names mean one object."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of nki_lab."""
        module = import_module(self.target)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is."""
        module.__spec__ = self.own_spec  # the import system has put the alias's there


class _AliasFinder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        dialect = _dialect_of(name)
        if dialect is None or (dialect.beside and _installed(dialect.root)):
            return None
        modules = {**dialect.modules, **dialect.refusing}
        if name not in modules:
            near = close_matches(name, dialect.modules)
            raise ModuleNotFoundError(f"nki_lab has no module {name!r}; {near}".rstrip("; "), name=name)  # fmt: skip
        package = any(other.startswith(f"{name}.") for other in modules)
        return ModuleSpec(name, AliasLoader(modules[name]), is_package=package)

    def in_sight(self) -> aliases:
        """Return a block in which `import nki` finds nki_lab, for kernels that come from another process."""
        return aliases()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, ()  # sent with kernels to a process whose modules have the same imports


_finder = _AliasFinder()


def _received() -> _AliasFinder:
    install()
    return _finder


def install() -> bool:
    """Make `import nki` find nki_lab from now on; return whether it does.

    False, and nothing changes, where an official package is installed or already imported: use `aliases()` to run
    on the simulator beside it. An installed `neuronxcc`, which holds the compiler, is never hidden. Installing twice is
    the same as once.
    """
    if _finder in sys.meta_path:
        return True
    if any(_installed(d.root) or d.root in sys.modules for d in DIALECTS if not d.beside):
        return False
    sys.meta_path.insert(0, _finder)
    return True


def is_installed() -> bool:
    """Tell whether `import nki` finds nki_lab for the rest of the process."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Take the aliases back; names that were imported stay bound where they are."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        for name in _loaded():
            del sys.modules[name]


class aliases:
    """Make `import nki` find nki_lab: from now on, or inside a `with` block.

    An installed official package is out of sight meanwhile, and back after the block; `neuronxcc`, which holds the
    compiler, stays in sight.
    """

    def __init__(self) -> None:
        self._begins = False
        self._begin()

    def _begin(self) -> None:
        if _finder not in sys.meta_path:
            self._begins = True  # what is inside others changes nothing
            self._hidden: dict[str, Any] = {name: sys.modules.pop(name) for name in _loaded()}
            sys.meta_path.insert(0, _finder)

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *error: object) -> None:
        if self._begins:
            self._begins = False
            uninstall()
            sys.modules.update(self._hidden)


def _loaded() -> list[str]:
    """Return the names of the modules that the aliases stand for; of a dialect beside others, only ours."""
    loaded = []
    for name, module in sys.modules.items():
        dialect = _dialect_of(name)
        if dialect is None:
            continue
        home = dialect.modules.get(name)
        if not dialect.beside or (home is not None and module is sys.modules.get(home)):
            loaded.append(name)
    return loaded


def _dialect_of(name: str) -> Dialect | None:
    root = name.partition(".")[0]
    return next((d for d in DIALECTS if d.root == root), None)


def _installed(root: str) -> bool:
    for finder in sys.meta_path:
        if finder is not _finder and hasattr(finder, "find_spec"):
            spec = finder.find_spec(root, None)
            # A folder that happens to have the name is a namespace package without an origin.
            if spec is not None and spec.origin is not None:
                return True
    return False
