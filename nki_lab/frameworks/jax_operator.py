"""Operators of JAX: a function with its own derivative for each choice of constants, and a callback that computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np

from nki_lab.compiler.trace import TensorSpec, bind_arguments
from nki_lab.errors import KernelArgument, NkiError, NotModelled
from nki_lab.frameworks.on_device import run_official
from nki_lab.frameworks.operator import (
    Derivative,
    KernelOperator,
    Operator,
    derivative_of,
    kernel_operator,
    signature_of,
    spec_of,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.runtime.arrays import check_dtype
from nki_lab.views.models.trace import ModelTrace

#: The functions that an operator keeps, one for each choice of constants; beyond that it begins anew.
_KEPT = 64


class JaxOperator(Operator):
    """A kernel as an operator of JAX: call it with arrays."""

    def __init__(
        self,
        operator: KernelOperator,
        derivative: Derivative | None,
        no_grad: tuple[str, ...],
        options: Mapping[str, Any],
        again: tuple[Any, ...],
    ) -> None:
        assert operator.results is not None
        backward = derivative.backward if derivative is not None else None
        reverse = derivative.operator_for(operator) if derivative is not None else None
        if reverse is not None:
            backward = _Calls(reverse, None, None, options, "no second derivative")
        super().__init__(operator, derivative, backward, no_grad, (make_operator, again))
        self._calls = _Calls(operator, derivative, backward, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; inside another kernel, run the kernel itself."""
        if args and isinstance(args[0], NkiTensor):
            return self.kernel(*args, **kwargs)
        operator = self._calls.operator
        bound = bind_arguments(operator.kernel.source, args, kwargs)
        results = self._calls(*bound.values())
        return self._made(results) if self._constants else self._make(results)

    def trace(self, *args: Any, target: Any = None, **kwargs: Any) -> ModelTrace:
        """Run the operator and its backward; return their times side by side, with the views of each."""
        from nki_lab.frameworks.jax_trace import trace_operator

        return trace_operator(self, args, kwargs, target)


def make_operator(name: str, kernel: Any, options: Mapping[str, Any]) -> JaxOperator:
    """Make a kernel an operator; `options` are those of `nki_lab.jax.custom_op`."""
    operator = kernel_operator(name, kernel, options["results"], (), None)
    tensors = [p.name for p in operator.parameters if p.default is p.empty]
    wrt = tensors if options["wrt"] is None else options["wrt"]
    derivative, no_grad = derivative_of(
        operator, options["backward"], options["save"], options["no_grad"], wrt, operator.names
    )
    return JaxOperator(
        operator, derivative, no_grad, options, (name, operator.kernel, dict(options))
    )


_failure: NkiError | None = None


@contextmanager
def _kept_error(name: str) -> Iterator[None]:
    """Keep the error of a kernel that JAX calls: of its own error, the first kilobytes are about JAX."""
    global _failure
    try:
        yield
    except NkiError as error:
        _failure = error
        raise
    except KeyboardInterrupt:  # JAX would make an error of values of it
        raise RuntimeError(f"{name} was interrupted") from None


def _original(error: Exception) -> NkiError | None:
    """Return the error of a kernel that an error of JAX tells of."""
    return _failure if _failure is not None and str(_failure) in str(error) else None


def _in_cells(error: Exception) -> Any:
    original = _original(error)
    if original is None:
        raise AttributeError("_render_traceback_")
    return original._render_traceback_


# IPython asks an exception for this before it makes its own traceback; where a kernel failed, it is that of the kernel.
# A function that JAX has compiled before raises ValueError, which cannot be asked.
jax.errors.JaxRuntimeError._render_traceback_ = property(_in_cells)  # type: ignore[attr-defined]


