"""`jax_neuronx.nki_call` (SDK 2.20 to 2.22): a kernel that writes its results into parameters, as a function of JAX.

(general/nki/framework_custom_op.rst of SDK 2.20)
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import numpy as np

from nki_lab.errors import KernelArgument
from nki_lab.runtime import KernelFunction, as_kernel

__all__ = ["nki_call"]


def nki_call(func: Any, *args: Any, grid: Any = None, out_shape: Any, **kwargs: Any) -> Any:
    """Call a kernel with arrays and then its results, which it writes, and return these.

    It works under jax.jit and jax.vmap; for a gradient give it one with `jax.custom_vjp`.

    Args:
        func: the kernel, or `functools.partial` of it with compile-time values.
        args: arrays.
        grid: launch grid.
        out_shape: `jax.ShapeDtypeStruct` of the result, or a sequence of them.
        kwargs: compile-time values.
    """
    single = hasattr(out_shape, "shape")
    shapes = (out_shape,) if single else tuple(out_shape)
    while isinstance(func, partial):
        if func.args:
            raise KernelArgument(
                "functools.partial gives nki_call arguments by position",
                help="give them by name: partial(kernel, pool_size=2)",
            )
        func, kwargs = func.func, {**func.keywords, **kwargs}
    kernel = _kernel(func)
    launched = kernel if grid is None else kernel[grid]

    def computed(*arrays: Any) -> tuple[np.ndarray, ...]:
        results = [_unwritten(s.shape, np.dtype(s.dtype)) for s in shapes]
        launched(*map(np.asarray, arrays), *results, **kwargs)
        return tuple(results)

    results = jax.pure_callback(computed, shapes, *args, vmap_method="sequential")
    return results[0] if single else type(out_shape)(results)


@cache
def _kernel(func: Any) -> KernelFunction:
    return as_kernel(func)


def _unwritten(shape: Any, dtype: np.dtype) -> np.ndarray:
    """Return an array for results; what a kernel does not write of it is NaN, or the least integer."""
    is_integer = dtype.kind in "iub"
    least = False if dtype.kind == "b" else np.iinfo(dtype).min if is_integer else np.nan
    return np.full(shape, least, dtype)
