"""Traces a kernel: runs it once, on symbolic tiles, and writes down every instruction.

The author's own function is run by CPython, so helpers, methods, closures and other modules work alike, and `print`,
`assert` and a debugger act while tracing.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.changed_globals import as_defined
from nki_lab.compiler.check_arguments import find_arguments
from nki_lab.compiler.check_language import check_called, errors_of, meet, newer_names
from nki_lab.compiler.dated_modules import dated_modules
from nki_lab.compiler.findings import refusals
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.mistakes import what_was_meant
from nki_lab.compiler.passes.author_order import order_dependent
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.dtypes import DType, dtype_of, int64
from nki_lab.errors import (
    KernelArgument,
    KernelResult,
    MixedDialects,
    MixedVersions,
    Needs,
    NkiError,
    UnknownName,
    close_matches,
    joined,
)
from nki_lab.ir.building.builder import Builder, Watch
from nki_lab.ir.building.rehearsal import Rehearsal, rehearse
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel, OutputRef, Param
from nki_lab.ir.program.verify import not_shared, result_error
from nki_lab.ir.tensor.storage import Unreachable
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.former import bind_as_before, needs_of
from nki_lab.language.former import date_methods
from nki_lab.language.nkiobject import NKIObject
from nki_lab.progress import phase
from nki_lab.source import authors_traceback
from nki_lab.targets.spaces import PRIVATE_HBM, SHARED_HBM
from nki_lab.targets.spec import Target
from nki_lab.versions import NEWEST, added_in, begun_with

_DEEPEST = 50  # containers within containers of one argument


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of an argument that will be an array."""

    shape: tuple[int, ...]
    dtype: DType


def trace(
    source: SourceKernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target,
    options: Choices,
    program: tuple[int, int] = (0, 1),
    watch: Watch | None = None,
    builder_of: Callable[..., Builder] = Builder,
) -> Kernel:
    """Run the kernel on symbolic tiles and return the program it describes.

    Args:
        source: the kernel.
        args, kwargs: call arguments; arrays and TensorSpecs become HBM tensors, everything else is a constant.
        target: the machine to compile for.
        options: `nki` is the version of the kernel, `strict` turns findings into errors, `allow` keeps errors of that
            version findings.
        program: (program_id, num_programs).
        watch: runs what is traced, at once.
        builder_of: makes the builder.
    """
    source = as_defined(source)
    text_errors = errors_of(source, options.version)
    if text_errors and _never_runs(source):
        raise joined(text_errors)
    bound = bind_arguments(source, args, kwargs)
    if source.configuration is not None:
        source.configuration.check_version(source.name, options.version, (source.place,))
    if options.version is not NEWEST:
        bind_as_before(options.version)
        date_methods()
    new = partial(
        builder_of,
        target,
        root=source.code,
        program=program,
        grid=options.grid or (program[1],) * (program[1] > 1),
        strict=options.strict,
        version=options.version,
        allow=options.allow,
    )
    builder = new(watch=watch)
    builder.configuration = source.configuration
    builder.needs_of = needs_of
    builder.newer = {} if options.version is NEWEST else newer_names(options.version)
    if source.configuration is not None:
        source.configuration.tell_without_effect(source.name, (source.place,), builder)
    try:
        return _traced(builder, source, bound, options, text_errors, new)
    finally:
        builder.release()


