"""What an operator is in any framework: a kernel, the names of its arguments and results, and its programs.

A program is compiled once for each signature: the shapes and dtypes of arrays, the values of constants, and what is
chosen (target, capacity, ...). What the kernel reads from globals stays as it was when the program was compiled.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nki_lab.autodiff import backward
from nki_lab.choices import Choices, inside
from nki_lab.compiler.trace import TensorSpec, no_such_dtype
from nki_lab.dtypes import dtype_of, int64
from nki_lab.errors import KernelArgument, close_matches
from nki_lab.ir.program.nodes import OutputRef
from nki_lab.runtime import CompiledFunction, KernelFunction, as_kernel
from nki_lab.runtime.recording import warn_of

#: The programs that an operator keeps; the one that was not used for longest goes first.
KEPT = 64

#: The backward that follows from the instructions of a kernel.
AUTO = "auto"

#: What an operator may be called.
NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")


class Results(NamedTuple):
    """What a kernel returns.

    Attributes:
        names: of its tensors, in order.
        make: puts a tuple of them into the form that the kernel returns.
    """

    names: tuple[str, ...]
    make: Callable[[tuple[Any, ...]], Any]


def _single(results: tuple[Any, ...]) -> Any:
    return results[0]


def _nothing(results: tuple[Any, ...]) -> None:
    return None


def numbered(count: int) -> tuple[str, ...]:
    """Return the names of results that have none of their own."""
    return tuple(f"out{n}" for n in range(count))


def results_of(kernel: KernelFunction, given: Any) -> Results:
    """Return what a kernel returns: `given`, or what its return statements say.

    Args:
        kernel: the kernel.
        given: a number of results, their names, or the class of a NamedTuple; None to read the statements.
    """
    if given is None:
        return _written_results(kernel)
    if hasattr(given, "_fields"):
        return Results(given._fields, given._make)
    names = numbered(given) if isinstance(given, int) else tuple(given)
    if not names:
        return Results((), _nothing)
    return Results(names, tuple if len(names) > 1 else _single)


def _written_results(kernel: KernelFunction) -> Results:
    tree = ast.parse(kernel.source.text) if kernel.source.text else ast.Module([], [])
    statements = [s for s in _statements(getattr(tree.body[0], "body", ())) if s.value is not None]
    forms = [_form(statement.value, kernel) for statement in statements if statement.value]
    if not forms:
        return Results((), _nothing)
    if any(len(f.names) != len(forms[0].names) or f.make is not forms[0].make for f in forms):
        raise KernelArgument(
            f"the return statements of `{kernel.__name__}` return different numbers of results",
            stack=(kernel.source.place,),
            help="say how many an operator returns: results=2, or results=('out', 'lse')",
        )
    same = all(form.names == forms[0].names for form in forms)
    return forms[0] if same else Results(numbered(len(forms[0].names)), forms[0].make)


def _statements(body: Iterable[ast.stmt]) -> list[ast.Return]:
    """Return the return statements of a function, without those of functions inside it."""
    found: list[ast.Return] = []
    for node in body:
        if isinstance(node, ast.Return):
            found.append(node)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [
                n
                for n in ast.iter_child_nodes(node)
                if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case))
            ]
            found += _statements(inner)  # type: ignore[arg-type]
    return found


def _form(value: ast.expr, kernel: KernelFunction) -> Results:
    if isinstance(value, (ast.Tuple, ast.List)):
        named = all(isinstance(e, ast.Name) for e in value.elts)
        names = tuple(e.id for e in value.elts if isinstance(e, ast.Name))
        distinct = named and len(set(names)) == len(names)
        make: Any = tuple if isinstance(value, ast.Tuple) else list
        return Results(names if distinct else numbered(len(value.elts)), make)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        made: Any = kernel.source.scope.get(value.func.id)
        if hasattr(made, "_fields"):
            return Results(made._fields, made._make)
    return Results((value.id,) if isinstance(value, ast.Name) else numbered(1), _single)


class Program(NamedTuple):
    """A kernel that was compiled for one signature.

    Attributes:
        function: runs it.
        specs: shape and dtype of each result.
    """

    function: CompiledFunction
    specs: tuple[TensorSpec, ...]


@dataclass(eq=False)
class KernelOperator:
    """A kernel under the name of an operator, and its programs.

    Attributes:
        name: such as "lab::rmsnorm".
        kernel: the kernel.
        results: what it returns; None where any number of tensors will do.
        mutates: names of the arguments that it writes.
        shapes: computes the shapes and dtypes of the results from the arguments; None to compile for them.
    """

    name: str
    kernel: KernelFunction
    results: Results | None
    mutates: tuple[str, ...] = ()
    shapes: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
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
                f"say so, mutates={hidden[0]!r}; or have the kernel return a new tensor",
            )
        flat = kernel.result
        flat = () if flat is None else flat if isinstance(flat, (tuple, list)) else (flat,)
        for n, leaf in enumerate(flat):
            if not isinstance(leaf, OutputRef):
                raise self._refuse(
                    f"result {n} of the kernel is {leaf!r}; an operator returns tensors",
                    "leave it out of what the kernel returns",
                )
        if self.results is not None and len(flat) != len(self.results.names):
            raise self._refuse(
                f"the kernel returns {len(flat)} results, and the operator was made for {len(self.results.names)}",
                f"make it with results={len(flat)}",
            )
        specs = tuple(
            TensorSpec(kernel.outputs[ref.index].shape, kernel.outputs[ref.index].dtype)
            for ref in flat
        )
        return Program(function, specs)

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
        result = self.program(values).function.launch_arrays(given)
        warn_of(result)
        value = result.value
        flat = () if value is None else value if isinstance(value, (tuple, list)) else (value,)
        return tuple(_own(array, given) for array in flat)

    # -- names ---------------------------------------------------------------------------------------------------

    def check_shapes(self, stated: Sequence[tuple[Any, Any]], program: Program) -> None:
        """Refuse `shapes` that states other shapes or dtypes than the program has."""
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
        names = [self.forward.results.names[n] for n in made.results]
        if names != [*self.of]:
            raise self._refuse(
                f"the results of floats are {', '.join(names)}, and gradients are given of {', '.join(self.of)}",
                "name integers, and nothing else, in no_grad",
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
    results = operator.results.names
    _check_names(operator, "no_grad", no_grad or (), results, "results")
    wrt = tuple(n for n in tensors if n not in operator.mutates) if wrt is None else tuple(wrt)
    _check_names(operator, "wrt", wrt, tensors, "tensors")
    if backward is None:
        return None, tuple(no_grad or ())
    if isinstance(backward, str) and backward != AUTO:
        raise operator._refuse(
            f"backward={backward!r} is not a kernel", f"write backward={AUTO!r}, or give a kernel"
        )
    if backward == AUTO:
        of = tuple(name for name in results if name not in (no_grad or ()))
        wrt = tuple(name for name in operator.names if name in wrt)
        return Derivative(AUTO, of, operator.names, wrt), tuple(no_grad or ())
    parameters = list(inspect.signature(backward).parameters)
    known = (*operator.names, *results)
    if no_grad is None:
        saved = parameters if save is None else save
        count = next((n for n, name in enumerate(parameters) if name in known), len(parameters))
        count = count if save is None else len(parameters) - len(save)
        others = tuple(name for name in results if name not in saved)
        no_grad = () if count != len(others) else tuple(n for n in results if n in saved)
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
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise KernelArgument(
            f"{name!r} does not name an operator",
            help='write a namespace and a name: "lab::rmsnorm"',
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
        self._again = again
        function = operator.kernel.func
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.__signature__ = operator.kernel.source.signature

    def __reduce__(self) -> Any:
        """Go to another process by its name in a module; else the kernel goes, and is made an operator there."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else self._again

    def __repr__(self) -> str:
        return f"<operator {self.name} of the NKI kernel {self.kernel.__name__}>"
