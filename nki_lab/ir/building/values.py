"""Compares values of Python before and after the trace of a loop's body: containers, arrays, iterators, attributes."""

from __future__ import annotations

import inspect
import random
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count, islice
from types import GeneratorType, MemberDescriptorType
from typing import Any

import numpy as np

from nki_lab.ir.tensor.view import NkiTensor

PLAIN = (bool, int, float, str, bytes, type(None), tuple)
MISSING = object()
MOST = 10_000  # items that are looked at
_CONTAINERS = (list, dict, set, deque)
_DEEPEST = 3  # values within values that are looked into
_LARGEST = 1 << 24  # bytes of an array that are looked at


def same(old: Any, new: Any) -> bool:
    """Tell whether a value is still what it was: the same object, or a plain one that is equal."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, (list, tuple, deque)):
        return len(old) == len(new) and all(map(same, old, new))
    return (type(old) in PLAIN and bool(old == new)) or same_bytes(old, new)


def same_bytes(old: Any, new: Any) -> bool:
    """Tell whether two values are views of the same elements, such as a tile and its other shape."""
    return (
        type(old) is type(new) is NkiTensor
        and old.storage is new.storage
        and (old.offset, old.size, old.dynamic) == (new.offset, new.size, new.dynamic)
    )


def contents(value: Any) -> Any:
    """Return what a value holds, copied: a dict, a list, or None where it holds nothing that could change."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, _CONTAINERS):
        return list(value)
    if isinstance(value, np.ndarray) and value.nbytes <= _LARGEST:
        return [value.shape, value.tolist() if value.dtype.hasobject else value.tobytes()]
    return state_of_iterator(value)


def state_of_iterator(value: Any, depth: int = 0) -> list[Any] | None:
    """Return how far an iterator, a generator or a generator of random numbers has come; None for anything else."""
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return [None]
        names = sorted(frame.f_locals.items())
        return [frame.f_lasti, *((name, _copied(v, depth)) for name, v in names)]
    if isinstance(value, np.random.Generator):
        return [repr(value.bit_generator.state)]
    if isinstance(value, (np.random.RandomState, random.Random)):
        return [repr(value.get_state() if hasattr(value, "get_state") else value.getstate())]
    if type(value) is count:
        return [repr(value)]
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # older Pythons say that newer ones do not copy these
                state = value.__reduce__()
        except TypeError:
            return None
        return [_copied(part, depth) for part in state[1:]]  # type: ignore[index]
    return None


def _copied(value: Any, depth: int) -> Any:
    """Return a value, or what is in it where that may change."""
    if depth >= _DEEPEST:
        return value
    inner = state_of_iterator(value, depth + 1)
    if inner is not None:
        return inner
    if isinstance(value, (list, tuple)):
        return [_copied(part, depth + 1) for part in islice(value, MOST)]
    return value


def attribute(value: Any, name: str) -> Any:
    """Return an attribute that is kept in an object or its class, without running code of the class."""
    kept = getattr(value, "__dict__", None)
    if isinstance(kept, Mapping) and name in kept:
        return kept[name]
    slot = inspect.getattr_static(value if isinstance(value, type) else type(value), name, MISSING)
    if isinstance(slot, MemberDescriptorType):
        try:
            return slot.__get__(value)
        except (AttributeError, TypeError):  # not set; of a class, whose objects have it
            return MISSING
    return MISSING if hasattr(type(slot), "__get__") else slot
