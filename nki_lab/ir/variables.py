"""To which variable does the author assign the value of a call?"""

from __future__ import annotations

import dis
from bisect import bisect_right
from functools import lru_cache
from types import CodeType

from nki_lab.source import Place, Span, Stack

_RETURNED = "return"  # no variable is called that


def variable_of(stack: Stack) -> str:
    """Return the variable or attribute that takes the value of the innermost call, or an empty string.

    A function that returns the value at once leaves it to its caller to name it.
    """
    for place in stack:
        name = _stored_name(place)
        if name != _RETURNED:
            return name
    return ""


@lru_cache(
    maxsize=16
)  # a kernel asks once per call, and to list the instructions takes time in its length
def _instructions(code: CodeType) -> tuple[list[int], list[dis.Instruction]]:
    listed = [op for op in dis.get_instructions(code) if op.opname != "COPY"]  # COPY: `a = b = ...`
    return [op.offset for op in listed], listed


def _stored_name(place: Place) -> str:
    if isinstance(place, Span):  # no code
        return ""
    code, offset = place
    # The offset lies on the call or in its inline caches; what follows is the next instruction.
    offsets, instructions = _instructions(code)
    first = bisect_right(offsets, offset)
    following = instructions[first : first + 2]
    names = [op.opname for op in following]
    if names[0] == "RETURN_VALUE":
        return _RETURNED
    if names[0].startswith("LOAD_") and names[1:] == ["STORE_ATTR"]:
        return str(following[1].argval)
    if not names[0].startswith("STORE_") or names[0] in ("STORE_SUBSCR", "STORE_ATTR"):
        return ""
    stored = following[0].argval
    # Python 3.13 stores and loads in one step, on two names.
    return str(stored[0] if isinstance(stored, tuple) else stored)
