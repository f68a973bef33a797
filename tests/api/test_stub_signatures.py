"""Every name and signature of every earlier version is what the product accepts in kernels for that version.

`stub_signatures.json` is written from the stubs of each release (nki/api/nki): name -> first version of a form -> the
parameters of a function, or the kind of something else; null where the name is gone.
"""

import inspect
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.dialects import NKI
from nki_lab.errors import NkiError, UnknownName, WrongCall
from nki_lab.ir.definition.instruction import BINDER, Definition
from nki_lab.isa import former
from nki_lab.language.former import binder_of
from nki_lab.runtime import jit, run
from nki_lab.source import keep_lines
from nki_lab.versions import (
    VERSIONS,
    former_signature,
    named_since,
    removed_in,
    version_named,
    version_since,
)
from tests.official_api import FUNCTIONS

STUBS = json.loads(Path(__file__).with_name("stub_signatures.json").read_text())
EARLIER = [v.name for v in VERSIONS[:-1]]
NEWEST_SIGNATURES = {f"{m}.{n}": s for m, found in FUNCTIONS.items() for n, s in found.items()}
X = np.random.default_rng(5).standard_normal((32, 6)).astype(np.float32)

# Where the product does not follow a stub, and why.
NOT_AS_THE_STUB = {
    ("nki.isa.sendrecv", "0.1"): "the migration guide of 0.3 renames use_gpsimd_dma, which this stub leaves out",
    ("nki.isa.sendrecv", "0.2"): "as 0.1",
    ("nki.isa.affine_select", "0.1"): "published kernels of 0.1 and 0.2 leave `offset` out",
    ("nki.isa.affine_select", "0.2"): "as 0.1",
    ("nki.isa.iota", "0.1"): "as affine_select",
    ("nki.isa.iota", "0.2"): "as affine_select",
    ("nki.language.dynamic_range", "0.2"): "pages of 0.2 have it",
    ("nki.language.ndarray", "0.1"): "the migration guide of 0.2 and published kernels give it an address",
    ("nki.language.ndarray", "0.2"): "as 0.1",
    ("nki.language.no_reorder", "0.2"): "pages of 0.2 have it",
}  # fmt: skip
# Published kernels of 0.1 and 0.2 call it with one argument, as pages of their time do.
CALLED_WITH_LESS = {"nki.language.sequential_range"}


def in_version(name: str, version: str) -> str | None:
    forms = [form for since, form in STUBS[name].items() if since <= version]
    return forms[-1] if forms else None


def cases(version: str) -> list[tuple[str, str]]:
    """Return the functions of a version with their signatures in its stub."""
    named = {name: in_version(name, version) for name in STUBS}
    return [
        (name, form)
        for name, form in named.items()
        if form not in (None, "class", "enum", "const") and (name, version) not in NOT_AS_THE_STUB
    ]


def accepted(name: str, version: str) -> inspect.Signature | None:
    """Return the signature that a call in a kernel for a version is bound by; None for a name that is gone."""
    module, _, function = name.rpartition(".")
    ours = getattr(import_module(NKI.modules[module]), function, None)
    if ours is None:
        return None
    if isinstance(ours, Definition):
        bind = former._former.get(ours, {}).get(version)
        return ours.__signature__ if bind is None else _without_self(bind)
    bind = binder_of(name, version_named(version))
    return inspect.signature(ours) if bind is None else _without_self(bind)


def _without_self(bind) -> inspect.Signature:
    assert bind.__code__.co_filename.startswith(BINDER)
    return inspect.Signature(
        [
            p
            for p in [*inspect.signature(bind).parameters.values()][1:]
            if p.kind is not p.VAR_KEYWORD  # 0.1 takes every keyword, and says so
        ]
    )


@pytest.mark.parametrize("version", EARLIER)
def test_signatures_are_those_of_the_stubs(version):
    for name, stub in cases(version):
        ours = former_signature(name, version_named(version))
        ours = NEWEST_SIGNATURES[name] if ours is None else ours
        # The stub of 0.6 leaves one default out, and 0.1 writes a dtype as its name.
        texts = ours.replace("=...", "=-3.4028235e+38"), stub.replace("'uint8'", "uint8")
        assert texts[0] == texts[1].replace("=...", "=-3.4028235e+38"), name


@pytest.mark.parametrize("version", EARLIER)
def test_calls_take_the_parameters_of_the_stubs(version):
    former.bind_as_before(version_named(version))
    compared = 0
    for name, stub in cases(version):
        signature = accepted(name, version)
        if signature is None:
            assert removed_in(name), name
            continue
        if name in CALLED_WITH_LESS or name == "nki.jit":  # the decorator knows no version
            continue
        official = [w.partition("=") for w in stub.split()]
        expected = [(word.lstrip("*"), bool(default)) for word, default, _ in official]
        found = [(n, p.default is not p.empty) for n, p in signature.parameters.items()]
        assert found == expected, name
        compared += 1
    assert compared > 70