def _traced(
    builder: Builder,
    source: SourceKernel,
    bound: dict[str, Any],
    options: Choices,
    text_errors: list[NkiError],
    new: Callable[[], Builder],
) -> Kernel:
    target, program, watch = builder.target, builder.program, builder.watch
    try:
        values = {name: _symbolic(builder, name, value) for name, value in bound.items()}
    except KernelArgument as error:
        error.stack = error.stack or (source.place,)
        raise
    params = tuple(Param(name, value) for name, value in values.items())
    find_arguments(builder, source, bound)
    if watch is not None:
        watch.begin(builder)
    positional, keywords = _call_form(source, values)
    explained: NkiError | None = None
    traced = phase("tracing", lambda: len(builder.body), unit="instructions")
    dated = dated_modules(builder.version)
    with traced, builder.active(), _marked_output(program), dated:
        try:
            result = source.dialect.run(source.function, positional, keywords, builder)
        except (Exception, SystemExit) as error:
            told = what_was_meant(error, source.code)
            meet(builder, source, error.__traceback__)
            called = check_called(source, builder, bound, told)
            refused = refusals(builder.findings.values(), options)
            explained = joined(
                _told([*_without(told, called), *text_errors, *builder.errors, *refused])
            )
            # A debugger started afterwards stops at the author's line, where the tiles are.
            explained = explained.with_traceback(authors_traceback(error.__traceback__))
    if explained is not None:
        # Raised here it has no context: IPython shows another traceback where a group of exceptions is one.
        raise explained from None
    _rehearse(builder, source, bound, new)
    errors = [*text_errors, *check_called(source, builder, bound), *builder.errors]
    errors += refusals(builder.findings.values(), options)
    if errors:
        raise joined(_told(errors))
    builder.check_closed()
    outputs: list[NkiTensor] = []
    structure = _outputs(result, outputs, source, builder)
    kernel = Kernel(
        name=source.name,
        target=target,
        params=params,
        storages=tuple(builder.storages),
        body=tuple(builder.body),
        outputs=tuple(outputs),
        result=structure,
        forms=builder.forms,
        program=program,
        registers=tuple(r.name for r in builder.registers),
        findings=tuple(builder.findings.values()),
        timed=source.dialect.timed,
    )
    _check_result(kernel, result, source)
    return _find_exchanged(order_dependent(kernel, builder.edges))


def _rehearse(
    builder: Builder, source: SourceKernel, bound: dict[str, Any], new: Callable[[], Builder]
) -> None:
    """Find out whether what changed around device loops matters; see `ir.building.rehearsal`."""

    def builder_of(rehearsal: Rehearsal) -> Builder:
        again = new()
        again.configuration, again.rehearsal = builder.configuration, rehearsal
        return again

    def run(again: Builder) -> None:
        values = {name: _symbolic(again, name, value) for name, value in bound.items()}
        with again.active(), redirect_stdout(io.StringIO()), dated_modules(again.version):
            source.dialect.run(source.function, *_call_form(source, values), again)

    rehearse(builder, builder_of, run)


def _told(errors: list[NkiError]) -> list[NkiError]:
    """Return the errors to tell: where dialects or versions are mixed, all others follow from that."""
    return [e for e in errors if isinstance(e, (MixedDialects, MixedVersions))] or errors


def _without(told: NkiError, called: list[NkiError]) -> list[NkiError]:
    """Return errors of the texts, and the one that ended the trace where they do not tell it: of a missing name."""
    if isinstance(told, UnknownName) and told.span is not None:
        line = told.span.filename, told.span.line
        missing = [e.span for e in called if isinstance(e, UnknownName)]
        if line in [(span.filename, span.line) for span in missing if span is not None]:
            return called
    return [*called, told]


class _Marked(io.TextIOBase):
    """Passes text on with a mark before each line."""

    def __init__(self, mark: str, to: Any) -> None:
        self.mark, self.to = mark, to
        self.fresh = True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            self.to.write(f"{self.mark}{line}" if self.fresh else line)
            self.fresh = line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        self.to.flush()


def _marked_output(program: tuple[int, int]) -> AbstractContextManager[Any]:
    """Say which core prints, where more than one does."""
    core, cores = program
    if cores == 1:
        return nullcontext()
    return redirect_stdout(_Marked(f"[core {core}] ", sys.stdout))


