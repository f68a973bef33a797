"""Times a kernel with other values of its compile-time parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nki_lab.choices import LNC, Choices, keywords_of, taken_choices, with_keywords
from nki_lab.compiler.retrace import forgotten
from nki_lab.compiler.trace import is_array, map_arguments
from nki_lab.errors import UnknownOption
from nki_lab.runtime.compiled import numpy_arguments
from nki_lab.runtime.jit import KernelFunction, as_kernel
from nki_lab.runtime.kernel_variants import KernelVariants, changed_call, proposed, started
from nki_lab.runtime.timing_only import TimedCall
from nki_lab.runtime.vary_parameters import CORES, TARGET, Changeable


@with_keywords("nki_lab.vary")
def vary(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
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
        {choices}
        simulate: compute on copies of the arrays where values decide how often a loop of the device runs.

    Raises:
        UnknownOption: a list belongs to no parameter.
        NkiError: as the kernel ends with whatever values are chosen.
    """
    given: dict[str, Any] = {}
    while isinstance(kernel, partial):
        args, given = (*kernel.args, *args), kernel.keywords | given
        kernel = kernel.func
    function = as_kernel(kernel)
    parameters = function.source.signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    listed = {
        name: isinstance(v, (list, range, tuple) if name == TARGET else (list, range))
        for name, v in kwargs.items()
        if name in (*parameters, TARGET, CORES) or name not in keywords_of("nki_lab.vary")
    }
    lists = {name: list(kwargs[name]) for name, is_list in listed.items() if is_list}
    kwargs = {name: value for name, value in kwargs.items() if name not in lists}
    choices = taken_choices("nki_lab.vary", kwargs, (*parameters, CORES), takes_any=True)
    for name in lists:
        if not lists[name]:
            raise UnknownOption(
                f"{name}=[] has no value to choose", help="write the values to time"
            )
    for name, value in {**kwargs, **lists}.items():
        if name in parameters or (takes_any and "." not in name):
            given[name] = lists[name][0] if name in lists else value
        elif name not in lists:
            lists[name] = [value]
    if TARGET in lists and TARGET not in parameters:
        choices = choices.replace(target=lists[TARGET][0])
    if CORES in lists and CORES not in parameters:
        function = function[LNC.take(lists[CORES][0])]
    call = _call(function, args, given, choices, simulate)
    if not lists:
        return proposed(call)
    # Parameters that are not arguments of the call start at their first value, too.
    changeable = Changeable(call)
    others = {n: changeable.taken(n, v[0]) for n, v in lists.items() if n not in given}
    call = changed_call(call, others)
    changeable = Changeable(call)
    return started(call, [changeable.parameter(name, values) for name, values in lists.items()])


def _call(
    kernel: KernelFunction,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    choices: Choices,
    simulate: bool,
) -> TimedCall:
    choices = kernel.choices(choices)
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
        choices.chip,
        choices,
        kernel.source.dialect.cores(choices.grid),
        arrays if simulate else None,
    )
