"""Where did the old compiler put a copy whose engine its author left open?

On Scalar: the profile of NKIBench bmm, whose only elementwise instructions are such copies out of PSUM, has Vector busy
for 0 % of the time and Scalar for 37 % (github.com/zhang677/AccelOpt 47e29a7c). Comments in the attention kernels of
github.com/ucb-bar/autocomp expect it too (dd26a565 examples/trn-tutorial/4_attention_trace.py). In the old dialect
tensor_copy ran on Vector, Scalar or GpSimd (aws-neuron-sdk 1db4d74e nki/api/nki/isa/__init__.py:1373); today's does not
run on Scalar of trn1, where an activation copies instead (nki/api/nki/isa/__init__.py:403).
"""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.api import isa as nisa


def copied(dst, src):
    """Copy a tile of floats whose engine the source leaves open."""
    nisa.activation(dst=dst, op=nl.copy, data=src)
