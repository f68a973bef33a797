"""Stand-ins for the unpublished modules that nki-library's test harness imports.

And for what it uses of published ones without their documenting it. Kernels and references are left as they
are, but for two names that a kernel does not import.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from nki_lab.api import install as aliases
from nki_lab.dtypes import dtype_of
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import quantize
from nki_lab.runtime import simulate
from nki_lab.simulator import machine, memory
from tests.public.nki_library import host_dtypes, ranks

_SIMULATOR = "nki_cpu_simulator.nki"
# Modules of the simulator package under the names that the harness imports.
_MODULES = {
    "": "nki",
    ".builtin": "nki.tensor",
    ".compiler": "nki.compiler",
    ".isa": "nki.isa",
    ".isa.constants": "nki.isa.constants",
    ".language": "nki.language",
    ".language.dtypes": "nki.dtype",
    ".tensor": "nki.tensor",
    ".typing": "nki.typing",
}


def install() -> None:
    """Make every import of the harness work; `import nki` is nki_lab afterwards."""
    if not aliases.install():
        raise RuntimeError("an official nki package is installed: use an environment without it")
    _put("nki_cpu_simulator", __path__=[])
    for name, ours in _MODULES.items():
        sys.modules[_SIMULATOR + name] = import_module(ours)
    nki = sys.modules["nki_cpu_simulator"].nki = sys.modules[_SIMULATOR]
    nki.cpu_simulate = nki.simulate
    # `import a.b.c as x` reads the attributes on the way.
    nki.builtin, nki.language.dtypes = nki.tensor, nki.dtype
    sys.modules["neuron_dtypes"] = host_dtypes
    # Two kernels annotate parameters with this name of the older package and use nothing else of it.
    typing = _put("neuronxcc.nki.typing", mutable_tensor=nki.typing.tensor)
    _put("neuronxcc", __path__=[], nki=_put("neuronxcc.nki", __path__=[], typing=typing))
    starfish = _put("neuronxcc.starfish.support", __path__=[], dtype=host_dtypes)
    sys.modules["neuronxcc.starfish.support.dtype"] = host_dtypes
    _put("neuronxcc.starfish", __path__=[], support=starfish)
    # Locks of remote devices and analysis of their traces: imported, and not used in simulation.
    _put("test.utils.scripts", __path__=[])
    _put("test.utils.scripts.remote_lock_scripts", LockStatus=_LockStatus, LockResult=_LockResult)
    _put("test.utils.perf_analysis_private", analyze_trace=None)
    _put("test.utils.kernel_tracer", trace_kernel=_trace_kernel)
    # MX kernels ask plain tensors for it, as if they were nkilib's own TensorView of a whole tensor.
    NkiTensor.base_tensor = property(lambda tensor: tensor)


def complete() -> None:
    """Put right what is missing in published files of the harness, after they have been imported."""
    orchestrator = sys.modules["test.utils.test_orchestrator"].Orchestrator
    orchestrator._compiled_kernel = None  # set only when it compiles, and read always
    ranks.install(orchestrator)
    # core/qkv/test_qkv_tkg.py uses the name without importing it.
    builtins.Platforms = sys.modules["test.utils.common_dataclasses"].Platforms


def complete_kernels() -> None:
    """Give core/mlp/mlp_tkg/mlp_tkg.py of the tag 2.29 two names that it uses and does not import."""
    utilities = "nkilib_src.nkilib.core.utils."
    if allocator := sys.modules.get(utilities + "allocator"):
        builtins.SbufManager = allocator.SbufManager
        builtins.Logger = import_module(utilities + "logging").Logger


def be_as_mx_references_expect() -> None:
    """Choose MX scales by the rule before NKI 0.5, and let memory start as zeros instead of NaN marks.

    The references have that rule. The kernels multiply padding they never wrote with weights of zero, and write a part
    of their scales, of which the references expect the rest to be zero.
    """
    exponents = quantize._LARGEST_EXPONENT
    exponents.update({dtype: exponent + 1 for dtype, exponent in exponents.items()})
    memory.fill_unwritten = machine.fill_unwritten = _zero
    # The reference finds a type by what the unpublished host dtype prints; NumPy's records print otherwise.
    reference = sys.modules.get("nkilib_src.nkilib.core.utils.mx_torch_common")
    if reference is not None:
        theirs = reference.quantize_to_mx
        reference.quantize_to_mx = lambda data, dtype: theirs(data, dtype_of(dtype))


def _zero(array: np.ndarray, dtype: Any) -> None:
    array[...] = 0


def _trace_kernel(kernel_under_test: Any, *_: Any, **__: Any) -> None:
    """Compile a kernel, for tests that only trace; they do so with an unpublished front end."""
    given = kernel_under_test.kernel_input or {}
    arguments = {name.removesuffix(".must_alias_input"): value for name, value in given.items()}
    cores = kernel_under_test.compiler_input.logical_nc_config
    simulate(kernel_under_test.kernel_func)[cores].compile(**arguments)


class _LockStatus(enum.Enum):
    ACQUIRED = 1
    BUSY = 2


@dataclasses.dataclass
class _LockResult:
    status: _LockStatus


def _put(name: str, **attributes: Any) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    vars(module).update(attributes)
    return module
