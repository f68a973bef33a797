"""Names of `torch_neuronx` on the simulator: `nki_jit` (SDK 2.20 to 2.23), `nki_op` and `nki` (TorchNeuron).

(general/nki/framework_custom_op.rst of SDK 2.20; nki/get-started/about/index.rst; vllm-neuron/docs/model-dev)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from nki_lab.api import nki
from nki_lab.errors import KernelArgument
from nki_lab.frameworks.torch_operator import TorchOperator, make_operator
from nki_lab.runtime import KernelFunction, as_kernel

__all__ = ["nki", "nki_jit", "nki_op"]


def nki_jit(func: Callable[..., Any]) -> KernelFunction:
    """Make a function a kernel that takes tensors, and writes those that its body stores to: `kernel(a, b, out)`."""
    return as_kernel(func)


def nki_op(name: str, *, mutates_args: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that registers a function of tensors, which calls kernels, as an operator of PyTorch.

    What it returns has `register_autograd` and the other methods of `torch.library.custom_op`. Where only shapes are
    asked for, the function runs with ones in place of the values, until `register_fake` gives another one.

    Args:
        name: "namespace::name".
        mutates_args: names of the arguments that it writes.
    """
    mutated = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)

    def decorate(function: Callable[..., Any]) -> Any:
        operator = torch.library.custom_op(name, function, mutates_args=mutated)

        @operator.register_fake
        def _(*args: Any, **kwargs: Any) -> Any:
            first = next(a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor))
            with unset_fake_temporarily(), _no_compiler():
                results = function(*map(_ones, args), **{k: _ones(v) for k, v in kwargs.items()})
            return torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda t: first.new_empty(t.shape, dtype=t.dtype), results
            )

        return operator

    return decorate


@contextmanager
def _no_compiler() -> Iterator[None]:
    """Run kernels inside although a compiler is at work: it is given none of what they compute."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = False
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _ones(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.ones([int(n) for n in value.shape], dtype=value.dtype)


class NkiCaller:
    """A kernel as vLLM-Neuron calls it: `caller[grid](x=x)`, or `caller(x=x)`."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self.kernel = as_kernel(getattr(kernel, "kernel", kernel))
        self._operators: dict[Any, TorchOperator] = {}
        self._of(None)

    def _of(self, grid: Any) -> TorchOperator:
        if grid not in self._operators:
            launched = self.kernel if grid is None else self.kernel[grid]
            name = f"nki_kernel_wrapper::{self.kernel.__name__}"
            self._operators[grid] = make_operator(name, launched, {})
        return self._operators[grid]

    def __getitem__(self, grid: Any) -> Any:
        return self._of(grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel without a grid; all arguments are given by name, as vLLM-Neuron asks for."""
        if args:
            raise KernelArgument(
                f"wrap_nki({self.kernel.__name__}) is called with arguments by position",
                help="give them by name, as the higher-order operator of vLLM-Neuron takes them",
            )
        return self._of(None)(**kwargs)
