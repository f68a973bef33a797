"""What nki_lab offers for JAX, which is not loaded before one of these names is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    results: Any = None,
    vmap_method: str = "sequential",
) -> Any:
    """Make a kernel an operator of JAX; without `kernel`, return the decorator that does.

    The operator computes on the simulator, through `jax.pure_callback` where JAX traces. It works under jax.jit, grad,
    vjp, vmap, scan and remat, and where it cannot, an error says so. Arguments that are no arrays are constants of the
    program.

    Args:
        name: "namespace::name", for errors.
        kernel: a kernel of either dialect, with its grid and cores: `kernel[2]`. One of the library brings its backward
            along, `nki_lab.kernels.rmsnorm`.
        backward: a kernel, an operator, or a function of arrays: (gradients of the results, what `save` names) ->
            gradients of the arguments. "auto" makes it from the instructions of the kernel (`nki_lab.autodiff`), with
            an error for an instruction that has no rule. Without one, a gradient that is asked for is an error.
        save: names of arguments and results that `backward` takes after the gradients; by default the names of its own
            parameters. A result is called as in the kernel's return statement, else out0, out1, ...
        no_grad: names of results that have no gradient, such as statistics for `backward`; by default those that it
            takes, where it takes no gradient of them.
        wrt: names of the arguments that `backward` returns gradients for, in order; by default all that have no
            default.
        results: number of results, the class of a NamedTuple, or their names in the form that the kernel returns, such
            as {"out": "out"}; by default what the kernel's return statement says.
        vmap_method: how jax.vmap calls the kernel, as for `jax.pure_callback`; "sequential" calls it for each element.
    """
    with needs("jax"):
        from nki_lab.frameworks.jax_operator import make_operator
    options = {
        "backward": backward, "save": save, "no_grad": no_grad, "wrt": wrt, "results": results,
        "vmap_method": vmap_method,
    }  # fmt: skip
    return operator_or_decorator(make_operator, name, kernel, options)


def trace_model(
    function: Callable[..., Any],
    *arrays: Any,
    target: Any = None,
    backward: bool | Callable[[Any], Any] = False,
    device_check: bool = False,
) -> ModelTrace:
    """Run a function with its NKI operators on the simulator, and return where its time goes: one row per operator.

    The rows are those of the function's jaxpr, what it compiles and its loops from inside: an operator in a loop has
    one row for all passes. An NKI operator has the modelled time of its program. The others are estimated by a
    roofline of the chip and marked: products of matrices by the Tensor engine's peak of their dtype, everything by the
    bytes it moves, each operator by itself, as if none were fused.

    Args:
        function: a function of arrays, or of trees of them.
        arrays: what it is called with.
        target: the chip; by default that of the session.
        backward: also the gradients of all arguments: True for those of the sum of all results, or a function of what
            the function returns that gives the loss.
        device_check: raise an error where the official tools cannot run the function as it is; by default that is in
            `findings` of what is returned.
    """
    with needs("jax"):
        from nki_lab.frameworks.jax_trace import trace
    return trace(function, arrays, target, backward, device_check)
