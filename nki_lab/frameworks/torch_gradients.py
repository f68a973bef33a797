"""Gradients of PyTorch operators: what is recorded for the backward, at each level of torch.func and autograd.

An operator has an Autograd kernel of its own: it records one `autograd.Function` at the current level of functorch,
and calls what lies below. Only so the values are right under torch.compile(torch.func.grad(...)) as well. It needs
names that PyTorch does not document; where one of them is gone, `torch.library.register_autograd` takes its place,
which refuses torch.func.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.decorators import skip
from torch.autograd import forward_ad

from nki_lab.errors import KernelArgument, NotModelled
from nki_lab.frameworks.operator import Derivative

if TYPE_CHECKING:
    from nki_lab.frameworks.torch_operator import Registered

try:
    from torch import _C
    from torch._functorch.autograd_function import enable_single_level_autograd_function
    from torch.autograd.function import _SingleLevelFunction

    HAS_LEVELS = (
        hasattr(_C, "_AutoDispatchBelowAutograd")
        and hasattr(_C, "_after_autograd_keyset")
        and hasattr(_C, "_any_requires_grad")
        and hasattr(_C._functorch, "peek_interpreter_stack")
        and hasattr(forward_ad, "_set_fwd_grad_enabled")
        and hasattr(forward_ad, "_current_level")
    )
except ImportError:
    HAS_LEVELS = False

_FORWARD = "no forward-mode derivative"
_WRITES = "no gradient, since it writes its arguments"


class Gradients:
    """How the gradients of an operator are computed.

    Attributes:
        registered: the operator.
        derivative: names of what its backward takes and gives; None where there is no backward.
        backward: takes tensors and returns gradients.
        no_grad: results that have no gradient.
        missing: what an operator without a backward has not.
    """

    def __init__(
        self,
        registered: Registered,
        derivative: Derivative | None,
        backward: Callable[..., Any] | None,
        no_grad: tuple[str, ...],
        missing: str,
    ) -> None:
        self.registered, self.derivative, self.backward = registered, derivative, backward
        self.no_grad, self.missing = no_grad, missing
        results = registered.operator.results
        self.results = results.names if results is not None else ()
        names = registered.operator.names
        places = {n: k for k, n in enumerate((*self.results, *names))}
        self._saved = tuple(places[n] for n in derivative.save) if derivative is not None else ()
        self._without = (
            set() if derivative is None else set(registered.schema.tensors) - set(derivative.wrt)
        )

    def refuse(self, what: str = "") -> NotModelled:
        """Return the error of a derivative that there is not."""
        help = {
            "": 'give it a kernel: nki_lab.torch.custom_op(name, backward=...); or have it made: backward="auto"',
            "no second derivative": "give a function of operators as the backward, each with a backward of its own",
            _FORWARD: "use reverse mode: backward(), torch.func.grad, vjp or jacrev",
            _WRITES: "pass tensors that require no gradient, tensor.detach(); or have the kernel return new tensors",
        }
        missing = what or self.missing
        return NotModelled(
            f"{self.registered.name} has {missing}", help=help.get(missing, help[""])
        )

    def check(self, values: Sequence[Any]) -> None:
        """Refuse gradients of arguments that the operator writes, or that the backward gives none for."""
        if not self._without:
            return
        for name, value in zip(self.registered.operator.names, values, strict=True):
            if name in self._without and any(t.requires_grad for t in tensors_in(value)):
                raise KernelArgument(
                    f"{self.registered.name}: argument `{name}` requires gradients, and the backward gives none for it",
                    help=f"pass {name}.detach(), or name it in wrt and have the backward return its gradient",
                )

    def keep(self, ctx: Any, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Keep what the backward takes besides gradients, and the shapes that these must have."""
        if without := self._without_gradient(results):
            ctx.mark_non_differentiable(*without)
        known = (*results, *values)
        saved, ctx.saved_lengths = _flat([known[place] for place in self._saved])
        ctx.save_for_backward(*(v if isinstance(v, torch.Tensor) else None for v in saved))
        ctx.constants = [None if isinstance(v, torch.Tensor) else v for v in saved]
        ctx.shapes = [_shapes_of(v) for v in values]

    def of_saved(self, ctx: Any, grads: Sequence[Any]) -> list[Any]:
        """Return a gradient for each parameter, from the gradients of the results and what was kept."""
        pairs = zip(ctx.saved_tensors, ctx.constants, strict=True)
        saved = _packed([c if t is None else t for t, c in pairs], ctx.saved_lengths)
        return self.grads(grads, saved, ctx.shapes)

    def _without_gradient(self, results: Sequence[Any]) -> list[Any]:
        """Return the results that have no gradient; refuse integers among the others."""
        none = []
        for name, result in zip(self.results, results, strict=False):
            if name in self.no_grad:
                none.append(result)
            elif not result.dtype.is_floating_point and self.derivative is not None:
                raise self.registered.operator.no_gradient_of(name, result)
        return none

    def grads(self, grads: Sequence[Any], saved: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return a gradient for each parameter, None for those that have none.

        Args:
            grads: of the results.
            saved: what the backward takes besides.
            values: for each parameter the shapes of its tensors: None, a shape, or a list of shapes.
        """
        if self.derivative is None or self.backward is None:
            raise self.refuse()
        of = [g for name, g in zip(self.results, grads, strict=True) if name in self.derivative.of]
        returned = self.backward(*of, *saved)
        returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        shapes = dict(zip(self.registered.operator.names, values, strict=True))
        wanted = sum(len(_shapes(shapes[name])) for name in self.derivative.wrt)
        if len(returned) != wanted:
            raise KernelArgument(
                f"{self.registered.name}: its backward returns {len(returned)} gradients, and {wanted} are needed, for"
                f" {', '.join(self.derivative.wrt)}",
                help="return a gradient for each, in this order; wrt names arguments where some have none",
            )
        left = iter(returned)
        by_name: dict[str, Any] = {}
        for name in self.derivative.wrt:
            each = [self._checked(name, next(left), shape) for shape in _shapes(shapes[name])]
            by_name[name] = each if isinstance(shapes[name], list) else each[0] if each else None
        return [by_name.get(name) for name in self.registered.operator.names]

    def _checked(self, name: str, grad: Any, shape: Any) -> Any:
        if grad is not None and tuple(grad.shape) != tuple(shape):
            raise KernelArgument(
                f"{self.registered.name}: its backward returns a gradient {list(grad.shape)} for `{name}`, which is"
                f" {list(shape)}",
                help="return gradients of the shapes of the arguments",
            )
        return grad


def tensors_in(value: Any) -> Sequence[Any]:
    """Return the tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, (list, tuple)):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return ()


