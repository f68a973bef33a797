"""Decides which of the caller's arrays a run may write, and which it returns as results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_lab.errors import KernelArgument
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view


def elements_of(
    name: str, inputs: Sequence[Storage], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return the caller's arrays as the elements of the tensors `inputs`, in the same memory.

    Args:
        name: of the kernel.
        inputs: what it was compiled for.
        arrays: must be of this number and of these shapes and dtypes.
    """
    if len(arrays) != len(inputs):
        raise KernelArgument(
            f"{name} takes {len(inputs)} arrays, found {len(arrays)}",
            help=f"give one for each of {', '.join(s.name for s in inputs) or 'no parameter'}",
        )
    for storage, array in zip(inputs, arrays, strict=True):
        if array.shape != storage.shape or array.dtype not in (
            storage.dtype.np,
            storage.dtype.host,
        ):
            raise KernelArgument(
                f"argument `{storage.name}` is {list(array.shape)} {array.dtype}, the kernel was compiled for"
                f" {list(storage.shape)} {storage.dtype}",
                help="compile it for these arrays: call the kernel itself instead of the compiled one",
            )
    return [a.view(s.dtype.np) for s, a in zip(inputs, arrays, strict=True)]


def check_writable(kernel: Kernel, written: Storage, arrays: Sequence[np.ndarray]) -> None:
    """Refuse an array for a written argument that is read-only, repeats elements, or shares memory with another."""
    array = array_of(kernel, written, arrays)
    if not array.flags.writeable:
        raise KernelArgument(
            f"{kernel.name} writes its argument `{written.name}`, but the array is read-only",
            help="pass a copy: array.copy()",
        )
    if _repeats(array):
        raise KernelArgument(
            f"{kernel.name} writes its argument `{written.name}`, several elements of which are one place in memory",
            help="pass a copy: array.copy() of NumPy, tensor.contiguous() of PyTorch",
        )
    for other, second in zip(kernel.inputs, arrays, strict=True):
        if other is not written and np.may_share_memory(array, second):
            raise KernelArgument(
                f"{kernel.name} writes its argument `{written.name}`, which shares memory with `{other.name}`",
                help="pass a copy of one of them",
            )


def _repeats(array: np.ndarray) -> bool:
    """Return whether elements of an array share memory, as those of one that was broadcast."""
    reach = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def array_of(kernel: Kernel, storage: Storage, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the caller's array of an argument."""
    return next(a for s, a in zip(kernel.inputs, arrays, strict=True) if s is storage)


def output_of(
    kernel: Kernel, view: NkiTensor, arrays: Sequence[np.ndarray], held: np.ndarray
) -> np.ndarray:
    """Return what the caller gets for an output; `held` is the run's array of it.

    An argument returned as it is gives the caller's own array, also where a copy of it was computed on.
    """
    if view.storage.origin == "input" and _is_whole(view):
        return array_of(kernel, view.storage, arrays)
    return held


def _is_whole(view: NkiTensor) -> bool:
    """Tell whether a view shows all of its storage as it was made."""
    whole = whole_view(view.storage)
    return (view.shape, view.strides, view.offset, view.dtype) == (
        whole.shape,
        whole.strides,
        whole.offset,
        whole.dtype,
    )
