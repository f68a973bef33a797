"""Times a kernel with other values of its compile-time parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.retrace import Retrace, forgotten
from nki_lab.compiler.trace import bind_arguments, is_array, map_arguments
from nki_lab.errors import NkiError, UnknownOption
from nki_lab.profiler.text_table import ANSWER_LINES
from nki_lab.runtime.changed_globals import with_globals
from nki_lab.runtime.compiled import numpy_arguments
from nki_lab.runtime.jit import KernelFunction, jit
from nki_lab.runtime.timing_only import MOST_INSTRUCTIONS, TimedCall, time_call
from nki_lab.runtime.vary_parameters import CORES, TARGET, Changeable, changed_arguments
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target
from nki_lab.views.run import ViewData
from nki_lab.views.vary.text import variants_text
from nki_lab.views.vary.variants import MOST_COMBINATIONS, Parameter, Variants


class KernelVariants(Variants):
    """A kernel with other values of its parameters; a notebook shows sliders and the timeline of what they say."""

    @property
    def view_data(self) -> ViewData:
        """The kernel as it stands at the start, with its variants."""
        return self.variant(self.start).data

    def show(self) -> Any:
        """Return the sliders as an object that a notebook shows; it has `save_html(path)` and `to_image("svg")`."""
        from nki_lab.views.display import display

        return display(self, ("vary",))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.show()._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        return variants_text(self, ANSWER_LINES)


def vary(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | Sequence[str | Target] | None = None,
    simulate: bool = False,
    **kwargs: Any,
) -> KernelVariants:
    """Time a kernel with several values of its compile-time parameters; no value is computed.

        nki_lab.vary(matmul, a, b, tile_n=[128, 256, 512], target=["trn1", "trn2"])

    A keyword with a list names values to choose from, the first of which is the start; everything else is an argument
    of the call. Beside the kernel's own parameters there are `dtype` (of all floating-point arrays), `x.dtype` (of one,
    given as `**{"x.dtype": [...]}`), `target`, `lnc` (cores), and the globals that the kernel reads, such as TILE_N.
    Without a list values are proposed: powers of two around a number, other dtypes, the chips. A field of an object is
    called `cfg.tile_n`. An argument that is a list itself is given with functools.partial.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments; arrays give shape and dtype, and stay as they are.
        target: a chip, such as trn2, or an alias, or a list of them; by default that of the session.
        simulate: compute on copies of the arrays where values decide how often a loop of the device runs.

    Raises:
        UnknownOption: a list belongs to no parameter.
        NkiError: as the kernel ends with whatever values are chosen.
    """
    given: dict[str, Any] = {}
    while isinstance(kernel, partial):
        args, given = (*kernel.args, *args), kernel.keywords | given
        kernel = kernel.func
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    known = made.source.signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    lists = {name: list(v) for name, v in kwargs.items() if isinstance(v, (list, range))}
    if target is not None and not isinstance(target, (str, Target)):
        lists[TARGET] = list(target)
    for name in lists:
        if not lists[name]:
            raise UnknownOption(
                f"{name}=[] has no value to choose", help="write the values to time"
            )
    for name, value in kwargs.items():
        if name in known or (takes_any and "." not in name):
            given[name] = lists[name][0] if name in lists else value
        elif name not in lists:
            lists[name] = [value]
    chip: Any = lists[TARGET][0] if TARGET in lists else target
    if CORES in lists and CORES not in known:
        made = made[lists[CORES][0]]
    call = _call(made, args, given, chip, simulate)
    if not lists:
        return _proposed(call)
    # What is no argument of the call stands at the first of its values, too.
    changeable = Changeable(call)
    others = {n: changeable.taken(n, v[0]) for n, v in lists.items() if n not in given}
    call = _changed(call, others)
    changeable = Changeable(call)
    return _started(call, [changeable.parameter(name, values) for name, values in lists.items()])


def variants_of_run(
    retrace: Retrace | None, cores: int, start: ViewData, values: Mapping[str, Sequence[Any]]
) -> KernelVariants:
    """Return the variants of a kernel that has run.

    Args:
        retrace: the call; None for a kernel whose source is not there.
        cores: it ran on.
        start: what views show of the run.
        values: to choose from, by the name of the parameter; without any they are proposed.
    """
    if retrace is None:
        return KernelVariants(
            start.name,
            start=start,
            problem="the kernel comes from a file, and only its source could be compiled for other values",
        )
    arguments = bind_arguments(retrace.source, retrace.args, retrace.kwargs)
    most = max(MOST_INSTRUCTIONS, len(start.operations) * 2)
    call = TimedCall(retrace.source, arguments, retrace.target, retrace.options, cores, most=most)
    if not values:
        return _proposed(call, start)
    changeable = Changeable(call)
    parameters = [changeable.parameter(name, list(v)) for name, v in values.items()]
    return _made(call, parameters, start)


def _call(
    kernel: KernelFunction,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: str | Target | None,
    simulate: bool,
) -> TimedCall:
    choices = kernel.choices(Choices.current())
    _, bound = numpy_arguments(kernel.source, args, kwargs)
    arrays: dict[str, np.ndarray] = {}

    def leaf(path: str, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim:
            arrays[path] = value
        return value

    for name, value in bound.arguments.items():
        map_arguments(name, value, leaf, is_array)
    return TimedCall(
        kernel.source,
        {name: forgotten(value) for name, value in bound.arguments.items()},
        choices.chip if target is None else get_target(target),
        choices,
        choices.lnc or 1,
        arrays if simulate else None,
    )


def _proposed(call: TimedCall, start: ViewData | None = None) -> KernelVariants:
    """Return the variants whose values suggest themselves."""
    parameters, fixed = Changeable(call).proposed()
    if start is None:
        return _started(call, parameters, fixed)
    return _made(call, parameters, start, fixed)


def _started(
    call: TimedCall, parameters: Sequence[Parameter], fixed: Mapping[str, Any] | None = None
) -> KernelVariants:
    """Return variants that start at a combination that can be timed, the one they stand at or the first after it.

    Raises what that one ends with where none can be.
    """
    first: NkiError | None = None
    sizes = [range(len(parameter.values)) for parameter in parameters]
    standing = tuple(parameter.start for parameter in parameters)
    for numbers in (standing, *itertools.islice(itertools.product(*sizes), MOST_COMBINATIONS)):
        moved = [replace(p, start=n) for p, n in zip(parameters, numbers, strict=True)]
        values = {p.name: p.values[p.start] for p in moved}
        try:
            return _made(call, moved, time_call(_changed(call, values)), fixed)
        except NkiError as error:
            first = first or error
    assert first is not None
    raise first


def _made(
    call: TimedCall,
    parameters: Sequence[Parameter],
    start: ViewData,
    fixed: Mapping[str, Any] | None = None,
) -> KernelVariants:
    problem = "" if parameters else f"{call.source.name} has no parameter that can be changed"
    return KernelVariants(
        call.source.name,
        parameters,
        lambda values: time_call(_changed(call, values)),
        start,
        fixed or {},
        problem,
        asked=fixed is None,
    )


def _changed(call: TimedCall, values: Mapping[str, Any]) -> TimedCall:
    """Return a call with other values of some parameters."""
    arguments, left = changed_arguments(call.arguments, values)
    target = get_target(left.pop(TARGET)) if TARGET in left else call.target
    cores = left.pop(CORES, call.cores)
    source = with_globals(call.source, left)
    return replace(call, source=source, arguments=arguments, target=target, cores=cores)