def _shapes(shapes: Any) -> list[Any]:
    return shapes if isinstance(shapes, list) else [] if shapes is None else [shapes]


def _shapes_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and tensors_in(value):
        return [t.shape for t in value]
    return value.shape if isinstance(value, torch.Tensor) else None


def record_gradients(
    registered: Registered,
    derivative: Derivative | None,
    backward: Callable[..., Any] | None,
    no_grad: tuple[str, ...],
    missing: str = "no backward",
    levels: bool | None = None,
) -> Callable[[Sequence[Any]], None] | None:
    """Give an operator its gradients; without a derivative they are an error that says what is missing.

    Returns what must look at the arguments of each call, or None.

    Args:
        registered: the operator.
        derivative: names of what its backward takes and gives.
        backward: the backward itself.
        no_grad: results that have no gradient.
        missing: what there is not, for the error.
        levels: record at each level, or in the documented way; by default whichever this PyTorch can do.
    """
    gradients = Gradients(registered, derivative, backward, no_grad, missing)
    if HAS_LEVELS if levels is None else levels:
        _record_at_levels(gradients)
        return None
    _record_as_documented(gradients)

    def refuse_tangents(values: Sequence[Any]) -> None:
        # Recorded in this way, forward mode would silently be zero.
        if any(
            forward_ad.unpack_dual(t).tangent is not None for v in values for t in tensors_in(v)
        ):
            raise gradients.refuse(_FORWARD)

    return refuse_tangents


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return what an overload returned as a tuple of tensors."""
    if results is None:
        return ()
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _record_at_levels(gradients: Gradients) -> None:
    registered = gradients.registered
    overload, schema = registered.overload, registered.schema

    def plainly_below(keyset: Any, values: Sequence[Any]) -> Any:
        with _C._AutoDispatchBelowAutograd():
            keys = keyset & _C._after_autograd_keyset
            return schema.call(overload.redispatch, keys, values=values)

    def below(keyset: Any, values: Sequence[Any]) -> Any:
        if _C._functorch.peek_interpreter_stack() is None and forward_ad._current_level < 0:
            return plainly_below(keyset, values)
        # A level below may differentiate, too: nested gradients would silently be zero without these modes.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return plainly_below(keyset, values)

    # The function of one level: others would ask functorch to differentiate what lies below.
    class Recorded(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, keyset: Any, lengths: Any, *flat: Any) -> Any:
            values = _packed(flat, lengths)
            out = below(keyset, values)
            results = as_tuple(out)
            gradients.keep(ctx, values, results)
            return out if not isinstance(out, list) else tuple(out)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            each = gradients.of_saved(ctx, grads)
            flat: list[Any] = []
            for grad, shapes in zip(each, ctx.shapes, strict=True):
                flat += (grad or [None] * len(shapes)) if isinstance(shapes, list) else [grad]
            return (None, None, *flat)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise gradients.refuse(_FORWARD)

    def recorded(tensors: Sequence[Any]) -> bool:
        if torch.is_grad_enabled() and _C._any_requires_grad(*tensors):
            return True
        return forward_ad._current_level >= 0 and any(
            forward_ad.unpack_dual(t).tangent is not None for t in tensors
        )

    def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        values = schema.values(args, kwargs)
        tensors = registered.check_devices(values)
        if not recorded(tensors):
            return plainly_below(keyset, values)
        _refuse_writing(gradients)
        gradients.check(values)
        flat, lengths = _flat(values)
        with enable_single_level_autograd_function():
            out = Recorded.apply(keyset, lengths, *flat)
        return list(out) if registered.operator.results is None else out

    registered.library.impl(registered.short, undisturbed(autograd), "Autograd", with_keyset=True)


def undisturbed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep torch.compile from the functions that an operator calls, where it leaves the operator itself out."""
    alone = torch.compiler.disable(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        compiles = get_eval_frame_callback() not in (None, False)
        return (alone if compiles else function)(*args, **kwargs)

    return skip(call)


def _refuse_writing(gradients: Gradients) -> None:
    if gradients.registered.operator.mutates:
        raise gradients.refuse(_WRITES)


def _record_as_documented(gradients: Gradients) -> None:
    registered = gradients.registered
    schema = registered.schema
    if registered.operator.mutates:
        return

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        values = schema.values(inputs, keyword_only_inputs or {})
        results = as_tuple(output)
        gradients.check(values)
        gradients.keep(ctx, values, results)

    def backward(ctx: Any, *grads: Any) -> Any:
        return tuple(gradients.of_saved(ctx, grads))

    torch.library.register_autograd(
        registered.name, backward, setup_context=setup, lib=registered.library
    )


def _flat(values: Sequence[Any]) -> tuple[list[Any], list[int | None] | None]:
    """Return values with lists of tensors written out, and the length of each that was a list; None without lists."""
    if not any(isinstance(value, (list, tuple)) for value in values):
        return [*values], None
    flat: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        is_list = isinstance(value, (list, tuple)) and bool(tensors_in(value))
        flat += value if is_list else [value]
        lengths.append(len(value) if is_list else None)
    return flat, lengths


def _packed(flat: Sequence[Any], lengths: Sequence[int | None] | None) -> list[Any]:
    """Undo `_flat`."""
    if lengths is None:
        return [*flat]
    left = iter(flat)
    return [
        next(left) if length is None else [next(left) for _ in range(length)] for length in lengths
    ]
