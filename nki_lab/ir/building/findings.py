"""The findings of a trace, and what of a kernel's text only some versions of NKI have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nki_lab.errors import Needs, NkiError, TensorArgument, UnknownName
from nki_lab.ir.definition.form_key import LARGEST
from nki_lab.ir.definition.instruction import Definition
from nki_lab.ir.program.nodes import Finding
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.source import Blame, Stack
from nki_lab.targets.spaces import MemoryRegion
from nki_lab.versions import (
    ACCEPTED,
    DEPRECATED,
    ERROR,
    FORMS,
    PORTABILITY,
    Version,
    is_newer,
    named_since,
    new_in,
    refused,
)


class Findings:
    """What a trace finds: the part of a builder that asks for the version of the kernel.

    Attributes:
        version: the version of NKI that the kernel is written for.
        allow: codes of errors that are findings of this kernel.
        findings: the first finding of each kind, message and place.
        newer: the official names of what the version does not have yet, by the identity of what they stand for.
    """

    def __init__(self, version: Version, allow: tuple[str, ...] = ()) -> None:
        self.version = version
        self.allow = allow
        self.findings: dict[tuple[str, str, Any], Finding] = {}
        self.newer: Mapping[int, str] = {}

    def stack(self, depth: int = 2) -> Stack:
        """Return the author's places from `depth` frames up to the kernel, innermost first."""
        raise NotImplementedError

    def find(
        self,
        kind: str,
        message: str,
        help: str = "",
        code: str = "",
        stack: Stack | None = None,
        blame: Blame | None = None,
    ) -> None:
        """Record a finding once per place."""
        where = self.stack() if stack is None else stack
        finding = Finding(kind, message, where, help, code, blame)
        self.findings.setdefault((kind, message, where), finding)

    def find_for_parser(self, what: str, help: str) -> None:
        """Record a finding about what NKI's parser refuses, where the kernel's version has one."""
        if not self.version.plain_python:
            message = f"{what}: NKI's tracer accepts it, its parser does not"
            self.find("portability", message, help)

    def meet_form(
        self,
        key: str,
        what: str,
        help: str = "",
        blame: Blame | None = None,
        error: type[NkiError] = NkiError,
    ) -> str:
        """Record a form that versions treat differently, as the kernel's version does, and return what that is.

        Where the version refuses it and the form has a code, the finding is an error once the trace has ended, unless
        the kernel is allowed it. Where the form has no code, an error of the kind `error` is raised.

        Args:
            key: of the form in FORMS.
            what: what the kernel says, as the subject of a sentence.
            help: what to write instead; the words of the form where nothing is given.
            blame: the argument to mark.
            error: kind of the error where the form has no code.
        """
        form = FORMS[key]
        level = form.level(self.version)
        if level == ACCEPTED:
            return level
        stack, message, help = self.stack(), f"{what} {form.fate(level)}", help or form.instead
        if level == ERROR and not form.code:
            raise error(message, stack=stack, help=help, blame=blame, needs=refused(form, what))
        kind = DEPRECATED if level == DEPRECATED else PORTABILITY
        self.find(kind, message, help, form.code, stack, blame)
        return level

    def take_form(self, key: str) -> Needs | None:
        """Record a form where the version takes it; where it refuses it, return what the caller's error needs."""
        form = FORMS[key]
        if form.level(self.version) == ERROR:
            return refused(form, form.what)
        self.meet_form(key, form.what)
        return None

    def memory_named(self, name: str) -> Any:
        """Return the memory of a name, in versions that have names of memories; a name of none as it is."""
        memory = MemoryRegion.__members__.get("private_hbm" if name == "hbm" else name)
        if memory is None:
            return name
        what = f"buffer={name!r}, the name of a memory,"
        help = Hint(f"write nl.{name}", Rewrite("", f"nl.{name}"))
        self.meet_form("string buffer", what, help, Blame.of("buffer"), TensorArgument)
        return memory

    def check_newer(self, *values: Any) -> None:
        """Refuse an instruction, an operator or a dtype that the kernel's version does not have."""
        for value in values:
            name = self.newer.get(id(value))
            if name in self.version.traced_only:
                raise UnknownName(
                    f"`{name}` is taken by NKI's tracer only, and NKI_COMPILER_FRONTEND asks for the parser",
                    stack=self.stack(3),
                    help="unset NKI_COMPILER_FRONTEND, or use registers: nisa.register_load, nisa.register_store",
                )
            if name is not None:
                raise not_yet(name, named_since(name), self.version, self.stack(3))

    def check_named(self, name: str) -> None:
        """Refuse an official name that the kernel's version does not have."""
        if named_since(name).number > self.version.number:
            raise not_yet(name, named_since(name), self.version, self.stack(3))

    def check_number(self, definition: Definition, position: int, value: Any) -> None:
        """Record numbers, also in lists, that scalars of the chip cannot hold: they have 32 bits."""
        for item in value if type(value) is tuple else (value,):
            if type(item) is tuple:
                self.check_number(definition, position, item)
            elif type(item) is int and not -0x80000000 <= item <= 0xFFFFFFFF:
                self._find_number(definition, position, item, "an integer of more than 32 bits")
            elif type(item) is float and LARGEST <= abs(item) < math.inf:
                self._find_number(definition, position, item, "infinite as float32")

    def _find_number(self, definition: Definition, position: int, value: Any, what: str) -> None:
        name = definition.params[position]
        self.find(
            "hazard",
            f"{definition.name}: {name}={value!r} is {what}; scalars of NKI have 32 bits",
            help=f"keep it below {LARGEST:.8g}, or write float('inf') where that is meant"
            if type(value) is float
            else "write an integer of 32 bits, or a float, which is rounded to float32",
            blame=Blame(definition.name, ((name, position),)),
        )


def not_yet(name: str, since: Version, version: Version, stack: Stack) -> UnknownName:
    """Return the error of a name that is new in `since`, in a kernel for an earlier version."""
    return UnknownName(
        is_newer(name, since, version),
        stack=stack,
        help=f"write `# nki: {since.name}` above the kernel, or do without it",
        needs=new_in(name, since),
    )
