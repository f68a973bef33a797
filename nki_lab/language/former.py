"""Functions, operators and methods in kernels that are written for an earlier version of NKI.

Their calls bind by the signature of that version, and a method that it does not have yet is an error. Kernels for the
newest version pay one comparison for a function, and nothing for a method until a kernel for an earlier one is traced.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from nki_lab.dtypes import bool_, dtype_of
from nki_lab.ir.building.findings import not_yet
from nki_lab.ir.definition.instruction import BINDING, Instruction
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.former import binder_before
from nki_lab.isa.operators import OPS, Op
from nki_lab.language.sizes import TileSize
from nki_lab.source import Span, is_internal
from nki_lab.versions import NEWEST, VERSIONS, Version, added_in, former_signature

#: The classes whose methods kernels call, by their official names.
_CLASSES = {
    "nki.language.NkiTensor": NkiTensor,
    "nki.language.tile_size": TileSize,
    "nki.isa.NkiInstruction": Instruction,
}


def dated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of nki.language bind by the signature that the kernel's version has, if that has the function."""
    official = f"nki.language.{function.__name__}"
    since = added_in(official)

    @functools.wraps(function)
    def by_version(*args: Any, **kwargs: Any) -> Any:
        version = _version()
        if version.number < since.number and not is_internal(sys._getframe(1).f_code):
            _check(official, since, version)
        bind = None if version is NEWEST else binder_of(official, version)
        if bind is None:
            return function(*args, **kwargs)
        return function(**_converted(function.__name__, bind(None, *args, **kwargs)))

    BINDING.add(by_version.__code__)  # type: ignore[attr-defined]
    return by_version


def dated_names(space: dict[str, Any]) -> list[str]:
    """Return the names of functions in nki.language that not every version has, or has with this signature."""
    names = {n for v in VERSIONS for n in (*v.added, *v.before) if n.startswith("nki.language.")}
    short = sorted(n.rpartition(".")[2] for n in names)
    # A loop over dynamic_range looks at the frame that calls it; it came with the first version of this dialect.
    return [n for n in short if isinstance(space.get(n), FunctionType) and n != "dynamic_range"]


def date_methods() -> None:
    """Let methods and operators of every kernel look at its version; once is enough."""
    if _dated:
        return
    for owner, cls in _CLASSES.items():
        names = {n for v in VERSIONS for n in (*v.added, *v.before) if n.startswith(f"{owner}.")}
        for official in sorted(names):
            name = official.rpartition(".")[2]
            _dated[official] = held = inspect.getattr_static(cls, name)
            setattr(cls, name, _dated_member(official, held))
    _dated["nki.language"] = Op.__call__
    Op.__call__ = operator_by_version  # type: ignore[method-assign]


_dated: dict[str, Any] = {}


def operator_by_version(self: Op, *args: Any, **options: Any) -> Any:
    """Call the composite of an operator with what the signature of the kernel's version says."""
    version = _version()
    bind = None if version is NEWEST else binder_of(f"nki.language.{self.name}", version)
    since = added_in(f"nki.language.{self.name}")
    if (bind is not None or version.number < since.number) and not is_internal(
        sys._getframe(1).f_code
    ):
        _check(f"nki.language.{self.name}", since, version)
        if bind is not None:
            args, options = (), _converted(self.name, bind(None, *args, **options))
    return _dated["nki.language"](self, *args, **options)


BINDING.add(operator_by_version.__code__)


def _dated_member(official: str, member: Any) -> Any:
    """Return a method or property that is an error in kernels for versions that do not have it."""
    since = max(added_in(official), added_in(official.rpartition(".")[0]), key=lambda v: v.number)
    what = official.rpartition("nki.")[2].partition(".")[2]

    def method_by_version(self: Any, *args: Any, **kwargs: Any) -> Any:
        version = _version()
        if version is not NEWEST and not is_internal(sys._getframe(1).f_code):
            _check(what, since, version)
            bind = binder_of(official, version)
            if bind is not None:
                bind(self, *args, **kwargs)
        return member(self, *args, **kwargs)

    def property_by_version(self: Any) -> Any:
        version = _version()
        if version is not NEWEST and not is_internal(sys._getframe(1).f_code):
            _check(what, since, version)
        return member.fget(self)

    BINDING.add(method_by_version.__code__)
    if isinstance(member, property):
        return property(property_by_version, doc=member.__doc__)
    return functools.wraps(member)(method_by_version)


def _version() -> Version:
    builder = active.builder
    return NEWEST if builder is None else builder.version


def _check(what: str, since: Version, version: Version) -> None:
    if version.number < since.number:
        stack = active.builder.stack()
        written = (Span.of(stack[0]).covered or "") if stack else ""
        # As the check of the text says it, where that sees the name, too.
        raise not_yet(written if written.endswith(f".{what}") else what, since, version, stack)


@functools.lru_cache(maxsize=256)
def binder_of(official: str, version: Version) -> Callable[..., dict[str, Any]] | None:
    """Return what binds a call of a function by the signature of a version; None where that is the newest one."""
    former = former_signature(official, version)
    if former is None or official in _STUBS_ALONE:
        return None
    words = [w for w in former.split() if w != "self"]
    return binder_before(official.rpartition(".")[2], words)


#: What a stub says and kernels of its time do not follow: published ones of 0.1 and 0.2 write nl.sequential_range(8).
_STUBS_ALONE = {"nki.language.sequential_range"}


def _converted(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of an earlier version as those of the newest one."""
    if name == "shared_constant" and "dtype" in given:
        dtype = dtype_of(given.pop("dtype"))
        if dtype is not None:
            given["constant"] = np.asarray(given["constant"]).astype(dtype.host)
    if name in _TRUTHS and given.get("dtype", bool) is bool:
        given["dtype"] = bool_  # the default was `bool`
    return given


_TRUTHS = {"logical_not", *(name for name, op in OPS.items() if op.gives_truth)}
