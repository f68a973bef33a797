"""Tests that whatever a version of NKI refuses names the versions that take it, and which takes the whole kernel."""

import re

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import compiler
from nki_lab.api import isa as nisa
from nki_lab.choices import inside
from nki_lab.errors import KernelErrors, NkiError
from nki_lab.runtime import jit, run, simulate
from nki_lab.source import keep_lines
from nki_lab.versions import FORMS, VERSIONS

X = (np.arange(32 * 6, dtype=np.float32) % 7 + 1).reshape(32, 6)

KERNEL = """\
@jit({decorator})
def kernel(x):
    out = nl.ndarray(x.shape, dtype={dtype}, buffer={memory})
    t = nl.ndarray(x.shape, dtype={dtype}, buffer=nl.sbuf)
{body}
    nisa.dma_copy(dst=out, src=t)
    return out
"""
COPY = "nisa.dma_copy(dst=t, src=x)\n"


def written(body, decorator="", dtype="x.dtype", memory="nl.shared_hbm"):
    lines = "\n".join(f"    {line}" for line in body.strip().split("\n"))
    return KERNEL.format(body=lines, decorator=decorator, dtype=dtype, memory=memory)


def defined(text):
    filename = f"<forms {hash(text)}>"
    keep_lines(filename, text)
    scope = {"nl": nl, "nisa": nisa, "ncc": ncc, "jit": jit, "compiler": compiler}
    exec(compile(text, filename, "exec"), scope)
    return scope["kernel"]


IN_PSUM = (
    COPY + "p = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)\nnisa.tensor_copy(dst=p, src=t)\n"
)
WORD = "w = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)\nnisa.memset(w, 1)\n"
LATER = "a = nisa.dma_copy(dst=t, src=x)\nb = nisa.tensor_copy(dst=t, src=t)\n"

DYNAMIC = "for i in nl.dynamic_range(2):\n    nisa.dma_copy(dst=t, src=x)\n"
TILES = "g = nl.tiles(x, tile_shape=(32, 6))\nnisa.dma_copy(dst=t, src=g[0, 0].data)\n"
LOAD = "u = nl.load(x)\n"
RAW = "nisa.dma_copy(dst=t, src=x, dge_mode=2)\n"
STRING = "s = nl.ndarray(x.shape, x.dtype, buffer='psum')\n"
SCALAR = WORD + "n = nisa.scalar_load(w)\n"
LOOP = COPY + "nl.fori_loop(0, 2, lambda i: nisa.tensor_copy(dst=t, src=t))\n"
STATE = (
    COPY
    + "c = [1.0]\ndef body(i):\n    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=c[0])\n    c[0] += 1\n"
    "nl.fori_loop(0, 3, body)\n"
)
HBM = {"memory": "nl.hbm"}
CONFIG = {"decorator": "compile_config=compiler.CompileConfig()"}
CHIP = {"decorator": "platform_target='trn2'"}
WORDS = {"dtype": "nl.uint32"}

