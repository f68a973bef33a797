"""Wrong kernels of notebook 02."""

import nki

from nki_lab import kernels
from nki_lab.kernels.library.flash_fwd import FlashConfig

TURNED = FlashConfig(training=False, should_transpose_v=True)
STRAIGHT = FlashConfig(training=False)


@nki.jit
def turned(q, k, v):
    return kernels.flash_fwd(
        q, k, v, None, use_causal_mask=False, mixed_precision=False, config=TURNED
    )


@nki.jit
def masked(q, k, v):
    return kernels.flash_fwd(q, k, v, None, mixed_precision=False, config=STRAIGHT)


@nki.jit
def rounded(q, k, v):
    return kernels.flash_fwd(q, k, v, None, use_causal_mask=False, config=STRAIGHT)


@nki.jit
def in_training(q, k, v):
    return kernels.flash_fwd(q, k, v, None, use_causal_mask=False, mixed_precision=False)


WRONG = {
    "02.1": {"mistake": turned, "values": masked, "rounded": rounded, "count": in_training},
}
