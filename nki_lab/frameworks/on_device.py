"""The kernel of an operator as an object of the official package, for tensors on a Neuron device.

The official object takes tensors of PyTorch on the device, and arrays and tracers of JAX, as it is called there. It is
made from the author's text, which is executed with the names of the official package.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nki_lab.choices import Choices
from nki_lab.errors import NotModelled, PackageMissing
from nki_lab.frameworks.operator import KernelOperator, ReverseOperator
from nki_lab.frameworks.results import leaves_of
from nki_lab.hardware.kernel_files import KernelFiles
from nki_lab.hardware.runner import NAMESPACES
from nki_lab.hardware.worker import Call


def run_official(
    operator: KernelOperator,
    values: Sequence[Any],
    device: Any,
    constant: Callable[[int], Any],
) -> list[Any]:
    """Call the official kernel, and return its results; what is none of the framework's arrays becomes a constant.

    Args:
        operator: the operator.
        values: one for each of its parameters.
        device: where the arrays are, for errors.
        constant: makes what stands for the constant of a number.
    """
    if operator.mutates:
        raise NotModelled(
            f"{operator.name} writes its argument `{operator.mutates[0]}`, which on {device} is not supported yet",
            help="have the kernel return a new tensor",
        )
    kernel = _official(operator, device)
    call = operator.call(values)
    returned = kernel(*call.args, **call.kwargs)
    leaves = () if returned is None else leaves_of(returned)
    return [
        leaf if hasattr(leaf, "dtype") else constant(operator.number_of(leaf)) for leaf in leaves
    ]


def _official(operator: KernelOperator, device: Any) -> Any:
    """Return the kernel of an operator as an object of the official package."""
    if isinstance(operator, ReverseOperator):
        raise NotModelled(
            f"{operator.name} is made from the instructions of the kernel, and {device} needs the text of a kernel",
            help="write the backward kernel, and give it as backward=; or pass CPU tensors",
        )
    choices = operator.kernel.choices(Choices.current())
    key = choices.grid, choices.schedule
    kernel = operator.official.get(key)
    if kernel is None:
        kernel = operator.official[key] = _made(operator, choices, device)
    return kernel


def _made(operator: KernelOperator, choices: Choices, device: Any) -> Any:
    source = operator.kernel.source
    namespace = NAMESPACES[source.dialect.root]
    try:
        package = importlib.import_module(namespace)
    except ModuleNotFoundError:
        package = None
    if package is None or package.__name__.partition(".")[0] == __name__.partition(".")[0]:
        raise PackageMissing(
            f"{operator.name}: its arguments are on {device}, and this Python has no official package {namespace},"
            " which runs kernels there",
            help="install it, or pass CPU tensors, with which an operator runs on the simulator",
        )
    files = KernelFiles(source, source.dialect)
    folder = tempfile.mkdtemp(
        prefix="nki_lab_"
    )  # the official tools read the text of a kernel from its file
    files.write(Path(folder))
    request = {
        **files.request,
        "namespace": namespace,
        "arrays": [],
        "grid": list(choices.grid or ()),
        "schedule": [[name, before] for name, before in choices.schedule],
    }
    return Call(folder, request).jitted()
