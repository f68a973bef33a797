"""Errors NKI5xx: hardware and the official tools."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError


class ToolchainError(NkiError):
    """The official toolchain or the device is missing or refused."""

    code = "NKI500"
    page = "The official Neuron packages or a device are missing, or they refused the kernel."
    wrong = "$ NKI_SIMULATOR=0 nki-lab run copy.py:copy --input x=randn:128x64"
    right = "$ nki-lab run copy.py:copy --input x=randn:128x64"
