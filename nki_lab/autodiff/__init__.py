"""Gradients: the backward kernel of a kernel, from the rules of its instructions."""

from nki_lab.autodiff.backward import BackwardKernel, backward

__all__ = ["BackwardKernel", "backward"]
