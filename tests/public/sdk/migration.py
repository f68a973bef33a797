"""The migration guide, which shows what to write instead of what: the former is refused, the latter runs."""

from __future__ import annotations

import numpy as np

from nki_lab.errors import (
    InstructionError,
    KernelRaised,
    KernelResult,
    LanguageError,
    NkiError,
    TensorArgument,
    WrongCall,
)
from tests.public.sdk.cases import LATER, Case

PAGE = "migration/index.rst"
_OUT = (
    "out = nl.ndarray({0}.shape, {0}.dtype, buffer=nl.shared_hbm)\nnl.store(out, {0})\nreturn out"
)
_TWO = "src = nl.load(x)\ndst = nl.zeros(x.shape, x.dtype)"
_NOTHING = (KernelResult, "returns nothing")
_BLOCKS = ("inp float32 8x128x512",)
_SHAPE = {"[512, 512]": "(512, 512)"}
_PICK = {
    "inputs": ("data float32 1x8",),
    "before": "reg = nisa.register_alloc(5)\ntemp = nl.ndarray((1, 1), nl.float32, buffer=nl.sbuf)",
    "after": _OUT.format("temp"),
    "expected": lambda x: x[:, 4:5],
}
_COUNT = {
    "inputs": ("x float32 6x9",),
    "before": "val = nl.load(x)\nacc = nl.copy(val)\nreg = nisa.register_alloc(3)\n"
    "count_sb = nl.full((1, 1), 3, nl.int32)\none_sb = nl.full((1, 1), 1, nl.int32)",
    "after": _OUT.format("acc"),
    "expected": lambda x: 4 * x,
}


def _same(x: np.ndarray) -> np.ndarray:
    return x


