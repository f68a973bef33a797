"""The examples in the API's own texts: what runs, and what cannot."""

from __future__ import annotations

from math import erf

import numpy as np

from nki_lab.api import isa as nisa
from nki_lab.errors import KernelResult, NotOnTarget
from tests.public.sdk.cases import LATER, Case

ISA, LANGUAGE = "api/nki/isa/__init__.py", "api/nki/language/__init__.py"

_OUT = (
    "out = nl.ndarray({0}.shape, {0}.dtype, buffer=nl.shared_hbm)\nnl.store(out, {0})\nreturn out"
)
_SQUARES = {
    "inputs": ("input_tensor float32 128x1024",),
    "before": "out_tensor = nl.ndarray((128, 1024), nl.float32, buffer=nl.shared_hbm)",
    "after": "return out_tensor",
    "expected": lambda x: x * x,
}
_ONE_SQUARE = {
    **_SQUARES,
    "inputs": ("input_tensor float32 128x512",),
    "before": "out_tensor = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)",
}


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _nonzero(x: np.ndarray) -> np.ndarray:
    rows = np.full((x.shape[0], x.shape[1] + 1), -1, np.int32)
    for row, values in zip(rows, x, strict=True):
        (where,) = np.nonzero(values)
        row[: len(where)] = where
        row[-1] = len(where)
    return rows


def _scattered(data: np.ndarray, indices: np.ndarray, output: np.ndarray) -> np.ndarray:
    result = output.copy()
    result[indices[:, 0]] = data
    return result