# (the first version that takes it, the last one, the form, what is in the help or message beside that).
ONE = {
    "raw enum": ("0.1", "0.2", written(RAW), "write dge_mode=nisa.dge_mode.hwdge"),
    "platform target": ("0.1", "0.2", written(COPY, **CHIP), "NEURON_PLATFORM_TARGET_OVERRIDE"),
    "private result": ("0.1", "0.2", written(COPY, **HBM), "buffer=nl.shared_hbm"),
    "string buffer": ("0.1", "0.2", written(COPY + STRING), "write nl.psum"),
    "float in integers": ("0.1", "0.2", written("nisa.memset(t, 0.0)", **WORDS), "write value=0"),
    "copy from PSUM": (
        "0.1",
        "0.2",
        written(IN_PSUM + "nisa.dma_copy(dst=t, src=p)"),
        "through SBUF",
    ),
    "cast by hardware": (
        "0.1",
        "0.2",
        written("nisa.dma_copy(dst=t.view(nl.int32), src=x, dge_mode=nisa.dge_mode.hwdge)"),
        "",
    ),
    "reshape on chip": ("0.1", "0.4", written(COPY + "t.reshape((32, 4))"), "multiply to 192"),
    "reshape in HBM": ("0.1", "0.4", written(COPY + "x.reshape((31, 6))"), "multiply to 192"),
    "reduce axis": (
        "0.1",
        "0.2",
        written(
            COPY + "m = nl.ndarray((32, 2, 1), x.dtype, buffer=nl.sbuf)\n"
            "nisa.tensor_reduce(dst=m, op=nl.add, data=t.reshape((32, 2, 3)), axis=1, keepdims=True)"
        ),
        "axis=",
    ),
    "transpose rank": (
        "0.1",
        "0.3",
        written(
            COPY + "h = nl.ndarray((64, 1, 1, 32), nl.bfloat16, buffer=nl.shared_hbm)\n"
            "d = nl.ndarray((32, 64), nl.bfloat16, buffer=nl.sbuf)\nnisa.dma_transpose(dst=d, src=h)"
        ),
        "",
    ),
    "rsqrt of PSUM": (
        "0.1",
        "0.4",
        written(IN_PSUM + "u = nl.rsqrt(p)"),
        "nl.rsqrt(nl.copy(tile))",
    ),
    "unknown keyword": (
        "0.1",
        "0.1",
        written(COPY + "nisa.tensor_copy(dst=t, src=t, dtype=x.dtype)"),
        "the dtype of `dst` decides",
    ),
    "dynamic_range": ("0.2", "0.6", written(DYNAMIC), "write nl.fori_loop"),
    "while register": (
        "0.1",
        "0.6",
        written(COPY + "r = nisa.register_alloc(1)\nwhile r:\n    nisa.register_move(r, 0)"),
        "write nl.while_loop",
    ),
    "loop state": ("0.6", "0.6", written(STATE), "keep what changes"),
    "dynamic_range by getattr": (
        "0.2",
        "0.6",
        written(DYNAMIC.replace("nl.dynamic_range", "vars(nl)['dynamic_range']")),
        "",
    ),
    "rule of activation_reduce": (
        "0.1",
        "0.6",
        written(
            COPY + "m = nl.ndarray((32, 1), x.dtype, buffer=nl.sbuf)\n"
            "nisa.activation_reduce(t, nl.copy, t, nl.maximum, m)"
        ),
        "nisa.tensor_reduce",
    ),
    "keyword that ended": (
        "0.1",
        "0.2",
        written(COPY + "r = nisa.register_alloc(1)\nnisa.register_move(r, imm=3)"),
        "write src=",
    ),
    "renamed keyword": (
        "0.1",
        "0.2",
        written("nisa.memset(t, 0.0)\nnisa.dma_copy(dst=t, src=x, dst_rmw_op=nl.add)"),
        "dma_compute",
    ),
    "new keyword": (
        "0.7",
        "0.7",
        written(LATER + "b.depends_on(a, kind=nisa.dependency.runtime)"),
        "",
    ),
    "new parameter": (
        "0.7",
        "0.7",
        written(COPY + "nl.empty_like(x, buffer=nl.sbuf, address=(0, 0))"),
        "",
    ),
    "configuration": ("0.7", "0.7", written(COPY, **CONFIG), ""),
    "barrier on one core": (
        "0.7",
        "0.7",
        written(
            COPY + "h = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
            "nisa.dma_copy(dst=h, src=x)\nnisa.core_barrier(data=h, cores=(0, 1))"
        ),
        "",
    ),
    "new name": ("0.7", "0.7", written(TILES), ""),
    "new loop": ("0.6", "0.7", written(LOOP), ""),
    "new method": ("0.6", "0.7", written(LATER + "b.depends_on(a)"), ""),
    "new function": ("0.3", "0.7", written(COPY + LOAD), ""),
    "mod": ("0.3", "0.7", written(COPY + "u = nl.mod(t, t)"), ""),
    "fmod": ("0.3", "0.7", written(COPY + "u = nl.fmod(t, t)"), ""),
    "global": ("0.7", "0.7", "N = 1\n" + written("global N\n" + COPY), ""),
}
#: Forms that every version runs; since one of them with a finding that says why.
RUN = {
    "broadcast": (written(COPY + "u = nl.subtract(t, t[:, 0:1])"), "0.3", "compiler refuses it"),
    "quotient": (written(COPY + "u = nl.divide(t, t)"), "0.3", "compiler refuses it"),
    "remainder": (ONE["mod"][2], "0.3", "compiler refuses it"),
    "dependency kind": (ONE["new method"][2], "0.7", "deprecated since NKI 0.7"),
}
NAMES = [version.name for version in VERSIONS]


def test_every_form_that_versions_treat_differently_is_in_a_table():
    assert {*FORMS} <= {*ONE, *RUN}


@pytest.mark.parametrize("form", ONE)
def test_a_form_that_a_version_refuses_names_those_that_take_it(form):
    first, last, text, help = ONE[form]
    kernel = defined(text)
    for name in NAMES:
        if first <= name <= last:
            run(kernel, X, nki=name)
            continue
        nearest = first if name < first else last
        with pytest.raises(NkiError) as caught:
            run(kernel, X, nki=name)
        said = str(caught.value)
        assert re.search(rf"`# nki: {re.escape(nearest)}` above", said), (name, said)
        assert name < first or help in said, (name, said)


@pytest.mark.parametrize("form", RUN)
def test_a_form_that_runs_everywhere_says_since_when_it_is_found_fault_with(form):
    text, since, message = RUN[form]
    kernel = defined(text)
    for name in NAMES[NAMES.index("0.6") if form == "dependency kind" else NAMES.index("0.3") :]:
        found = [f.message for f in run(kernel, X, nki=name).findings if message in f.message]
        assert bool(found) == (name >= since), (name, found)