class _Calls:
    """Calls a kernel with a value for each parameter, and returns a tuple of its results.

    Attributes:
        operator: the kernel and its programs.
        derivative: names of what its backward takes and gives; None where there is no backward.
        backward: takes arrays and returns gradients.
        missing: what an operator without a backward has not.
    """

    def __init__(
        self,
        operator: KernelOperator,
        derivative: Derivative | None,
        backward: Callable[..., Any] | None,
        options: Mapping[str, Any],
        missing: str = "no backward",
    ) -> None:
        self.operator, self.derivative, self.backward = operator, derivative, backward
        self.missing, self._method = missing, options["vmap_method"]
        self._functions: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        arrays: list[Any] = []
        form = tuple(_taken_out(value, arrays) for value in values)
        if not any(isinstance(a, jax.core.Tracer) for a in arrays):
            return self._run(values)
        try:
            key = signature_of(form)
            function = self._functions.get(key)
        except TypeError:  # a constant that cannot be hashed
            return self._applied(self._function(form), arrays)
        if function is None:
            if len(self._functions) >= _KEPT:
                self._functions.clear()
            function = self._functions[key] = self._function(form)
        return self._applied(function, arrays)

    def _run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Run on arrays that have values."""
        if _platform() == "neuron":
            return self._official(values)
        device = self._device(values)
        named = zip(self.operator.names, values, strict=True)
        given = [_mapped(v, partial(_numpy, name)) for name, v in named]
        results = map(jax.numpy.array, self.operator.run(given))
        return tuple(results if device is None else jax.device_put([*results], device))

    def _device(self, values: Sequence[Any]) -> Any:
        """Return the device that the arrays were put on, None if nobody said which; refuse different ones."""
        named = zip(self.operator.names, values, strict=True)
        placed = [
            (name, a.sharding.device_set)
            for name, value in named
            for a in _arrays(value)
            if getattr(a, "committed", False)
        ]
        if not placed:
            return None
        if any(devices != placed[0][1] for _, devices in placed):
            each = [
                f"`{name}` on {', '.join(sorted(map(str, devices)))}" for name, devices in placed
            ]
            raise KernelArgument(
                f"{self.operator.name}: its arguments are on different devices: {', '.join(each)}",
                help="put them on the same devices: jax.device_put(array, device)",
            )
        (_, devices), *_ = placed
        return next(iter(devices)) if len(devices) == 1 else None

    def _official(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Call the kernel of the official package, for arrays or tracers of JAX on a Neuron device."""

        def constant(number: int) -> Any:
            return jax.numpy.zeros((0, number), bool)

        return tuple(run_official(self.operator, values, "neuron", constant))

    def _applied(self, function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        try:
            return function(*arrays)
        except (ValueError, jax.errors.JaxRuntimeError) as error:  # JAX raises either
            raise _original(error) or error from None
        except TypeError as error:  # JAX's own does not say which function it means
            if "forward-mode" not in str(error) or isinstance(error, NkiError):
                raise
            raise NotModelled(
                f"{self.operator.name} has no forward-mode derivative",
                help="use reverse mode: jax.grad, vjp or jacrev",
            ) from None

    def _function(self, form: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the function of arrays that has these constants."""
        operator = self.operator

        def computed(*arrays: Any) -> tuple[np.ndarray, ...]:
            with _kept_error(operator.name):
                return operator.run(_put_back(form, [np.asarray(a) for a in arrays]))

        # By this the equations of a jaxpr tell whose callback it is.
        computed.__name__ = operator.name

        def results_of(arrays: Sequence[Any]) -> tuple[Any, ...]:
            named = zip(operator.names, _put_back(form, arrays), strict=True)
            specs = [_mapped(v, partial(_spec, name)) for name, v in named]
            if _platform() == "neuron":  # where host callbacks are not supported
                return self._official(_put_back(form, arrays))
            program = operator.program(specs)
            shapes = tuple(jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in program.specs)
            results = jax.pure_callback(computed, shapes, *arrays, vmap_method=self._method)
            return tuple(results)

        @jax.custom_vjp
        def function(*arrays: Any) -> tuple[Any, ...]:
            return results_of(arrays)

        def forward(*primals: Any) -> tuple[Any, Any]:
            arrays = [p.value if asks else p for p in primals]
            if asks:
                self._check(_put_back(form, primals))
            results = function(*arrays)  # not what it computes: this may be differentiated, too
            return results, (arrays, results)

        def backward(residuals: Any, grads: Any) -> tuple[Any, ...]:
            arrays, results = residuals
            return self._gradients(_put_back(form, arrays), results, grads)

        # Whether a gradient is asked for matters where there is none; jax.shard_map cannot tell.
        given = self.derivative.wrt if self.derivative is not None else operator.names
        asks = any(_arrays(v) for n, v in zip(operator.names, form, strict=True) if n not in given)
        function.__name__ = operator.name
        function.defvjp(forward, backward, symbolic_zeros=asks)
        return function

    def _check(self, primals: Sequence[Any]) -> None:
        """Refuse gradients of arguments that the backward gives none for."""
        assert self.derivative is not None
        for name, value in zip(self.operator.names, primals, strict=True):
            needed = [p for p in _arrays(value) if p.perturbed and _has_gradient(p.value)]
            if needed and name not in self.derivative.wrt:
                raise KernelArgument(
                    f"{self.operator.name}: the gradient of argument `{name}` is asked for, and the backward"
                    " gives none",
                    help=f"pass jax.lax.stop_gradient({name}), or name it in wrt and have the backward return its"
                    " gradient",
                )

    def _gradients(
        self, values: Sequence[Any], results: Sequence[Any], grads: Sequence[Any]
    ) -> tuple[Any, ...]:
        if self.derivative is None or self.backward is None:
            raise NotModelled(
                f"{self.operator.name} has {self.missing}",
                help='give it a kernel: nki_lab.jax.custom_op(name, backward=...); or have it made: backward="auto"'
                if self.missing == "no backward"
                else "give a function of operators as the backward, each with a backward of its own",
            )
        assert self.operator.results is not None
        names = self.operator.results.names
        triples = zip(names, grads, results, strict=True)
        given = [(n, g, r) for n, g, r in triples if n in self.derivative.of]
        for name, _, result in given:
            if not _has_gradient(result):
                raise self.operator.no_gradient_of(name, result)
        of = [_given(g, r) for _, g, r in given]
        known = {
            **dict(zip(names, results, strict=True)),
            **dict(zip(self.operator.names, values, strict=True)),
        }
        returned = self.backward(*of, *(known[name] for name in self.derivative.save))
        returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        wanted = [a for name in self.derivative.wrt for a in _arrays(known[name])]
        if len(returned) != len(wanted):
            raise KernelArgument(
                f"{self.operator.name}: its backward returns {len(returned)} gradients, and {len(wanted)} are needed,"
                f" for {', '.join(self.derivative.wrt)}",
                help="return a gradient for each, in this order; wrt names arguments where some have none",
            )
        left = iter(returned)
        each = []
        for name, value in zip(self.operator.names, values, strict=True):
            for array in _arrays(value):
                grad = next(left) if name in self.derivative.wrt else None
                each.append(self._checked(name, grad, array))
        return tuple(each)

    def _checked(self, name: str, grad: Any, array: Any) -> Any:
        if not _has_gradient(array):
            return np.zeros(array.shape, jax.dtypes.float0)
        if grad is None:
            return jax.numpy.zeros(array.shape, array.dtype)
        if (grad.shape, grad.dtype) != (array.shape, array.dtype):
            raise KernelArgument(
                f"{self.operator.name}: its backward returns a gradient {list(grad.shape)} {grad.dtype} for `{name}`,"
                f" which is {list(array.shape)} {array.dtype}",
                help="return gradients of the shapes and dtypes of the arguments",
            )
        return grad


def _platform() -> str:
    """Return the platform on which JAX computes here."""
    return jax.default_backend()


def _numpy(name: str, array: Any) -> np.ndarray:
    values = np.asarray(array)
    check_dtype(name, values, "jax")
    return values


def _spec(name: str, array: Any) -> TensorSpec:
    return spec_of(name, array.shape, array.dtype, "jax")


def _given(grad: Any, result: Any) -> Any:
    """Return the gradient of a result as an array."""
    is_zero = isinstance(grad, jax.custom_derivatives.SymbolicZero)
    return jax.numpy.zeros(result.shape, result.dtype) if is_zero else grad


def _has_gradient(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact))


class _Array:
    """Stands for an array of a call."""

    shape = dtype = None


_ARRAY = _Array()


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _taken_out(value: Any, arrays: list[Any]) -> Any:
    """Return a value with `_ARRAY` in place of its arrays, which are appended to `arrays`."""
    if _is_array(value):
        arrays.append(value)
        return _ARRAY
    if type(value) in (list, tuple):
        return type(value)(_taken_out(v, arrays) for v in value)
    return value


def _put_back(form: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Undo `_taken_out`."""
    left = iter(arrays)
    return [_filled(value, left) for value in form]


def _filled(value: Any, left: Any) -> Any:
    if value is _ARRAY:
        return next(left)
    return type(value)(_filled(v, left) for v in value) if type(value) in (list, tuple) else value


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if _is_array(value):
        return function(value)
    return (
        type(value)(_mapped(v, function) for v in value) if type(value) in (list, tuple) else value
    )


def _arrays(value: Any) -> list[Any]:
    """Return the arrays of one argument, or what stands for them."""
    if type(value) in (list, tuple):
        return [a for v in value for a in _arrays(v)]
    return [value] if _is_array(value) or hasattr(value, "perturbed") else []
