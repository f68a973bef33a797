"""Tests that a kernel is held to the version of NKI that it is written for, however that is said."""

import pickle

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices, inside
from nki_lab.errors import (
    KernelArgument,
    LncMismatch,
    MixedVersions,
    NkiError,
    RawEnum,
    RemovedLoop,
    UnknownName,
    UnknownOption,
    WrongCall,
)
from nki_lab.runtime import jit, run
from nki_lab.source import keep_lines
from nki_lab.versions import NEWEST

X = np.random.default_rng(11).standard_normal((32, 6)).astype(np.float32)

RAW = """\
def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

{above}
{decorator}
def kernel(x):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x, dge_mode=2)
    return stored(t)
"""


def defined(above="", decorator="@jit", head="", text=RAW, name="kernel"):
    """Define a module of kernels and return one of them."""
    filename = f"<versions {above} {decorator} {head}>"
    source = head + text.format(above=above, decorator=decorator)
    keep_lines(filename, source)
    scope = {"nl": nl, "nisa": nisa, "jit": jit}
    exec(compile(source, filename, "exec"), scope)
    return scope[name]


@pytest.mark.parametrize(
    "said",
    [
        {"above": "# nki: 0.2"},
        {"above": "# The kernel of a lesson.\n# NKI: 0.2.0\n# It copies."},
        {"decorator": '@jit(nki="0.2")'},
        {"head": "# nki: 0.2\n"},
        {"head": "\n# A file of kernels.\n\n# nki: 0.2\n"},
        {"head": '"""Kernels for `# nki: 0.5`."""\n\nimport math\n# nki: 0.2\nimport re\n'},
        {"above": "# nki 0.2"},
        {"above": "# NKI = 0.2  # as the lesson has it"},
        {"head": "import math\n", "above": "# nki: 0.2\n\n"},
        {"decorator": "@jit\n# nki: 0.2"},
        {"decorator": "@jit  # nki: 0.2"},
        {
            "head": "TEXT = '# nki: 0.5'\n",
            "above": "# nki: 0.2\n# nki 0.7 has another form of this",
        },
    ],
    ids=str,
)
def test_the_kernel_says_its_version(said):
    kernel = defined(**said)
    np.testing.assert_array_equal(kernel(X), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel.compile(X)(X))), X)
    with inside(nki="0.6"):  # what the kernel says of itself holds
        np.testing.assert_array_equal(kernel(X), X)
        np.testing.assert_array_equal(kernel[1](X), X)


def test_a_comment_of_another_kernel_says_nothing():
    text = "# nki: 0.2\n@jit\ndef other(x):\n    return stored(nl.load(x))\n\n\n" + RAW
    kernel = defined(head="import math\n\n", text=text)
    with pytest.raises(RawEnum):
        kernel(X)


def test_the_call_says_it_for_kernels_that_do_not():
    kernel = defined()
    with pytest.raises(RawEnum):
        run(kernel, X, nki="0.3")
    np.testing.assert_array_equal(run(kernel, X, nki="0.2").value, X)
    with nki_lab.use(nki="0.1"):
        np.testing.assert_array_equal(kernel(X), X)
    with pytest.raises(RawEnum):
        run(defined(above="# nki: 0.4"), X, nki="0.2")


@pytest.mark.parametrize("version", ["0.8", "1", "latest", "0,6"])
def test_an_unknown_version_is_an_error_at_its_place(version):
    with pytest.raises(
        UnknownOption, match=f"# nki={version}: `{version}` is not one of 0.1, "
    ) as caught:
        defined(above=f"# nki: {version}")
    assert caught.value.span.covered == version
    with pytest.raises(UnknownOption, match=r"nki=.*is not one of 0\.1"):
        run(defined(), X, nki=version)
    with pytest.raises(UnknownOption, match="nki"):
        jit(nki=version)(defined().func)


@pytest.mark.parametrize(
    ("said", "error", "covered"),
    [
        ({"above": "# nki: 0.6 0.7"}, "0.6 0.7 is not one version", "0.6 0.7"),
        ({"above": "# nki: 0.2\n# nki 0.3"}, "0.3 stands beside another comment, which says 0.2", "0.3"),
        ({"head": "import math\n\n# nki: 0.2\nONE = 1\n\ndef f():\n    pass\n# nki: 0.3\nTWO = 2\n"},
         "0.3 is above no function", "0.3"),
    ],
)  # fmt: skip
def test_a_comment_that_holds_for_no_kernel_is_an_error_at_its_place(said, error, covered):
    with pytest.raises(UnknownOption, match=f"# nki: {error}") as caught:
        defined(**said)
    assert caught.value.span.covered == covered


