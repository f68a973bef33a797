"""The configurations that `nki.jit` takes since NKI 0.7, and what a simulator does with them.

Source: nki/api/nki.compiler.html. The page hides the defaults of three options (`...`); None stands for those here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from nki_lab.errors import KernelArgument, Needs, NestedConfiguration
from nki_lab.source import Stack
from nki_lab.versions import ERROR, FORMS, Version, refused, version_since


class AddressRotation(Enum):
    """Whether the compiler may move tensors for a better layout.

    The compiler of nki_lab gives each tensor one address, which `Result.memory` shows, and moves none.
    """

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True)
class CompileConfig:
    """Options of the compiler for one kernel: `nki.jit(compile_config=...)`.

    They are kept, and compared where a kernel calls another one. No option changes the program or its times here: no
    page says how addresses rotate, how loads are classified, or how long the ring and the slack are. A kernel that
    chooses one is told so (`without_effect`).

    Attributes:
        address_rotation: whether tensors may be moved.
        non_ssa_legalization: whether the back end legalizes what is written several times.
        dead_code_elim: whether the back end may remove what is not used.
        barrier_check: whether barriers of the cores are checked.
        prefetch_auto: whether a part of SBUF is reserved to load ahead; not together with NKI_PREFETCH_RING_SIZE.
        nki_alloc_fallback: whether another allocator is tried where one finds no place. With False, a tensor that does
            not fit is an error; so it is here in any case.
    """

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.address_rotation, AddressRotation):
            raise KernelArgument(
                f"CompileConfig: address_rotation={self.address_rotation!r} is not an AddressRotation",
                help="write nki.compiler.AddressRotation.AUTO, ENABLE or DISABLE",
            )
        _check_flags(self)
        if self.prefetch_auto and "NKI_PREFETCH_RING_SIZE" in os.environ:
            raise KernelArgument(
                "CompileConfig: prefetch_auto=True excludes NKI_PREFETCH_RING_SIZE, which the environment sets",
                help="take the variable out of the environment, or leave prefetch_auto out",
            )

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Yield (option=value, why nothing changes) for each option that the kernel chooses without effect."""
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default and f.name in _WITHOUT_EFFECT:
                yield f"{f.name}={value!s}", _WITHOUT_EFFECT[f.name]


_WITHOUT_EFFECT = {
    "address_rotation": "each tensor keeps one address",
    "non_ssa_legalization": "what is written several times runs as it stands",
    "dead_code_elim": "what is never read is removed in any case",
    "barrier_check": "barriers of the cores are always checked",
    "nki_alloc_fallback": "there is one allocator, and a tensor that it finds no place for is an error in any case",
    "prefetch_auto": "no page says which loads are moved; each starts where it stands in the program",
}


@dataclass(frozen=True)
class SpecializationConfig:
    """Options of tracing for one kernel: `nki.jit(specialization_config=...)`.

    Attributes:
        allow_nested_config_override: the kernel that is called first may call kernels with other configurations, which
            run under its own then, with a finding; else that is an error.
    """

    allow_nested_config_override: bool = False

    def __post_init__(self) -> None:
        _check_flags(self)


@dataclass(frozen=True)
class Configuration:
    """What a kernel's decorator asks for besides its version: None and "" where it does not.

    Attributes:
        compile, specialization: the configurations that NKI has since 0.7.
        platform_target: the chip, which NKI 0.1 and 0.2 took.
        ignored: names of other keyword arguments, which change nothing here.
    """

    compile: CompileConfig | None = None
    specialization: SpecializationConfig | None = None
    platform_target: str = ""
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, compile_config: Any, specialization_config: Any) -> Configuration:
        """Return what a decorator gives; KernelArgument for objects of other classes."""
        for name, value, kind in (
            ("compile_config", compile_config, CompileConfig),
            ("specialization_config", specialization_config, SpecializationConfig),
        ):
            if value is not None and not isinstance(value, kind):
                raise KernelArgument(
                    f"nki.jit: {name} must be a {kind.__name__}, found {value!r}",
                    help=f"write {name}=nki.compiler.{kind.__name__}(...)",
                )
        return cls(compile_config, specialization_config)

    def check_version(self, name: str, version: Version, place: Stack) -> None:
        """Refuse what the version of a kernel does not have: a configuration, or a chip."""
        form = FORMS["platform target"]
        if self.platform_target and form.level(version) == ERROR:
            raise KernelArgument(
                f"{form.what} {form.fate(ERROR)}",
                stack=place,
                help=form.instead,
                needs=refused(form, form.what),
            )
        for keyword, value in (
            ("compile_config", self.compile),
            ("specialization_config", self.specialization),
        ):
            since = version_since(
                "nki.jit", keyword, version, "compile_config specialization_config"
            )
            if value is not None and since is not None:
                raise KernelArgument(
                    f"nki.jit: `{keyword}` is new in NKI {since.name}, and kernel `{name}` is written for"
                    f" NKI {version.name}",
                    stack=place,
                    needs=Needs(f"nki.jit({keyword}=...)", since=since.name),
                    help=f"write `# nki: {since.name}` above the kernel, or leave {keyword} out",
                )

    def tell_without_effect(self, name: str, place: Stack, builder: Any) -> None:
        """Record a finding for each option of the compiler that the kernel chooses and that changes nothing here."""
        for option, why in () if self.compile is None else self.compile.without_effect():
            builder.find(
                "unchecked",
                f"kernel `{name}`: CompileConfig({option}) changes neither values nor times here: {why}",
                "measure on the device what it does",
                stack=place,
            )

        for keyword in self.ignored:
            said = f"kernel `{name}`: nki.jit({keyword}=...) changes nothing here"
            builder.find("advice", said, f"leave {keyword} out", stack=place)

    def check_nested(self, name: str, builder: Any, place: Stack) -> None:
        """Compare this configuration with that of the kernel that is traced and calls `name`.

        A kernel without a configuration takes that of its caller; no page says so, and an error on every kernel of a
        library would leave no use for configurations.
        """
        self.check_version(name, builder.version, place)
        top = builder.configuration
        outer = top.compile if isinstance(top, Configuration) else None
        if self.compile is None or self.compile == (outer or CompileConfig()):
            return
        differing = [
            f"{f.name}={getattr(self.compile, f.name)!s}"
            for f in fields(CompileConfig)
            if getattr(self.compile, f.name) != getattr(outer or CompileConfig(), f.name)
        ]
        message = f"kernel `{name}` has another configuration than the kernel that calls it: {', '.join(differing)}"
        specialization = top.specialization if isinstance(top, Configuration) else None
        if specialization is not None and specialization.allow_nested_config_override:
            builder.find("portability", f"{message}; it runs under that of its caller")
            return
        raise NestedConfiguration(
            message,
            help="give both kernels one compile_config, or the calling one"
            " specialization_config=SpecializationConfig(allow_nested_config_override=True)",
        )


def _check_flags(config: Any) -> None:
    for f in fields(config):
        value = getattr(config, f.name)
        if f.name != "address_rotation" and value is not None and type(value) is not bool:
            raise KernelArgument(
                f"{type(config).__name__}: {f.name}={value!r} is neither True nor False",
                help=f"write {f.name}=True or {f.name}=False",
            )
