"""To which variable does the author assign the value of a call?"""

from __future__ import annotations

import dis
from itertools import islice

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


def _stored_name(place: Place) -> str:
    if isinstance(place, Span):  # no code
        return ""
    code, offset = place
    # The offset lies on the call or in its inline caches; what follows is the next instruction.
    later = (op for op in dis.get_instructions(code) if op.offset > offset)
    following = list(islice((op for op in later if op.opname != "COPY"), 2))  # COPY: `a = b = ...`
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