@pytest.mark.parametrize("version", EARLIER)
def test_names_that_a_version_does_not_have_yet_are_errors(version):
    absent = [
        name
        for name in STUBS
        if in_version(name, version) is None
        and not removed_in(name)
        and named_since(name).number > version_named(version).number  # be it an operator only
        and (name, version) not in NOT_AS_THE_STUB
        and name.rpartition(".")[0] in ("nki.language", "nki.isa", "nki.collectives")
    ]
    absent += [n for n in VERSIONS[-1].added if n.rpartition(".")[0] in ("nki.language", "nki.isa")]
    asked = "\n".join(
        f"    try:\n        {name.replace('nki.', 'k_')}\n"
        f"    except AttributeError as error:\n        said[{name!r}] = error.message"
        for name in absent
    )
    source = (
        "@jit\ndef kernel(x):\n    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        f"{asked}\n    k_isa.dma_copy(dst=out, src=x)\n    return out\n"
    )
    filename = f"<names {version}>"
    keep_lines(filename, source)
    said: dict[str, str] = {}
    scope = {"jit": jit, "nl": nl, "said": said}
    scope |= {
        f"k_{m.rpartition('.')[2]}": import_module(h)
        for m, h in NKI.modules.items()
        if m.count(".") == 1
    }
    exec(compile(source, filename, "exec"), scope)
    run(scope["kernel"], X, nki=version)
    assert absent
    for name in absent:
        assert f"`{name.replace('nki.', 'k_')}` is new in NKI " in said.get(name, ""), name


@pytest.mark.parametrize("version", EARLIER)
def test_every_keyword_that_is_newer_has_a_version(version):
    """What a later version adds to a signature is known with the version that has it."""
    for name, stub in cases(version):
        newest = NEWEST_SIGNATURES.get(name, "")
        had = {w.partition("=")[0] for w in stub.split()}
        for word in newest.split():
            parameter = word.partition("=")[0]
            if parameter not in had and not parameter.startswith("*"):
                assert version_since(name, parameter, version_named(version), newest), (name, word)


# -- what kernels get ------------------------------------------------------------------------------------------------


def loaded(x):
    t = nl.ndarray(x.shape, x.dtype)
    return t, nisa.dma_copy(dst=t, src=x)


def rearranged(x):
    return nl.empty_like(loaded(x)[0], transpose_axes=(1, 0))


def identity(x):
    return nl.shared_identity_matrix(32, nl.float32, dst=loaded(x)[0])


def on_gpsimd(x):
    t, _ = loaded(x)
    nisa.activation(t, nl.exp, t, engine=nisa.engine.scalar)


def waits(x):
    t, copied = loaded(x)
    nisa.memset(dst=t, value=0).depends_on(copied)


RUNTIME = nisa.dependency.runtime


def waits_for_a_reason(x):
    t, copied = loaded(x)
    nisa.memset(dst=t, value=0).depends_on(copied, kind=RUNTIME)


def itself(x):
    return loaded(x)[0].data


def repeated(x):
    return loaded(x)[0].expand_dim(1).broadcast(1, 2)


def limits(x):
    of_chip = nl.tile_size
    assert of_chip.psum_num_banks == 8


@pytest.mark.parametrize(
    ("kernel", "kind", "until", "since", "what"),
    [
        (rearranged, WrongCall, "0.6", "0.7", "transpose_axes"),
        (identity, WrongCall, "0.2", "0.3", "dst"),
        (on_gpsimd, WrongCall, "0.6", "0.7", "engine"),
        (waits, UnknownName, "0.5", "0.6", "NkiInstruction.depends_on"),
        (waits_for_a_reason, NkiError, "0.6", "0.7", "kind"),
        (itself, UnknownName, "0.6", "0.7", "NkiTensor.data"),
        (repeated, UnknownName, "0.2", "0.3", "NkiTensor.expand_dim"),
        (limits, UnknownName, "0.4", "0.5", "tile_size.psum_num_banks"),
    ],
)
def test_what_is_newer_names_the_version_that_has_it(kernel, kind, until, since, what):
    with pytest.raises(kind) as caught:
        run(kernel, X, nki=until)
    assert f"`{what}` is new in NKI {since}, and the kernel is written for NKI {until}" in str(
        caught.value
    )
    with pytest.raises(NkiError) as later:  # it returns nothing in HBM, or does not start
        run(kernel, X, nki=since)
    assert "is new in" not in str(later.value)


def of_truths(x):
    t, _ = loaded(x)
    assert nl.equal(t, t).dtype == nl.less(t, t, dtype=bool).dtype == nl.bool_
    assert nl.logical_not(t).dtype == nl.bool_
    assert nl.add(t, t).dtype == t.dtype
    out = nl.ndarray((2, 3), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(
        dst=out, src=nl.shared_constant(np.array([[1, -2, 3], [4, 5, -6]]), dtype=nl.int32)
    )
    return out


def test_defaults_and_arguments_of_0_2():
    np.testing.assert_array_equal(run(of_truths, X, nki="0.2").value, [[1, -2, 3], [4, 5, -6]])


def test_kernels_for_the_newest_version_are_not_held_to_earlier_ones():
    """Methods look at the version of the kernel that is traced, once a kernel for an earlier one was."""
    with pytest.raises(UnknownName):
        run(repeated, X, nki="0.2")

    def kernel(x):
        t = loaded(x)[0].expand_dim(1).broadcast(1, 2).data
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out

    np.testing.assert_array_equal(run(kernel, X).value, np.repeat(X[:, None], 2, 1))
