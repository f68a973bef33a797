"""Which environment variables does nki_lab read, and what do they mean?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

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
        "chip that kernels are compiled for: trn1, inf2, gen2, trn2, gen3, trn3 or gen4",
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
    "strict": Variable("NKI_LAB_STRICT", "0", "1: findings are errors", ("0", "1")),
}


@dataclass(frozen=True)
class Settings:
    """The environment's answers at one moment; read anew at each kernel call.

    Attributes:
        target: name of the chip.
        simulator: run on the simulator.
        precise_fp: round on every write.
        capacity: "error" or "finding".
        strict: findings are errors.
    """

    target: str
    simulator: bool
    precise_fp: bool
    capacity: str
    strict: bool

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the variables; a value that is none of the choices is an error naming it."""
        values = {
            key: _value(v, os.environ if environ is None else environ)
            for key, v in VARIABLES.items()
        }
        return cls(
            target=values["target"],
            simulator=values["simulator"] == "1",
            precise_fp=values["precise_fp"] == "1",
            capacity=values["capacity"],
            strict=values["strict"] == "1",
        )


def _value(variable: Variable, environ: Mapping[str, str]) -> str:
    value = environ.get(variable.name) or variable.default
    if variable.choices and value not in variable.choices:
        raise UnknownOption(
            f"{variable.name}={value}: expected {' or '.join(variable.choices)}",
            help=close_matches(value, variable.choices),
        )
    return value
