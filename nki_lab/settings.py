"""The environment variables that nki_lab reads, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType

from nki_lab.errors import UnknownOption, close_matches


@dataclass(frozen=True)
class Variable:
    """One environment variable: its name, its default and what it decides."""

    name: str
    default: str
    meaning: str
    choices: tuple[str, ...] = ()


# The first three are the official names (nki/guides/nki_simulator.rst).
VARIABLES: dict[str, Variable] = {
    "target": Variable(
        "NEURON_PLATFORM_TARGET_OVERRIDE",
        "trn3",
        "chip that kernels are compiled for, such as trn2, or an alias, such as gen3",
    ),
    "simulator": Variable(
        "NKI_SIMULATOR",
        "1",
        "1: calling a kernel runs it on the simulator; 0: on the device",
        ("0", "1"),
    ),
    "precise_fp": Variable(
        "NKI_PRECISE_FP",
        "1",
        "1: results are rounded to the tile's dtype on every write; 0: floats are kept in float32",
        ("0", "1"),
    ),
    "capacity": Variable(
        "NKI_LAB_CAPACITY",
        "error",
        "what happens when SBUF or PSUM does not fit: `error`, or `finding`, which runs it anyway and says so",
        ("error", "finding"),
    ),
    "skip_passes": Variable(
        "NKI_LAB_SKIP_PASSES",
        "none",
        "compiler passes to leave out, separated by commas: schedule keeps the order of the kernel's lines,"
        " unless tiles fit only in another",
    ),
    "progress": Variable(
        "NKI_LAB_PROGRESS",
        "user",
        "file where solved exercises are kept: `user` is one in the user's data folder, `none` keeps them until the"
        " kernel ends",
    ),
    "strict": Variable("NKI_LAB_STRICT", "0", "1: findings are errors", ("0", "1")),
    "allow": Variable(
        "NKI_LAB_ALLOW",
        "none",
        "codes of errors, separated by commas, that are findings instead: what only later versions of NKI refuse,"
        " such as NKI206, so that older kernels run",
    ),
    "max_trips": Variable(
        "NKI_LAB_MAX_TRIPS",
        "10000000",
        "trips that device loops of one run may make together; more are an error, as in a loop that never ends",
    ),
    "debug": Variable(
        "NKI_LAB_DEBUG",
        "0",
        "1: instructions run while they are traced, so that `print(tile)` and `breakpoint()` in a kernel see values",
        ("0", "1"),
    ),
}


_overrides: ContextVar[Mapping[str, str]] = ContextVar(
    "nki_lab_settings", default=MappingProxyType({})
)


@contextmanager
def override(**values: str | None) -> Iterator[None]:
    """Let options of a magic or command win over the environment inside a `with` block.

    Args:
        values: texts by the keys of VARIABLES, as they would stand in the environment; None changes nothing.
    """
    assert set(values) <= set(VARIABLES)
    given = {key: value for key, value in values.items() if value is not None}
    token = _overrides.set({**_overrides.get(), **given})
    try:
        yield
    finally:
        _overrides.reset(token)


@dataclass(frozen=True)
class Settings:
    """The environment's answers at one moment; read anew at each kernel call.

    Attributes:
        target: name of the chip.
        simulator: run on the simulator.
        precise_fp: round on every write.
        capacity: "error" or "finding".
        skip_passes: names of compiler passes to leave out.
        progress: file of solved exercises, "none", or "user" for one in the user's data folder.
        strict: findings are errors.
        allow: codes of errors that are findings instead.
        max_trips: trips that the device loops of a run may make.
        debug: run instructions while they are traced.
    """

    target: str
    simulator: bool
    precise_fp: bool
    capacity: str
    skip_passes: tuple[str, ...]
    progress: str
    strict: bool
    allow: tuple[str, ...]
    max_trips: int
    debug: bool

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the variables; a value that is none of the choices is an error naming it.

        What `override` gives wins over the environment of the process, not over `environ`.
        """
        if environ is None:
            overrides = _overrides.get()
            texts = {k: overrides.get(k) or os.environ.get(v.name) for k, v in VARIABLES.items()}
        else:
            texts = {k: environ.get(v.name) for k, v in VARIABLES.items()}
        values = {key: _value(VARIABLES[key], text) for key, text in texts.items()}
        return cls(
            target=values["target"],
            simulator=values["simulator"] == "1",
            precise_fp=values["precise_fp"] == "1",
            capacity=values["capacity"],
            skip_passes=names_in(values["skip_passes"]),
            progress=values["progress"],
            strict=values["strict"] == "1",
            allow=names_in(values["allow"]),
            max_trips=_count("max_trips", values["max_trips"]),
            debug=values["debug"] == "1",
        )


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names of a list with commas between them; "none", "" and None have none."""
    return () if text in (None, "", "none") else tuple(name.strip() for name in text.split(","))


def _count(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UnknownOption(f"{VARIABLES[key].name}={text}: expected a whole number above 0")
    return int(text)


def _value(variable: Variable, text: str | None) -> str:
    value = text or variable.default
    if variable.choices and value not in variable.choices:
        raise UnknownOption(
            f"{variable.name}={value}: expected {' or '.join(variable.choices)}",
            help=close_matches(value, variable.choices),
        )
    return value
