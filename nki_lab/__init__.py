"""The public names of nki_lab.

Importing the package loads nothing else: each public name is fetched from its room the first
time it is used. To publish a name, add one line to `_PUBLIC`: the name and the module that
defines it, or is it. A name whose module does not exist does not belong there (a test imports them all).
"""

from importlib import import_module

__version__ = "0.1.0"

_PUBLIC: dict[str, str] = {
    "NkiWarning": "nki_lab.runtime",
    "Result": "nki_lab.runtime",
    "aliases": "nki_lab.api.install",
    "benchmark": "nki_lab.runtime",
    "calibrate": "nki_lab.runtime.calibrate",
    "check_op": "nki_lab.frameworks",
    "compare": "nki_lab.runtime",
    "compat": "nki_lab.compat",
    "display": "nki_lab.views.display",
    "get_target": "nki_lab.targets",
    "install": "nki_lab.api.install",
    "jax": "nki_lab.jax",
    "jit": "nki_lab.runtime",
    "launch": "nki_lab.runtime",
    "load": "nki_lab.runtime",
    "load_ipython_extension": "nki_lab.magics.extension",
    "load_profile": "nki_lab.hardware.importers",
    "migrate": "nki_lab.migration",
    "run": "nki_lab.runtime",
    "simulate": "nki_lab.runtime",
    "step": "nki_lab.runtime",
    "torch": "nki_lab.torch",
    "uninstall": "nki_lab.api.install",
    "unload_ipython_extension": "nki_lab.magics.extension",
    "use": "nki_lab.choices",
    "use_cores": "nki_lab.choices",
    "use_target": "nki_lab.choices",
    "vary": "nki_lab.runtime",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_PUBLIC[name])
    value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
