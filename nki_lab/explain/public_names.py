"""Pages of `explain` about public names that are neither instructions, functions of nki.language nor dtypes.

Methods and attributes of tensors, limits of tiles, named choices, memories, classes, what `nki` and `nki_lab` offer,
and all names of the older dialect. Every page is the name's own signature and docstring.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum, EnumMeta
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import nki_lab.language as nl
from nki_lab.api import collectives, isa, nki
from nki_lab.api.official import API, BETA1_API
from nki_lab.dialects import BETA1
from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import registry
from nki_lab.isa.catalog import call_text
from nki_lab.language.sizes import TileSize

#: What a name may start with, longest first, and how kernels write it.
PREFIXES = {
    "neuronxcc.nki.language.tile_size.": "nl.tile_size.",
    "neuronxcc.": "neuronxcc.",
    "nki.language.tile_size.": "nl.tile_size.",
    "nki.language.NkiTensor.": "t.",
    "nki.collectives.": "ncc.",
    "nki.language.": "nl.",
    "nl.tile_size.": "nl.tile_size.",
    "nl.NkiTensor.": "t.",
    "tile_size.": "nl.tile_size.",
    "NkiTensor.": "t.",
    "nki.isa.": "nisa.",
    "nki_lab.": "nki_lab.",
    "tensor.": "t.",
    "nisa.": "nisa.",
    "nki.": "nki.",
    "ncc.": "ncc.",
    "nl.": "nl.",
    "nt.": "nt.",
    "t.": "t.",
}
# What the older dialect has under the same short names, where today's has nothing.
_OLDER = {f"{short}.": f"{module}." for short, module in BETA1.ready.items()}
_OLDER_TENSOR = _OLDER["t."] = "neuronxcc.nki.tensor."
# The package itself is here for what it publishes, not as a way to its rooms.
_PACKAGE = import_module(__name__.partition(".")[0])
_MODULES = {"nl.": nl, "nisa.": isa, "ncc.": collectives, "nki.": nki, "nki_lab.": _PACKAGE}
# The classes whose members kernels write, under the owners the official data names.
_OWNERS: dict[str, tuple[str, type]] = {
    "NkiTensor": ("t.", NkiTensor),
    "tile_size": ("nl.tile_size.", TileSize),
}
_KINDS = {NkiTensor: "attribute of a tensor", TileSize: "limit of tiles on the chip"}
_WIDTH = 92


class Offered(NamedTuple):
    """One public name: how kernels write it, what it is, and for a member the class that declares it."""

    written: str
    value: Any
    owner: type | None = None


@cache
def offered() -> dict[str, Offered]:
    """Return every public name without another page, by how kernels write it."""
    return {name.written: name for name in _collected()}


def bare_names() -> tuple[str, ...]:
    """Return the same names as one types them: without module or tensor, but for those of the older dialect."""
    return tuple(dict.fromkeys(w if _is_older(w) else w.rpartition(".")[2] for w in offered()))


def find(name: str) -> Offered | None:
    """Return the public name meant by `reshape`, `t.reshape` or `nki.language.NkiTensor.reshape`.

    What today's dialect does not have is looked for in the older one: `nl.mgrid`, `mgrid`.
    """
    for prefix, written in PREFIXES.items():
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return offered().get(written + rest) or offered().get(_OLDER.get(written, "") + rest)
    return next((o for o in offered().values() if o.written.endswith(f".{name}")), None)


def page_of(offered: Offered) -> str:
    """Return the page of a public name; that of an older one says what today's is."""
    page = _page_of(offered)
    if not _is_older(offered.written):
        return page
    name = offered.written.rpartition(".")[2]
    note = f"A name of the older dialect, {BETA1.root}.nki."
    today = {"neuronxcc.nki.isa.": "nisa.", "neuronxcc.nki.language.": "nl."}
    short = today.get(offered.written.removesuffix(name))
    if (short == "nisa." and name in registry) or (short == "nl." and name in nl.__all__):
        note += f" Today's is `{short}{name}`, which has a page of its own."
    return f"{page}\n\n{note}"


def _is_older(written: str) -> bool:
    return written.startswith(f"{BETA1.root}.")


