"""The variants of a kernel: the values to choose from, and the run that each combination is timed as."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nki_lab.compiler.changed_globals import with_globals
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.trace import bind_arguments
from nki_lab.errors import NkiError
from nki_lab.profiler.text_table import ANSWER_LINES
from nki_lab.runtime.timing_only import MOST_INSTRUCTIONS, TimedCall, time_call
from nki_lab.runtime.vary_parameters import CORES, TARGET, Changeable, changed_arguments
from nki_lab.targets import get_target
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
        return proposed(call, start)
    changeable = Changeable(call)
    parameters = [changeable.parameter(name, list(v)) for name, v in values.items()]
    return _made(call, parameters, start)


def proposed(call: TimedCall, start: ViewData | None = None) -> KernelVariants:
    """Return the variants whose values suggest themselves."""
    parameters, fixed = Changeable(call).proposed()
    if start is None:
        return started(call, parameters, fixed)
    return _made(call, parameters, start, fixed)


def started(
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
            return _made(call, moved, time_call(changed_call(call, values)), fixed)
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
        lambda values: time_call(changed_call(call, values)),
        start,
        fixed or {},
        problem,
        asked=fixed is None,
    )


def changed_call(call: TimedCall, values: Mapping[str, Any]) -> TimedCall:
    """Return a call with other values of some parameters."""
    arguments, unused = changed_arguments(call.arguments, values)
    target = get_target(unused.pop(TARGET)) if TARGET in unused else call.target
    cores = unused.pop(CORES, call.cores)
    source = with_globals(call.source, unused)
    return replace(call, source=source, arguments=arguments, target=target, cores=cores)
