"""Tests that the official import names hold what the official package has under them."""

import importlib
import inspect

import numpy as np
import pytest

from nki_lab.api import collectives, compiler, dtype, isa, isa_constants, nki, tensor, typing
from nki_lab.dialects import NKI
from nki_lab.errors import NkiError, NotModelled, OutsideKernel, RuleBroken, UnknownName
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction, registry
from nki_lab.isa.collectives_variable import SPLIT
from nki_lab.targets import get_target
from tests.official_api import (
    ATTRIBUTES,
    DROP_IN,
    ENUMS,
    FUNCTIONS,
    METHODS,
    NAMES,
    same_signature,
)

ISA_FUNCTIONS = FUNCTIONS["nki.isa"]
INSTRUCTIONS = [name for name in ISA_FUNCTIONS if not name.startswith("get_nc_")]


def test_isa_has_the_official_names():
    assert sorted(isa.__all__) == NAMES["nki.isa"]
    defined = {name for name, d in registry.items() if d.module == "nki.isa"}
    assert set(INSTRUCTIONS) == defined | {"register_alloc"}


@pytest.mark.parametrize("name", sorted({*INSTRUCTIONS} - {"register_alloc"}))
def test_signature_of_an_instruction(name):
    assert getattr(isa, name) is registry[name]
    assert same_signature(registry[name], ISA_FUNCTIONS[name])


def test_the_default_that_the_stub_leaves_out_is_the_one_of_its_text():
    default = inspect.signature(isa.range_select).parameters["on_false_value"].default
    assert default == np.finfo(np.float32).min


@pytest.mark.parametrize("name", ["register_alloc", "get_nc_version", "get_nc_sub_version"])
def test_signature_of_a_function_that_is_no_instruction(name):
    assert same_signature(getattr(isa, name), ISA_FUNCTIONS[name])


def test_signatures_of_the_entry_points():
    for name, official in FUNCTIONS["nki"].items():
        assert same_signature(getattr(nki, name), official), name


@pytest.mark.parametrize(
    ("module", "cls", "name"),
    [(m, c, n) for m in METHODS for c in METHODS[m] for n in METHODS[m][c]],
)
def test_signature_of_a_method(module, cls, name):
    owner = getattr({"nki.isa": isa, "nki.language": nki.language}[module], cls)
    assert same_signature(getattr(owner, name), METHODS[module][cls][name])


def test_attributes_of_tensors():
    found = [n for n in ATTRIBUTES["nki.language"]["NkiTensor"] if not hasattr(tensor.NkiTensor, n)]
    assert found == []


def test_names_that_kernels_import_undocumented():
    for module, names in DROP_IN.items():
        ours = importlib.import_module(NKI.modules[module])
        assert [n for n in names if getattr(ours, n, None) is None] == []


@pytest.mark.parametrize("name", ENUMS["nki.isa"])
def test_choices_have_the_official_members(name):
    assert {m.name: m.value for m in getattr(isa, name)} == ENUMS["nki.isa"][name]
    if name != "dependency":  # no page lists it among nki.isa.constants
        assert getattr(isa_constants, name) is getattr(isa, name)
    assert isa.constants is isa_constants


def test_engine_constants():
    names = ("tensor", "vector", "scalar", "gpsimd", "unknown")
    assert all(getattr(isa, f"{n}_engine") is isa.engine[n] for n in names)


def test_instruction_handles_and_errors_of_authors():
    assert isa.NkiInstruction is Instruction
    assert issubclass(RuleBroken, isa.NkiValidationError)
    assert isa.NkiValidationError is NkiError


@pytest.mark.parametrize(
    ("target", "member"), [("trn1", "gen2"), ("inf2", "gen2"), ("trn2", "gen3"), ("gen4", "gen4")]
)
def test_the_version_is_that_of_the_target(target, member, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    assert isa.get_nc_version() is isa.nc_version[member]
    assert isa.get_nc_sub_version() == 0
    with Builder(get_target("trn2")).active():
        assert isa.get_nc_version() is isa.nc_version.gen3


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (isa, "tensor_tensr", "did you mean `tensor_tensor`"),
        (nki, "jitt", "did you mean `jit`"),
        (nki, "benchmark", "write nki.jit"),
        (nki, "simulate_kernel", r"write nki.simulate\(kernel\)"),
        (dtype, "float33", "did you mean `float32`"),
        (collectives, "all_reduces", "did you mean `all_reduce`"),
    ],
)
def test_unknown_names_are_answered(module, name, message):
    with pytest.raises(UnknownName, match=f"(?s)has no `{name}`.*{message}"):
        getattr(module, name)
    assert not hasattr(module, name)


def test_nki_reaches_its_modules():
    import nki_lab.language as language

    assert nki.language is language
    assert nki.isa is isa
    assert set(NAMES["nki"]) <= set(dir(nki))


def test_collectives_have_the_official_names():
    assert sorted(collectives.__all__) == NAMES["nki.collectives"]
    assert collectives.ReplicaGroup([[0, 1], [2, 3]]).replica_groups == [[0, 1], [2, 3]]
    defined = {n for n, d in registry.items() if d.module == "nki.collectives"}
    assert sorted([*defined, "ReplicaGroup"]) == NAMES["nki.collectives"]


@pytest.mark.parametrize("name", FUNCTIONS["nki.collectives"])
def test_signature_of_a_collective(name):
    given = getattr(collectives, name)
    assert given is registry[name] or given is SPLIT[name]
    assert same_signature(given, FUNCTIONS["nki.collectives"][name])
    assert same_signature(registry[name], FUNCTIONS["nki.collectives"][name])


def test_a_collective_outside_a_kernel_says_so():
    with pytest.raises(
        OutsideKernel, match=r"nki\.collectives\.rank_id was called outside a kernel"
    ):
        collectives.rank_id()


def test_compiler_directives_are_refused_by_name():
    with pytest.raises(NotModelled, match=r"nki\.compiler\.enable_stack_allocator"):
        compiler.enable_stack_allocator  # noqa: B018


def test_annotations_hold_their_shape():
    def kernel(x: typing.tensor[128, 512], y: typing.tensor[7], z: typing.tensor): ...

    shapes = [p.annotation for p in inspect.signature(kernel).parameters.values()]
    assert [s.shape for s in shapes[:2]] == [(128, 512), (7,)]
    assert shapes[2] is typing.tensor
    assert repr(shapes[0]) == "nki.typing.tensor[128, 512]"


def test_element_types_and_tensors_under_their_second_names():
    assert dtype.bfloat16 == "bfloat16"
    assert tensor.NkiTensor is nki.language.NkiTensor
