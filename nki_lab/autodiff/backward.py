"""The backward kernel of a kernel: a kernel that gives the gradients of its inputs."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nki_lab.autodiff.reverse import Plan, Program
from nki_lab.choices import Choices, inside
from nki_lab.compiler.passes.settle_accumulate import settle_accumulate
from nki_lab.errors import KernelArgument, NoGradient
from nki_lab.ir.building.builder import current
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.runtime.arrays import is_foreign_array, to_numpy
from nki_lab.runtime.jit import KernelFunction, as_kernel, jit
from nki_lab.versions import NEWEST

_BY_HAND = "write the backward kernel by hand"


class BackwardKernel(KernelFunction):
    """A kernel that gives the gradients of another one.

    Attributes:
        inputs: the tensors among the arguments of the other kernel, by name; they are its first arguments.
        gradients_of: those whose gradients it returns, in this order.
        results: which results of the other kernel are floats; their gradients are its further arguments.
    """

    inputs: tuple[str, ...] = ()
    gradients_of: tuple[str, ...] = ()
    results: tuple[int, ...] = ()
    _made_from: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as what it is made from, without the arrays, of which only shapes and dtypes count."""
        return _made_again, self._made_from


def _made_again(
    kernel: KernelFunction, args: Any, kwargs: Any, wrt: Any, choices: dict[str, Any]
) -> BackwardKernel:
    with inside(**choices):
        args, kwargs = _mapped(args, _array_of), _mapped(kwargs, _array_of)
        return backward(kernel, *args, wrt=wrt, **kwargs)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a value with a function applied to what is in its tuples, lists and dicts."""
    if type(value) in (tuple, list):
        return type(value)(_mapped(part, function) for part in value)
    if type(value) is dict:
        return {key: _mapped(part, function) for key, part in value.items()}
    return function(value)


def _spec_of(value: Any) -> Any:
    if not is_foreign_array(value):
        return value
    array = to_numpy("argument", value)
    return _Spec(array.shape, array.dtype)


def _array_of(value: Any) -> Any:
    return np.zeros(value.shape, value.dtype) if isinstance(value, _Spec) else value


class _Spec(NamedTuple):
    """An array of which only shape and dtype count."""

    shape: tuple[int, ...]
    dtype: np.dtype


def backward(
    kernel: Any, *args: Any, wrt: Iterable[str] | None = None, **kwargs: Any
) -> BackwardKernel:
    """Return the kernel that gives the gradients of a kernel's inputs.

    It takes the tensors that `kernel` takes, and a gradient for each of its results of floats; it returns a tuple of
    the gradients of the inputs of floats. It computes what `kernel` computes once more, and is for arguments of these
    shapes and dtypes, and for these compile-time values.

    Args:
        kernel: a kernel for one core, without device loops.
        args, kwargs: what a call of it takes.
        wrt: names of the inputs whose gradients are wanted; None is all inputs of floats.

    Raises:
        NoGradient: for an instruction that has no rule for its gradient, with its line in `kernel`.
        KernelArgument: where `wrt` names no input of floats.
    """
    forward = as_kernel(kernel)
    compiled = forward.compile(*args, **kwargs)
    final = compiled.compiled.kernel
    traced = settle_accumulate(compiled.compiled.stages[0][1], compiled.choices)
    _check(traced, final.poisoned)
    if compiled.compiled.others:
        raise NoGradient(
            f"`{traced.name}` runs on two cores: a backward kernel is made for one",
            help=f"give {traced.name}[1], or {_BY_HAND}",
        )
    if not any(view.dtype.is_float for view in traced.outputs):
        raise NoGradient(
            f"`{traced.name}` returns no floats: nothing has a gradient",
            stack=(forward.source.returns,),
            help="return the tensor of floats that depends on its inputs",
        )
    version = compiled.choices.version
    program = Program.of(traced, _wanted(traced, wrt), _peak_bytes(final), version)
    plan = Plan(program)
    gradients = ["gradient"]
    if len(program.results) > 1:
        gradients = [f"gradient_{n}" for n in program.results]
    names: list[str] = []
    for storage in traced.inputs:
        name = re.sub(r"\W", "_", storage.name)
        while name in (*gradients, *names):
            name += "_"
        names.append(name)

    def emitted(*tensors: Any) -> tuple[NkiTensor, ...]:
        return plan.emit(current(), _checked(program, names + gradients, tensors))

    versioned: dict[str, Any] = {} if version is NEWEST else {"nki": version.name}
    made = jit(_function(traced.name, [*names, *gradients], program, emitted), **versioned)
    result = object.__new__(BackwardKernel)
    vars(result).update(vars(made))
    result._copies.add(result)
    result.inputs = tuple(s.name for s in traced.inputs)
    result.gradients_of = tuple(s.name for s in program.wanted)
    result.results = program.results
    given = _mapped(args, _spec_of), _mapped(kwargs, _spec_of)
    asked = None if wrt is None else result.gradients_of
    result._made_from = (forward, *given, asked, vars(Choices.current()))
    return result


def _check(kernel: Kernel, unwritten: Collection[int]) -> None:
    if kernel.has_loops:
        raise NoGradient(
            f"`{kernel.name}` has a loop that the device runs",
            stack=kernel.loops[0].loop.stack,
            help=f"write it with range, which is unrolled, or {_BY_HAND}",
        )
    for storage in (kernel.storages[k] for k in unwritten):
        if storage.address is not None:  # what it holds may be that of another tensor at its place
            raise NoGradient(
                f"`{kernel.name}` reads {storage.describe()} before it writes it",
                stack=storage.stack,
                help=f"write all of it first, or {_BY_HAND}",
            )
    written = [s for s in kernel.inputs if s.id in kernel.written_inputs]
    if written:
        raise NoGradient(
            f"`{kernel.name}` writes its argument `{written[0].name}`",
            help=f"write to a new tensor in nl.shared_hbm and return it, or {_BY_HAND}",
        )


def _wanted(kernel: Kernel, wrt: Iterable[str] | None) -> tuple[Any, ...]:
    floats = {s.name: s for s in kernel.inputs if s.dtype.is_float}
    names = tuple(floats) if wrt is None else tuple(wrt)
    for name in names or ("",):
        if name not in floats:
            raise KernelArgument(
                f"`{kernel.name}` has no input of floats" + (f" named `{name}`" if name else ""),
                notes=(f"inputs of floats: {', '.join(floats) or 'none'}",),
                help="name some of its tensors of floats"
                if floats
                else "there is nothing to differentiate",
            )
    return tuple(s for n, s in floats.items() if n in names)


def _peak_bytes(kernel: Kernel) -> int:
    """Return up to which byte of a partition a program uses SBUF."""
    places = (kernel.addresses or {}).items()
    ends = [
        a.byte + s.row_bytes for k, a in places if (s := kernel.storages[k]).buffer.name == "sbuf"
    ]
    return max(ends, default=0)


def _checked(program: Program, names: Sequence[str], tensors: Sequence[Any]) -> Sequence[NkiTensor]:
    for name, tensor, (shape, dtype) in zip(names, tensors, program.signature, strict=True):
        if (tuple(tensor.shape), tensor.dtype) != (shape, dtype):
            raise KernelArgument(
                f"`{name}` is {list(tensor.shape)} {tensor.dtype}; this backward kernel was made for"
                f" {list(shape)} {dtype}",
                help="make another one with nki_lab.autodiff.backward for these arguments",
            )
    return tensors


def _function(name: str, parameters: Sequence[str], program: Program, emitted: Any) -> Any:
    """Return the function of a backward kernel, with a text that errors and views can show."""
    given = ", ".join(parameters)
    wanted = ", ".join(s.name for s in program.wanted)
    text = (
        f"def {name}_backward({given}):\n"
        f'    """Return the gradients of {wanted} of {name}."""\n'
        f"    return reverse_of_{name}({given})\n"
    )
    file = f"<backward of {name} {id(emitted):x}>"
    space = {f"reverse_of_{name}": emitted, "__name__": __name__}
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), space)
    return space[f"{name}_backward"]
