"""What is one piece of advice on a kernel, and how does it read?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """A change of the kernel that would make it faster, with what it rests on.

    Attributes:
        rule: name of the rule that gives it.
        message: what was found, with its numbers.
        help: what to write instead.
        places: lines it is about, as in `nki_source_location`, the one with the largest part first.
        gain_ns: time it would save.
        bound: how `gain_ns` was found: "" by timing the program again with the change; else a few words why it is
            only an upper bound.
    """

    rule: str
    message: str
    help: str
    places: tuple[str, ...]
    gain_ns: int
    bound: str = ""
