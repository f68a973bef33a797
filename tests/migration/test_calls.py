"""Tests every rule for calls: the text that it writes, and that the kernel computes the same as before, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.isa.former import CONVERTED
from nki_lab.migration.calls import parameters_of
from nki_lab.migration.facts import Facts
from nki_lab.migration.rewriter import rewritten
from nki_lab.versions import FORMS, NEWEST, VERSIONS, deprecated_in, version_named

RNG = np.random.default_rng(21)
A = RNG.standard_normal((40, 24)).astype(np.float32)
B = RNG.standard_normal((40, 24)).astype(np.float32)
C = RNG.integers(-9, 9, (40, 24)).astype(np.int32)
COLUMN = RNG.standard_normal((40, 1)).astype(np.float32)
CUBE = RNG.standard_normal((40, 3, 8)).astype(np.float32)

OUT = "out = nl.ndarray({}, dtype=a.dtype, buffer=nl.shared_hbm)\n"
TILE = "t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\nnisa.dma_copy(dst=t, src=a)\n"
STORE = "nisa.dma_copy(dst=out, src=t)\nreturn out\n"
PRODUCT = (
    "b = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\n"
    "nisa.dma_copy(dst=b, src=a)\n"
    "p = nl.ndarray((a.shape[1], a.shape[1]), dtype=nl.float32, buffer=nl.psum)\n"
    "nisa.nc_matmul(p, b, b)\n"
)


@dataclass
class Case:
    """A kernel's body, what a line of it becomes, and the arrays it is given.

    Attributes:
        rule: what is moved.
        since: the version that the kernel is written for.
        body: with `{old}` where the line stands.
        old, new: the line in both versions.
        inputs: arrays.
    """

    rule: str
    since: str
    body: str
    old: str
    new: str
    inputs: tuple[np.ndarray, ...] = (A,)
    decorator: tuple[str, str] = ("@nki.jit", "@nki.jit")
    more: Mapping[str, Any] = field(default_factory=dict)


SAME = OUT.format("a.shape")
CASES = [
    Case("raw enum", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.dma_copy(dst=t, src=a, dge_mode=2)  # by hardware\n",
         "nisa.dma_copy(dst=t, src=a, dge_mode=nisa.dge_mode.hwdge)  # by hardware\n"),
    Case("string buffer", "0.2", SAME + TILE + "{old}nisa.tensor_copy(u, t)\n"
         "nisa.dma_copy(dst=out, src=u)\nreturn out\n",
         "u = nl.ndarray(a.shape, a.dtype, 'sbuf')\n", "u = nl.ndarray(a.shape, a.dtype, nl.sbuf)\n"),
    Case("private result", "0.2", "{old}" + TILE + STORE,
         "out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)\n",
         "out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"),
    Case("par_dim", "0.2", SAME + "{old}nisa.dma_copy(dst=t, src=a)\n" + STORE,
         "t = nl.ndarray((nl.par_dim(a.shape[0]), a.shape[1]), a.dtype)\n",
         "t = nl.ndarray((a.shape[0], a.shape[1]), a.dtype)\n"),
    Case("platform target", "0.2", SAME + TILE + STORE + "{old}", "", "",
         decorator=('@nki.jit(platform_target="trn2", mode="auto")',
                    "# For trn2: set NEURON_PLATFORM_TARGET_OVERRIDE=trn2 where it is called.\n@nki.jit")),
    Case("unknown keyword", "0.1", SAME + TILE + "{old}" + STORE,
         "nisa.tensor_copy(t, t, dtype=nl.float32)\n", "nisa.tensor_copy(t, t)\n"),
    Case("float in integers", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.memset(t[0:3, 0:5], 2.0)\n", "nisa.memset(t[0:3, 0:5], 2)\n", (C,)),
    Case("float in integers", "0.2", SAME + TILE + "v = 3.0\n{old}" + STORE,
         "nisa.memset(dst=t[0:3], value=v)\n", "nisa.memset(dst=t[0:3], value=int(v))\n", (C,)),
    Case("copy from PSUM", "0.2", OUT.format("(a.shape[1], a.shape[1])") + PRODUCT + "{old}return out\n",
         "nisa.dma_copy(dst=out, src=p)\n", "nisa.dma_copy(dst=out, src=nl.copy(p))\n"),
    Case("dst_rmw_op", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.dma_copy(dst=t, src=a, dst_rmw_op=nl.add)\n",
         "nisa.dma_compute(dst=t, srcs=[a, t], reduce_op=nl.add)\n"),
    Case("dst_rmw_op", "0.2", SAME + TILE + "for k in range(3):\n    op = None if k == 0 else nl.add\n"
         "    # adds\n{old}" + STORE,
         "    nisa.dma_copy(dst=t, src=a, dst_rmw_op=op, unique_indices=True)\n",
         "    if op is None:\n        nisa.dma_copy(dst=t, src=a)\n    else:\n"
         "        nisa.dma_compute(dst=t, srcs=[a, t], reduce_op=op, unique_indices=True)\n"),
    Case("dst_rmw_op", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.dma_copy(dst=t, src=a, dst_rmw_op=None)\n", "nisa.dma_copy(dst=t, src=a)\n"),
    Case("register_move", "0.2", SAME + TILE + "r = nisa.register_alloc()\n{old}n = nl.ndarray((1, 1), nl.int32)\n"
         "nisa.register_store(n, r)\nnisa.tensor_copy(t[0:1, 0:1], n)\n" + STORE,
         "nisa.register_move(r, imm=7)\n", "nisa.register_move(r, src=7)\n"),
    Case("affine_select", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.affine_select(t, [[1, 24]], 3, -1, t, 0.5)\n",
         "nisa.affine_select(t, [[1, 24]], offset=3, channel_multiplier=-1, on_true_tile=t, on_false_value=0.5)\n"),
    Case("dma_compute", "0.2", SAME + TILE + "{old}" + STORE,
         "nisa.dma_compute(t, [a, t], [1.0, 1.0], nl.add)\n",
         "nisa.dma_compute(t, [a, t], scales=[1.0, 1.0], reduce_op=nl.add)\n"),
    Case("activation", "0.6", SAME + TILE + "{old}" + STORE,
         "nisa.activation(t, nl.exp, t, None, 0.5, None, None, nisa.reduce_cmd.idle, 'e')\n",
         "nisa.activation(t, nl.exp, t, None, 0.5, None, None, nisa.reduce_cmd.idle, name='e')\n"),
    Case("range_select", "0.2", OUT.format("(40, 24)") + TILE + "lo = nl.ndarray((40, 1), nl.float32)\n"
         "hi = nl.ndarray((40, 1), nl.float32)\n"
         "nisa.memset(lo, 3.0)\nnisa.memset(hi, 9.0)\nm = nl.ndarray((40, 1), nl.float32)\n"
         "{old}" + STORE,
         "nisa.range_select(t, t, nl.greater_equal, nl.less, lo, hi, nisa.reduce_cmd.idle, m, nl.maximum, 0, 1.0)\n",
         "nisa.range_select(t, t, nl.greater_equal, nl.less, lo, hi, "
         "reduce_res=m, reduce_op=nl.maximum, range_start=0)\n",
         more={"target": "trn2"}),
    Case("cast by hardware", "0.2", "out = nl.ndarray(a.shape, dtype=nl.int32, buffer=nl.shared_hbm)\n"
         "t = nl.ndarray(a.shape, nl.int32)\n{old}" + STORE,
         "nisa.dma_copy(dst=t[:, 3:], src=a[:, 3:], dge_mode=nisa.dge_mode.hwdge)\nnisa.dma_copy(t[:, :3], b[:, :3])\n",
         "nisa.dma_copy(dst=t[:, 3:], src=a[:, 3:].view(t[:, 3:].dtype), dge_mode=nisa.dge_mode.hwdge)\n"
         "nisa.dma_copy(t[:, :3], b[:, :3])\n",
         (A, C), more={"target": "trn2"}),
    Case("reshape in HBM", "0.4", OUT.format("(6, 5, 4)") + "n = 3\n{old}nisa.dma_copy(dst=out, src=r)\nreturn out\n",
         "r = a.reshape((2 * n, 5, 4))  # the first rows\n",
         "r = a.flatten_dims(0, a.ndim - 1)[0:(2 * n) * 5 * 4].reshape((2 * n, 5, 4))  # the first rows\n", (CUBE,)),
    Case("reshape on chip", "0.4", OUT.format("(40, 2, 5)") + TILE
         + "{old}nisa.tensor_copy(r[:, 1], s[:, 0:5])\nnisa.dma_copy(dst=out, src=r)\nreturn out\n",
         "r = t.reshape((40, 2, 5))\ns = t.reshape([40, 3 + 4])\n",
         "r = t.flatten_dims(1, t.ndim - 1)[:, 0:2 * 5].reshape((40, 2, 5))\n"
         "s = t.flatten_dims(1, t.ndim - 1)[:, 0:3 + 4]\n", (CUBE,)),
    Case("reduce axis", "0.2", OUT.format("(40, 3)") + TILE + "r = nl.ndarray((40, 3), a.dtype)\n"
         "{old}nisa.dma_copy(dst=out, src=r)\nreturn out\n",
         "nisa.tensor_reduce(r, nl.add, t, axis=1)\n", "nisa.tensor_reduce(r, nl.add, t, axis=2)\n", (CUBE,)),
    Case("reduce axis", "0.2", OUT.format("(40, 2)") + "t = nl.ndarray((40, 2, 3, 4), a.dtype)\n"
         "nisa.dma_copy(dst=t, src=a.reshape((40, 2, 3, 4)))\n"
         "r = nl.ndarray((40, 2), a.dtype)\ns = nl.ndarray((40, 2, 3), a.dtype)\n"
         "{old}nisa.tensor_tensor(r, r, s[:, :, 1], nl.subtract)\nnisa.dma_copy(dst=out, src=r)\nreturn out\n",
         "nisa.tensor_reduce(r, nl.add, t, axis=[1, 2])\nnisa.tensor_reduce(s, nl.maximum, t, axis=[4])\n",
         "nisa.tensor_reduce(r, nl.add, t, axis=(2, 3))\nnisa.tensor_reduce(s, nl.maximum, t, axis=3)\n", (CUBE,)),
    Case("transpose rank", "0.3", OUT.format("(128, 16)") + "t = nl.ndarray((128, 16), a.dtype)\n{old}" + STORE,
         "nisa.dma_transpose(t, a)\n",
         "nisa.dma_transpose(t.reshape((a.shape[2], a.shape[1], a.shape[0])), a)\n",
         (RNG.standard_normal((16, 1, 128)).astype(np.float16),)),
    Case("rsqrt of PSUM", "0.4", OUT.format("(a.shape[1], a.shape[1])") + PRODUCT
         + "{old}nl.store(out, r)\nreturn out\n",
         "r = nl.rsqrt(p)\n", "r = nl.rsqrt(nl.copy(p))\n", (np.abs(A),)),
    Case("broadcast", "0.6", SAME + "t = nl.load(a)\nc = nl.load(b)\n{old}" + STORE,
         "t = nl.subtract(t, c)\n", "t = nl.subtract(t, nl.broadcast_to(c, t.shape))\n", (A, COLUMN)),
    Case("broadcast", "0.6", SAME + "t = nl.load(a)\nc = nl.load(b)\n{old}" + STORE,
         "t = nl.multiply(c, t)\n", "t = nl.multiply(nl.broadcast_to(c, t.shape), t)\n", (A, COLUMN)),
    Case("dependency kind", "0.6", SAME + "{old}" + STORE,
         "t = nl.ndarray(a.shape, a.dtype)\nfirst = nisa.memset(t, 0.0)\nnisa.dma_copy(t, a).depends_on(first)\n",
         "t = nl.ndarray(a.shape, a.dtype)\nfirst = nisa.memset(t, 0.0)\n"
         "nisa.dma_copy(t, a).depends_on(first, kind=nisa.dependency.runtime)\n"),
    Case("range", "0.5", SAME + TILE + "{old}" + STORE,
         "for k in nl.affine_range(2, 9, 3):\n    nisa.memset(t[0:4, k:k + 1], 0.5)\n",
         "for k in range(2, 9, 3):\n    nisa.memset(t[0:4, k:k + 1], 0.5)\n"),
    Case("tile_size", "0.3", SAME + TILE + "{old}" + "nisa.memset(t[0:1, 0:n % 7 + 1], 1.0)\n" + STORE,
         "n = nl.tile_size.total_available_sbuf_size\n", "n = nl.tile_size.sbuf_fmax_bytes\n"),
]  # fmt: skip


def _text(case: Case, is_new: bool) -> str:
    body = case.body.replace("{old}", case.new if is_new else case.old)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    parameters = ", ".join("abc"[: len(case.inputs)])
    return f"{case.decorator[is_new]}\ndef kernel({parameters}):\n    # what it makes\n{lines}"


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.rule} {case.since} {case.old.strip()[:40]}"
)
def test_a_call_is_moved_and_computes_the_same(case: Case, module):
    path = module(_text(case, is_new=False))
    with nki_lab.use(**case.more):
        moved = nki_lab.migrate(f"{path}::kernel", *case.inputs, nki=case.since)
    assert moved.text == path.read_text().replace(_text(case, False), _text(case, True)), (
        moved.diff()
    )
    assert moved.is_equal and not moved.undecided, moved.report()
    assert {"the inputs given", "other values"} <= {row.inputs for row in moved.proof}
    moved.write()
    with nki_lab.use(**case.more):
        assert not nki_lab.migrate(f"{path}::kernel", *case.inputs).is_moved, "moved twice"


@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case.rule)
def test_without_a_version_the_newest_that_takes_it_is_taken(case: Case, module):
    path = module(_text(case, is_new=False))
    with nki_lab.use(**case.more):
        moved = nki_lab.migrate(f"{path}::kernel", *case.inputs)
    assert moved.text.endswith(_text(case, True)), moved.report()
    assert moved.is_equal
    assert moved.since.number >= version_named(case.since).number


def test_every_form_and_every_changed_argument_has_a_case():
    loops = {
        "dynamic_range",
        "while register",
        "loop state",
        "quotient",
        "remainder",
    }  # in the other files
    assert set(FORMS) - loops <= {case.rule for case in CASES}
    text = "".join(case.old for case in CASES)
    by_two = {"sendrecv", "collective_permute_implicit_current_processing_rank_id"}  # below
    same_text = {"all_to_all_v"}  # only the chips that have it differ
    assert {name for name in CONVERTED if f"nisa.{name}(" not in text} == by_two | same_text
    assert set(deprecated_in(NEWEST)) == {
        "nki.language.tile_size.total_available_sbuf_size",
        *(f"nki.language.{n}_range" for n in ("affine", "sequential", "static")),
    }


def test_every_argument_that_is_gone_has_a_rule():
    gone = {
        (name, parameter)
        for version in VERSIONS[:-1]
        for later in VERSIONS
        for name in later.before
        for parameter in (parameters_of(name, version) or ())
        if parameter not in (parameters_of(name, NEWEST) or (parameter,))
    }
    assert gone == {
        ("nki.isa.dma_copy", "dst_rmw_op"),
        ("nki.isa.dma_copy", "unique_indices"),
        ("nki.isa.register_move", "imm"),
        ("nki.isa.sendrecv", "use_gpsimd_dma"),
        ("nki.language.shared_constant", "dtype"),
        ("nki.collectives.collective_permute_implicit_current_processing_rank_id", "num_channels"),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nisa.sendrecv(s, d, 1, 1, 0, use_gpsimd_dma=True)",
         "nisa.sendrecv(s, d, 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma)"),
        ("nisa.sendrecv(s, d, 1, 1, 0, False)", "nisa.sendrecv(s, d, 1, 1, 0, nisa.dma_engine.dma)"),
        ("c = nl.shared_constant(x + 1, nl.bfloat16)", "c = nl.shared_constant((x + 1).astype(nl.bfloat16))"),
        ("c = nl.shared_constant(np.eye(4), dtype=None)", "c = nl.shared_constant(np.eye(4))"),
        (
            "nisa.sendrecv(s, d, 1, 1, 0, use_gpsimd_dma=flag)",
            "nisa.sendrecv(s, d, 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma if flag else nisa.dma_engine.dma)",
        ),
        (
            "ncc.collective_permute_implicit_current_processing_rank_id(0, g, channel_id=1, num_channels=2)",
            "ncc.collective_permute_implicit_current_processing_rank_id(0, g, channel_id=1)",
        ),
    ],
)  # fmt: skip
def test_what_needs_two_cores_or_ranks_is_moved(old, new):
    head = "import nki.collectives as ncc\nimport nki.isa as nisa\nimport nki.language as nl\n"
    moved = rewritten(f"{head}{old}\n", Facts(), version_named("0.2"), NEWEST)
    assert moved.text == f"{head}{new}\n"
    assert len(moved.changes) >= 1 and not moved.undecided
    assert rewritten(moved.text, Facts(), version_named("0.3"), NEWEST).text == moved.text


def test_use_gpsimd_dma_computes_the_same(module):
    path = module("""@nki.jit