@pytest.mark.parametrize(
    "said",
    [
        {"above": "# nki: 0.6", "decorator": '@jit(nki="0.7")'},
        {"decorator": '@jit(debug=False, nki="0.3")  # nki: 0.2'},
    ],
)
def test_a_comment_and_a_decorator_that_differ_are_an_error_at_both(said):
    with pytest.raises(
        MixedVersions,
        match=r"decorator of `kernel` says NKI 0\.[37], and a comment says NKI 0\.[26]",
    ) as caught:
        defined(**said)
    assert caught.value.span.covered in ('"0.7"', '"0.3"')
    assert "the comment stands at <versions" in caught.value.notes[0]
    # A comment for the whole file is for kernels that say nothing, and a later call of `jit` chooses anew.
    np.testing.assert_array_equal(
        defined(head="# nki: 0.6\n\nimport math\n\n", decorator='@jit(nki="0.2")')(X), X
    )
    with pytest.raises(RawEnum):
        jit(defined(above="# nki: 0.2").func, nki="0.7")(X)


def test_the_older_dialect_is_older_than_all_versions_and_held_to_todays_rules():
    assert Choices(nki="beta1").version is NEWEST
    assert Choices(nki="beta1").asked_dialect == Choices(dialect="beta1").asked_dialect == "beta1"
    assert Choices(nki="0.6").asked_dialect == ""


INNER = """\
{above}
{decorator}
def inner(t):
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)


# nki: 0.6
@jit
def kernel(x):
    t = nl.load(x)
    inner(t)
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


def test_a_kernel_in_a_kernel_of_another_version_is_an_error_that_names_both():
    with pytest.raises(
        MixedVersions, match=r"`inner` is written for NKI 0\.5, .* NKI 0\.6"
    ) as caught:
        defined(above="# nki: 0.5", text=INNER)(X)
    assert caught.value.span.covered == "inner(t)"
    for said in ({"above": "# nki: 0.6"}, {}, {"decorator": '@jit(nki="0.6")'}):
        np.testing.assert_array_equal(defined(text=INNER, **said)(X), X + X)


LOOP = """\
@jit
def kernel(x):
    t = nl.load(x)
    for i in nl.dynamic_range(3):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""
WHILE = LOOP.replace(
    "for i in nl.dynamic_range(3):", "r = nisa.register_alloc(1)\n    while r:"
).replace("operand0=1.0)", "operand0=3.0)\n        nisa.register_move(r, 0)")


@pytest.mark.parametrize("text", [LOOP, WHILE], ids=["dynamic_range", "while"])
def test_former_loops_are_plain_then_deprecated_then_errors(text):
    kernel = defined(text=text)
    result = run(kernel, X, nki="0.5")
    assert not result.findings
    np.testing.assert_array_equal(result.value, X + 1 + 1 + 1 if text is LOOP else X + 3)
    (finding,) = run(kernel, X, nki="0.6").findings
    assert finding.kind == "deprecation" and "deprecated since NKI 0.6" in finding.message
    with pytest.raises(RemovedLoop, match=r"refused since NKI 0\.7"):
        run(kernel, X, nki="0.7")


def test_the_custom_front_end_keeps_the_rules_before_0_7(monkeypatch):
    kernel = defined(text=LOOP)
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert [f.kind for f in run(kernel, X, nki="0.7").findings] == ["deprecation"]
    word = "w = nl.ndarray((1, 1), nl.int32)\n    nisa.memset(w, 1)\n    s = nisa.scalar_load(w)\n    for i in "
    scalar = defined(text=LOOP.replace("for i in ", word))
    with pytest.raises(UnknownName, match=r"`nki\.isa\.scalar_load` is taken by NKI's tracer only"):
        run(scalar, X)
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "parsre")
    with pytest.raises(UnknownOption, match=r"(?s)NKI_COMPILER_FRONTEND=parsre.*custom"):
        run(kernel, X)


def test_the_target_of_a_kernel_for_an_early_version():
    kernel = defined(decorator='@jit(platform_target="trn2", nki="0.2")')
    assert run(kernel, X, target="trn3").compiled.kernel.target.name == "trn2"
    for version in ("0.3", "0.7"):
        kernel = defined(decorator=f'@jit(platform_target="trn2", nki="{version}")')
        with pytest.raises(KernelArgument, match=r"platform_target.* refused since NKI 0\.3"):
            kernel(X)


NEWER = """\
@jit
def kernel(x):
    t = nl.load(x)

    def body(i):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    {loop}(0, 3, body)
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


@pytest.mark.parametrize("loop", ["nl.fori_loop", "fori_loop"])
def test_a_name_that_the_version_does_not_have_yet(loop):
    head = "from nki_lab.language import fori_loop\n\n"
    kernel = defined(head=head, text=NEWER.replace("{loop}", loop))
    np.testing.assert_array_equal(run(kernel, X, nki="0.6").value, X + 1 + 1 + 1)
    with pytest.raises(
        UnknownName, match=rf"`{loop}` is new in NKI 0\.6, .* for NKI 0\.5"
    ) as caught:
        run(kernel, X, nki="0.5")
    assert caught.value.span.covered == loop


def test_a_name_in_a_helper_and_a_limit():
    text = """\
