"""Chooses engines as the old compiler did where an author left them open.

On Scalar, as far as it can run them. The profile of NKIBench bmm, whose only elementwise instructions are copies out of
PSUM, has Vector busy for 0 % of the time and Scalar for 37 %; in adamw, where one of 16 elementwise instructions is an
activation, Scalar is busy for 62 %; in rmsnorm_matmul Vector is busy for 4 %, which is its reduction alone
(github.com/zhang677/AccelOpt 47e29a7c). Comments in the attention kernels of github.com/ucb-bar/autocomp expect it too
(dd26a565 examples/trn-tutorial/4_attention_trace.py). In the old dialect tensor_copy and tensor_scalar ran on Vector,
Scalar or GpSimd (aws-neuron-sdk 1db4d74e nki/api/nki/isa/__init__.py:1373); today's do not run on Scalar of trn1, where
an activation does the same (nki/api/nki/isa/__init__.py:403).
"""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.api import isa as nisa


def copied(dst, src):
    """Copy a tile of floats whose engine the source leaves open."""
    nisa.activation(dst=dst, op=nl.copy, data=src)


def scaled(dst, src, factor):
    """Multiply a tile of floats by a number, or by one per partition, on an engine the source leaves open."""
    nisa.activation(dst=dst, op=nl.copy, data=src, scale=factor)


def shifted(dst, src, offset):
    """Add one number per partition (a tile) to a tile of floats on an engine the source leaves open."""
    nisa.activation(dst=dst, op=nl.copy, data=src, bias=offset)
