"""The modules of `neuronxcc.nki.kernels`: prebuilt kernels, which are not written yet. Each name is an error."""

from __future__ import annotations

from typing import Any

from nki_lab.errors import NotModelled

__all__: list[str] = []
__path__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"neuronxcc.nki.kernels: the prebuilt kernel `{name}` is not there yet",
        help="take its source from github.com/aws-neuron/nki-samples (src/nki_samples/reference), which runs here",
    )
