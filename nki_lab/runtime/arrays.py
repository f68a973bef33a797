"""How do arrays of other libraries come in, and how do results go back?

NumPy arrays are used as they are. Tensors of PyTorch and arrays of JAX are recognised by the module of their class, so
neither library is imported here.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.errors import KernelArgument

# PyTorch's name -> (its integer type of that width, NumPy type): types PyTorch cannot hand to NumPy itself.
_TORCH_ONLY = {
    "torch.bfloat16": ("int16", ml_dtypes.bfloat16),
    "torch.float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "torch.float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
}


def library_of(value: Any) -> str:
    """Return "numpy", "torch" or "jax" for an array of that library, else an empty string."""
    if isinstance(value, np.ndarray):
        return "numpy"
    module = type(value).__module__.partition(".")[0]
    if module == "torch" and hasattr(value, "detach"):
        return "torch"
    if module in ("jax", "jaxlib") and hasattr(value, "__array__"):
        return "jax"
    return ""


def is_foreign_array(value: Any) -> bool:
    """Tell whether a value is an array of any library that is known here."""
    return library_of(value) != ""


def to_numpy(name: str, value: Any) -> np.ndarray:
    """Return an array as a NumPy array, sharing memory where the library can."""
    library = library_of(value)
    if library == "torch":
        return _from_torch(name, value)
    return value if library == "numpy" else np.asarray(value)


def refuse_masked(name: str, value: Any) -> None:
    """Raise KernelArgument for an array with masked elements."""
    if np.ma.is_masked(value):
        raise KernelArgument(
            f"argument `{name}` is a masked array, with {np.ma.count_masked(value):,} masked of {value.size:,}"
            " elements: tensors have no mask",
            help="fill it, e.g. array.filled(0), and pass the mask as an array of its own",
        )


def _from_torch(name: str, tensor: Any) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise KernelArgument(
            f"argument `{name}` is a torch tensor on {tensor.device}",
            help="pass a CPU tensor: tensor.cpu()",
        )
    tensor = tensor.detach()
    known = _TORCH_ONLY.get(str(tensor.dtype))
    if known is None:
        try:
            return tensor.numpy()
        except (TypeError, RuntimeError) as error:  # sparse, quantized, lazily negated, ...
            raise KernelArgument(
                f"argument `{name}` is a torch tensor that NumPy cannot read: {error}",
                help="pass a dense tensor of numbers: tensor.to_dense(), .dequantize() or .resolve_neg()",
            ) from None
    bits, dtype = known
    torch = sys.modules["torch"]
    return tensor.view(getattr(torch, bits)).numpy().view(dtype)


def to_library(array: np.ndarray, library: str) -> Any:
    """Return a NumPy result as an array of the caller's library (NumPy for JAX)."""
    if library != "torch":
        return array
    torch = sys.modules["torch"]
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    for name, (bits, dtype) in _TORCH_ONLY.items():
        if array.dtype == dtype:
            integer = np.int16 if bits == "int16" else np.uint8
            return torch.from_numpy(array.view(integer)).view(
                getattr(torch, name.partition(".")[2])
            )
    return torch.from_numpy(array)