def kernel(a):
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    t = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(dst=t, src=a)
    nisa.tensor_scalar(t, t, nl.multiply, 1.5 + core)
    got = nl.ndarray(a.shape, a.dtype)
    nisa.sendrecv(t, got, 1 - core, 1 - core, 0, use_gpsimd_dma=False)
    nisa.dma_copy(dst=out[core], src=got)
    return out


def call(a):
    return kernel[2](a)
""")
    import nki_lab.migration.moving as moving

    moved = moving.migrated(
        moving.module_of(path), lambda scope: scope["call"](A), version_named("0.2")
    )
    assert "dma_engine=nisa.dma_engine.dma)" in moved.text
    assert moved.is_equal, moved.report()
    assert moved.proof[0].after.compiled.others, "it ran on two cores"


STARRED = """@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, a.dtype)
    more = {"src": a}
    nisa.dma_copy(t, **more)  # handed on
    t = nl.mod(t, 3.0)
    t = nl.divide(t, 0.7)
    nl.store(out, t)
    return out
"""


def test_what_no_rule_moves_is_left_with_a_comment(module):
    path = module(STARRED)
    moved = nki_lab.migrate(f"{path}::kernel", A, nki="0.6")
    assert [note.line for note in moved.undecided] == [13, 14]
    for name in ("mod", "divide"):
        assert f"    # migrate: nl.{name}: NKI's compiler refuses it" in moved.text
    assert moved.is_equal, "it still runs on the simulator"
    again = nki_lab.migrate
    path.write_text(moved.text)
    assert again(f"{path}::kernel", A, nki="0.6").text == moved.text, "the comment is there once"
    before = rewritten(path.read_text(), Facts(), version_named("0.2"), NEWEST)
    assert any("write out what `*` and `**` hand on" in note.text for note in before.undecided)


def test_an_integer_under_a_name_is_left_with_the_members_it_was(module):
    path = module("""WAY = 2


