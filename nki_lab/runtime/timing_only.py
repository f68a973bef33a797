"""Times a kernel without computing anything.

It is traced on shapes and dtypes, compiled and put through the timing model. Values are needed only where they decide
how often a loop of the device runs; then it is run on copies of the arrays, if there are any.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nki_lab.backends.simulated import Simulator
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.silence import silence
from nki_lab.compiler.trace import is_array, is_container
from nki_lab.errors import NkiError, NotModelled
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.execution import Execution, known_trips
from nki_lab.ir.program.nodes import Kernel
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.call_form import check_cores
from nki_lab.runtime.view_data import make_view_data
from nki_lab.targets.spec import Target
from nki_lab.timing import simulate_cores, simulate_time
from nki_lab.views.run import ViewData

#: Instructions of one program at most: a value of a slider may ask for a million tiny tiles.
MOST_INSTRUCTIONS = 100_000


@dataclass(frozen=True)
class TimedCall:
    """A call of a kernel that is to be timed.

    Attributes:
        source: the kernel.
        arguments: its arguments by name, with a TensorSpec in place of each array.
        target: the chip.
        options: choices of the compiler.
        cores: how many of a logical core.
        arrays: the values of the arrays by their path; None where they are not to be computed with.
        most: instructions at which it is given up.
    """

    source: SourceKernel
    arguments: Mapping[str, Any]
    target: Target
    options: Choices
    cores: int = 1
    arrays: Mapping[str, np.ndarray] | None = None
    most: int = MOST_INSTRUCTIONS


def time_call(call: TimedCall) -> ViewData:
    """Compile and time a call, and return what views show of it; nothing is printed, nothing of the caller is changed.

    Raises:
        NkiError: it does not compile.
        NotModelled: it has more than `most` instructions, or loops whose passes depend on values that are not there.
    """
    again = _bound(call)
    retrace = Retrace(call.source, again.args, again.kwargs, call.target, call.options)
    try:
        with silence():
            compiled = _compiled(call)
    except NkiError:
        raise
    except MemoryError:
        raise NotModelled(
            f"{call.source.name}: too little memory to compile it", help="give it smaller arguments"
        ) from None
    # Views of a variant show its timeline; its program after each pass would be made for nothing.
    compiled = replace(compiled, stages=(), programs=None)
    return make_view_data(compiled, _profile(call, compiled, retrace), compiled.findings_before_run)


def _bound(call: TimedCall) -> inspect.BoundArguments:
    bound = inspect.BoundArguments(call.source.signature, {})  # type: ignore[arg-type]
    bound.arguments.update({name: fresh(value) for name, value in call.arguments.items()})
    return bound


def _compiled(call: TimedCall) -> CompiledKernel:
    check_cores(call.source.name, call.cores, call.target)
    bound = _bound(call)
    return compile_kernel(
        call.source,
        bound.args,
        bound.kwargs,
        call.target,
        call.options,
        call.cores,
        builder_of=partial(_bounded, call.most),
    )


def _bounded(most: int, *args: Any, **kwargs: Any) -> Builder:
    """Return a builder that gives up past `most` instructions."""
    builder = Builder(*args, **kwargs)
    builder.body = _Bounded(most)
    return builder


class _Bounded(list[Any]):
    """A program that refuses to grow past a number of instructions."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def append(self, node: Any) -> None:
        if len(self) >= self._most:
            raise NotModelled(
                f"the kernel has more than {self._most:,} instructions with these values, which is not timed here",
                stack=getattr(node, "stack", ())[:1],
                help="run it with nki_lab.run, or choose values that make fewer and larger tiles",
            )
        super().append(node)


def _profile(call: TimedCall, compiled: CompiledKernel, retrace: Retrace) -> Profile:
    executions = _executions(call, compiled)
    iterations = [partial(retrace.iterations, execution.kernel) for execution in executions]
    if len(executions) == 1:
        return simulate_time(executions[0], iterations=iterations[0])
    return simulate_cores(executions, iterations=iterations)


def _executions(call: TimedCall, compiled: CompiledKernel) -> list[Execution]:
    programs: tuple[Kernel, ...] = (compiled.kernel, *compiled.others)
    trips = [known_trips(program, call.options.max_trips) for program in programs]
    if None in trips:
        if call.arrays is None:
            raise NotModelled(
                f"{call.source.name} has loops whose number of passes depends on values, so it is not timed without"
                " computing them",
                stack=(call.source.place,),
                help=f"nki_lab.vary({call.source.name}, ..., simulate=True) computes on copies of its arrays",
            )
        trips = _run(compiled, call.arrays, call.options)
    return [Execution.of(p, t or ()) for p, t in zip(programs, trips, strict=True)]


def _run(
    compiled: CompiledKernel, arrays: Mapping[str, np.ndarray], choices: Choices
) -> list[tuple[int, ...] | None]:
    """Return how often the loops of each core ran, on copies of the arrays cast to the dtypes compiled for."""
    given = [arrays[s.name].astype(s.dtype.host) for s in compiled.kernel.inputs]
    run = Simulator().run(compiled, given, choices)
    return [execution.trips for execution in run.executions]


def fresh(value: Any) -> Any:
    """Return an argument whose containers and objects are copies: kernels may change them while they are traced."""
    if is_array(value) or not is_container(value):
        return value
    if isinstance(value, tuple):
        items = [fresh(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value) is list:
        return [fresh(item) for item in value]
    if type(value) is dict:
        return {key: fresh(item) for key, item in value.items()}
    copied = copy.copy(value)
    slots = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    for name in {*slots, *getattr(value, "__dict__", {})}:
        if hasattr(value, name):
            object.__setattr__(copied, name, fresh(getattr(value, name)))
    return copied