# (what ended, with which version, what is new, in which version, the kernel).
MIXED = {
    "dynamic_range, tiles": (
        "nl.dynamic_range",
        "0.6",
        "nl.tiles",
        "0.7",
        written(DYNAMIC + TILES),
    ),
    "tiles, dynamic_range": (
        "nl.dynamic_range",
        "0.6",
        "nl.tiles",
        "0.7",
        written(TILES + DYNAMIC),
    ),
    "scalar_load, dynamic_range": (
        "nl.dynamic_range",
        "0.6",
        "nisa.scalar_load",
        "0.7",
        written(SCALAR + DYNAMIC),
    ),
    "load, raw enum": ("dge_mode=2", "0.2", "nl.load", "0.3", written(LOAD + RAW)),
    "raw enum, load": ("dge_mode=2", "0.2", "nl.load", "0.3", written(RAW + LOAD)),
    "string, load": ("buffer='psum'", "0.2", "nl.load", "0.3", written(COPY + STRING + LOAD)),
    "load, string": ("buffer='psum'", "0.2", "nl.load", "0.3", written(COPY + LOAD + STRING)),
    "memset, tiles": (
        "memset",
        "0.2",
        "nl.tiles",
        "0.7",
        written("nisa.memset(t, 0.0)\n" + TILES, **WORDS),
    ),
    "result, tiles": ("hbm", "0.2", "nl.tiles", "0.7", written(TILES, **HBM)),
    "chip, load": ("platform_target", "0.2", "nl.load", "0.3", written(COPY + LOAD, **CHIP)),
    "configuration, dynamic_range": (
        "nl.dynamic_range",
        "0.6",
        "compile_config",
        "0.7",
        written(DYNAMIC, **CONFIG),
    ),
    "register_move, fori_loop": (
        "register_move(imm=...)",
        "0.2",
        "nl.fori_loop",
        "0.6",
        written(LOOP + "r = nisa.register_alloc(1)\nnisa.register_move(r, imm=3)"),
    ),
}


@pytest.mark.parametrize("forms", MIXED)
def test_a_kernel_that_mixes_versions_is_told_both_whichever_comes_first(forms):
    former, until, newer, since, text = MIXED[forms]
    kernel = defined(text)
    for name in (until, since, "0.7", "0.1"):
        with pytest.raises(NkiError) as caught:
            run(kernel, X, nki=name)
        said = str(caught.value)
        assert former.split("(")[0] in said and newer in said, (name, said)
        assert f"new in NKI {since}" in said or f"is new in {since}" in said, (name, said)
        assert re.search(rf"(ended with|NKI) {re.escape(until)}\b", said), (name, said)
        assert "`# nki:" not in said, (name, said)  # no version takes it


def test_the_one_version_that_takes_all_forms_of_a_kernel_is_named():
    kernel = defined(written(RAW + DYNAMIC))  # until 0.2, and since 0.2 to 0.6
    for name in ("0.1", "0.4", "0.7"):
        with pytest.raises(NkiError) as caught:
            run(kernel, X, nki=name)
        assert {*re.findall(r"`# nki: ([\d.]+)`", str(caught.value))} == {"0.2"}, name
    np.testing.assert_array_equal(run(kernel, X, nki="0.2").value, X)


def test_a_version_that_takes_the_forms_is_said_with_what_ends_the_kernel_there():
    kernel = defined(written(DYNAMIC + "nisa.tensor_copy(dst=t, src=t[:, 0:2])"))
    with pytest.raises(KernelErrors) as caught:  # what is wrong in both is told as it is
        run(kernel, X)
    assert "takes this: write `# nki: 0.6` above the kernel" in str(caught.value)
    shorter = defined(
        written(LOOP + "nisa.tensor_copy(dst=t, src=t, dtype=1)\nassert x.shape[0] < 3")
    )
    with pytest.raises(NkiError) as caught:
        run(shorter, X, nki="0.7")
    assert "no version has it beside `nl.fori_loop`" in str(caught.value)
    ends = defined(written(STRING + DYNAMIC.replace("2)", "x.shape[0] // 0)")))
    with pytest.raises(
        NkiError,
        match=r"NKI 0\.2 was the last version that took it; it takes this; the kernel ends there with: .*zero",
    ):
        run(ends, X, nki="0.7")


def test_every_door_gives_the_same_answer(monkeypatch):
    kernel = defined(written(TILES + DYNAMIC))
    told = set()
    for door in (lambda: run(kernel, X), lambda: kernel(X), lambda: simulate(kernel)(X), lambda: kernel.compile(X),
                 lambda: nki_lab.run(kernel, X, debug=True)):  # fmt: skip
        for nki in ("0.6", "0.7"):
            with inside(nki=nki), pytest.raises(NkiError) as caught:
                door()
            told.add((nki, str(caught.value)))
    assert len(told) == 2


def test_where_the_kernel_says_its_version_the_place_to_change_is_told():
    text = written(COPY + STRING)
    for said in ("# nki: 0.6\n" + text, text.replace("@jit()", "@jit(nki='0.6')")):
        with pytest.raises(NkiError, match=r"write 0\.2 at <forms .*>, line [12]\b") as caught:
            defined(said)(X)
        assert "--nki" not in str(caught.value)


def test_forms_that_exclude_each_other_are_told_with_an_error_that_excludes_neither():
    with pytest.raises(
        NkiError, match=r"no version has a result in nl\.hbm .* beside `nl\.fori_loop`"
    ):
        run(defined(written(STATE, **HBM)), X)
