"""Reads the text of a kernel with the real instructions."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.text.parser import parse_kernel
from nki_lab.isa import enums, registry
from nki_lab.isa.observing import assert_true, device_print
from nki_lab.isa.operators import NAMED
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target


def dotted_names() -> dict[str, Any]:
    """Return what names such as `nl.add` and `nisa.reduce_cmd.idle` stand for in a kernel's text."""
    choices = [v for v in vars(enums).values() if isinstance(v, type) and issubclass(v, Enum)]
    members = [member for choice in choices for member in choice]
    return {repr(value): value for value in (*NAMED.values(), *members)}


def read_kernel(text: str, target_of: Callable[[str], Target] = get_target) -> Kernel:
    """Return the kernel that a text in the form of `ir.printer` describes.

    Args:
        text: the text.
        target_of: gives the target of a name.

    Raises:
        BadKernelText: with the line and column of what cannot be read.
    """
    observers = {definition.name: definition for definition in (device_print, assert_true)}
    return parse_kernel(text, {**registry, **observers}, dotted_names(), target_of)
