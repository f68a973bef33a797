"""What runs a compiled kernel, and what it gives back of a run.

    class Device(Backend):
        name = "device"

        def run(self, compiled, arrays, options, retrace):
            ...
            return Run(self.name, outputs)

A subclass with a name is registered: a file in this folder is all that a backend needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_lab.choices import BACKEND, Choices
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.errors import ToolchainError, UnknownOption, close_matches
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Finding
from nki_lab.profiler.profile import Profile
from nki_lab.targets.spec import Target


class Run:
    """What a backend gives back of one run.

    Attributes:
        backend: name of the backend.
        outputs: what the kernel returns, in order.
        findings: what only this run could show.
        executions: for each core, which instructions ran in which order; empty where the backend does not tell.
        origin: where values and times come from, such as "modelled" or "measured on trn2, core 0"; "" where the
            backend does not tell.
        other: the same call on another backend, to compare with; None where it ran only here.
        notes: sentences about the run that are told with its time, such as how both differ.
    """

    other: Run | None = None
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        backend: str,
        outputs: Sequence[np.ndarray],
        findings: Sequence[Finding] = (),
        executions: Sequence[Execution] = (),
        origin: str = "",
    ) -> None:
        self.backend = backend
        self.origin = origin
        self.outputs = tuple(outputs)
        self.findings = tuple(findings)
        self.executions = tuple(executions)

    def without_arrays(self) -> Run:
        """Return the same run without what the kernel returned, which may be large."""
        bare = object.__new__(type(self))
        vars(bare).update(vars(self), outputs=())
        if self.other is not None:
            bare.other = self.other.without_arrays()
        return bare

    def benchmark(self) -> Any:
        """Return times of many calls that the backend has measured; None where it measures none."""
        return None

    def profile(self) -> Profile:
        """Return the timeline; ToolchainError where the backend has none of this run."""
        raise ToolchainError(
            f"the backend `{self.backend}` has no profile of this run",
            help="run it with backend='simulator', whose times are modelled",
        )

    def executed(self, what: str) -> tuple[Execution, ...]:
        """Return the executions; ToolchainError says that `what` needs them where the backend does not tell."""
        if not self.executions:
            raise ToolchainError(
                f"{what} is for runs of the simulator: the backend `{self.backend}` does not tell which instructions"
                " ran in which order",
                help="run it with backend='simulator'",
            )
        return self.executions


class Backend(ABC):
    """Runs compiled kernels.

    Attributes:
        name: what `backend=` and `--backend` call it.
    """

    name: str

    def chip(self, asked: str | Target, options: Choices) -> str | Target:
        """Return the chip to compile for, before anything is compiled.

        Args:
            asked: what is chosen; a `Standard` where nobody has chosen.
            options: the other choices.

        Raises ToolchainError where the backend cannot run here, or not on that chip.
        """
        return asked

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        BACKENDS[cls.name] = cls()
        BACKEND.offer(BACKENDS, backend_named)

    @abstractmethod
    def run(
        self,
        compiled: CompiledKernel,
        arrays: Sequence[np.ndarray],
        options: Choices,
        retrace: Retrace | None,
    ) -> Run:
        """Run a kernel and return what came out.

        Args:
            compiled: the program, with its source.
            arrays: its inputs, in order; those that it writes are updated in place.
            options: what was chosen.
            retrace: the call that was compiled, to trace it again; None for a kernel from a file.
        """

    def run_ranks(
        self,
        compiled: CompiledKernel,
        ranks: Sequence[Sequence[np.ndarray]],
        options: Choices,
        retrace: Retrace | None,
    ) -> Sequence[Run]:
        """Run a kernel as several ranks that meet in collectives; `ranks` are the arrays of each."""
        raise self.unsupported(f"running {len(ranks)} ranks")

    def unsupported(self, what: str) -> ToolchainError:
        """Return the error of what only the simulator can do."""
        return ToolchainError(
            f"{what} is not supported by the backend `{self.name}`",
            help="use backend='simulator' for it",
        )


#: The backends by their name.
BACKENDS: dict[str, Backend] = {}


def backend_named(name: str) -> Backend:
    """Return a backend; UnknownOption names those there are."""
    if name not in BACKENDS:
        raise UnknownOption(
            f"unknown backend `{name}`: no module of nki_lab.backends defines one of that name",
            help=close_matches(name, BACKENDS) or f"backends: {', '.join(BACKENDS)}",
        )
    return BACKENDS[name]


def refuse_others(choices: Choices, what: str) -> None:
    """Raise ToolchainError for what only the simulator can do, where another backend is chosen."""
    backend = backend_named(choices.backend)
    if backend is not BACKENDS["simulator"]:
        raise backend.unsupported(what)
