"""Runs a kernel as several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nki_lab.choices import taken_choices, with_keywords
from nki_lab.errors import KernelArgument, NotModelled
from nki_lab.runtime.jit import KernelFunction, as_kernel
from nki_lab.runtime.result import Result

Arguments = Mapping[str, Any] | tuple[Any, ...] | Any


@with_keywords("nki_lab.launch")
def launch(
    kernel: KernelFunction | Callable[..., Any],
    ranks: int,
    inputs: Sequence[Arguments] | Arguments,
    **choices: Any,
) -> list[Result]:
    """Compile a kernel once, run it as `ranks` ranks that meet in collectives, and return the Result of each.

    All ranks run one program on their own arrays: shapes, dtypes and constants must be the same, values may differ,
    and so does what nki.collectives.rank_id() gives. The ranks are those of one node, 0 to ranks - 1. With `kernel[2]`
    each rank has two cores. Arrays that the kernel writes are updated in place, so each rank needs its own.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function.
        ranks: how many.
        inputs: a list with the arguments of each rank: a tuple of them, a dict by name, or one array for a kernel of
            one parameter. A tuple or dict instead of a list is given to every rank.
        {choices}

    Raises:
        KernelArgument: `inputs` do not fit the ranks or each other; the message names rank and argument.
        RanksDiffer: ranks of a group come to different collectives, or one is in no group.
        MissingPartner: a rank waits for one that has ended, waits elsewhere or does not exist.
        AddressOutOfRange: counts in a metadata tensor do not fit the buffers.

    The time a profile shows is that of one rank by itself: links and waiting for others are not modelled.
    """
    function = as_kernel(kernel)
    parameters = function.source.signature.parameters
    for name in choices:
        if name in parameters:
            raise KernelArgument(
                f"`{name}` is a parameter of {function.__name__}, not a keyword of nki_lab.launch",
                help="write the arguments of the kernel in `inputs`",
            )
    chosen = taken_choices("nki_lab.launch", choices)
    if type(ranks) is not int or ranks < 1:
        raise KernelArgument(
            f"{function.__name__} is launched as {ranks!r} ranks",
            help="write the number of ranks, e.g. nki_lab.launch(kernel, ranks=4, inputs=[...])",
        )
    if chosen.debug:
        raise NotModelled(
            f"{function.__name__} is launched as {ranks} ranks: a debug run has one, since it runs while it is traced",
            help="run it without debug",
        )
    calls = [_call(given) for given in _per_rank(function.__name__, ranks, inputs)]
    args, kwargs = calls[0]
    compiled = function.compile_with(chosen, args, kwargs)
    return compiled.launch_ranks(calls)


def _per_rank(name: str, ranks: int, inputs: Any) -> Sequence[Any]:
    if isinstance(inputs, (tuple, Mapping)):
        return [inputs] * ranks
    if not isinstance(inputs, list):
        raise KernelArgument(
            f"the inputs of {name} are of type {type(inputs).__name__}",
            help="write a list with the arguments of each rank, or a tuple of arguments for all of them",
        )
    if len(inputs) != ranks:
        raise KernelArgument(
            f"{name} is launched as {ranks} ranks, but there are inputs for {len(inputs)}",
            help="write one entry for each rank; a tuple instead of a list is given to all of them",
        )
    return inputs


def _call(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, Mapping):
        return (), dict(given)
    return (given if isinstance(given, tuple) else (given,)), {}
