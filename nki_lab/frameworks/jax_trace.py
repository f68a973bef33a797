"""Runs a function of JAX equation by equation and looks at each: `nki_lab.jax.trace_model`.

What JAX traces of the function is run here, with values: loops pass by pass, what is compiled or has its own derivative
from inside. Operators of kernels are callbacks that run one. FLOPs are those that XLA counts for an equation.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from nki_lab.choices import inside
from nki_lab.frameworks.device_limits import CALLBACK, CONTROL, refuse
from nki_lab.frameworks.model_trace import Rows, Tensor, place_at, with_backward, work_of
from nki_lab.frameworks.operator import Operator
from nki_lab.runtime.recording import record_runs, warn_of
from nki_lab.source import is_of_library, is_of_package
from nki_lab.views.models.trace import BACKWARD, FORWARD, ModelTrace
from nki_lab.views.run import Place

#: Operations that only look at elements in another way, as PyTorch's views do.
_VIEWS = {"reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "copy"}
_TOUCHED = {
    "gather": "gather", "dynamic_slice": "gather", "scatter": "scatter", "scatter_add": "scatter",
    "dynamic_update_slice": "scatter",
}  # fmt: skip
_PRODUCTS = {"dot_general", "conv_general_dilated"}
_HOME = os.path.dirname(os.path.dirname(__file__)) + os.sep
_CALLBACKS = {"pure_callback", "io_callback", "debug_callback", "debug_print"}


def trace(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    target: Any,
    backward: bool | Callable[[Any], Any],
    device_check: bool,
) -> ModelTrace:
    """Run a function and return its trace; the arguments are those of `nki_lab.jax.trace_model`."""
    rows = Rows(target)
    leaves, _form = jax.tree.flatten(tuple(arrays))
    names = _names(function, arrays)
    outer: Callable[..., Any] = function
    if backward:
        outer = _with_gradients(function, names, backward)
    with inside(target=rows.target.name):
        closed, shapes = jax.make_jaxpr(outer, return_shape=True)(*arrays)
        walk = _Walk(rows)
        given = [_Value(jax.numpy.asarray(a), name) for a, name in zip(leaves, names, strict=True)]
        results = walk.run(closed.jaxpr, closed.consts, given, "", ())
    value = jax.tree.unflatten(jax.tree.structure(shapes), [r.array for r in results])
    gradients: dict[str, Any] = {}
    if backward:
        value, gradients = value
    for row in rows.rows:
        for run in row.runs:
            warn_of(run)  # type: ignore[arg-type]
    findings = rows.all_findings()
    if device_check:
        refuse(findings)
    shown = {name: str(v.tensor()) for name, v in zip(names, given, strict=True)}
    title = getattr(function, "__name__", type(function).__name__)
    return ModelTrace(title, rows.target.name, tuple(rows.rows), shown, value, findings, gradients)


def trace_operator(
    operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any
) -> ModelTrace:
    """Run an operator and its backward on these arguments and return both as a trace."""
    bound = inspect.signature(operator).bind(*args, **kwargs).arguments
    arrays = {name: v for name, v in bound.items() if hasattr(v, "shape") and hasattr(v, "dtype")}
    wrt = operator.wrt or ()

    def call(*given: Any) -> Any:
        named = dict(zip(arrays, given, strict=True))
        values = {n: a if n in wrt else jax.lax.stop_gradient(a) for n, a in named.items()}
        return operator(**(bound | values))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in arrays])  # type: ignore[attr-defined]
    call.__name__ = operator.__name__
    given = [jax.numpy.asarray(a) for a in arrays.values()]
    floats = (jax.numpy.issubdtype(a.dtype, np.floating) for a in given)
    asks = any(n in wrt and is_float for n, is_float in zip(arrays, floats, strict=True))
    return with_backward(lambda backward: trace(call, given, target, backward, False), asks)


def _names(function: Any, arrays: Sequence[Any]) -> list[str]:
    """Return a name for each array among the arguments of a function."""
    try:
        arguments = list(inspect.signature(function).bind(*arrays).arguments.items())
    except (TypeError, ValueError):
        arguments = [(f"input{n}", value) for n, value in enumerate(arrays)]
    named: dict[str, Any] = {}
    for name, value in arguments:
        several = isinstance(value, tuple) and len(value) > 1
        named |= {f"{name}{n}": v for n, v in enumerate(value)} if several else {name: value}
    names = []
    for name, value in named.items():
        paths = jax.tree_util.tree_flatten_with_path(value)[0]
        names += [name + jax.tree_util.keystr(path) for path, _ in paths]
    return names


def _with_gradients(
    function: Callable[..., Any], names: Sequence[str], backward: bool | Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return the function that also gives the gradients of its arguments, by name."""

    def both(*arrays: Any) -> Any:
        leaves, form = jax.tree.flatten(arrays)
        floats = [n for n, a in enumerate(leaves) if jax.numpy.issubdtype(a.dtype, np.floating)]

        def of_floats(*given: Any) -> Any:
            every = list(leaves)
            for n, array in zip(floats, given, strict=True):
                every[n] = array
            value = function(*jax.tree.unflatten(form, every))
            if callable(backward):
                with jax.named_scope("loss"):
                    return backward(value), value
            return value, value

        chosen = [leaves[n] for n in floats]
        result, pull, value = jax.vjp(of_floats, *chosen, has_aux=True)
        # Of JAX: with NumPy's, a backward that takes nothing else would run while the function is traced.
        ones = jax.tree.map(lambda a: jax.numpy.ones(a.shape, a.dtype), result)
        found = pull(ones)
        return value, {names[n]: g for n, g in zip(floats, found, strict=True)}

    return both


