"""Solutions of notebook 02, Prebuilt kernels."""

import nki

from nki_lab import kernels
from nki_lab.kernels.library.flash_fwd import FlashConfig


@nki.jit
def attend(q, k, v):
    config = FlashConfig(training=False, should_transpose_v=False)
    return kernels.flash_fwd(
        q, k, v, None, use_causal_mask=False, mixed_precision=False, config=config
    )


def traffic_ratio(keys, d):
    operands = 4 * keys * d  # q, k, v and the result, once each
    matrices = 2 * 2 * keys * keys  # scores and weights, written and read
    return (operands + matrices) / operands


ANSWERS = {
    "02.2": traffic_ratio,
    "02.3": "2048",
}