def _page_of(offered: Offered) -> str:
    value, doc = offered.value, _doc(offered.value)
    if _is_older(offered.written):
        doc = doc[:1]  # the rest is about what the official page does not name
    if offered.owner is not None:
        return _member(offered.written, value, offered.owner)
    if isinstance(value, EnumMeta):
        members = ", ".join(f"{offered.written}.{member}" for member in value.__members__)
        return "\n".join([f"{offered.written} (named choices)", "", *doc, "", *_wrap(members)])
    if isinstance(value, Enum):
        others = ", ".join(member for member in type(value).__members__ if member != value.name)
        return f"{offered.written}\n\n`{value.name}` of nisa.{type(value).__name__.lower()}; the others are {others}"
    if isinstance(value, type):
        lines = [f"{offered.written} (class)", "", *doc, *_members(value)]
    elif callable(value):
        lines = [*call_text(offered.written, inspect.signature(value)), "", *_doc(value)]
    else:
        lines = [offered.written, "", *doc, *_members(type(value))]
    return "\n".join(lines).rstrip()


def _collected() -> Iterator[Offered]:
    for prefix, module in _MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if _has_no_page(name, value, module):
                yield Offered(prefix + name, value)
    language = "nki.language"
    for cls, (prefix, owner) in _OWNERS.items():
        names = [*API["methods"][language].get(cls, ()), *API["attributes"][language][cls]]
        for name in dict.fromkeys(names):
            if not name.startswith("_"):
                yield Offered(prefix + name, inspect.getattr_static(owner, name), owner)
    for official, home in BETA1.modules.items():
        module = import_module(home)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not inspect.ismodule(value):
                yield Offered(f"{official}.{name}", value)
    for prefix, owner in older_owners().items():
        yield from (
            Offered(prefix + name, inspect.getattr_static(owner, name), owner)
            for name in older_members(owner)
        )


def _has_no_page(name: str, value: Any, module: Any) -> bool:
    if name.startswith("__") or name.endswith("ipython_extension") or inspect.ismodule(value):
        return False
    if module is nl:
        return not isinstance(value, DType) and (isinstance(value, type) or not callable(value))
    return name not in registry or module is _PACKAGE


def _member(written: str, value: Any, owner: type) -> str:
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        without_self = signature.replace(parameters=list(signature.parameters.values())[1:])
        head = call_text(written, without_self)
    else:
        head = [f"{written} ({_kind(owner)})"]
    field = _fields(owner).get(written.rpartition(".")[2], "")
    return "\n".join([*head, "", *(_wrap(field) or _doc(value))])


def _members(owner: type) -> list[str]:
    """Return the members that the official data lists for a class, one line each."""
    lines: list[str] = []
    for other in offered().values():
        if other.owner is owner:
            head, _, text = page_of(other).partition("\n\n")
            called = " ".join(head.removesuffix(f" ({_kind(owner)})").split())
            first = " ".join(text.partition("\n\n")[0].split())
            lines += _wrap(f"{called}: {first}")
    return ["", *lines] if lines else []


def older_owners() -> dict[str, type]:
    """Return the classes of the older dialect whose members kernels write, by what stands before these."""
    compiler = import_module(BETA1.modules["neuronxcc.nki.compiler"])
    return {
        _OLDER_TENSOR: import_module(BETA1.modules["neuronxcc.nki"]).tensor,
        "neuronxcc.nki.compiler.sbuf.": type(compiler.sbuf),
        "neuronxcc.nki.compiler.psum.": type(compiler.psum),
    }


def older_members(owner: type) -> list[str]:
    """Return the members of one of `older_owners`: those that its official page lists, or all its methods."""
    package = "neuronxcc.nki"
    tables = (BETA1_API["methods"][package], BETA1_API["attributes"][package])
    listed = [name for table in tables for name in table.get(owner.__name__.lower(), ())]
    return listed or [n for n, _ in inspect.getmembers(owner, callable) if not n.startswith("_")]


def _kind(owner: type) -> str:
    return _KINDS.get(owner, _KINDS[NkiTensor])


def _fields(owner: type) -> dict[str, str]:
    """Return what a class's docstring says about its fields, which have none of their own."""
    fields = re.findall(r"^ {4}(\w+): (\w)(.+)$", inspect.getdoc(owner) or "", re.MULTILINE)
    return {name: first.upper() + rest for name, first, rest in fields}


def _doc(value: Any) -> list[str]:
    return (inspect.getdoc(value) or "").splitlines()


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
