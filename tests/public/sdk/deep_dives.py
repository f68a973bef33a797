"""The deep dives of the documentation: what runs, and what cannot."""

from __future__ import annotations

import numpy as np

from nki_lab.errors import KernelRaised, NkiError, NotOnTarget, ViewError
from tests.public.sdk.cases import LATER, Case

APS, DGE = "deep-dives/nki-aps.rst", "deep-dives/nki-dge.rst"
LOOPS, PERF = "deep-dives/nki-dynamic-loops.rst", "deep-dives/nki_perf_guide.rst"

_TILE = "sbuf_tile = nl.ndarray({shape}, hbm_tensor.dtype, buffer=nl.sbuf)"
_STORED = (
    "out = nl.ndarray({0}.shape, {0}.dtype, buffer=nl.shared_hbm)\nnl.store(out, {0})\nreturn out"
)
_COPY = {
    "inputs": ("hbm_tensor float32 64x48",),
    "before": _TILE.format(shape="hbm_tensor.shape"),
    "after": _STORED.format("sbuf_tile"),
    "expected": lambda x: x,
}
_SHAPE = {"[512, 512]": "(512, 512)"}


def _halves(x: np.ndarray) -> np.ndarray:
    return x[0:128:2]


CASES = [
    *(Case(f"{APS}#{n}") for n in (2, 8, 9, 10)),
    Case(f"{APS}#7", raises=(ViewError, "partition stride is 64, need 32")),
    Case(f"{APS}#11", "scalar_dynamic_select", ("A float32 4x128x512",), lambda a: a[3]),
    Case(
        f"{APS}#12",
        "scalar_dynamic_dma",
        ("A float32 512x512",),
        raises=(KernelRaised, "a shape is a tuple"),
    ),
    Case(
        f"{APS}#12",
        "scalar_dynamic_dma",
        ("A float32 512x512",),
        lambda a: a[384:, :256],
        changes=_SHAPE,
    ),
    Case(f"{APS}#15", "gather_rows", ("A float32 128x512",), _halves, targets=LATER),
    Case(
        f"{APS}#16", "indirect_vector_dynamic_dma", ("A float32 128x512",), _halves, targets=LATER
    ),
    Case(
        f"{APS}#16",
        "indirect_vector_dynamic_dma",
        ("A float32 128x512",),
        targets=("trn1",),
        raises=(NotOnTarget, "dma_indirect"),
    ),
    *(Case(f"{DGE}#{n}", **_COPY) for n in (1, 2, 3, 6, 7, 8)),
    *(Case(f"{DGE}#{n}", **_COPY, targets=LATER) for n in (4, 5, 9)),
    Case(
        f"{DGE}#9", **{**_COPY, "expected": None}, targets=("trn1",), raises=(NotOnTarget, "hwdge")
    ),
    Case(
        f"{DGE}#10",
        inputs=("hbm_tensor bfloat16 16x256",),
        before=_TILE.format(shape="(128, 16)"),
        after=_STORED.format("sbuf_tile"),
        expected=lambda x: x[:, :128].T,
        changes={"src=hbm_tensor": "src=hbm_tensor[:, 0:128]"},
        targets=LATER,
    ),
    Case(
        f"{DGE}#11",
        inputs=("hbm_tensor bfloat16 128x128",),
        before=_TILE.format(shape="(128, 128)")
        + "\nindices = nl.ndarray((128, 1), nl.uint32, buffer=nl.sbuf)"
        + "\nnisa.iota(indices, [[1, 1]], 127, -1)",
        after=_STORED.format("sbuf_tile"),
        expected=lambda x: x[::-1].T,
        targets=LATER,
    ),
    Case(
        f"{DGE}#12",
        inputs=("hbm_tensor bfloat16 64x64",),
        before=_TILE.format(shape="(64, 64)"),
        after=_STORED.format("sbuf_tile"),
        expected=lambda x: x.T,
    ),
    Case(f"{LOOPS}#1", before="n = 4", raises=(NkiError, "no_reorder")),
    Case(f"{LOOPS}#2", before="n = 4"),
    Case(f"{LOOPS}#3", before="cond_tensor = nl.zeros((1, 1), nl.int32)"),
    Case(
        f"{LOOPS}#4",
        inputs=("input_tensor float32 128x512",),
        before="out_tensor = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)",
        after="return out_tensor",
        expected=lambda x: x * x,
    ),
    Case(
        f"{LOOPS}#5",
        inputs=("input_tensor float32 512x512",),
        before="out_tensor = nl.ndarray((512, 512), nl.float32, buffer=nl.shared_hbm)",
        after="return out_tensor",
        expected=lambda x: x + 2,
    ),
    Case(f"{LOOPS}#6"),
    Case(
        f"{PERF}#7",
        "load_store_32kib_contiguous",
        ("x float32 128x1024", "y float32 128x1024"),
        lambda x, y: x,
        changes={"[128, 1024]": "(128, 1024)"},
    ),
]

FRAGMENTS = {
    APS: {
        3: "sizes are not defined, and an argument follows a keyword",
        4: "pseudo-code of what an access means",
        5: "gives the two pairs of a pattern as two arguments",
        6: "pseudo-code of what an access means",
        17: "pseudo-code of what an access means",
    },
    "deep-dives/nki-compiler.rst": {1: "a function without a body"},
    PERF: {
        1: "pseudo-code of spilling",
        2: "pseudo-code of spilling",
        3: "four dots; blocks of tensors, of the older dialect",
        4: "par_dim, of the older dialect",
        5: "instructions without dst, of the older dialect",
        6: "instructions without dst, of the older dialect",
        8: "instructions without dst, of the older dialect",
    },
}
