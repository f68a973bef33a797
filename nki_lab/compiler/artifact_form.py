"""Checks the document of a saved kernel: which parts it must have, and of which kinds.

A hash tells that a file is as it was written, not that nki_lab wrote it: what is read from it is looked at first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

# No author's file has more lines; a larger number would make as many empty ones.
_MOST_LINES = 1_000_000

Test = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return type(value) is str


def _yes_or_no(value: Any) -> bool:
    return type(value) is bool


def _below(limit: int, least: int = 0) -> Test:
    return lambda value: type(value) is int and least <= value < limit


def _maybe(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _list(test: Test) -> Test:
    return lambda value: type(value) is list and all(map(test, value))


def _row(*tests: Test) -> Test:
    return lambda value: (
        type(value) is list
        and len(value) == len(tests)
        and all(test(v) for test, v in zip(tests, value, strict=True))
    )


def _table(key: Test, test: Test) -> Test:
    return lambda value: type(value) is dict and all(key(k) and test(v) for k, v in value.items())


def _record(**tests: Test) -> Test:
    return lambda value: (
        type(value) is dict
        and value.keys() >= tests.keys()
        and all(test(value[name]) for name, test in tests.items())
    )


def _any(value: Any) -> bool:
    return True


def _digits(limit: int) -> Test:
    return lambda value: (
        value.isascii() and value.isdigit() and len(value) < 8 and int(value) < limit
    )


def _row_of_cores(test: Test) -> Test:
    return lambda value: type(value) is list and len(value) in (1, 2) and all(map(test, value))


def _target(value: Any) -> bool:
    overlaid = _record(name=_text, constants=_table(_text, _any))
    return _text(value) or overlaid(value)


_line = _below(_MOST_LINES, 1)
_KINDS = (
    "POSITIONAL_ONLY",
    "POSITIONAL_OR_KEYWORD",
    "VAR_POSITIONAL",
    "KEYWORD_ONLY",
    "VAR_KEYWORD",
)


def is_signature(parameters: Any) -> bool:
    """Tell whether rows of (name, kind) are the parameters of a function."""
    if not _list(_row(_text, lambda kind: kind in _KINDS))(parameters):
        return False
    try:
        inspect.Signature(
            [inspect.Parameter(name, getattr(inspect.Parameter, kind)) for name, kind in parameters]
        )
    except (ValueError, IndexError):  # IndexError: an empty name
        return False
    return True


def is_complete(stored: Any) -> bool:
    """Tell whether a document has every part of a saved kernel; the programs' texts are not looked at."""
    lists = _record(files=_list(_row(_text, _yes_or_no)), stacks=_list(_list(_row(*[_any] * 6))))
    if not lists(stored):
        return False
    file, stack = _below(len(stored["files"])), _below(len(stored["stacks"]))
    number = _below(_MOST_LINES)
    frame = _row(file, _line, _maybe(number), _maybe(_line), _maybe(number), _text)
    places = _record(instructions=_list(stack), storages=_list(stack), loops=_list(stack))
    finding = _record(kind=_text, message=_text, help=_text, code=_text, place=stack)
    return _record(
        nki_lab=_text,
        name=_text,
        target=_target,
        target_facts=_text,
        parameters=is_signature,
        arguments=_table(_text, _maybe(_text)),
        cores=_row_of_cores(_record(program=_text, places=places)),
        findings=_list(finding),
        timed=_text,
        stacks=_list(_list(frame)),
        source=_maybe(
            _record(file=_below(max(1, len(stored["files"]))), first_line=_line, text=_text)
        ),
        lines=_maybe(_table(_digits(len(stored["files"])), _table(_digits(_MOST_LINES), _text))),
    )(stored)