CASES = [
    *(Case(f"{PAGE}#{n}", **_PICK) for n in (1, 2)),
    *(Case(f"{PAGE}#{n}", **_COUNT) for n in (3, 4)),
    Case(
        f"{PAGE}#5",
        inputs=("src_4d bfloat16 4096x1x1x128", "src_3d bfloat16 64x3x96"),
        before="src = src_4d\ndst_3d = nl.ndarray((96, 3, 64), src.dtype, buffer=nl.sbuf)",
        after="out = nl.ndarray((96, 3, 64), src.dtype, buffer=nl.shared_hbm)\nnl.store(out, dst_3d)\nreturn dst, out",
        expected=lambda four, three: (four.transpose(3, 1, 2, 0), three.transpose(2, 1, 0)),
    ),
    Case(f"{PAGE}#6", program=True, raises=_NOTHING),
    Case(f"{PAGE}#7", "my_kernel", ("X float32 128x512", "Y float32 128x512"), raises=_NOTHING),
    *(
        Case(
            f"{PAGE}#9",
            inputs=("x float32 64x40",),
            before="TILE, N, PSUM_SIZE = 64, 40, 512\npsum_tensor = nl.ndarray((64, 512), nl.float32, buffer=nl.psum)\n"
            "nisa.tensor_copy(psum_tensor[:, 0:40], nl.load(x))\n"
            "hbm_tensor = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)",
            after="return hbm_tensor",
            **which,
        )
        for which in (
            {"part": (0, 3), "raises": (InstructionError, "psum")},
            {"part": (3, None), "expected": _same},
        )
    ),
    *(
        Case(
            f"{PAGE}#10",
            inputs=("x uint16 16x32",),
            before="src_ui16 = x\ndst_f4 = nl.ndarray((16, 32), nl.float4_e2m1fn_x4, buffer=nl.sbuf)",
            after="got = dst_f4.view(nl.uint16)\n" + _OUT.format("got"),
            targets=LATER,
            **which,
        )
        for which in (
            {"part": (0, 2), "raises": (InstructionError, "dma_copy")},
            {"part": (3, None), "expected": _same},
        )
    ),
    Case(
        f"{PAGE}#11",
        inputs=("x float32 4x6",),
        before=_TWO,
        part=(0, 2),
        raises=(WrongCall, "dst_rmw_op"),
    ),
    Case(
        f"{PAGE}#11",
        inputs=("x float32 4x6",),
        before=_TWO,
        after=_OUT.format("dst"),
        part=(3, None),
        expected=_same,
    ),
    Case(f"{PAGE}#13", part=(0, 3), raises=(InstructionError, "memset")),
    Case(
        f"{PAGE}#13",
        part=(4, None),
        after=_OUT.format("buf"),
        expected=lambda: np.full((128, 128), 2, np.int32),
    ),
    *(
        Case(
            f"{PAGE}#16",
            inputs=("x float32 8x10",),
            before="on_true = nl.load(x)\non_false, pattern, channel_multiplier, offset = -1.0, [[1, 10]], -1, -2\n"
            "dst = nl.ndarray((8, 10), nl.float32, buffer=nl.sbuf)",
            after=_OUT.format("dst"),
            **which,
        )
        for which in (
            {"part": (0, 3), "raises": (NkiError, "affine_select")},
            {"part": (3, None), "expected": lambda x: np.where(np.eye(8, 10, 2) == 1, x, -1.0)},
        )
    ),
    Case(
        f"{PAGE}#17", before="dst = nisa.register_alloc(0)", part=(0, 3), raises=(WrongCall, "imm")
    ),
    Case(
        f"{PAGE}#17",
        before="dst = nisa.register_alloc(0)",
        part=(3, None),
        after="tile = nl.zeros((1, 1), nl.int32)\nnisa.register_store(tile, dst)\n"
        + _OUT.format("tile"),
        expected=lambda: np.array([[42]], np.int32),
    ),
    *(
        Case(
            f"{PAGE}#19",
            inputs=("x float32 2x3x5",),
            before="B, C, L = x.shape",
            after="nisa.dma_copy(dst=output, src=x)\nreturn output",
            **which,
        )
        for which in (
            {"part": (0, 3), "raises": (KernelResult, "since NKI 0.3")},
            {"part": (3, None), "expected": _same},
        )
    ),
    *(
        Case(
            f"{PAGE}#20",
            inputs=("src_tensor float32 16x32",),
            before="dst_tensor = nl.ndarray((16, 32), nl.float32, buffer=nl.sbuf)",
            after=_OUT.format("dst_tensor"),
            targets=LATER,
            **which,
        )
        for which in (
            {"part": (0, 2), "expected": _same},  # a number for a member is a finding, no error
            {"part": (3, None), "expected": _same},
        )
    ),
    Case(f"{PAGE}#21", part=(0, 3), raises=(TensorArgument, "buffer must be a memory")),
    Case(f"{PAGE}#21", part=(3, None)),
    Case(f"{PAGE}#22", "my_kernel", ("X float32 4x4",), raises=_NOTHING),
    Case(f"{PAGE}#24", program=True, known={"img": np.ones((2, 3), np.float32)}, raises=_NOTHING),
    Case(
        f"{PAGE}#25",
        inputs=("x uint32 128x128",),
        before="precomputed_x4_hbm_tensor = x.view(nl.float8_e4m3fn_x4)",
        after="got = buf.view(nl.uint32)\n" + _OUT.format("got"),
        expected=_same,
    ),
    Case(
        f"{PAGE}#26", "kernel", ("x float32 4x4", "y float32 4x4", "z float32 4x4"), raises=_NOTHING
    ),
    Case(
        f"{PAGE}#29",
        inputs=("x float32 12x40 +",),
        before="src = nl.load(x)\nresult = nl.ndarray((12, 40), nl.float32, buffer=nl.sbuf)",
        after=_OUT.format("result"),
        expected=lambda x: 1 / x,
    ),
    Case(f"{PAGE}#31", before="tensor = nl.full((1, 1), 9, nl.int32)"),
    Case(f"{PAGE}#32", after=_OUT.format("cond"), expected=lambda: np.zeros((1, 1), np.int32)),
    Case(f"{PAGE}#34", says="8\n"),
    Case(f"{PAGE}#35", says="2\n"),
    Case(
        f"{PAGE}#39",
        inputs=("a float32 64x16",),
        after="nisa.dma_copy(dst=a_result, src=a)\n" + _OUT.format("a_result"),
        expected=_same,
    ),
    Case(f"{PAGE}#40"),
    Case(f"{PAGE}#42", before="num_512_tiles_cur_section, p_k, n_k, sca = 3, 128, 512, 64"),
    Case(
        f"{PAGE}#45",
        "indirect_scalar_dynamic_dma",
        ("A float32 512x512",),
        raises=(KernelRaised, "equals no list"),
    ),
    Case(
        f"{PAGE}#45",
        "indirect_scalar_dynamic_dma",
        ("A float32 512x512",),
        lambda a: a[384:, :256],
        changes=_SHAPE,
    ),
    Case(
        f"{PAGE}#49",
        "indirect_vector_dynamic_dma",
        ("A float32 128x512",),
        lambda a: a[0:128:2],
        targets=LATER,
    ),
    Case(
        f"{PAGE}#52",
        "exp_func",
        ("x float32 4x8x128x2x512",),
        raises=(LanguageError, "par_dim"),
        targets=("trn2",),
    ),
    Case(f"{PAGE}#56"),
    *(
        case
        for n in (57, 59)
        for case in (
            Case(f"{PAGE}#{n}", "sb_blocks", _BLOCKS, raises=(LanguageError, "par_dim")),
            Case(f"{PAGE}#{n}", "sb_blocks_migrated", _BLOCKS, _same),
        )
    ),
    Case(f"{PAGE}#60", "sb_blocks_migrated_incorrect", _BLOCKS, _same),
]

_OLDER = "the older dialect"
FRAGMENTS = {
    PAGE: {
        8: "one pair of operands for two kinds of products",
        12: "dots in place of a pattern",
        14: "signatures",
        15: "dots in place of arguments",
        27: "imports the older dialect",
        28: _OLDER,
        30: "signatures",
        33: "dots in place of arguments",
        36: _OLDER,
        37: "the inner loop of a page's kernel of 129 partitions, which no memory on the chip has",
        38: "a statement of the loop before",
        41: _OLDER,
        43: "dots in place of parameters",
        44: _OLDER,
        48: "pseudo-code of what an access means",
        50: "pseudo-code of what an access means",
        51: _OLDER,
        55: _OLDER,
        58: "tensors without a dtype",
    }
}
