"""Runs a model of PyTorch and looks at each operator below autograd: `nki_lab.torch.trace_model`.

A dispatch mode sees every operator with its values, in the order of execution and of the backward, whatever the model
does in Python. Operators of kernels are those that ran one. FLOPs are PyTorch's own count (`torch.utils.flop_counter`).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from nki_lab.choices import inside
from nki_lab.errors import KernelArgument
from nki_lab.frameworks.device_limits import DYNAMIC, OPERATOR, refuse
from nki_lab.frameworks.model_trace import Rows, Tensor, place_at, with_backward, work_of
from nki_lab.frameworks.operator import Operator
from nki_lab.runtime import Result
from nki_lab.runtime.arrays import to_library
from nki_lab.runtime.recording import record_runs, warn_of
from nki_lab.source import is_hidden
from nki_lab.views.models.trace import BACKWARD, FORWARD, ModelTrace
from nki_lab.views.run import Place, Remark

#: Operators that use a part of their first tensor; PyTorch marks neither kind.
_TOUCHED = {
    "embedding": "gather", "index": "gather", "index_select": "gather", "gather": "gather", "take": "gather",
    "index_put_": "scatter", "index_copy_": "scatter", "scatter_": "scatter", "index_add_": "scatter",
}  # fmt: skip
#: Operators that take only the size of their tensors, and those that leave the memory of their result as it is.
_MADE, _UNSET = re.compile(r"new_\w+|\w+_like"), re.compile(r"(new_)?empty(_like|_strided)?")
_HOME = os.path.dirname(torch.__file__) + os.sep


def trace(
    model: Any,
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    target: Any,
    backward: bool | Callable[[Any], Any],
    device_check: bool,
) -> ModelTrace:
    """Run a model and return its trace; the arguments are those of `nki_lab.torch.trace_model`."""
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given
    rows = Rows(target)
    names = _names(model, inputs, named)
    exported = isinstance(model, torch.export.ExportedProgram)
    if exported:
        sizes = sorted(map(str, model.range_constraints))
        if sizes:
            message = (
                f"sizes of the exported program are symbols: {', '.join(sizes)} ({DYNAMIC.page})"
            )
            help = "export it without dynamic_shapes, once for each size"
            rows.findings.append(Remark(DYNAMIC.kind, message, help, is_serious=True))
        model = model.module()
    tracer = _Tracer(rows, model)
    for name, value in names.items():
        for tensor in _tensors(value):
            tracer.made_by(tensor, name)
    gradients: dict[str, Any] = {}
    with inside(target=rows.target.name), record_runs() as direct:
        tracer.direct = direct
        with tracer.modules(), tracer:
            value = _call(model, inputs, named, tracer)
            tracer.take_direct()
            if backward:
                gradients = _gradients(model, names, value, backward, tracer)
    for row in rows.rows:
        for run in row.runs:
            warn_of(run)  # type: ignore[arg-type]
    shown = {
        name: ", ".join(str(_tensor(t)) for t in tensors)
        for name, given in names.items()
        if (tensors := _tensors(given))
    }
    title = getattr(model, "__name__", type(model).__name__)
    findings = rows.all_findings()
    if device_check:
        refuse(findings)
    return ModelTrace(title, rows.target.name, tuple(rows.rows), shown, value, findings, gradients)


def trace_operator(
    operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any
) -> ModelTrace:
    """Run an operator and its backward on these arguments, which stay as they are, and return both as a trace."""
    wrt = operator.wrt or ()

    def given(name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = to_library(value.copy(), "torch")
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        return value.requires_grad_() if name in wrt and value.is_floating_point() else value

    bound = inspect.signature(operator).bind(*args, **kwargs).arguments
    values = {name: given(name, value) for name, value in bound.items()}
    asks = any(isinstance(v, torch.Tensor) and v.requires_grad for v in values.values())
    return with_backward(
        lambda backward: trace(operator, (), values, target, backward, False), asks
    )


def _names(model: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a model by their names."""
    try:
        function = model.forward if isinstance(model, torch.nn.Module) else model
        bound = inspect.signature(function).bind(*inputs, **named).arguments
    except (TypeError, ValueError):
        bound = {f"input{n}": value for n, value in enumerate(inputs)} | dict(named)
    names: dict[str, Any] = {}
    for name, value in bound.items():
        if isinstance(value, tuple) and len(value) > 1:
            names |= {f"{name}{n}": each for n, each in enumerate(value)}
        else:
            names[name] = value
    return names