class _Value:
    """A value of an equation.

    Attributes:
        array: of JAX.
        source: who made it.
        nbytes: bytes that hold its elements.
    """

    __slots__ = ("array", "source", "nbytes")

    def __init__(self, array: Any, source: int | str | None, nbytes: int | None = None) -> None:
        self.array, self.source = array, source
        self.nbytes = _nbytes(array) if nbytes is None else nbytes

    def tensor(self) -> Tensor:
        """Return what its row shows of it."""
        dtype = str(self.array.dtype)
        integers = np.asarray(self.array) if dtype == "int64" else None
        return Tensor(dtype, tuple(self.array.shape), self.nbytes, self.source, integers)


def _nbytes(array: Any) -> int:
    return int(array.size) * int(array.dtype.itemsize) if hasattr(array.dtype, "itemsize") else 0


class _Walk:
    """Runs the equations of a jaxpr, and adds a row for each that moves bytes."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def run(
        self, jaxpr: Jaxpr, consts: Sequence[Any], given: Sequence[_Value], path: str, key: tuple[Any, ...]
    ) -> list[_Value]:  # fmt: skip
        """Run a jaxpr and return its results.

        Args:
            jaxpr: its equations.
            consts: values of its constants.
            given: values of its arguments.
            path: the scope around it.
            key: tells calls of the same jaxpr at different places apart.
        """
        values: dict[Any, _Value] = {}
        constants = [
            c if isinstance(c, _Value) else _Value(jax.numpy.asarray(c), None) for c in consts
        ]
        values.update(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *given), strict=True))
        for n, eqn in enumerate(jaxpr.eqns):
            taken = [
                _Value(jax.numpy.asarray(v.val, v.aval.dtype), None)
                if isinstance(v, Literal)
                else values[v]
                for v in eqn.invars
            ]
            scope = "/".join(filter(None, (path, str(eqn.source_info.name_stack))))
            results = self._equation(eqn, taken, scope, (*key, n))
            values.update(zip(eqn.outvars, results, strict=True))
        return [
            _Value(jax.numpy.asarray(v.val, v.aval.dtype), None) if isinstance(v, Literal) else values[v]
            for v in jaxpr.outvars
        ]  # fmt: skip

    def _equation(
        self, eqn: Any, taken: list[_Value], path: str, key: tuple[Any, ...]
    ) -> list[_Value]:
        name, params = eqn.primitive.name, eqn.params
        loop = {"scan": self._scan, "while": self._while, "cond": self._cond}.get(name)
        if loop is not None:
            return loop(eqn, taken, path, key)
        if name not in _CALLBACKS:
            inner = _inside(params, taken)
            if inner is not None:
                # What JAX compiles by itself may come with constants of its own.
                return self.run(inner.jaxpr, inner.consts, taken, path, key)
        with record_runs() as runs:
            out = self._computed(eqn, [value.array for value in taken])
        if name in _VIEWS:
            source, size = (taken[0].source, taken[0].nbytes) if taken else (None, 0)
            return [_Value(o, source, min(size, _nbytes(o))) for o in out]
        results = [_Value(o, None) for o in out]
        shown = name
        if name in _CALLBACKS and runs:
            shown = getattr(params["callback"].callback_func, "__name__", runs[-1].name)
        inputs, outputs = [v.tensor() for v in taken], [r.tensor() for r in results]
        flops = _flops(eqn) if name in _PRODUCTS else 0
        work = work_of(inputs, outputs, flops, _TOUCHED.get(name, ""))
        part = BACKWARD if "transpose(" in path else FORWARD
        place = _place(eqn)
        row = self.rows.add(shown, _plain(path), inputs, outputs, runs, work, part, place, key)
        if name in _CALLBACKS and not runs and row.calls == 1:
            what = "calls a function of this machine"
            self.rows.findings.append(CALLBACK.broken(row, what))
        return [_Value(r.array, row.number) for r in results]

    @staticmethod
    def _computed(eqn: Any, arrays: list[Any]) -> list[Any]:
        if eqn.primitive.name == "pure_callback":
            # In this thread, where runs are recorded.
            results = jax.tree.leaves(eqn.params["callback"](*arrays))
            return [jax.numpy.asarray(r) for r in results]
        out = eqn.primitive.bind(*arrays, **eqn.params)
        return list(out) if eqn.primitive.multiple_results else [out]

    # -- control flow --------------------------------------------------------------------------------------------

    def _scan(self, eqn: Any, taken: list[_Value], path: str, key: tuple[Any, ...]) -> list[_Value]:
        params, body = eqn.params, eqn.params["jaxpr"]
        first = params["num_consts"]
        consts, carry = taken[:first], taken[first : first + params["num_carry"]]
        stacked = taken[first + params["num_carry"] :]
        each: list[list[_Value]] = []
        order = range(params["length"])
        for n in reversed(order) if params["reverse"] else order:
            given = [_Value(v.array[n], v.source) for v in stacked]
            out = self.run(body.jaxpr, body.consts, [*consts, *carry, *given], path, key)
            carry = out[: len(carry)]
            each.append(out[len(carry) :])
        if params["reverse"]:
            each.reverse()
        results = list(carry)
        for k, var in enumerate(eqn.outvars[len(carry) :]):
            if not each:
                results.append(_Value(jax.numpy.zeros(var.aval.shape, var.aval.dtype), None))
                continue
            array = jax.numpy.stack([out[k].array for out in each])
            results.append(_Value(array, each[-1][k].source))
        return results

    def _while(
        self, eqn: Any, taken: list[_Value], path: str, key: tuple[Any, ...]
    ) -> list[_Value]:
        params = eqn.params
        test, body = params["cond_jaxpr"], params["body_jaxpr"]
        first, second = params["cond_nconsts"], params["body_nconsts"]
        for_test, for_body = taken[:first], taken[first : first + second]
        carry = taken[first + second :]
        added = len(self.rows.rows)
        passes = 0
        while True:
            (more,) = self.run(test.jaxpr, test.consts, [*for_test, *carry], path, (*key, "test"))
            if not bool(more.array.all()):
                break
            carry = self.run(body.jaxpr, body.consts, [*for_body, *carry], path, (*key, "body"))
            passes += 1
        self._control(added, f"is in a while loop, which made {passes} passes here")
        return list(carry)

    def _cond(self, eqn: Any, taken: list[_Value], path: str, key: tuple[Any, ...]) -> list[_Value]:
        index, *given = taken
        branches = eqn.params["branches"]
        chosen = min(max(int(index.array), 0), len(branches) - 1)
        branch, added = branches[chosen], len(self.rows.rows)
        results = self.run(branch.jaxpr, branch.consts, given, path, (*key, chosen))
        self._control(added, "is in a branch of jax.lax.cond")
        return results

    def _control(self, added: int, what: str) -> None:
        """Note that the rows since `added` are in control flow that no device runs."""
        if len(self.rows.rows) > added:
            self.rows.findings.append(CONTROL.broken(self.rows.rows[added], what))


def _inside(params: Mapping[str, Any], taken: Sequence[_Value]) -> ClosedJaxpr | None:
    """Return the jaxpr that an equation calls with its own operands; None for what it does with their elements."""
    shapes = [value.array.shape for value in taken]
    for name in ("call_jaxpr", "jaxpr", "fun_jaxpr"):
        inner = params.get(name)
        if isinstance(inner, Jaxpr):
            inner = ClosedJaxpr(inner, ())
        if isinstance(inner, ClosedJaxpr) and [v.aval.shape for v in inner.jaxpr.invars] == shapes:
            return inner
    return None


def _flops(eqn: Any) -> int:
    return _counted(
        eqn.primitive,
        tuple((v.aval.shape, v.aval.dtype) for v in eqn.invars),
        tuple(sorted(eqn.params.items(), key=lambda item: item[0])),
    )


@cache
def _counted(primitive: Any, shapes: tuple[Any, ...], params: tuple[Any, ...]) -> int:
    """Return how many operations XLA counts for an equation."""
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    lowered = jax.jit(lambda *arrays: primitive.bind(*arrays, **dict(params))).lower(*given)
    counts = lowered.cost_analysis()
    counts = counts[0] if isinstance(counts, list) else counts
    return int(counts["flops"])


def _plain(path: str) -> str:
    """Return a scope without the transforms around its names: "transpose(jvp(layer))" is "layer"."""
    parts = []
    for part in path.split("/"):
        while part.endswith(")") and "(" in part:
            part = part[part.index("(") + 1 : -1]
        parts.append(part)
    return ".".join(filter(None, parts))


def _place(eqn: Any) -> Place | None:
    """Return the line of the function that an equation comes from."""
    traceback = eqn.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        name = frame.file_name
        hidden = is_of_library(name) or is_of_package(name) or name.startswith(_HOME)
        if not hidden:
            return place_at(name, frame.line_num)
    return None
