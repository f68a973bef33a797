"""The pages below get-started: what runs, and what cannot."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelErrors, KernelRaised, KernelResult
from tests.public.sdk.cases import LATER, Case

ABOUT, INDEXING = "get-started/about/index.rst", "get-started/about/indexing-overview.rst"
TILING, LNC = "get-started/about/tiling-overview.rst", "get-started/about/lnc.rst"
DMA, DATA = (
    "get-started/about/nki-dma-overview.rst",
    "get-started/about/data-representation-overview.rst",
)
LANGUAGE = "get-started/nki-language-guide.rst"
QUICK = "get-started/quickstart-implement-run-kernel.rst"

_TWO = ("a_input float16 96x70", "b_input float16 96x70")
_LOADS = "a_tile = nl.load(a_input)\nb_tile = nl.load(b_input)\n"
_OUT = (
    "out = nl.ndarray({0}.shape, {0}.dtype, buffer=nl.shared_hbm)\nnl.store(out, {0})\nreturn out"
)
_OUTPUT = "output = nl.ndarray({}, nl.float32, buffer=nl.shared_hbm)"
# What the pages' `inputs` and `outputs` could be: three tiles each, transposed or reciprocated in turn.
_THREE = (
    "given = [nl.load(v) for v in (v0, v1, v2)]\n"
    "made = [nl.ndarray((32, 32), nl.float32, buffer=nl.sbuf) for _ in range(3)]\n"
    "(a, b, c), (x, y, z) = given, made\n"
    "inputs, outputs = given, made"
)
_STORE_THREE = (
    "out = nl.ndarray((3, 32, 32), nl.float32, buffer=nl.shared_hbm)\n"
    "for n, tile in enumerate((x, y, z)):\n    nl.store(out[n], tile)\nreturn out"
)
_THREE_INPUTS = tuple(f"v{n} float32 32x32 +" for n in range(3))


def _in_turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.stack([a.T, 1 / b, c.T])


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b


def _reverse_relu(dst: Any, src: Any) -> None:
    tile = nl.load(src)
    nisa.activation(dst=tile, op=nl.relu, data=tile)
    nl.store(dst, tile)


# What the pages' `process_tensor` could be: it adds a row to a total.
_ROWS = """\
total = nl.zeros((1, 64), nl.float32)
t = x
def process_tensor(row):
    nisa.tensor_tensor(total, total, nl.load(row.reshape((1, 64))), op=nl.add)
