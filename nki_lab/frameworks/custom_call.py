"""The text of the custom call by which the official tools put a kernel into the graph of a model.

The names of its fields are those of the official example (nki/guides/framework_custom_op.rst, the XLA output of the
tensor addition). The kernel's binary is made by the official compiler alone; the text says so in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Storage
from nki_lab.runtime import Result

TARGET = "AwsNeuronCustomNativeKernel"
#: Stands for what only the official compiler makes.
BINARY = "(a file that only the official compiler makes)"

_HLO = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "int64": "s64", "int32": "s32", "int16": "s16",
    "int8": "s8", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "pred", "float8_e4m3": "f8e4m3",
    "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0fnu",
}  # fmt: skip


def hlo_shape(dtype: DType | str, shape: Iterable[int]) -> str:
    """Return a dtype and a shape as HLO writes them, in row-major order: f32[128,512]{1,0}.

    Packed types, which HLO has no name for, are written as the integers that hold them.
    """
    sizes = tuple(shape)
    name = str(dtype)
    if name not in _HLO and isinstance(dtype, DType):
        name = str(dtype.np)
    order = ",".join(str(axis) for axis in reversed(range(len(sizes))))
    layout = f"{{{order}}}" if sizes else ""
    return f"{_HLO.get(name, name)}[{','.join(map(str, sizes))}]{layout}"


def backend_config(result: Result) -> dict[str, Any]:
    """Return the backend_config of a kernel's custom call, decoded."""
    kernel = result.kernel
    cores = 1 + len(result.compiled.others)
    grid = [*(result.options.grid or ())] or ([cores] if cores > 1 else [])
    modules = {i.definition.module for i in kernel.instructions}
    return {
        "kernel_version": 1,
        "klir_binary": {
            "binary": BINARY,
            "input_names": [
                *(s.name for s in kernel.inputs),
                *(s.name for s in _constants(result)),
            ],
            "output_names": [result.name for result in _results(kernel)],
        },
        "func_name": kernel.name,
        "grid": grid,
        "has_collectives": "nki.collectives" in modules,
    }


def _results(kernel: Kernel) -> list[Storage]:
    """Return the memory of each result; an argument that the kernel writes is one, whether it returns it or not."""
    returned = [tensor.storage for tensor in kernel.outputs]
    known = {storage.id for storage in returned}
    written = kernel.written_inputs - known
    return [*returned, *(storage for storage in kernel.inputs if storage.id in written)]


def aliases(kernel: Kernel) -> dict[int, int]:
    """Return which argument each result shares its memory with, for arguments that the kernel writes."""
    inputs = {storage.id: n for n, storage in enumerate(kernel.inputs)}
    results = enumerate(_results(kernel))
    return {n: inputs[storage.id] for n, storage in results if storage.id in inputs}


def custom_call(result: Result) -> str:
    """Return the custom call of a kernel in HLO, and its backend_config as JSON."""
    kernel = result.kernel
    operands = [
        (s.name, hlo_shape(s.dtype, s.shape)) for s in (*kernel.inputs, *_constants(result))
    ]
    made = [hlo_shape(tensor.dtype, tensor.shape) for tensor in kernel.outputs]
    made += [hlo_shape(s.dtype, s.shape) for s in _results(kernel)[len(made) :]]
    shape = made[0] if len(made) == 1 else f"({', '.join(made)})"
    lines = []
    for n, (name, text) in enumerate(operands):
        given = f"parameter({n})" if n < len(kernel.inputs) else "constant({...})"
        lines.append(f"%{name} = {text} {given}")
    shared = aliases(kernel)
    alias = ", ".join(
        f"{{{n if len(made) > 1 else ''}}}: ({argument}, {{}})" for n, argument in shared.items()
    )
    facts = [
        f'custom_call_target="{TARGET}"',
        "api_version=API_VERSION_STATUS_RETURNING",
        *([f"output_to_operand_aliasing={{{alias}}}"] if alias else []),
        'backend_config="(base64 of the JSON below)"',
    ]
    names = ", ".join(f"%{name}" for name, _ in operands)
    lines.append(f"%custom-call = {shape} custom-call({names}), {', '.join(facts)}")
    if shared:
        pairs = ", ".join(f"{argument}: {n}" for n, argument in shared.items())
        lines.append(f"operand_output_aliases = {{{pairs}}}  # argument: result")
    lines.append("backend_config = " + json.dumps(backend_config(result), indent=2))
    return "\n".join(lines)


def _constants(result: Result) -> list[Storage]:
    """Return the constant tensors of a kernel, which are operands of the call, too."""
    return [s for s in result.kernel.storages if s.origin == "constant" and not s.on_chip]