@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(dst=t, src=a, dge_mode=WAY)
    nisa.dma_copy(dst=out, src=t)
    return out
""")
    moved = nki_lab.migrate(f"{path}::kernel", A, nki="0.2")
    assert "write a member of nisa.dge_mode: nisa.dge_mode.hwdge" in moved.undecided[0].text
    assert not moved.proof, "NKI 0.7 refuses it"


def test_a_reshape_whose_sizes_the_text_does_not_say_is_left_with_what_to_write(module):
    path = module("""@nki.jit
def kernel(a):
    shape = (3, 7)
    out = nl.ndarray(shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a.reshape(shape))
    return out
""")
    moved = nki_lab.migrate(f"{path}::kernel", A, nki="0.4")
    assert "t.flatten_dims(0, t.ndim - 1)[0:count].reshape(shape)" in moved.undecided[0].text
    assert not moved.proof, "NKI 0.7 refuses it"


def test_an_instruction_that_is_gone_is_named():
    text = "import nki.isa as nisa\nnisa.tensor_copy_dynamic_src(t, x)\n"
    moved = rewritten(text, Facts(), version_named("0.3"), NEWEST)
    assert "src.ap(pattern, scalar_offset=index)" in moved.undecided[0].text
    assert moved.text.splitlines()[1].startswith(
        "# migrate: nisa.tensor_copy_dynamic_src: NKI 0.4 no"
    )
    kept = rewritten(text, Facts(), version_named("0.2"), version_named("0.3"))
    assert kept.text == text, "0.3 still has it"