def _call(model: Any, inputs: Sequence[Any], named: Mapping[str, Any], tracer: _Tracer) -> Any:
    if isinstance(model, torch.fx.GraphModule) and not named:
        return _GraphRunner(model, tracer).run(*inputs)
    return model(*inputs, **named)


class _GraphRunner(torch.fx.Interpreter):
    """Runs a graph, such as an exported one, whose nodes say which module they come from."""

    def __init__(self, graph: Any, tracer: _Tracer) -> None:
        super().__init__(graph)
        self._tracer = tracer

    def run_node(self, n: Any) -> Any:
        """Run a node as part of its module."""
        stack = list((n.meta.get("nn_module_stack") or {}).values())
        self._tracer.path = stack[-1][0] if stack else ""
        return super().run_node(n)


def _gradients(
    model: Any,
    names: Mapping[str, Any],
    value: Any,
    backward: bool | Callable[[Any], Any],
    tracer: _Tracer,
) -> dict[str, Any]:
    """Run the backward and return the gradients of parameters and inputs, by name; `.grad` of none is touched."""
    if callable(backward):
        tracer.path = "loss"
        value = backward(value)
    results = [t for t in _tensors(value) if t.requires_grad]
    # Of a function, those of the modules that it has called.
    owners = {"": model} if isinstance(model, torch.nn.Module) else tracer.outermost
    wanted = {
        f"{path}.{name}" if path else name: parameter
        for path, module in owners.items()
        for name, parameter in module.named_parameters()
    }
    wanted |= {n: t for n, v in names.items() for t in _tensors(v)}
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    if not results or not wanted:
        raise KernelArgument(
            "backward is asked for, and no result of the model has a gradient",
            help="call requires_grad_() on an input, or trace the model with backward=False",
        )
    with torch._C._DisableTorchDispatch():
        ones = [torch.ones_like(tensor) for tensor in results]
    found = torch.autograd.grad(results, list(wanted.values()), ones, allow_unused=True)
    return {n: g for n, g in zip(wanted, found, strict=True) if g is not None}