CASES = [
    Case(f"{ISA}#1", **_ONE_SQUARE),
    Case(
        f"{ISA}#3",
        "indirect_gather_kernel",
        ("data float32 300x64", "indices uint32 100x1 <300"),
        lambda d, i: d[i[:, 0]],
        targets=LATER,
    ),
    Case(
        f"{ISA}#4",
        "indirect_scatter_kernel",
        ("src_data float32 64x40", "indices uint32 64x1 <200", "output float32 200x40"),
        _scattered,
        targets=LATER,
    ),
    Case(
        f"{ISA}#3",
        "indirect_gather_kernel",
        ("data float32 300x64", "indices uint32 100x1 <300"),
        targets=("trn1",),
        raises=(NotOnTarget, "dma_indirect"),
    ),
    Case(
        f"{ISA}#5",
        "nc_matmul_accumulate_kernel",
        ("lhsT bfloat16 512x96", "rhs bfloat16 512x300"),
        lambda a, b: a.T @ b,
    ),
    Case(
        f"{ISA}#6",
        "gather_transpose_kernel",
        ("src_hbm bfloat16 200x128", "idx_hbm uint32 128x1 <200"),
        lambda s, i: s[i[:, 0]].T,
        targets=LATER,
    ),
    Case(
        f"{ISA}#7",
        "gather_transpose_2d_kernel",
        ("src_hbm bfloat16 256x128", "idx_hbm uint32 128x2 <256"),
        lambda s, i: s[i.T.reshape(-1)].T,
        targets=LATER,
    ),
    Case(
        f"{ISA}#8",
        "gather_transpose_4d_kernel",
        ("src_hbm bfloat16 256x1x4x64", "idx_hbm uint32 128x2 <256"),
        lambda s, i: s[i.T.reshape(-1)].transpose(3, 1, 2, 0),
        targets=LATER,
    ),
    Case(
        f"{ISA}#12",
        "activate2_scale_bias_kernel",
        ("data_tensor float32 128x70",),
        lambda x: _gelu(2 * x + 0.5),
        targets=("trn3",),
        tolerance={"rtol": 1e-3, "atol": 1e-3},
    ),
    Case(
        f"{ISA}#12",
        "activate2_scale_bias_kernel",
        ("data_tensor float32 128x70",),
        targets=LATER[:1],
        raises=(NotOnTarget, "activate2"),
    ),
    Case(
        f"{ISA}#20",
        inputs=("x float32 64x40",),
        before="batch_size, hidden_dim = 64, 40\ncore_id = nl.program_id()",
        after="back = nl.load(shared_tensor)\nreturn shared_tensor",
        known={"core_barrier": nisa.core_barrier},
        targets=LATER,
        cores=2,
    ),
    Case(
        f"{ISA}#23",
        inputs=("x float32 64x40",),
        before="batch_size, hidden_dim = 64, 40",
        after="out = nl.ndarray((2, 64, 40), nl.float32, buffer=nl.shared_hbm)\n"
        "nl.store(out[current_rank], recv_buffer)\nreturn out",
        known={"sendrecv": nisa.sendrecv},
        targets=LATER,
        cores=2,
    ),
    Case(f"{ISA}#24"),
    Case(
        f"{ISA}#25",
        after="tile = nl.zeros((1, 1), nl.int32)\nnisa.register_store(tile, reg2)\n"
        + _OUT.format("tile"),
        expected=lambda: np.array([[10]], np.int32),
    ),
    *(Case(f"{ISA}#{n}") for n in (26, 27)),
    Case(
        f"{ISA}#30",
        "nonzero_with_count_kernel",
        ("x float32 128x9",),
        raises=(KernelResult, "shared_hbm"),
        targets=LATER,
    ),
    Case(
        f"{ISA}#30",
        "nonzero_with_count_kernel",
        ("x int32 1x90 <3",),
        _nonzero,
        changes={"nl.hbm": "nl.shared_hbm"},
        targets=LATER,
    ),
    Case(
        f"{ISA}#31",
        "topk_kernel",
        ("x bfloat16 16x3",),
        raises=(KernelResult, "shared_hbm"),
        targets=("trn3",),
    ),
    # -- nki.language --
    *(Case(f"{LANGUAGE}#{n}") for n in (*range(1, 7), *range(11, 19))),
    *(Case(f"{LANGUAGE}#{n}", targets=("trn3",)) for n in range(7, 11)),
    *(
        Case(f"{LANGUAGE}#{n}", targets=("trn1", "trn2"), raises=(NotOnTarget, "NeuronCore-v4"))
        for n in range(7, 11)
    ),
    Case(
        f"{LANGUAGE}#19",
        inputs=("x_tensor float32 128x64", "y_tensor float32 128x300"),
        after=_OUT.format("result"),
        expected=lambda x, y: x.T @ y,
    ),
    *(Case(f"{LANGUAGE}#{n}") for n in range(20, 29)),
    Case(
        f"{LANGUAGE}#29", after=_OUT.format("result"), expected=lambda: np.full((128, 512), 1 / 512)
    ),
    Case(f"{LANGUAGE}#30", after=_OUT.format("result"), expected=lambda: np.ones((128, 512))),
    *(Case(f"{LANGUAGE}#{n}") for n in range(31, 36)),
    Case(
        f"{LANGUAGE}#36",
        inputs=("data_tensor float32 128x512", "indices_tensor uint32 128x512 <512"),
        before="actual_tensor = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)",
        after="return actual_tensor",
        expected=lambda x, i: np.take_along_axis(x, i.astype(int), axis=1),
    ),
    *(Case(f"{LANGUAGE}#{n}", **_SQUARES) for n in (37, 38, 39)),
    Case(f"{LANGUAGE}#40", **_ONE_SQUARE),
    Case(
        f"{LANGUAGE}#42",
        inputs=("data float32 1x12",),
        before="N = 12\noutput = nl.ndarray((1, 12), nl.float32, buffer=nl.shared_hbm)\n"
        "ub_input = nl.ndarray((1, 1), nl.int32, nl.private_hbm)\n"
        "nl.store(ub_input, nl.full((1, 1), 7, nl.int32))",
        after="return output",
        expected=lambda x: np.where(np.arange(12) < 7, x, 0),
    ),
    Case(
        f"{LANGUAGE}#44",
        inputs=("data float32 1x1",),
        before="count_input = nl.ndarray((1, 1), nl.int32, nl.private_hbm)\n"
        "nl.store(count_input, nl.full((1, 1), 5, nl.int32))",
        after=_OUT.format("acc"),
        expected=lambda x: 5 * x,
    ),
    Case(
        f"{LANGUAGE}#45",
        before="expected_tensor = nl.shared_constant(np.eye(128, dtype=np.float32))\n"
        "actual_tensor = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)",
        after="return actual_tensor",
        expected=lambda: np.eye(128),
    ),
    Case(
        f"{LANGUAGE}#46",
        after="assert nl.less(a, 1.0)\nassert nl.greater_equal(a, 0.0)\n" + _OUT.format("a"),
    ),
    Case(f"{LANGUAGE}#47", before="i = 3"),
    *(Case(f"{LANGUAGE}#{n}") for n in range(48, 59)),
    Case(f"{LANGUAGE}#59", before="idx = nl.zeros((1, 1), nl.int32)"),
    Case(f"{LANGUAGE}#60"),
]

_PSEUDO = "pseudo-code of what an instruction computes"
FRAGMENTS = {
    ISA: {
        2: "dots in place of a source",
        **dict.fromkeys((9, 10, 13, 14, 15, 16, 19, 29), _PSEUDO),
    },
    LANGUAGE: {41: "pseudo-code of a loop", 43: "pseudo-code of a loop"},
}
