"""Today's NKI: `import nki`, instructions that write to `dst`, one axis of one or two cores."""

from __future__ import annotations

import warnings
from typing import Any

from nki_lab.dialects.dialect import Dialect, Grid
from nki_lab.dialects.nki_subset import SUBSET
from nki_lab.errors import KernelArgument

#: Keyword arguments of `nki.jit` that kernels give and that change nothing here. (nki/migration/index.rst says so of
#: `mode`; the others are about what the compiler prints.)
_IGNORED = ("mode", "debug_kernel", "show_compiler_tb")


def _choices(keywords: dict[str, Any]) -> dict[str, Any]:
    """Take the keyword arguments of `nki.jit`; those that change nothing are told when the kernel runs."""
    taken = {"allow", "debug", "nki", "platform_target", "configuration", *_IGNORED}
    unknown = set(keywords) - taken
    if unknown:
        # Of the line that calls `jit`, which calls what calls this.
        warnings.warn(f"nki.jit ignores {', '.join(sorted(unknown))}", stacklevel=4)
    choices = {"debug": bool(keywords.get("debug", False)), "allow": keywords.get("allow")}
    choices["ignored"] = tuple(name for name in _IGNORED if name in keywords)
    return choices | {
        n: keywords[n] for n in ("nki", "platform_target", "configuration") if n in keywords
    }


def _grid(name: str, key: Any) -> Grid:
    cores = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if type(cores) is not int or cores not in (1, 2):
        raise KernelArgument(
            f"{name}[{key!r}]: a kernel is launched on 1 or 2 cores",
            help="write kernel[1](...) or kernel[2](...)",
        )
    return (cores,)


NKI = Dialect(
    title="today's NKI (nki)",
    root="nki",
    modules={
        "nki": "nki_lab.api.nki",
        "nki.collectives": "nki_lab.api.collectives",
        "nki.compiler": "nki_lab.api.compiler",
        "nki.dtype": "nki_lab.api.dtype",
        "nki.isa": "nki_lab.api.isa",
        "nki.isa.constants": "nki_lab.api.isa_constants",
        "nki.language": "nki_lab.language",
        "nki.tensor": "nki_lab.api.tensor",
        "nki.typing": "nki_lab.api.typing",
    },
    refusing={"nki.compiler.kernel_builder": "nki_lab.api.kernel_builder"},
    ready={"nki": "nki", "nl": "nki.language", "nisa": "nki.isa"},
    subset=SUBSET,
    option="nki",
    choices=_choices,
    grid=_grid,
    cores=lambda grid: grid[0] if grid else 1,
)