def helper(t):
    nisa.memset(dst=t, value=float(nl.tile_size.psum_num_banks))


@jit
def kernel(x):
    t = nl.load(x)
    helper(t)
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""
    kernel = defined(text=text)
    run(kernel, X, nki="0.5")
    with pytest.raises(
        UnknownName, match=r"`nl\.tile_size\.psum_num_banks` is new in NKI 0\.5"
    ) as caught:
        run(kernel, X, nki="0.4")
    assert [s.function for s in caught.value.spans] == ["helper", "kernel"]


MIXED = """\
@jit
def kernel(x):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x, {former})

    def body(i):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 3, body)
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


FORMER = [("dge_mode=2", RawEnum), ("dst_rmw_op=nl.add", WrongCall)]


@pytest.mark.parametrize(("former", "kind"), FORMER)
@pytest.mark.parametrize("nki", ["0.2", "0.3", "0.5", "0.6", "0.7"])
def test_forms_of_two_versions_are_an_error_that_names_both(former, kind, nki):
    kernel = defined(text=MIXED.replace("{former}", former))
    if nki < "0.6":
        both = r"mixes two versions of NKI: `nl\.fori_loop` is new in 0\.6, and .* ended with 0\.2"
        with pytest.raises(MixedVersions, match=both):
            run(kernel, X, nki=nki)
    else:
        both = r"(?s)NKI 0\.2 was the last version that .*beside `nl\.fori_loop` .*, which is new in NKI 0\.6"
        with pytest.raises(kind, match=both):
            run(kernel, X, nki=nki)


def test_what_is_allowed_mixes_nothing():
    kernel = defined(text=MIXED.replace("{former}", "dge_mode=2"))
    np.testing.assert_array_equal(run(kernel, X, nki="0.6", allow="NKI206").value, X + 1 + 1 + 1)


def test_an_argument_of_an_earlier_version_says_which_had_it():
    text = RAW.replace("dge_mode=2", "dst_rmw_op=nl.add")
    with pytest.raises(
        WrongCall, match=r"(?s)NKI 0\.2 was the last version that had `dst_rmw_op`.*dma_compute"
    ):
        run(defined(text=text), X, nki="0.6")


def test_an_instruction_of_an_earlier_version_says_when_it_ended():
    text = RAW.replace(
        "nisa.dma_copy(dst=t, src=x, dge_mode=2)", "nisa.tensor_copy_dynamic_src(t, x)"
    )
    with pytest.raises(
        UnknownName,
        match=r"(?s)no `tensor_copy_dynamic_src`.*NKI 0\.3 was the last version that took it.*scalar_offset",
    ):
        run(defined(text=text), X)


# -- rules of instructions -------------------------------------------------------------------------------------------


def _largest(x):
    t, out = nl.load(x), nl.ndarray((2, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    most = nl.ndarray((2, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(t, nl.copy, t, nl.maximum, most)
    nl.store(out, most)
    return out


def _barrier(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    nisa.core_barrier(data=out, cores=(0, 1))
    return out


def test_a_rule_of_0_7_does_not_hold_before_and_survives_the_text_of_the_program():
    x = np.array([[1.0, -5.0, 3.0], [-2.0, -8.0, -4.0]], np.float32)
    result = nki_lab.run(_largest, x, nki="0.6", target="trn2")
    assert result.outputs[0].tolist() == [[3.0], [-2.0]]
    with pytest.raises(NkiError, match=r"must be nl\.add from NKI 0\.7 on"):
        nki_lab.run(_largest, x, nki="0.7", target="trn2")


def test_one_core_passes_a_barrier_alone_from_0_7_on():
    x = np.array([[1.0, -5.0, 3.0]], np.float32)
    assert nki_lab.run(_barrier, x, nki="0.7", target="trn2").outputs[0].tolist() == x.tolist()
    with pytest.raises(NkiError, match="needs both cores of a logical core"):
        nki_lab.run(_barrier, x, nki="0.6", target="trn2")


CORES = """\
@jit
def kernel(x):
    out = nl.ndarray((nl.num_programs(), *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0)], nl.load(x))
    return out
"""


def test_the_cores_of_a_logical_core_come_from_the_environment(monkeypatch):
    kernel = defined(text=CORES)
    assert len(kernel(X)) == 1
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert len(kernel(X)) == len(kernel[2](X)) == 2
    assert len(run(kernel, X, lnc=1).value) == 1  # what a call asks for comes first
    with pytest.raises(
        LncMismatch, match=r"kernel 'kernel' is configured with LNC=1, .* LNC=2 \(NCC_EVRF066\)"
    ):
        kernel[1](X)
    assert len(run(kernel[1], X, nki="0.6").value) == 1  # nothing compared them then
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "3")
    with pytest.raises(UnknownOption, match="NEURON_LOGICAL_NC_CONFIG=3"):
        kernel(X)
