"""What nki_lab offers for PyTorch, which is not loaded before one of these names is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nki_lab.frameworks.library import needs, operator_or_decorator

if TYPE_CHECKING:
    from nki_lab.views.models.trace import ModelTrace

__all__ = ["custom_op", "trace_model"]


def custom_op(
    name: str,
    kernel: Any = None,
    *,
    backward: Any = None,
    save: Sequence[str] | None = None,
    no_grad: Sequence[str] | None = None,
    wrt: Sequence[str] | None = None,
    shapes: Callable[..., Any] | None = None,
    results: Any = None,
    mutates: str | Sequence[str] = (),
    types: Mapping[str, Any] | None = None,
    autocast: Any = None,
) -> Any:
    """Make a kernel an operator of PyTorch; without `kernel`, return the decorator that does.

    The operator computes on the simulator. It works under torch.compile, torch.export, torch.func and autograd, and
    where it cannot, it raises an error that names it. A name that is taken gets a version, such as "lab::rmsnorm__v2":
    what was compiled with the earlier operator keeps that one.

    Args:
        name: "namespace::name".
        kernel: a kernel of either dialect, with its grid and cores: `kernel[2]`. One of the library brings its backward
            along, `nki_lab.kernels.rmsnorm`.
        backward: a kernel, an operator, or a function of tensors: (gradients of the results, what `save` names) ->
            gradients of the arguments. "auto" makes it from the instructions of the kernel (`nki_lab.autodiff`), with
            an error for an instruction that has no rule. Without one, a gradient that is asked for is an error.
        save: names of arguments and results that `backward` takes after the gradients; by default the names of its own
            parameters. A result is called as in the kernel's return statement, else out0, out1, ...
        no_grad: names of results that have no gradient, such as statistics for `backward`; by default those that it
            takes, where it takes no gradient of them.
        wrt: names of the arguments that `backward` returns gradients for, in order; by default all tensors.
        shapes: (arguments) -> for each result a tensor of its shape and dtype, or (shape, dtype). It is needed for
            dynamic shapes only: otherwise the kernel is compiled for the shapes.
        results: number of results, the class of a NamedTuple, or their names in the form that the kernel returns, such
            as {"out": "out"}; by default what the kernel's return statement says.
        mutates: names of the arguments that the kernel writes.
        types: type of an argument that has neither annotation nor default: float, int, bool, str, `list[int]`,
            `list[torch.Tensor]`, or a word of PyTorch's schemas. All others are tensors.
        autocast: dtype that arguments are cast to under torch.autocast; by default they are left as they are.
    """
    with needs("torch"):
        from nki_lab.frameworks.torch_operator import make_operator
    options = {
        "backward": backward, "save": save, "no_grad": no_grad, "wrt": wrt, "shapes": shapes, "results": results,
        "mutates": mutates, "types": types, "autocast": autocast,
    }  # fmt: skip
    return operator_or_decorator(make_operator, name, kernel, options)


def trace_model(
    model: Any,
    *inputs: Any,
    target: Any = None,
    backward: bool | Callable[[Any], Any] = False,
    device_check: bool = False,
    **named: Any,
) -> ModelTrace:
    """Run a model with its NKI operators on the simulator, and return where its time goes: one row per operator.

    An NKI operator has the modelled time of its program. The others are estimated by a roofline of the chip and
    marked: products of matrices by the Tensor engine's peak of their dtype, everything by the bytes it moves, each
    operator by itself, as if none were fused.

    Args:
        model: a module, a function of tensors, or an exported program (`torch.export`).
        inputs: what it is called with; further names are passed on to the model, too.
        target: the chip; by default that of the session.
        backward: also run the backward: True for that of the sum of all results, or a function of what the model
            returns that gives the loss.
        device_check: raise an error where the official tools cannot run the model as it is; by default that is in
            `findings` of what is returned.
    """
    with needs("torch"):
        from nki_lab.frameworks.torch_trace import trace
    return trace(model, inputs, named, target, backward, device_check)
