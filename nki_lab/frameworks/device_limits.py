"""What the official tools cannot run of a model that the simulator runs: one definition for each limit.

A limit is found while a model is traced, before a device is there. What the compiler refuses on the simulator, too, is
no limit here: results outside shared HBM, and a kernel on another number of cores than NEURON_LOGICAL_NC_CONFIG says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nki_lab.errors import NotModelled
from nki_lab.source import text_of
from nki_lab.targets import Target
from nki_lab.views.entries import remark_lines
from nki_lab.views.models.trace import OperatorRow
from nki_lab.views.run import Remark


@dataclass(frozen=True)
class Limit:
    """A limit of the official tools.

    Attributes:
        kind: a word or two for it.
        help: what to write instead.
        page: where the official documentation says so.
    """

    kind: str
    help: str
    page: str

    def broken(self, row: OperatorRow, what: str, help: str = "") -> Remark:
        """Return the finding of an operator that is beyond the limit."""
        where = f" in {row.path}" if row.path else ""
        return Remark(
            self.kind,
            f"%{row.number} {row.name}{where} {what} ({self.page})",
            help or self.help,
            row.place,
            is_serious=True,
        )


CALLBACK = Limit(
    "host callback",
    "compute it with operators of the framework, or make its kernel an operator with custom_op",
    "frameworks/jax/setup/jax-neuronx-known-issues.rst",
)
OPERATOR = Limit(
    "operator",
    "write it as a kernel and make it an operator: nki_lab.torch.custom_op",
    "nki/guides/framework_custom_op.rst",
)
CONTROL = Limit(
    "control flow",
    "use jax.lax.scan, or a loop whose number of passes is known; jnp.where in place of cond",
    "frameworks/jax/setup/jax-neuronx-known-issues.rst",
)
FLOAT8 = Limit("float8", "use float8_e5m2 or float8_e4m3", "compiler/error-codes/EVRF005.rst")
FLOAT8_FN = Limit(
    "float8",
    "use float8_e5m2, a chip that has it, or the compiler's --experimental-unsafe-fp8e4m3fn-as-fp8e4m3",
    "compiler/error-codes/EVRF051.rst",
)
COMPLEX = Limit(
    "complex numbers", "compute with real and imaginary parts", "compiler/error-codes/EVRF004.rst"
)
FLOAT64 = Limit(
    "float64",
    "convert to float32",
    "libraries/nxd-inference/misc/nxdi-troubleshooting.rst",
)
INT64 = Limit(
    "int64",
    "keep values below 2**31, or compile with --native-int64=enabled",
    "compiler/neuronx-cc/api-reference-guide/index.rst",
)
DYNAMIC = Limit(
    "dynamic shape",
    "give the result a fixed size: pad it, or choose elements with where",
    "compiler/error-codes/EMOD025.rst",
)
CORES = Limit(
    "LNC",
    "launch every kernel of a model on as many cores as a logical core has: kernel[lnc]",
    "compiler/error-codes/EVRF066.html",
)

_FINE_FLOAT8 = ("float8_e4m3", "float8_e5m2", "float8_e8m0fnu")


def beyond_dtypes(row: OperatorRow, dtypes: Iterable[str], target: Target) -> list[Remark]:
    """Return what the dtypes of an operator's tensors break."""
    found = []
    for dtype in dict.fromkeys(dtypes):
        if dtype == "float64":
            found.append(
                FLOAT64.broken(row, "computes in float64, which becomes float32 on a device")
            )
        elif dtype.startswith("complex"):
            found.append(COMPLEX.broken(row, f"computes in {dtype}, which no device has"))
        elif dtype == "float8_e4m3fn":
            if not target.supports("matmul_float8_e4m3fn"):
                found.append(
                    FLOAT8_FN.broken(row, f"uses {dtype}, which {target.name} does not have")
                )
        elif dtype.startswith("float8") and dtype not in _FINE_FLOAT8:
            found.append(FLOAT8.broken(row, f"uses {dtype}, which no device has"))
    return found


def beyond_int32(row: OperatorRow, integers: Iterable[np.ndarray]) -> list[Remark]:
    """Return the finding of int64 values that an operator takes or gives and int32 does not hold."""
    bounds = np.iinfo(np.int32)
    for array in integers:
        if array.size and (array.min() < bounds.min or array.max() > bounds.max):
            what = "has int64 values outside int32, which devices compute with"
            return [INT64.broken(row, what)]
    return []


def beyond_cores(rows: Iterable[OperatorRow]) -> list[Remark]:
    """Return the kernels that run on another number of cores than the first one."""
    found, first, wanted = [], None, 0
    for row in rows:
        if not row.is_kernel:
            continue
        cores = 1 + len(row.run.compiled.others)
        if first is None:
            first, wanted = row, cores
        elif cores != wanted:
            what = f"runs on {_cores(cores)}, and %{first.number} {first.name} on {_cores(wanted)}"
            found.append(CORES.broken(row, what))
    return found


def _cores(count: int) -> str:
    return f"{count} core{'s' * (count > 1)}"


def refuse(findings: Iterable[Remark]) -> None:
    """Raise an error that lists what keeps a model from a device."""
    told = [line for finding in findings for line in remark_lines(finding)]
    if told:
        raise NotModelled(
            text_of(["the official tools do not run this model as it is:", *told]),
            help="change these operators; without device_check=True they are the findings of the trace",
        )
