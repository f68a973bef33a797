"""What must an editor know to colour a `%%nki` cell?

The extension of JupyterLab is built with this as `extension/src/catalog.json`; a test compares the
two, so that a new name or option cannot be forgotten there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nki_lab.api.install import ALIASES
from nki_lab.magics.define import READY
from nki_lab.options.table import options_of

_MAGIC = "%%nki"


def catalog() -> dict[str, Any]:
    """Return the magic's options and NKI's names as plain data.

    Returns:
        magics: options of each cell magic, with the values of those that list them.
        ready: names a cell may use without importing them, and the module each stands for.
        modules: public names of each module of the official package, those of submodules included.
    """
    return {
        "magics": {_MAGIC: {o.flag: list(o.choices) for o in options_of(_MAGIC)}},
        "ready": dict(READY),
        "modules": {name: _names(name) for name in ALIASES},
    }


def _names(module: str) -> list[str]:
    submodules = {name.rpartition(".")[2] for name in ALIASES if name.rpartition(".")[0] == module}
    return sorted({*import_module(ALIASES[module]).__all__, *submodules})