"""


def _loop(block: str, before: str = "", times: int = 1, **more: Any) -> Case:
    """Return a case of a block that processes the rows of `t`, `times` times."""
    return Case(
        block,
        inputs=("x float32 10x64",),
        before=_ROWS + before,
        after=_OUT.format("total"),
        expected=lambda x: times * x.sum(axis=0, keepdims=True),
        **more,
    )


_COUNT = "count_tensor = nl.full((1, 1), 10, nl.int32)"

CASES = [
    Case(f"{DATA}#1"),
    Case(f"{ABOUT}#1", before="shape = (5, 7)"),
    Case(
        f"{ABOUT}#2",
        inputs=("input_tensor float32 128x1536",),
        before="out_tensor = nl.ndarray((128, 1536), nl.float32, buffer=nl.shared_hbm)",
        after="return out_tensor",
        expected=lambda x: x * x,
    ),
    _loop(f"{ABOUT}#3", ""),
    Case(
        f"{ABOUT}#4",
        inputs=("s bfloat16 128x128", "m bfloat16 128x512", "x float32 128x512"),
        before="stationary, moving = nl.load(s), nl.load(m)\nx = y = nl.load(x)\n"
        "output = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)",
        after="tile = nl.copy(output)\n" + _OUT.format("tile"),
        expected=lambda s, m, x: 2 * x,
    ),
    Case(f"{ABOUT}#5"),
    Case(
        f"{ABOUT}#6",
        inputs=("x float32 8x6",),
        before="me = nl.program_id()\nsrc, dst = nl.load(x), nl.zeros((8, 6), nl.float32)\n"
        "nisa.tensor_scalar(src, src, nl.add, float(me))\n"
        "send_to_rank = recv_from_rank = 1 - me\npipe_id, cores = 0, (0, 1)\n"
        "data = nl.ndarray((2, 8, 6), nl.float32, buffer=nl.shared_hbm)",
        after="nl.store(data[me], dst)\nreturn data",
        expected=lambda x: np.stack([x + 1, x]),
        targets=LATER,
        cores=2,
    ),
    Case(f"{ABOUT}#9", says="a 1"),
    _loop(f"{ABOUT}#10", "y, my_function = x, process_tensor"),
    Case(f"{ABOUT}#11"),
    Case(f"{ABOUT}#14", inputs=_THREE_INPUTS, before=_THREE, after=_STORE_THREE, expected=_in_turn),
    _loop(f"{ABOUT}#15", _COUNT, times=2),
    Case(f"{ABOUT}#16", known={"dataclass": dataclasses.dataclass, "NKIObject": nl.NKIObject}),
    *(Case(f"{INDEXING}#{n}", raises=(KernelRaised, "equals no list")) for n in (1, 2)),
    Case(f"{INDEXING}#1", changes={"[2, 2]\n": "(2, 2)\n", "== [2, 2]": "== (2, 2)"}),
    Case(
        f"{INDEXING}#2",
        changes={
            "[128, 1024]": "(128, 1024)",
            "[128, 512]": "(128, 512)",
            "== [2, 2]": "== (2, 2)",
        },
    ),
    Case(
        f"{LNC}#3",
        "lnc_test",
        ("x float32 4x4",),
        raises=(KernelResult, "returns nothing"),
        known={"input": np.ones((2, 3), np.float32)},
    ),
    Case(f"{LNC}#4", "lnc_test", ("x float32 2x128x128 +",), lambda x: 1 / x),
    Case(
        f"{LNC}#4", "lnc_test", ("x float32 2x128x128 +",), lambda x: 1 / x, targets=LATER, cores=2
    ),
    Case(f"{DMA}#1", "tensor_exp_kernel_isa", ("x bfloat16 4x4096",), np.exp),
    Case(f"{DMA}#2", "tensor_exp_kernel_isa", ("x bfloat16 128x128",), np.exp),
    Case(
        f"{TILING}#1",
        inputs=("input float32 256x256 +",),
        before=_OUTPUT.format("(256, 256)"),
        after="return output",
        expected=lambda x: 1 / x,
    ),
    Case(
        f"{TILING}#2",
        inputs=("input float32 256x256 +",),
        before="P_DIM = nl.tile_size.pmax\n" + _OUTPUT.format("(256, 256)"),
        after="return output",
        expected=lambda x: 1 / x,
    ),
    Case(f"{TILING}#4", "tensor_exp_kernel_", ("x float32 256x512 +",), lambda x: 1 / x),
    Case(f"{TILING}#5", "tensor_exp_kernel_", ("x float32 384x33 +",), lambda x: 1 / x),
    # The page says any shape; its tiles always have 128 rows, so that the last copy differs in size.
    Case(
        f"{TILING}#5",
        "tensor_exp_kernel_",
        ("x float32 200x33 +",),
        raises=(KernelErrors, "dma_copy"),
    ),
    Case(
        f"{LANGUAGE}#1",
        "nki_tensor_add_kernel",
        _TWO,
        _sum,
        says="adding tensors of type float16 and shape (96, 70)",
    ),
    Case(
        f"{LANGUAGE}#2",
        "example_kernel",
        ("x float16 512x512",),
        raises=(KernelResult, "returns nothing"),
    ),
    Case(f"{LANGUAGE}#3"),
    Case(f"{LANGUAGE}#4", says="List\nHello\n4.1\n3\n2\n"),
    Case(f"{LANGUAGE}#5", says="a 1\nremoved 'a' from dictionary"),
    *(Case(f"{LANGUAGE}#{n}") for n in (6, 7, 9)),
    Case(f"{LANGUAGE}#8"),
    *(Case(f"{LANGUAGE}#{n}") for n in (10, 12, 13)),
    Case(f"{LANGUAGE}#15"),
    Case(
        f"{LANGUAGE}#19", inputs=_THREE_INPUTS, before=_THREE, after=_STORE_THREE, expected=_in_turn
    ),
    Case(
        f"{LANGUAGE}#20", inputs=_THREE_INPUTS, before=_THREE, after=_STORE_THREE, expected=_in_turn
    ),
    Case(f"{LANGUAGE}#21", says="1\n2\n3\n1\n2\n3\n"),
    Case(f"{LANGUAGE}#22", says="0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
    _loop(f"{LANGUAGE}#23", "", known={"dynamic_range": nl.dynamic_range}),
    _loop(f"{LANGUAGE}#24", _COUNT, known={"dynamic_range": nl.dynamic_range}),
    Case(
        f"{LANGUAGE}#27",
        says="1 True",
        known={"dataclass": dataclasses.dataclass, "NKIObject": nl.NKIObject},
    ),
    Case(
        f"{LANGUAGE}#29",
        "kernel",
        raises=(KernelResult, "returns nothing"),
        known={"NKIObject": nl.NKIObject},
    ),
    Case(f"{LANGUAGE}#31", known={"Enum": enum.Enum}),
    Case(
        f"{LANGUAGE}#33",
        "relu_kernel",
        ("x float32 256x512", "y float32 256x512"),
        lambda x, y: np.maximum(x, 0),
    ),
    Case(
        f"{LANGUAGE}#33",
        "scale_kernel",
        ("x float32 256x512", "y float32 256x512"),
        lambda x, y: x / 2,
    ),
    Case(
        f"{LANGUAGE}#35",
        "kernel",
        ("x float32 12x5", "y float32 12x5"),
        lambda x, y: np.maximum(x, 0),
        known={"my_relu": _reverse_relu},
    ),
    Case(f"{QUICK}#1"),
    Case(f"{QUICK}#2", "nki_tensor_add_kernel", _TWO, raises=(KernelResult, "returns nothing")),
    Case(f"{QUICK}#3", inputs=_TWO),
    Case(
        f"{QUICK}#4",
        inputs=_TWO,
        after="tile = nl.add(a_tile, b_tile)\n" + _OUT.format("tile"),
        expected=_sum,
    ),
    Case(f"{QUICK}#5", inputs=_TWO, before=_LOADS, after=_OUT.format("c_tile"), expected=_sum),
    Case(
        f"{QUICK}#6",
        inputs=_TWO,
        before=_LOADS + "c_tile = nl.add(a_tile, b_tile)",
        after="return c_output",
        expected=_sum,
    ),
    Case(f"{QUICK}#8", "nki_tensor_add_kernel", _TWO, _sum),
]

FRAGMENTS = {
    QUICK: {10: "JAX"},
    ABOUT: {
        7: "registers an operator with torch_neuronx, of a machine with devices",
        8: "an annotation and a tensor that are not defined",
    },
    TILING: {3: "indented by two different widths"},
    LANGUAGE: {
        26: "an argument follows a keyword",
        30: "pseudo-code of how an argument is copied",
        32: "what an enumeration becomes, in other words",
        34: "the kernel builder, which makes programs for a device",
    },
}
