"""Operators of PyTorch: schema, values on the simulator, shapes of fake tensors, batches, and their registration."""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import DType, dtype_of
from nki_lab.errors import KernelArgument, NkiError, ToolchainError
from nki_lab.frameworks.on_device import run_official
from nki_lab.frameworks.operator import (
    Derivative,
    KernelOperator,
    Operator,
    derivative_of,
    kernel_operator,
    spec_of,
)
from nki_lab.frameworks.torch_gradients import as_tuple, record_gradients, tensors_in, undisturbed
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.runtime.arrays import check_dtype, to_library, values_of_torch
from nki_lab.views.models.trace import ModelTrace

#: Every definition stays: a handle of an operator whose library is gone can end the process.
_LIBRARIES: dict[str, Any] = {}

_TYPES = {torch.Tensor: "Tensor", float: "float", int: "int", bool: "bool", str: "str"}


class TorchOperator(Operator):
    """A kernel as an operator of PyTorch: call it with tensors.

    Attributes:
        op: the overload, as `torch.library.opcheck` takes it.
    """

    def __init__(
        self,
        registered: Registered,
        derivative: Derivative | None,
        backward: Any,
        no_grad: tuple[str, ...],
        look: Callable[[Sequence[Any]], None] | None,
        again: tuple[Any, ...],
    ) -> None:
        operator = registered.operator
        assert operator.results is not None
        super().__init__(
            operator, derivative, backward, no_grad, (_again, (registered.name, *again))
        )
        self.op, self._registered = registered.overload, registered
        self._look = look
        self._is_single = len(operator.results.names) == 1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; with NumPy arrays, or inside another kernel, run the kernel itself."""
        compiles = torch.compiler.is_compiling()
        if not compiles:
            if args and isinstance(args[0], (np.ndarray, NkiTensor)):
                return self.kernel(*args, **kwargs)
            if self._look is not None:
                self._look((*args, *kwargs.values()))
        results = self.op(*args, **kwargs)
        results = (results,) if self._is_single else () if results is None else results
        # A compiler runs this before it has asked for the shapes, and then takes the constants as they are then.
        if compiles:
            return self._make([_settled(r, self.name) for r in results])
        return self._made(results) if self._constants else self._make(results)

    def trace(self, *args: Any, target: Any = None, **kwargs: Any) -> ModelTrace:
        """Run the operator and its backward; return their times side by side, with the views of each."""
        from nki_lab.frameworks.torch_trace import trace_operator

        return trace_operator(self, args, kwargs, target)


_OPERATORS: dict[str, TorchOperator] = {}


def _settled(result: Any, name: str) -> Any:
    """Return what a tensor without elements stands for, as a constant of what is compiled."""
    shape = result.shape
    stands = result.dtype is torch.bool and len(shape) > 1 and shape[-2] == 0
    return _constant_of(name, shape[-1]) if stands else result


@torch.compiler.assume_constant_result
def _constant_of(name: str, number: int) -> Any:
    return _OPERATORS[name]._constants[number]


def _again(versioned: str, name: str, kernel: Any, options: dict[str, Any]) -> TorchOperator:
    """Return the operator of a name in another process."""
    return _OPERATORS.get(versioned) or make_operator(name, kernel, options)


def make_operator(name: str, kernel: Any, options: Mapping[str, Any]) -> TorchOperator:
    """Register a kernel as an operator; `options` are those of `nki_lab.torch.custom_op` that are not the default."""
    operator = kernel_operator(
        name, kernel, options.get("results"), options.get("mutates") or (), options.get("shapes")
    )
    schema = Schema(operator, options.get("types") or {})
    derivative, no_grad = derivative_of(
        operator,
        options.get("backward"),
        options.get("save"),
        options.get("no_grad"),
        options.get("wrt"),
        schema.tensors,
    )
    registered = Registered(operator, schema)
    backward = derivative.backward if derivative is not None else None
    reverse = derivative.operator_for(operator) if derivative is not None else None
    if derivative is not None and reverse is not None:
        backward = _backward_operator(registered, derivative, reverse)
    look = record_gradients(registered, derivative, backward, no_grad)
    if options.get("autocast") is not None:
        torch.library.register_autocast(
            registered.name, "cpu", options.get("autocast"), lib=registered.library
        )
    again = name, operator.kernel, dict(options)
    made = _OPERATORS[registered.name] = TorchOperator(
        registered, derivative, backward, no_grad, look, again
    )
    return made


def _backward_operator(
    forward: Registered, derivative: Derivative, operator: KernelOperator
) -> Any:
    """Register a backward kernel as an operator without a derivative; return a function of tensors."""
    of, saved = len(derivative.of), derivative.save
    types = dict.fromkeys(operator.names[:of], "Tensor")
    types.update(
        (own, forward.schema.types.get(name, "Tensor"))
        for own, name in zip(operator.names[of:], saved, strict=True)
    )
    schema = Schema(operator, types, "Tensor[]")
    like = {name: of + saved.index(name) for name in derivative.wrt if name in saved}

    def shapes(*values: Any) -> Any:
        """Return the shapes of gradients: those of the arguments, where these are saved."""
        return [values[like[name]] for name in derivative.wrt if values[like[name]] is not None]

    lists = any(forward.schema.types[name].endswith("[]") for name in derivative.wrt)
    if len(like) == len(derivative.wrt) and not lists:
        operator.shapes = shapes
    registered = Registered(operator, schema)
    record_gradients(registered, None, None, (), "no second derivative")
    return registered.overload


class Schema:
    """The arguments of an operator as PyTorch writes them.

    Attributes:
        types: parameter -> its type, such as "Tensor", "float" or "Tensor?".
        text: "(Tensor x, float eps=1e-06) -> Tensor".
        positional: how many arguments are given by position.
    """

    def __init__(
        self, operator: KernelOperator, given: Mapping[str, Any], returns: str = ""
    ) -> None:
        try:
            hints = typing.get_type_hints(operator.kernel.func)
        except Exception:  # an annotation whose names are not there at run time
            hints = {}
        self.types = {
            p.name: _type_of(operator, p, {**hints, **given}.get(p.name, p.empty))
            for p in operator.parameters
        }
        self.defaults = tuple(p.default for p in operator.parameters)
        optional = [p.default is not p.empty for p in operator.parameters]
        ordered = optional == sorted(optional)
        self.positional = sum(ordered or p.kind is not p.KEYWORD_ONLY for p in operator.parameters)
        letters = iter("abcdefgh")
        words = []
        for n, p in enumerate(operator.parameters):
            if n == self.positional:
                words.append("*")
            kind = self.types[p.name]
            if n >= self.positional and kind.startswith("Tensor"):
                raise operator._refuse(
                    f"the tensor `{p.name}` is a keyword-only argument after one with a default",
                    "put it before the arguments that have defaults",
                )
            if p.name in operator.mutates:
                kind = kind.replace("Tensor", f"Tensor({next(letters)}!)", 1)
            words.append(f"{kind} {p.name}" + (f"={_default(p.default)}" if optional[n] else ""))
        if operator.results is not None and not returns:
            count = len(operator.results.names)
            returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        self.text = f"({', '.join(words)}) -> {returns}"

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the parameters that are tensors, or lists of them."""
        return tuple(name for name, kind in self.types.items() if kind.startswith("Tensor"))

    def values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return a value for each parameter: PyTorch leaves out those that have their default."""
        if not kwargs:
            return [*args, *self.defaults[len(args) :]]
        others = list(zip(self.types, self.defaults, strict=True))[len(args) :]
        return [*args, *(kwargs.get(name, default) for name, default in others)]

    def call(self, function: Any, *first: Any, values: Sequence[Any]) -> Any:
        """Call an overload, or its `redispatch`, with a value for each parameter."""
        if self.positional == len(values):
            return function(*first, *values)
        names = list(self.types)[self.positional :]
        keywords = dict(zip(names, values[self.positional :], strict=True))
        return function(*first, *values[: self.positional], **keywords)


def _type_of(operator: KernelOperator, parameter: inspect.Parameter, hint: Any) -> str:
    if isinstance(hint, str):
        return hint
    default = parameter.default
    if hint is parameter.empty:
        if default is parameter.empty:
            return "Tensor"
        if default is None:
            return "Tensor?"
        hint = type(default)
        if hint in (tuple, list) and default and len({type(v) for v in default}) == 1:
            hint = list[type(default[0])]  # type: ignore[misc]
    inner = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in inner:
        (known,) = (kind for kind in inner if kind is not type(None))
        return f"{_type_of(operator, parameter, known)}?"
    if hint in _TYPES:
        return _TYPES[hint]
    if typing.get_origin(hint) is not None and inner and inner[0] in _TYPES:
        return f"{_TYPES[inner[0]]}[]"
    if default is parameter.empty or default is None:
        return "Tensor"  # of NKI, NumPy, ...
    raise operator._refuse(
        f"argument `{parameter.name}` has the default {default!r}, and PyTorch has no such type of argument",
        f"choose a number, text or list of numbers, and say its type: types={{{parameter.name!r}: float}}",
    )


def _default(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(list(value)) if isinstance(value, tuple) else repr(value)


class Registered:
    """An operator that PyTorch knows.

    Attributes:
        operator: kernel and programs.
        schema: its arguments.
        name: with its version.
        library: holds what is registered.
        overload: what is called.
    """

    def __init__(self, operator: KernelOperator, schema: Schema) -> None:
        self.operator, self.schema = operator, schema
        namespace, short = operator.name.split("::")
        version = next(
            name
            for n in itertools.count(1)
            if f"{namespace}::{(name := short if n == 1 else f'{short}__v{n}')}" not in _LIBRARIES
            and not hasattr(getattr(torch.ops, namespace), name)
        )
        self.name = operator.name = f"{namespace}::{version}"
        self.library = _LIBRARIES[self.name] = torch.library.Library(namespace, "FRAGMENT")
        self.library.define(version + schema.text)
        self.short = version
        self.overload = getattr(getattr(torch.ops, namespace), version).default
        self.library.impl(version, undisturbed(self._on_cpu), "CPU")
        for device in ("CUDA", "XLA", "PrivateUse1"):
            self.library.impl(version, undisturbed(self.on_device), device)
        if operator.mutates:
            self.library.impl(
                version, undisturbed(self._written), "ADInplaceOrView", with_keyset=True
            )
        torch.library.register_fake(self.name, self._fake, lib=self.library)
        torch.library.register_vmap(self.name, self._batch, lib=self.library)

    def _form(self, results: Sequence[Any]) -> Any:
        if self.operator.results is None:
            return list(results)
        return tuple(results) if len(results) > 1 else results[0] if results else None

    # -- values ------------------------------------------------------------------------------------------------

    def _on_cpu(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the simulator."""
        given = self.schema.values(args, kwargs)
        values = [
            self._numpy(name, v)
            if isinstance(v, torch.Tensor)
            else _mapped(v, partial(self._numpy, name))
            for name, v in zip(self.operator.names, given, strict=True)
        ]
        if self.operator.shapes is not None:
            stated = [(shape, _dtype_of(dtype)) for shape, dtype in self._stated(given)]
            self.operator.check_shapes(stated, self.operator.program(values))
        return self._form([to_library(array, "torch") for array in self.operator.run(values)])

    def _written(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Count the writes of arguments: a backward that kept one of them then refuses it, as after x.add_(1)."""
        values = self.schema.values(args, kwargs)
        for name, value in zip(self.operator.names, values, strict=True):
            if name in self.operator.mutates:
                torch.autograd.graph.increment_version(tensors_in(value))
        with torch._C._AutoDispatchBelowADInplaceOrView():
            keys = keyset & torch._C._after_ADInplaceOrView_keyset
            return self.schema.call(self.overload.redispatch, keys, values=values)

    def _numpy(self, name: str, tensor: Any) -> np.ndarray:
        array = values_of_torch(name, tensor)
        check_dtype(name, array, "torch")
        return array

    def check_devices(self, values: Sequence[Any]) -> list[Any]:
        """Return the tensors among the arguments; refuse tensors on different devices."""
        tensors = [t for v in values for t in tensors_in(v)]
        if len({t.device for t in tensors}) > 1:
            each = [
                f"`{name}` on {t.device}"
                for name, v in zip(self.operator.names, values, strict=True)
                for t in tensors_in(v)
            ]
            raise KernelArgument(
                f"{self.name}: its arguments are on different devices: {', '.join(each)}",
                help="move them to one device: tensor.cpu()",
            )
        return tensors

    def on_device(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel of the official package, for tensors on a Neuron device."""
        values = self.schema.values(args, kwargs)
        device = self.check_devices(values)[0].device
        if device.type == "cuda":
            raise ToolchainError(
                f"{self.name}: its arguments are on {device}, and operators run on the simulator and Neuron devices",
                help="pass CPU tensors: tensor.cpu()",
            )

        def constant(number: int) -> Any:
            return torch.zeros((0, number), dtype=torch.bool, device=device)

        results = run_official(self.operator, values, device, constant)
        if self.operator.shapes is None:
            self._check_official(values, results)
        return self._form(results)

    def _check_official(self, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Refuse results whose shapes or dtypes are not those that fake tensors are given."""
        named = zip(self.operator.names, values, strict=True)
        program = self.operator.program(
            [_mapped(v, partial(self._spec, name)) for name, v in named]
        )
        stated = [(tuple(r.shape), _dtype_of(r.dtype)) for r in results]
        wanted = [(tuple(s.shape), s.dtype) for s in program.specs]
        if stated != wanted:
            raise KernelArgument(
                f"{self.name}: the official kernel returns {_described(stated)}, and the program of nki_lab"
                f" {_described(wanted)}",
                help="compare both with nki_lab.compare, and say the shapes: shapes=",
            )

    # -- shapes ------------------------------------------------------------------------------------------------

    def _stated(self, values: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the shape and dtype of each result as `shapes` says them."""
        assert self.operator.shapes is not None
        stated = self.operator.shapes(*values)
        if isinstance(stated, torch.Tensor) or (
            isinstance(stated, tuple) and len(stated) == 2 and not isinstance(stated[0], torch.Tensor)
            and not isinstance(stated[1], (tuple, torch.Tensor))
        ):  # fmt: skip
            stated = [stated]
        return [(s.shape, s.dtype) if isinstance(s, torch.Tensor) else tuple(s) for s in stated]

    def _fake(self, *args: Any, **kwargs: Any) -> Any:
        """Return tensors without values, of the shapes and dtypes of the results."""
        values = self.schema.values(args, kwargs)
        first = next(iter(self.check_devices(values)), None)
        if self.operator.shapes is not None:
            stated = [(shape, _torch_dtype(dtype)) for shape, dtype in self._stated(values)]
        else:
            specs = [
                _mapped(v, partial(self._spec, name))
                for name, v in zip(self.operator.names, values, strict=True)
            ]
            with _shown_by_compilers():
                program = self.operator.program(specs)
            stated = [(spec.shape, _torch_dtype(spec.dtype)) for spec in program.specs]
        make = torch.empty if first is None else first.new_empty
        return self._form([make(tuple(shape), dtype=dtype) for shape, dtype in stated])

    def _spec(self, name: str, tensor: Any) -> TensorSpec:
        return spec_of(name, tensor.shape, str(tensor.dtype).removeprefix("torch."), "torch")

    # -- batches -----------------------------------------------------------------------------------------------

    def _batch(self, info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        """Run once for each element of a batch, and stack the results (torch.func.vmap)."""
        values = self.schema.values(args, kwargs)
        dims = [*in_dims, *[None] * (len(values) - len(in_dims))]
        for name, dim in zip(self.operator.names, dims, strict=True):
            if name in self.operator.mutates and dim is None:
                raise KernelArgument(
                    f"{self.name}: torch.vmap gives each element of a batch the same `{name}`, which the kernel writes",
                    help=f"give `{name}` the axis of the batch, too: in_dims",
                )

        def element(n: int) -> list[Any]:
            return [_selected(v, dim, n) for v, dim in zip(values, dims, strict=True)]

        if info.batch_size == 0:
            meta = [
                _mapped(_empty_first(v, d), lambda t: t.to("meta"))
                for v, d in zip(values, dims, strict=True)
            ]
            example = as_tuple(self.schema.call(self.overload, values=meta))
            device = next(t.device for v in values for t in tensors_in(v))
            results = [torch.empty((0, *t.shape), dtype=t.dtype, device=device) for t in example]
        else:
            runs = [
                as_tuple(self.schema.call(self.overload, values=element(n)))
                for n in range(info.batch_size)
            ]
            results = [torch.stack(each) for each in zip(*runs, strict=True)]
        out_dims = self._form([0] * len(results))
        return self._form(results), out_dims


def _described(tensors: Sequence[tuple[Any, Any]]) -> str:
    return ", ".join(f"{list(shape)} {dtype}" for shape, dtype in tensors) or "nothing"


class KernelFailed(NotImplementedError):
    """An error of a kernel while torch.compile traces, which then leaves the operator out of what it compiles.

    So the operator runs by itself, where the error comes up as it is. Where all must be compiled (`fullgraph`), the
    message of torch.compile has the text below.
    """

    def __repr__(self) -> str:
        return str(self)


@contextmanager
def _shown_by_compilers() -> Iterator[None]:
    """Have torch.compile show errors of kernels, of which it would show the first line only."""
    try:
        yield
    except NkiError as error:
        if torch._guards.TracingContext.try_get() is None or torch.compiler.is_exporting():
            raise
        raise KernelFailed(str(error)) from error


def _selected(value: Any, dim: Any, n: int) -> Any:
    if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_selected(v, d, n) for v, d in zip(value, dim, strict=True)]
    return value if dim is None else value.select(dim, n)


def _empty_first(value: Any, dim: Any) -> Any:
    """Return the shape that an element of an empty batch would have, as a tensor."""
    if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_empty_first(v, d) for v, d in zip(value, dim, strict=True)]
    return value if dim is None else value.sum(dim).to(value.dtype)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(v, function) for v in value)
    return value


def _torch_dtype(dtype: Any) -> Any:
    """Return PyTorch's name for a dtype of NKI, NumPy or PyTorch."""
    if isinstance(dtype, torch.dtype):
        return dtype
    known = dtype_of(dtype)
    found = getattr(torch, str(known.np), None) if known is not None else None
    if not isinstance(found, torch.dtype):
        raise KernelArgument(
            f"PyTorch has no dtype {dtype}",
            help="return a dtype that it has, such as float32 or bfloat16",
        )
    return found


def _dtype_of(dtype: Any) -> DType | None:
    """Return NKI's dtype for one of PyTorch, NKI or NumPy."""
    return dtype_of(str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype)