def bind_arguments(
    source: SourceKernel | StoredSource, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Match call arguments to parameters, defaults included; an error names what does not fit."""
    try:
        bound = source.signature.bind(*args, **kwargs)
    except TypeError as error:
        names = list(source.signature.parameters)
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        raise KernelArgument(
            f"{source.name}: {error}",
            stack=(source.place,),
            notes=(f"parameters: {', '.join(names)}",),
            help=close_matches(unknown[1], names) if unknown else "",
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _never_runs(source: SourceKernel) -> bool:
    return bool(
        source.code.co_flags
        & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    )


def _call_form(source: SourceKernel, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in source.signature.parameters.items():
        value = values[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            keywords.update(value)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keywords[name] = value
        else:
            positional.append(value)
    return positional, keywords


def is_array(value: Any) -> bool:
    """Tell whether a call argument becomes a tensor of the kernel."""
    return isinstance(value, (np.ndarray, TensorSpec))


def map_arguments(
    name: str,
    value: Any,
    leaf: Callable[[str, Any], Any],
    is_leaf: Callable[[Any], bool] = is_array,
) -> Any:
    """Return `value` with everything inside that `is_leaf` replaced by `leaf(name, it)`.

    Looks into tuples, lists, dicts, NKIObjects and dataclasses, in a fixed order.
    """
    if is_leaf(value):
        return leaf(name, value)
    if name.count(".") > _DEEPEST:
        raise KernelArgument(
            f"argument `{name.partition('.')[0]}` is nested more than {_DEEPEST} deep",
            help="pass containers that do not contain themselves",
        )

    def inner(key: Any, item: Any) -> Any:
        return map_arguments(f"{name}.{key}", item, leaf, is_leaf)

    if type(value) in (tuple, list):
        return type(value)(inner(k, v) for k, v in enumerate(value))
    if isinstance(value, tuple):  # a NamedTuple
        return type(value)(*(inner(k, v) for k, v in enumerate(value)))
    if type(value) is dict:
        return {k: inner(k, v) for k, v in value.items()}
    if _has_fields(value):
        fields = _fields(value)
        changed = {k: inner(k, v) for k, v in fields.items()}
        if all(changed[k] is v for k, v in fields.items()):
            return value
        mapped = object.__new__(type(value))
        for k, v in changed.items():
            object.__setattr__(mapped, k, v)  # also where the class is frozen or has slots
        return mapped
    return value


def is_container(value: Any) -> bool:
    """Tell whether `map_arguments` looks for arrays inside a value."""
    return isinstance(value, tuple) or type(value) in (list, dict) or _has_fields(value)


def _has_fields(value: Any) -> bool:
    return isinstance(value, NKIObject) or (
        dataclasses.is_dataclass(value) and not isinstance(value, (type, Enum))
    )


def _fields(value: Any) -> dict[str, Any]:
    slots = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return {k: getattr(value, k) for k in slots if hasattr(value, k)} | getattr(
        value, "__dict__", {}
    )


def _symbolic(builder: Builder, name: str, value: Any) -> Any:
    def leaf(path: str, array: np.ndarray | TensorSpec) -> NkiTensor | Any:
        if isinstance(array, np.ndarray) and array.ndim == 0:
            return array.item()
        dtype = dtype_of(array.dtype)
        # Only scalars have 64 bits, and they came with NKI 0.7.
        has_wide = builder.version.number >= added_in("nki.language.int64").number
        if dtype is None or (dtype is int64 and not has_wide):
            wide = begun_with("an argument of 64 bits", "0.7") if dtype is int64 else None
            raise no_such_dtype(path, array.dtype, needs=wide)
        if 0 in array.shape:
            raise KernelArgument(
                f"argument `{path}` has shape {list(array.shape)}: a tensor holds at least one element",
                help="do not call the kernel where there is nothing to compute",
            )
        return builder.allocate(array.shape, dtype, SHARED_HBM, path, origin="input")

    return map_arguments(name, value, leaf)


# How each library writes a cast.
_CASTS = {
    "numpy": "array.astype(np.{})",
    "torch": "tensor.to(torch.{})",
    "jax": "array.astype(jnp.{})",
}


def no_such_dtype(
    name: str, dtype: Any, library: str = "numpy", needs: Needs | None = None
) -> KernelArgument:
    """Return the error of an array whose dtype NKI does not have, with the cast as its library writes it."""
    kind = getattr(dtype, "kind", "") or " "
    wanted = "float32" if kind == "f" else "int32" if kind in "iu" else ""
    return KernelArgument(
        f"argument `{name}` has dtype {dtype}, which NKI does not have",
        help=f"cast it first, e.g. {_CASTS[library].format(wanted)}"
        if wanted
        else "use float32, bfloat16, float16, an 8-bit float, or an integer of 8, 16 or 32 bits",
        needs=needs,
    )


def _outputs(result: Any, outputs: list[NkiTensor], source: SourceKernel, builder: Builder) -> Any:
    if isinstance(result, NkiTensor):
        if result.storage.owner is not builder:
            raise not_shared(source.name, result, (source.returns,))
        error = result_error(source.name, result, (source.returns,))
        if error and _is_private_result(result, builder):
            needs = builder.take_form("private result")
            error = needs and not_shared(source.name, result, (source.returns,), needs)
        if error:
            raise error
        outputs.append(result)
        return OutputRef(len(outputs) - 1)
    if type(result) in (tuple, list):
        return type(result)(_outputs(r, outputs, source, builder) for r in result)
    if isinstance(result, tuple):
        return type(result)(*(_outputs(r, outputs, source, builder) for r in result))
    if type(result) is dict:
        return {k: _outputs(r, outputs, source, builder) for k, r in result.items()}
    if result is None or isinstance(result, (int, float, str, bool)):
        return result
    if isinstance(result, Unreachable):
        raise result.error
    raise KernelResult(
        f"{source.name} returns {type(result).__name__}: a kernel returns tensors in shared_hbm",
        stack=(source.returns,),
        help="return the output tensor, or a tuple of output tensors",
    )


def _is_private_result(result: NkiTensor, builder: Builder) -> bool:
    """Tell whether a result is one in nl.hbm, which some versions take on one core, where it is the same."""
    is_alone = builder.program[1] == 1
    return is_alone and result.storage.buffer is PRIVATE_HBM and not result.storage.loop


def _check_result(kernel: Kernel, result: Any, source: SourceKernel) -> None:
    if not kernel.outputs and not kernel.written_inputs:
        raise KernelResult(
            f"{source.name} returns {'nothing' if result is None else 'no tensor'}",
            stack=(source.returns,),
            help="return the tensor made with nl.ndarray(..., buffer=nl.shared_hbm); is the `return` missing?",
        )


def _find_exchanged(kernel: Kernel) -> Kernel:
    """Return the kernel with a finding per collective of an argument or result.

    The kernels of nki-library copy both through their own tensors, since the compiler takes no other ones there
    (test/integration/nkilib/experimental/collectives/test_collectives.py at d2ad3a5).
    """
    if all(form.definition.groups is None for form in kernel.forms.values()):
        return kernel
    results = {view.storage.id for view in kernel.outputs}
    findings = FindingsByPlace(kernel.findings)
    for i in kernel.instructions:
        if i.definition.groups is None:
            continue
        for view in (*i.read(), *i.written()):
            if view.storage.origin == "input":
                findings.add(view.storage, i.stack, partial(_outside, i, view, "an argument"))
            elif view.storage.id in results:
                findings.add(view.storage, i.stack, partial(_outside, i, view, "a result"))
    return kernel.with_(findings=findings.all())


def _outside(i: Instruction, view: NkiTensor, what: str) -> Finding:
    return Finding(
        "portability",
        f"{i.definition.name} uses `{view.name}`, {what} of the kernel, which NKI's compiler does not accept there",
        i.stack,
        help="copy it with nisa.dma_copy to or from a tensor made with nl.ndarray(shape, dtype, buffer=nl.shared_hbm)",
    )
