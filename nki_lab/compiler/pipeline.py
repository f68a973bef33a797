"""The passes that make a program that can run, in their order.

The program after each of them is recorded, so that a viewer can step through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nki_lab.choices import BETA1, SKIP_PASSES, Choices, check_allowed
from nki_lab.compiler.cores import join_cores
from nki_lab.compiler.findings import refuse_findings
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.other_versions import with_versions
from nki_lab.compiler.passes import Pass
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.compiler.passes.author_order import apply_schedule, check_names
from nki_lab.compiler.passes.balance_engines import balance_engines
from nki_lab.compiler.passes.find_reloads import find_reloads
from nki_lab.compiler.passes.find_uninitialized import find_uninitialized
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.compiler.passes.place_engines import place_engines
from nki_lab.compiler.passes.remove_dead import remove_dead
from nki_lab.compiler.passes.schedule import schedule
from nki_lab.compiler.passes.settle_accumulate import settle_accumulate
from nki_lab.compiler.passes.timed import modelled_ns
from nki_lab.compiler.program import CompiledKernel, collector_paused
from nki_lab.compiler.reuse import Programs, reuse
from nki_lab.compiler.trace import trace
from nki_lab.errors import NkiError, UnknownOption, close_matches
from nki_lab.ir.building.builder import Builder, Watch
from nki_lab.ir.program.nodes import Kernel
from nki_lab.progress import phase
from nki_lab.targets.spec import Target

PASSES: tuple[Pass, ...] = (
    settle_accumulate,
    find_uninitialized,
    remove_dead,
    place_engines,
    allocate_sbuf,
    allocate_psum,
    find_reloads,
    balance_engines,
    schedule,
    insert_waits,
)
SKIPPABLE = tuple(each.name for each in PASSES if each.skippable)


def compile_kernel(
    source: SourceKernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target,
    options: Choices,
    cores: int = 1,
    watch: Watch | None = None,
    builder_of: Callable[..., Builder] = Builder,
) -> CompiledKernel:
    """Trace a kernel for these arguments and run every pass, for each of its cores.

    `watch` runs what is traced, at once; it follows one core. `builder_of` makes the builder of each trace. Where the
    same program was compiled before, that is what is returned.

    Raises:
        NkiError: with a place in the author's text; KernelErrors when there are several.
    """
    check_skipped(options.skip_passes)
    check_allowed(options.allow)

    def traced_for(
        chosen: Choices, watch: Watch | None = None, builder_of: Callable[..., Builder] = Builder
    ) -> list[Kernel]:
        return [
            trace(source, args, kwargs, target, chosen, (core, cores), watch, builder_of)
            for core in range(cores)
        ]

    with collector_paused():
        try:
            traced = traced_for(options, watch, builder_of)
        except NkiError as error:
            if options.nki == BETA1:
                raise
            told = with_versions(
                error,
                source,
                options.version,
                lambda version: traced_for(options.replace(nki=version)),
            )
            if told is error:
                raise
            raise told.with_traceback(error.__traceback__) from None
        programs = reuse.find(traced, options)
        if programs is None:
            stages, kernels = _passed(traced, options)
            kept = tuple(stages if options.record else stages[:1])
            programs = Programs(tuple(traced), tuple(kernels), kept)
    if options.strict:
        refuse_findings(programs.kernels[0].findings)
    reuse.note(programs, options)
    return CompiledKernel.of(programs, source)


def compile_again(traced: Sequence[Kernel], options: Choices) -> list[Kernel]:
    """Run every pass over programs that were traced and then changed, one per core.

    Raises NkiError as `compile_kernel` does.
    """
    with collector_paused():
        return _passed(traced, options)[1]


def _passed(
    traced: Sequence[Kernel], options: Choices
) -> tuple[list[tuple[str, Kernel]], list[Kernel]]:
    """Return the program of the first core after each pass, and those of all cores after the last."""
    of_cores = [list(_stages(kernel, options)) for kernel in traced]
    if len(traced) > 1 and schedule.name not in options.skip_passes:
        _keep_order_where_faster(of_cores, options)
    stages, *others = of_cores
    kernel = stages[-1][1]
    kernels = []
    for other in others:
        kernel, last = join_cores(kernel, other[-1][1])
        kernels.append(last)
    check_names(options.schedule, traced)
    stages[-1] = (stages[-1][0], kernel)
    return stages, [kernel, *kernels]


def _keep_order_where_faster(
    of_cores: Sequence[list[tuple[str, Kernel]]], options: Choices
) -> None:
    """Go back to program order on both cores where their schedules, each faster alone, are slower together."""
    at = [name for name, _ in of_cores[0]].index(schedule.name)
    written, ordered = ([stages[k][1] for stages in of_cores] for k in (at - 1, at))
    meets = any(form.definition.meets for kernel in written for form in kernel.forms.values())
    moved = any(a.body is not b.body for a, b in zip(written, ordered, strict=True))
    if meets and moved and modelled_ns(*ordered) > modelled_ns(*written):
        for stages, kernel in zip(of_cores, written, strict=True):
            waiting = insert_waits(kernel, options)
            stages[at:] = [(schedule.name, kernel), (insert_waits.name, waiting)]


def _stages(kernel: Kernel, options: Choices) -> Iterator[tuple[str, Kernel]]:
    """Yield a traced kernel, and what it is after each pass."""
    yield "trace", kernel
    if options.schedule:
        kernel = apply_schedule(kernel, options)
        yield "apply_schedule", kernel
    for at, each in enumerate(PASSES):
        if each.name not in options.skip_passes:
            with phase(f"compiling ({each.name})", lambda at=at: at, len(PASSES)):  # type: ignore[misc]
                kernel = each(kernel, options)
            yield each.name, kernel


def check_skipped(names: Iterable[str]) -> None:
    """Raise UnknownOption for a pass that cannot be left out, or that there is not."""
    for name in names:
        if name in SKIPPABLE:
            continue
        exists = any(each.name == name for each in PASSES)
        why = "no program can run without it" if exists else "there is no such pass"
        raise UnknownOption(
            f"the pass `{name}` cannot be left out: {why}",
            help=close_matches(name, SKIPPABLE) or f"leave out some of {', '.join(SKIPPABLE)}",
        )


SKIP_PASSES.offer(SKIPPABLE, check_skipped)
