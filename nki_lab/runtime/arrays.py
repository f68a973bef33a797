"""Takes arrays of other libraries in, and gives results back in them.

NumPy arrays are used as they are. Tensors of PyTorch and arrays of JAX are recognised by the module of their class, so
neither library is imported here. What their transforms put in the place of arrays has no values, and is refused.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.compiler.trace import no_such_dtype
from nki_lab.dtypes import dtype_of, int64
from nki_lab.errors import KernelArgument

# PyTorch's name -> (its integer type of that width, NumPy type): types PyTorch cannot hand to NumPy itself.
_TORCH_ONLY = {
    "torch.bfloat16": ("int16", ml_dtypes.bfloat16),
    "torch.float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "torch.float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
}
_MAKE_OPERATOR = "make the kernel an operator: nki_lab.torch.custom_op(name, backward=...)(kernel)"


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
    if library == "jax":
        _refuse_tracer(name, value)
    return value if library == "numpy" else np.asarray(value)


def argument_array(name: str, value: Any) -> np.ndarray:
    """Return an argument of a kernel as a NumPy array.

    Raises KernelArgument where it has a mask, a dtype that NKI lacks, or gradients that would be lost.
    """
    array = to_numpy(name, value)
    if getattr(value, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
        raise KernelArgument(
            f"argument `{name}` requires gradients, which a kernel called directly does not compute: they would be"
            " lost",
            help=f"{_MAKE_OPERATOR}; without gradients, pass tensor.detach() or call it inside"
            " `with torch.no_grad():`",
        )
    refuse_masked(name, array)
    check_dtype(name, array, library_of(value))
    return array


def check_dtype(name: str, array: np.ndarray, library: str) -> None:
    """Raise KernelArgument for an array of a dtype that NKI lacks; `library` is the one it came from."""
    # In other libraries int64 is what integers are by default, so there it is a mistake rather than a wide scalar.
    dtype = dtype_of(array.dtype)
    if array.ndim and (dtype is None or (dtype is int64 and library != "numpy")):
        raise no_such_dtype(name, array.dtype, library)


def refuse_masked(name: str, value: Any) -> None:
    """Raise KernelArgument for an array with masked elements."""
    if np.ma.is_masked(value):
        raise KernelArgument(
            f"argument `{name}` is a masked array, with {np.ma.count_masked(value):,} masked of {value.size:,}"
            " elements: tensors have no mask",
            help="fill it, e.g. array.filled(0), and pass the mask as a separate array",
        )


# Classes that stand for arrays while JAX transforms a function, and by which functions they are known.
_JAX_TRACERS = {
    "BatchTracer": "jax.vmap",
    "JVPTracer": "jax.grad, jax.jvp and their like",
    "LinearizeTracer": "jax.grad, jax.linearize and their like",
    "DynamicJaxprTracer": "jax.jit, jax.lax.scan and their like",
}


def _refuse_tracer(name: str, value: Any) -> None:
    if not any(
        k.__name__ == "Tracer" and k.__module__.startswith("jax") for k in type(value).__mro__
    ):
        return
    by = _JAX_TRACERS.get(type(value).__name__, "a transform of JAX")
    raise KernelArgument(
        f"argument `{name}` has no values: it is a tracer of {by}, and a kernel itself is not an operator of JAX",
        help="make the kernel an operator: nki_lab.jax.custom_op(name, backward=...)(kernel); or call it outside of the"
        " transformed function",
    )


def refuse_compiler() -> None:
    """Raise KernelArgument where torch.compile compiles or runs the function that calls."""
    # First what is True in what is compiled: there the other question is none that could be compiled.
    torch = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    compiles = compiler is not None and compiler.is_compiling()
    if not compiles:
        frames = sys.modules.get("torch._C._dynamo.eval_frame")
        compiles = frames is not None and frames.get_eval_frame_callback() not in (None, False)
    if compiles:
        raise KernelArgument(
            "a kernel is called in a function that torch.compile or torch.export traces, and a kernel itself is not an"
            " operator of torch",
            help=f"{_MAKE_OPERATOR}; or keep it out of the compilation: kernel = torch.compiler.disable(kernel)",
        )


def _refuse_transform(name: str, tensor: Any) -> None:
    """Refuse tensors that transforms of torch hand to a function."""
    torch: Any = sys.modules.get("torch")
    kind = type(tensor)
    outside = f"{_MAKE_OPERATOR}; or call the kernel outside of the transformed function"
    if kind.__module__.startswith("torch.fx"):
        raise _no_values(name, "a proxy of torch.fx, which records what is done with it", outside)
    if kind.__module__.startswith("torch._subclasses"):
        raise _no_values(name, "a fake tensor, as torch.export and other tracing uses", outside)
    refuse_compiler()
    functorch = getattr(getattr(torch, "_C", None), "_functorch", None)
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        help = f"{outside}, and loop over a batch or give the kernel an axis for it"
        raise _no_values(name, "one of torch.func (vmap, grad, jvp)", help)
    jit = getattr(torch, "jit", None)
    if jit is not None and jit.is_tracing():
        raise KernelArgument(
            f"argument `{name}` is a tensor that torch.jit.trace follows, which would record the result as a constant",
            help=outside,
        )


def _no_values(name: str, what: str, help: str) -> KernelArgument:
    return KernelArgument(
        f"argument `{name}` has no values: it is {what}, and a kernel itself is not an operator of torch",
        help=help,
    )


def _from_torch(name: str, tensor: Any) -> np.ndarray:
    _refuse_transform(name, tensor)
    if tensor.device.type != "cpu":
        raise KernelArgument(
            f"argument `{name}` is a torch tensor on {tensor.device}",
            help="pass a CPU tensor: tensor.cpu()",
        )
    return values_of_torch(name, tensor)


def values_of_torch(name: str, tensor: Any) -> np.ndarray:
    """Return a tensor on the CPU as a NumPy array that shares its memory, and takes no part in its gradients."""
    tensor = tensor.detach()
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        known = _TORCH_ONLY.get(str(tensor.dtype))
        if known is None:  # sparse, quantized, lazily negated, ...
            raise KernelArgument(
                f"argument `{name}` is a torch tensor that NumPy cannot read: {error}",
                help="pass a dense tensor of numbers: tensor.to_dense(), .dequantize() or .resolve_neg()",
            ) from None
    bits, dtype = known
    torch = sys.modules["torch"]
    return tensor.view(getattr(torch, bits)).numpy().view(dtype)


def to_library(array: np.ndarray, library: str) -> Any:
    """Return a NumPy result as an array of the caller's library; KernelArgument where it has no such dtype."""
    if library == "jax":
        return sys.modules["jax"].numpy.array(array)
    if library != "torch":
        return array
    torch = sys.modules["torch"]
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    try:
        return torch.from_numpy(array)
    except TypeError:
        for name, (bits, dtype) in _TORCH_ONLY.items():
            if array.dtype == dtype:
                return torch.from_numpy(array.view(bits)).view(
                    getattr(torch, name.partition(".")[2])
                )
        raise KernelArgument(
            f"a result is {array.dtype}, which cannot become a tensor of PyTorch",
            help="pass NumPy arrays, such as tensor.numpy(), and results are NumPy arrays",
        ) from None
