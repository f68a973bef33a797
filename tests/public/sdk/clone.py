"""Where is a clone, and how does a file of it run with `import nki` meaning nki_lab?"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

from nki_lab.api.install import aliases

SDK_VARIABLE = "NKI_SDK_ROOT"
SDK_COMMIT = "81ce03ae"  # of aws-neuron-sdk: pages are read, and exceptions found, with it
SAMPLES_VARIABLE = "NKI_SAMPLES_ROOT"
SAMPLES_COMMIT = "6905a68"


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


def load(path: Path) -> ModuleType:
    """Import a file under a name of its own; call it inside `official_names`."""
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