class _Tracer(TorchDispatchMode):
    """Sees every operator that runs, and adds its row.

    Attributes:
        rows: those so far.
        path: the module that runs.
        direct: runs of kernels that are called without being operators.
        outermost: modules that are called by none, by their paths.
    """

    def __init__(self, rows: Rows, root: Any) -> None:
        super().__init__()
        self.rows, self.path = rows, ""
        self.direct: list[Result] = []
        self.outermost: dict[str, Any] = {}
        self._root = root
        self._sources: dict[StorageWeakRef, int | str] = {}
        self._stack: list[tuple[Any, str]] = []
        self._paths: dict[int, str] = {}  # of the functions that autograd records, by their numbers
        self._taken = 0

    # -- modules -------------------------------------------------------------------------------------------------

    @contextmanager
    def modules(self) -> Iterator[None]:
        """Follow which module runs."""
        with ExitStack() as hooks:
            before = modules.register_module_forward_pre_hook(self._enter)
            hooks.callback(before.remove)
            after = modules.register_module_forward_hook(self._leave, always_call=True)
            hooks.callback(after.remove)
            yield

    def _enter(self, module: Any, args: Any) -> None:
        self._stack.append((module, self.path))
        if module is not self._root:
            self.path = self._path_of(module)
            if len(self._stack) == 1:
                self.outermost[self.path] = module

    def _leave(self, module: Any, args: Any, result: Any) -> None:
        if self._stack and self._stack[-1][0] is module:
            self.path = self._stack.pop()[1]

    def _path_of(self, module: Any) -> str:
        """Return the way that leads to a module: a shared one has a name in each of those that call it."""
        if len(self._stack) > 1:
            for name, inner in self._stack[-2][0].named_modules(remove_duplicate=False):
                if inner is module:
                    return f"{self.path}.{name}" if self.path else name
        for name, inner in getattr(self._root, "named_modules", {}.items)():
            if inner is module:
                return str(name)
        return type(module).__name__

    # -- operators -----------------------------------------------------------------------------------------------

    def made_by(self, tensor: Any, source: int | str) -> None:
        """Say who made the values of a tensor, and of all views of it."""
        if tensor.layout is torch.strided:
            self._sources[StorageWeakRef(tensor.untyped_storage())] = source

    def _known(self, tensor: Any) -> Tensor:
        strided = tensor.layout is torch.strided
        source = self._sources.get(StorageWeakRef(tensor.untyped_storage())) if strided else None
        return _tensor(tensor, source)

    def take_direct(self) -> None:
        """Add the kernels that were called without being operators since the last operator."""
        for run in self.direct[self._taken :]:
            results = _tensors(run.value)
            inputs = [Tensor(str(s.dtype), tuple(s.shape), s.nbytes) for s in run.kernel.inputs]
            outputs = [_tensor(t) for t in results]
            row = self.rows.add(run.name, self.path, inputs, outputs, [run], place=_caller())
            for tensor in results:
                self.made_by(tensor, row.number)
        self._taken = len(self.direct)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and add its row."""
        self.take_direct()
        kwargs = kwargs or {}
        taken = _tensors((args, kwargs))
        inputs = [self._known(tensor) for tensor in taken]
        with record_runs() as runs:
            out = func(*args, **kwargs)
        given = _tensors(out)
        short = func._schema.name.partition("::")[2]
        node = torch._C._current_autograd_node()
        path, part = self.path, FORWARD
        if node is None:
            self._paths[torch.autograd._get_sequence_nr() - 1] = path
        else:
            # A module that runs again in the backward (checkpointing) says itself where it is.
            path = self.path if self._stack else self._paths.get(node._sequence_nr(), "")
            part = BACKWARD
        if not runs and (_UNSET.fullmatch(short) or _is_view(func, taken, given)):
            return out
        outputs = [_tensor(tensor) for tensor in given]
        read = [] if _MADE.fullmatch(short) else inputs
        work = work_of(read, outputs, _flops(func, args, kwargs, out), _TOUCHED.get(short, ""))
        place = _caller() if node is None else None
        row = self.rows.add(func._schema.name, path, inputs, outputs, runs, work, part, place)
        for tensor in (*given, *_written(func, args, kwargs)):
            self.made_by(tensor, row.number)
        if torch.Tag.dynamic_output_shape in func.tags:
            what = "gives a result whose size depends on values"
            self.rows.findings.append(DYNAMIC.broken(row, what))
        if not runs and given and func.namespace not in ("aten", "prims", "_c10d_functional"):
            what = "is an operator that only this machine computes"
            self.rows.findings.append(OPERATOR.broken(row, what))
        return out


def _tensors(value: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _tensor(tensor: Any, source: int | str | None = None) -> Tensor:
    dtype = str(tensor.dtype).removeprefix("torch.")
    strided = tensor.layout is torch.strided
    strides = tensor.stride() if strided else (1,) * tensor.dim()
    nbytes = tensor.element_size()
    for size, stride in zip(tensor.shape, strides, strict=True):
        nbytes *= size if stride else 1
    values = None
    if tensor.dtype is torch.int64 and strided and tensor.device.type == "cpu":
        with torch._C._DisableTorchDispatch():
            values = tensor.detach().numpy()
    return Tensor(dtype, tuple(tensor.shape), nbytes, source, values)


def _is_view(func: Any, taken: Sequence[Any], given: Sequence[Any]) -> bool:
    """Tell whether an operator only looks at the memory of its tensors in another way."""
    if func._schema.is_mutable or not given or not all(t.layout is torch.strided for t in given):
        return False
    memory = {t.untyped_storage()._cdata for t in taken if t.layout is torch.strided}
    return all(t.untyped_storage()._cdata in memory for t in given)


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Return how many operations of the Tensor engine an operator is, by PyTorch's own count."""
    packet = func._overloadpacket
    if packet not in flop_registry:  # attention on the CPU counts as on other devices
        name = func._schema.name.partition("::")[2]
        packet = getattr(torch.ops.aten, name.replace("_for_cpu", ""), None)
        if "_for_cpu" not in name or packet not in flop_registry:
            return 0
    return int(flop_registry[packet](*args, **kwargs, out_val=out))


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an operator writes."""
    written = []
    for n, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[n] if n < len(args) else kwargs.get(argument.name)
            written += _tensors(value)
    return written


def _caller() -> Place | None:
    """Return the line of the model that runs."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_hidden(code) and not code.co_filename.startswith((_HOME, "<")):
            return place_at(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
