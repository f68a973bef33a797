"""What an operator is in any framework: a kernel, the names of its arguments and results, and its programs.

A program is compiled once for each signature: the shapes and dtypes of arrays, the values of constants, and what is
chosen (target, capacity, ...). What the kernel reads from globals stays as it was when the program was compiled.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nki_lab.autodiff import backward
from nki_lab.choices import Choices, inside
from nki_lab.compiler.trace import TensorSpec, no_such_dtype
from nki_lab.dtypes import bool_, dtype_of, int64
from nki_lab.errors import KernelArgument, close_matches
from nki_lab.frameworks.results import Results, keys_in, leaves_of, numbered, results_of
from nki_lab.ir.program.nodes import OutputRef
from nki_lab.runtime import CompiledFunction, KernelFunction, as_kernel
from nki_lab.runtime.recording import warn_of
from nki_lab.views.models.trace import ModelTrace

#: The programs that an operator keeps; the one that was not used for longest goes first.
KEPT = 64

#: The backward that follows from the instructions of a kernel.
AUTO = "auto"

#: What an operator may be called.
NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)


class Program(NamedTuple):
    """A kernel that was compiled for one signature.

    Attributes:
        function: runs it.
        specs: shape and dtype of each result; of a result that is no tensor, those of what stands for it.
        constants: what is no tensor among the results, by its place among them.
    """

    function: CompiledFunction
    specs: tuple[TensorSpec, ...]
    constants: Mapping[int, Any]


@dataclass(eq=False)
class KernelOperator:
    """A kernel under the name of an operator, and its programs.

    Attributes:
        name: such as "lab::rmsnorm".
        kernel: the kernel.
        results: what it returns; None where any number of tensors will do.
        constants: what programs have returned that is no tensor. In frameworks a tensor without elements stands for it,
            whose shape [0, n] says which of these it is.
        official: the kernel as objects of the official package, by grid and schedule.
        mutates: names of the arguments that it writes.
        shapes: computes the shapes and dtypes of the results from the arguments; None to compile for them.
    """

    name: str
    kernel: KernelFunction
    results: Results | None
    mutates: tuple[str, ...] = ()
    shapes: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self.constants: list[Any] = []
        self.official: dict[Any, Any] = {}
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._numbers: dict[Choices, int] = {}
        self._latest: tuple[Choices | None, int] = (None, -1)
        self.parameters = self._parameters()
        for p in self.parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise self._refuse(
                    f"the kernel takes `{p}`",
                    "write its parameters out: operators have a fixed number",
                )
        self.names = tuple(p.name for p in self.parameters)
        for name in self.mutates:
            if name not in self.names:
                raise self._refuse(
                    f"mutates={name!r} is no parameter of the kernel",
                    close_matches(name, self.names) or f"parameters: {', '.join(self.names)}",
                )

    def _parameters(self) -> tuple[inspect.Parameter, ...]:
        return tuple(self.kernel.source.signature.parameters.values())

    def _refuse(self, message: str, help: str) -> KernelArgument:
        return KernelArgument(
            f"{self.name}: {message}", stack=(self.kernel.source.place,), help=help
        )

    # -- programs ------------------------------------------------------------------------------------------------

    def program(self, values: Sequence[Any]) -> Program:
        """Return the program for these arguments, one for each parameter.

        Args:
            values: NumPy arrays, or a TensorSpec for an array of which only shape and dtype count; and constants.
        """
        choices = Choices.current()
        before, number = self._latest
        if choices is not before:
            number = self._numbers.setdefault(choices, len(self._numbers))
            self._latest = choices, number
        key = number, tuple(map(signature_of, values))
        try:
            program = self._programs.get(key)
        except TypeError:  # a constant that cannot be hashed
            return self._compile(choices, values)
        if program is None:
            program = self._programs[key] = self._compile(choices, values)
            while len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        else:
            self._programs.move_to_end(key)
        return program

    def _compile(self, choices: Choices, values: Sequence[Any]) -> Program:
        for name, value in zip(self.names, values, strict=True):
            if not getattr(value, "shape", (1,)):
                raise self._refuse(
                    f"argument `{name}` is a tensor without axes, whose value would be a constant of the program",
                    f"pass a number, or a tensor with one axis: {name}.reshape(1)",
                )
        function = self._function(choices, [_array(value) for value in values])
        kernel = function.compiled.kernel
        written = {s.name.partition(".")[0] for s in kernel.inputs if s.id in kernel.written_inputs}
        if hidden := sorted(written - {*self.mutates}):
            raise self._refuse(
                f"the kernel writes its argument `{hidden[0]}`, and frameworks take operators for pure functions",
                f"say so, mutates={hidden[0]!r}, in PyTorch; or have the kernel return a new tensor",
            )
        flat = () if kernel.result is None else tuple(leaves_of(kernel.result))
        self._check_results(kernel.result, flat)
        constants = {n: leaf for n, leaf in enumerate(flat) if not isinstance(leaf, OutputRef)}
        if constants and self.results is None:
            n, leaf = next(iter(constants.items()))
            raise self._refuse(
                f"result {n} of the kernel is {leaf!r}, and a backward returns tensors",
                "leave it out of what the kernel returns",
            )
        specs = tuple(
            TensorSpec(kernel.outputs[leaf.index].shape, kernel.outputs[leaf.index].dtype)
            if isinstance(leaf, OutputRef)
            else TensorSpec((0, self.number_of(leaf)), bool_)
            for leaf in flat
        )
        return Program(function, specs, constants)

    def _check_results(self, result: Any, flat: Sequence[Any]) -> None:
        """Refuse a kernel that returns results in another form than the operator was made for."""
        if self.results is None:
            return
        count = len(self.results.names)
        if len(flat) != count:
            raise self._refuse(
                f"the kernel returns {len(flat)} results, and the operator was made for {count}",
                f"make it with results={len(flat)}",
            )
        if keys_in(result) != keys_in(self.results.form):
            names = iter(numbered(len(flat)))
            raise self._refuse(
                "the kernel returns a dict that its return statement does not show",
                f"make it with results={_with_names(result, names)!r}",
            )

    def number_of(self, constant: Any) -> int:
        """Return the place of a value among those that are no tensors."""
        for n, known in enumerate(self.constants):
            if type(known) is type(constant) and repr(known) == repr(constant):
                return n
        self.constants.append(constant)
        return len(self.constants) - 1

    def _function(self, choices: Choices, values: Sequence[Any]) -> CompiledFunction:
        call = self.call(values)
        return self.kernel.compile_with(choices, call.args, call.kwargs)

    def call(self, values: Sequence[Any]) -> inspect.BoundArguments:
        """Return the call of the kernel with a value for each parameter."""
        given = dict(zip(self.kernel.source.signature.parameters, values, strict=True))
        return inspect.BoundArguments(self.kernel.source.signature, OrderedDict(given))

    def _arrays(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Return the arrays of a call in the order in which the program takes them."""
        return [v for value in values for v in _leaves(value) if isinstance(v, np.ndarray)]

    def run(self, values: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """Run the kernel on NumPy arrays, and return its results; none of them shares memory with an argument."""
        given = self._arrays(values)
        program = self.program(values)
        result = program.function.launch_arrays(given)
        warn_of(result)
        value = result.value
        if isinstance(value, np.ndarray):
            return (_own(value, given),)
        flat = () if value is None else tuple(leaves_of(value))
        return tuple(
            np.zeros(program.specs[n].shape, np.bool_)
            if n in program.constants
            else _own(leaf, given)
            for n, leaf in enumerate(flat)
        )

    def no_gradient_of(self, name: str, result: Any) -> KernelArgument:
        """Return the error of a result of which a backward would be given the gradient, and that has none."""
        constant = _constant(result, self.constants)
        what = result.dtype if constant is result else repr(constant)
        return self._refuse(
            f"result `{name}` is {what}, which has no gradient", f"say so: no_grad=({name!r},)"
        )

    # -- names ---------------------------------------------------------------------------------------------------

    def check_shapes(self, stated: Sequence[tuple[Any, Any]], program: Program) -> None:
        """Refuse `shapes` that states other shapes or dtypes than the program has."""
        for n, constant in program.constants.items():
            raise self._refuse(
                f"result {n} of the kernel is {constant!r}, and shapes gives shapes of tensors only",
                "leave it out of what the kernel returns, or leave out shapes where sizes are fixed",
            )
        for n, ((shape, dtype), spec) in enumerate(zip(stated, program.specs, strict=False)):
            if (tuple(shape), dtype) != (tuple(spec.shape), spec.dtype):
                raise self._refuse(
                    f"shapes says that result {n} is {list(shape)} {dtype}, and the kernel returns {list(spec.shape)}"
                    f" {spec.dtype}",
                    "correct the function, or leave it out where shapes are fixed",
                )
        if len(stated) != len(program.specs):
            raise self._refuse(
                f"shapes gives {len(stated)} results, and the kernel returns {len(program.specs)}",
                "return a shape for each result",
            )


class ReverseOperator(KernelOperator):
    """The backward that follows from the instructions of a kernel (`nki_lab.autodiff`), made for each signature.

    It takes the gradients of results, and then what the kernel takes.
    """

    def __init__(self, forward: KernelOperator, of: Sequence[str], wrt: Sequence[str]) -> None:
        self.forward, self.of, self.wrt = forward, tuple(of), tuple(wrt)
        super().__init__(f"{forward.name}_backward", forward.kernel, None)

    def _parameters(self) -> tuple[inspect.Parameter, ...]:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        gradients = [inspect.Parameter(f"gradient_of_{name}", kind) for name in self.of]
        return (*gradients, *self.forward.parameters)

    def _function(self, choices: Choices, values: Sequence[Any]) -> CompiledFunction:
        given = values[len(self.of) :]
        call = self.forward.call(given)
        with inside(**vars(choices)):
            made = backward(self.kernel, *call.args, wrt=self.wrt, **call.kwargs)
        tensors = self._arrays(values)
        assert self.forward.results is not None
        constants = self.forward.program(given).constants
        tensors_of = [n for k, n in enumerate(self.forward.results.names) if k not in constants]
        names = [tensors_of[n] for n in made.results]
        if names != [*self.of]:
            raise self._refuse(
                f"the results of floats are {', '.join(names)}, and gradients are given of {', '.join(self.of)}",
                "name integers and what is no tensor, and nothing else, in no_grad",
            )
        return made.compile_with(choices, tuple(tensors), {})

    def _arrays(self, values: Sequence[Any]) -> list[np.ndarray]:
        count = len(self.of)
        return super()._arrays((*values[count:], *values[:count]))


@dataclass(eq=False)
class Derivative:
    """The backward of an operator.

    Attributes:
        backward: a kernel, "auto" for the one that follows from the instructions, or a function of the framework's
            arrays.
        of: names of the results that it is given the gradients of, in order.
        save: names of the parameters and results that follow them among its arguments.
        wrt: names of the parameters that it returns gradients for, in order.
    """

    backward: Any
    of: tuple[str, ...]
    save: tuple[str, ...]
    wrt: tuple[str, ...]

    def operator_for(self, forward: KernelOperator) -> KernelOperator | None:
        """Return the operator that computes it; None where it is a function."""
        if self.backward == AUTO:
            return ReverseOperator(forward, self.of, self.wrt)
        if isinstance(self.backward, KernelFunction):
            return KernelOperator(f"{forward.name}_backward", self.backward, None)
        return None


def derivative_of(
    operator: KernelOperator,
    backward: Any,
    save: Sequence[str] | None,
    no_grad: Sequence[str] | None,
    wrt: Sequence[str] | None,
    tensors: Sequence[str],
) -> tuple[Derivative | None, tuple[str, ...]]:
    """Return the backward of an operator, or None, and the names of the results that have no gradient.

    Args:
        operator: the operator.
        backward: a kernel, "auto", or a function.
        save: what it takes besides gradients; by default what its further parameters are called.
        no_grad: results that have no gradient; by default those that the backward takes as they are, where it has
            no argument for their gradients.
        wrt: parameters it returns gradients for; by default all tensors.
        tensors: names of the parameters that are tensors.
    """
    assert operator.results is not None
    _check_names(operator, "no_grad", no_grad or (), operator.results.names, "results")
    constants = operator.results.constants
    no_grad = None if no_grad is None else tuple(dict.fromkeys((*no_grad, *constants)))
    results = tuple(n for n in operator.results.names if n not in constants)
    wrt = tuple(n for n in tensors if n not in operator.mutates) if wrt is None else tuple(wrt)
    _check_names(operator, "wrt", wrt, tensors, "tensors")
    if backward is None:
        return None, tuple(no_grad or constants)
    if isinstance(backward, str) and backward != AUTO:
        raise operator._refuse(
            f"backward={backward!r} is not a kernel", f"write backward={AUTO!r}, or give a kernel"
        )
    if backward == AUTO:
        of = tuple(name for name in results if name not in (no_grad or ()))
        wrt = tuple(name for name in operator.names if name in wrt)
        return Derivative(AUTO, of, operator.names, wrt), tuple(no_grad or constants)
    parameters = list(inspect.signature(backward).parameters)
    known = (*operator.names, *results)
    if no_grad is None:
        saved = parameters if save is None else save
        count = next((n for n, name in enumerate(parameters) if name in known), len(parameters))
        count = count if save is None else len(parameters) - len(save)
        others = tuple(name for name in results if name not in saved)
        no_grad = () if count != len(others) else tuple(n for n in results if n in saved)
        no_grad = (*no_grad, *constants)
    of = tuple(name for name in results if name not in no_grad)
    if save is None:
        save = parameters[len(of) :]
        for name, result in zip(parameters, of, strict=False):
            if name in known:
                raise operator._refuse(
                    f"the argument `{name}` of its backward would be given the gradient of result `{result}`",
                    "name the results without a gradient in no_grad, or say in save what follows the gradients",
                )
    _check_names(operator, "save", save, known, "arguments and results")
    if len(of) + len(save) != len(parameters):
        raise operator._refuse(
            f"its backward takes {len(parameters)} arguments ({', '.join(parameters)}), and would be given"
            f" {len(of)} gradients and {len(save)} saved values",
            "give it the gradient of each result and then what `save` names; results without a gradient are named in"
            " no_grad",
        )
    return Derivative(backward, of, tuple(save), wrt), tuple(no_grad)


def _check_names(
    operator: KernelOperator, option: str, names: Sequence[str], known: Sequence[str], what: str
) -> None:
    for name in names:
        if name not in known:
            raise operator._refuse(
                f"{option} names `{name}`, which is none of its {what}",
                close_matches(name, known) or f"its {what}: {', '.join(known)}",
            )


def kernel_operator(
    name: str,
    kernel: Any,
    results: Any,
    mutates: str | Sequence[str],
    shapes: Callable[..., Any] | None,
) -> KernelOperator:
    """Return the operator of a kernel or function."""
    named = isinstance(name, str) and NAME.fullmatch(name)
    if not named or any(map(keyword.iskeyword, name.split("::"))):
        raise KernelArgument(
            f"{name!r} does not name an operator",
            help='write a namespace and a name, none of them a keyword of Python: "lab::rmsnorm"',
        )
    kernel = as_kernel(
        getattr(kernel, "kernel", kernel)
    )  # of a prebuilt kernel, or another operator
    mutates = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    return KernelOperator(name, kernel, results_of(kernel, results), mutates, shapes)


def signature_of(value: Any) -> Any:
    """Return what a program depends on of one argument."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype
    if isinstance(value, TensorSpec):
        return tuple(value.shape), value.dtype.host
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(signature_of, value))
    return type(value), repr(value) if isinstance(value, float) else value


def _array(value: Any) -> Any:
    """Return an array that has the shape and dtype of a TensorSpec, and no memory for its elements."""
    if isinstance(value, TensorSpec):
        return np.broadcast_to(np.zeros((), value.dtype.host), value.shape)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_array, value))
    return value


def _leaves(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _own(array: np.ndarray, given: Sequence[np.ndarray]) -> np.ndarray:
    if array.flags.owndata:  # so what shares its memory is itself, or a view of it
        shared = any(other is array or other.base is array for other in given)
    else:
        shared = any(np.may_share_memory(array, other) for other in given)
    if shared or not array.flags.c_contiguous or not array.flags.writeable:
        return np.array(array, order="C")
    return array


def spec_of(name: str, shape: Iterable[Any], dtype: Any, library: str) -> TensorSpec:
    """Return the shape and dtype of an array of a library; KernelArgument for a dtype that NKI lacks."""
    known = dtype_of(dtype)
    if known is None or known is int64:
        raise no_such_dtype(name, dtype if known is None else known.np, library)
    return TensorSpec(tuple(int(n) for n in shape), known)


def _constant(result: Any, constants: Sequence[Any]) -> Any:
    """Return what a tensor without elements stands for, and any other as it is."""
    shape = result.shape
    return constants[shape[-1]] if len(shape) > 1 and shape[-2] == 0 else result


def _with_names(structure: Any, names: Iterator[str]) -> Any:
    """Return a structure with a name in the place of each result; the name of one in a dict is its key."""
    if isinstance(structure, dict):
        return {
            key: key if isinstance(value, OutputRef) else _with_names(value, names)
            for key, value in structure.items()
        }
    if isinstance(structure, (tuple, list)):
        return tuple(_with_names(value, names) for value in structure)
    return next(names)


class Operator:
    """A kernel as an operator of a framework.

    Attributes:
        name: such as "lab::rmsnorm".
        kernel: the kernel.
        backward: its backward: an operator, a function, or None.
        arguments: names of its arguments.
        results: names of its results.
        wrt: names of the arguments that have a gradient.
        no_grad: names of the results that have none.
    """

    def __init__(
        self,
        operator: KernelOperator,
        derivative: Derivative | None,
        backward: Any,
        no_grad: Sequence[str],
        again: tuple[Any, ...],
    ) -> None:
        assert operator.results is not None
        self.name, self.kernel, self.backward = operator.name, operator.kernel, backward
        self.arguments, self.results = operator.names, operator.results.names
        self.wrt = derivative.wrt if derivative is not None else None
        self.no_grad = tuple(no_grad)
        self._constants, self._make = operator.constants, operator.results.make
        self._again = again
        function = operator.kernel.func
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.__signature__ = operator.kernel.source.signature

    def _made(self, results: Sequence[Any]) -> Any:
        """Return results in the form of the kernel's, with the constants among them."""
        return self._make([_constant(r, self._constants) for r in results])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        raise NotImplementedError

    def trace(self, *args: Any, target: Any = None, **kwargs: Any) -> ModelTrace:
        """Run the operator and its backward; return their times side by side, with the views of each."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """Go to another process by its name in a module; else the kernel goes, and is made an operator there."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else self._again

    def __repr__(self) -> str:
        return f"<operator {self.name} of the NKI kernel {self.kernel.__name__}>"
