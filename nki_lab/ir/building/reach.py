"""Looks at everything that the body of a device loop can reach, before its trace and afterwards.

It follows objects, not text: attributes, items, closures, defaults, names of modules, caches of functions, and how far
iterators have come. A change need not matter: an allocator counts what it hands out. `rehearsal` tells whether it does.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import (
    BuiltinMethodType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from nki_lab.ir.building.values import MISSING, PLAIN, attribute, contents, same
from nki_lab.source import is_internal, is_of_library

_MOST = 5_000  # objects that are looked at
# Modules whose objects are not looked into: they hold no state of a kernel.
_FOREIGN = {"nki_lab", "nki", "numpy", "ml_dtypes", "torch", "jax", *sys.stdlib_module_names}
_CACHE = type(functools.lru_cache(lambda: None))

# What an object holds, by names as an author writes them; and the objects inside it, by their names.
_State = tuple[dict[str, Any], dict[str, Any]]


class Reach:
    """The objects that a body can reach, as they are when this is made.

    Args:
        roots: returns what the body can name, by name.
        names: those among them that may come to stand for something else.

    Attributes:
        is_whole: False where there are more objects than are looked at.
    """

    def __init__(self, roots: Callable[[], dict[str, Any]], names: Iterable[str] = ()) -> None:
        self._roots = roots
        self._names = set(names)
        self._before, self.is_whole = _look(roots(), self._names)

    def changed(self) -> dict[str, Any]:
        """Return what holds something else now, by name, with its value from before; MISSING where it had none."""
        changes: dict[str, Any] = {}
        after, _ = _look(self._roots(), self._names)
        for key, (_, before) in self._before.items():
            now = after[key][1] if key in after else before
            for name in {**before, **now}:
                if not same(before.get(name, MISSING), now.get(name, MISSING)):
                    changes.setdefault(name, before.get(name, MISSING))
        return changes


def reach_of_body(body: Any) -> Reach:
    """Return what the function of a loop's body can reach."""
    return Reach(lambda: {getattr(body, "__name__", "body"): body})


def reach_of_block(frame: FrameType, with_names: bool) -> Reach:
    """Return what a block of the function that runs in `frame` can reach, and which numbers its own names stand for."""

    def roots() -> dict[str, Any]:
        code = frame.f_code
        return _with_modules(code, {**_globals_of(code, frame.f_globals), **frame.f_locals})

    return Reach(roots, frame.f_locals if with_names else ())


def _look(
    roots: dict[str, Any], names: set[str]
) -> tuple[dict[int, tuple[Any, dict[str, Any]]], bool]:
    """Return (object, what it holds) by identity, and whether all objects were looked at."""
    # Objects are kept, so that their identity stays theirs.
    states: dict[int, tuple[Any, dict[str, Any]]] = {
        0: (roots, {name: value for name, value in roots.items() if name in names}),
    }
    waiting = deque(roots.items())
    while waiting:
        name, value = waiting.popleft()
        if (type(value) in PLAIN and type(value) is not tuple) or id(value) in states:
            continue
        if len(states) > _MOST:
            return states, False
        held, inside = _state_of(name, value)
        states[id(value)] = value, held
        waiting.extend(inside.items())
    return states, True


def _state_of(name: str, value: Any) -> _State:
    if isinstance(value, MethodType):
        return {}, {"self": value.__self__, name: value.__func__}
    if isinstance(value, BuiltinMethodType):
        return {}, {name: value.__self__}
    if isinstance(value, functools.partial):
        names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
        named = dict(zip(names, value.args, strict=False)) or dict(_numbered(name, value.args))
        return {}, {name: value.func, **named, **value.keywords}
    if isinstance(value, _CACHE):
        return {f"{name}()": value.cache_info().misses}, {name: value.__wrapped__}
    if isinstance(value, FunctionType):
        return _state_of_function(value)
    if isinstance(function := inspect.getattr_static(value, "func", None), FunctionType):
        return {}, {name: function}  # a kernel
    if isinstance(value, tuple):
        return {}, dict(_numbered(name, value))
    if isinstance(items := contents(value), dict):
        held = {
            f"{name}[{key!r}]" if type(key) in PLAIN else f"{name}[...]": v
            for key, v in items.items()
        }
        return held, held
    if items is not None:
        return {name: items}, dict(_numbered(name, items))
    kind = value if isinstance(value, type) else type(value)
    if _is_foreign(kind.__module__) and kind is not SimpleNamespace:
        return {}, {}
    names = [*getattr(value, "__dict__", ()), *(s for c in kind.__mro__ for s in _slots(c))]
    held = {f"{name}.{n}": attribute(value, n) for n in names if not n.startswith("__")}
    if value is kind:  # the functions of a class do not count as what it holds, and are looked into
        functions = {f"{name}.{n}": getattr(v, "fget", v) for n, v in vars(kind).items()}
        return held, held | {n: getattr(v, "__func__", v) for n, v in functions.items()}
    return held, {**held, kind.__name__: kind}


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in _FOREIGN


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _numbered(name: str, values: Any) -> Iterator[tuple[str, Any]]:
    """Yield items with the name of what holds them, and their position."""
    for position, value in enumerate(values):
        yield f"{name}[{position}]", value


def _state_of_function(function: FunctionType) -> _State:
    code = function.__code__
    if is_internal(code) or is_of_library(code.co_filename):
        return {}, {}
    held = _globals_of(code, function.__globals__)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            held[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    held = _with_modules(code, held)
    held |= {f"{function.__name__}.{name}": value for name, value in vars(function).items()}
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return held, held | dict(_numbered(f"a default of {function.__name__}", defaults))


def _globals_of(code: CodeType, space: dict[str, Any]) -> dict[str, Any]:
    """Return what the text of a function, and of those inside it, may name in its module."""
    return {name: space[name] for name in _names_in(code) if name in space}


def _with_modules(code: CodeType, names: dict[str, Any]) -> dict[str, Any]:
    """Add to `names` what the same text may name in the modules among them."""
    text, found = _names_in(code), dict(names)
    for name, module in names.items():
        if not isinstance(module, ModuleType):
            continue
        if module is random or module is np.random or (module is np and "random" in text):
            # What is drawn from where no generator is named.
            drawn: Any = random.seed if module is random else np.random.standard_normal
            found[f"{name}'s generator"] = drawn.__self__
        elif not _is_foreign(module.__name__):
            held = vars(module)
            found |= {f"{name}.{n}": held[n] for n in text if n in held}
    return found


def _names_in(code: CodeType) -> dict[str, None]:
    """Return the names of globals and attributes in the text of a function and of those inside it, in its order."""
    names = dict.fromkeys(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _names_in(inner)
    return names
