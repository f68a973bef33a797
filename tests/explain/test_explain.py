"""Tests that every topic has a page, and that the page says what the topic means."""

import re
from collections.abc import Iterator

import pytest

from nki_lab import errors
from nki_lab.api.official import API, BETA1_API
from nki_lab.errors import UnknownTopic, error_classes
from nki_lab.explain.glossary import TERMS, Term
from nki_lab.explain.pages import explain, topics
from nki_lab.ir.definition.instruction import Instruction, Operand
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import registry
from nki_lab.isa.catalog import rows
from nki_lab.isa.example import example_call
from nki_lab.session.questions import options_of
from nki_lab.targets import ALL_TARGETS, TRN2
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import MemoryRegion


@pytest.mark.parametrize("topic", topics())
def test_every_topic_has_a_page(topic: str):
    assert len(explain(topic, TRN2)) > 40


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.code)
def test_every_error_has_a_page_of_its_own(kind: type[errors.NkiError]):
    assert kind.page
    page = explain(kind.code.lower(), TRN2)
    assert page == explain(kind.__name__, TRN2)
    assert kind.page in page


def test_pages_of_errors_differ():
    assert len({kind.page for kind in error_classes()}) == len(error_classes())


def test_lines_of_error_pages_are_short():
    lines = [line for kind in error_classes() for line in kind.page.splitlines()]
    assert [line for line in lines if len(line) > 100] == []


def test_an_instruction_is_explained_from_its_definition():
    page = explain("nisa.nc_matmul", TRN2)
    assert page.startswith("nisa.nc_matmul(dst, stationary, moving, ")
    assert "engines: tensor" in page
    assert "  stationary   read, in sbuf" in page
    for rule in registry["nc_matmul"].rules:
        assert " ".join(rule.text.split()[:4]) in page
    # 512 rows of the moving tile, one per cycle: nki/guides/architecture/trainium2_arch.rst
    assert "MATMUL: 512 cycles on tensor" in page


def test_the_cost_is_that_of_the_target():
    pages = {explain("tensor_reduce", target) for target in ALL_TARGETS}
    assert len(pages) == len(ALL_TARGETS)


def test_a_target_without_the_instruction_says_so():
    assert "trn1 does not have it" in explain("range_select", ALL_TARGETS[0])


# A register is made while a kernel is traced; no call with one can be written down before.
TENSOR_INSTRUCTIONS = [name for name in sorted(registry) if not name.startswith("register_")]


@pytest.mark.parametrize("name", TENSOR_INSTRUCTIONS)
def test_every_instruction_has_a_usual_call(name: str):
    definition = registry[name]
    having = {row.name: row.targets for row in rows()}[name]
    for target in ALL_TARGETS:
        if target.name in having:
            made = example_call(definition, target)
            assert made is not None, "add a shape, or a value for a parameter, to isa/example.py"
            assert definition.broken_rules(made, target) == []
            for operand, tensor in operands_with_tensors(made):
                assert tensor.buffer in operand.spaces, "the page would contradict its own rules"


def operands_with_tensors(made: Instruction) -> Iterator[tuple[Operand, NkiTensor]]:
    for name, operand in made.definition.operands.items():
        value = made.args[made.definition.position[name]]
        for tensor in value if isinstance(value, tuple) else (value,):
            if isinstance(tensor, NkiTensor):
                yield operand, tensor


def test_the_usual_call_says_where_its_tensors_are():
    page = explain("nc_matmul", TRN2)
    assert "  dst: 128 x 512 float32 in psum" in page
    assert "  moving: 128 x 512 bfloat16 in sbuf" in page
    # The square that Vector transposes at once: nki/api/nki/isa/__init__.py, nc_transpose.
    assert "  data: 32 x 32 bfloat16 in sbuf" in explain("nc_transpose", TRN2)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.names[0])
def test_every_term_has_a_source_where_it_has_facts(term: Term):
    pages = {explain(name, TRN2) for name in term.names}
    assert len(pages) == 1, "another topic has this name"
    assert bool(term.source) is bool(term.facts)
    for name in term.facts:
        assert all(name in target.sources for target in ALL_TARGETS)
    if term.command:
        flags = {option.flag for option in options_of(term.command)}
        assert flags <= set(re.findall(r"--[\w-]+", explain(term.command, TRN2)))


def test_every_engine_and_memory_is_a_term():
    known = {name for term in TERMS for name in term.names}
    assert {engine.name for engine in Engine if engine is not Engine.unknown} <= known
    assert {
        space.name.removeprefix("shared_").removeprefix("private_") for space in MemoryRegion
    } <= known


@pytest.mark.parametrize(
    "word", ["MBU", "MFU", "HFU", "roofline", "critical path", "stall", "semaphore"]
)
def test_words_of_the_report_and_its_analyses_are_terms(word: str):
    page = explain(word, TRN2)
    assert word.lower() in page.partition("\n")[0]
    assert "There is no page" not in page


def test_a_related_word_is_told_in_a_whole_sentence():
    page = explain("transfers", TRN2)
    assert page.startswith("There is no page about `transfers`.")
    lines = page.splitlines()[2:]
    assert len(lines) > 2 and all(line.endswith(".") for line in lines)


def test_sizes_of_a_term_are_those_of_the_target():
    assert "psum_bank_bytes: 2,048 bytes" in explain("psum", TRN2)
    assert explain("sbuf", ALL_TARGETS[0]) != explain("sbuf", TRN2)


@pytest.mark.parametrize(
    ("topic", "has_pages"),
    [("nc_matmul", True), ("trn2", True), ("psum", True), ("NKI203", False), ("--show", False)],
)
def test_where_pages_are_is_said_once(topic: str, has_pages: bool):
    assert explain(topic, TRN2).count("github.com/aws-neuron/aws-neuron-sdk") == has_pages


def test_the_prefix_decides_between_instruction_and_function():
    assert explain("nisa.reciprocal", TRN2).startswith("nisa.reciprocal(dst, data")
    assert explain("nl.reciprocal", TRN2).startswith("nl.reciprocal(x")
    assert explain("nki.collectives.rank_id", TRN2).startswith("ncc.rank_id(name=None)")


def test_the_catalog_has_a_row_per_instruction():
    assert sorted(row.name for row in rows()) == sorted(registry)
    assert [(row.module != "nki.isa", row.name) for row in rows()] == sorted(
        (registry[row.name].module != "nki.isa", row.name) for row in rows()
    )
    assert all(row.summary.endswith(".") and row.engines for row in rows())


@pytest.mark.parametrize(
    ("topic", "help"),
    [
        ("NKI23", "NKI203"),
        ("NKI999", "error codes go from NKI000 to NKI6"),
        ("NKI299", "error codes that start with NKI2: NKI200, NKI201, "),
        ("psumm", "`psum`"),
        ("nc_matmull", "`nc_matmul`"),
        ("--shwo", "`--show`"),
        ("nl.sofmax", "softmax"),
    ],
)
def test_an_unknown_topic_gets_close_matches(topic: str, help: str):
    with pytest.raises(UnknownTopic) as caught:
        explain(topic, TRN2)
    assert help in caught.value.help


# One name of each kind: a method and an attribute of tensors, a limit, a class, a function, named choices.
@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("reshape", "t.reshape(shape)"),
        ("nki.language.NkiTensor.reshape", "t.reshape(shape)"),
        ("shape", "Elements along each axis"),
        ("nl.tile_size.pmax", "Most partitions"),
        ("NkiTensor", "t.select(dim, index): "),
        ("ncc.ReplicaGroup", "Groups of ranks"),
        ("nisa.register_alloc", "nisa.register_alloc(x=None)"),
        ("dge_mode", "nisa.dge_mode.hwdge"),
        ("nki_lab.load", "path: the file"),
        ("load", "nl.load(src, dtype=None)"),
        ("nl.blocks", "nl.blocks(source, *, tile_shape=None, block_shape)"),
        (
            "nki.jit",
            "nki.jit(fn=None, *, compile_config=None, specialization_config=None, **kwargs)",
        ),
        ("nl.shared_hbm", "hbm; also: dram"),
        ("nisa.unknown_engine", "the others are tensor, scalar"),
    ],
)
def test_public_names_are_explained_from_their_own_text(topic: str, says: str):
    assert says in explain(topic, TRN2)


def test_a_name_of_another_module_is_not_taken():
    with pytest.raises(UnknownTopic):
        explain("nisa.reshape", TRN2)


@pytest.mark.parametrize("module", ["nki", "nki.isa", "nki.language", "nki.collectives"])
def test_every_official_name_has_a_page(module: str):
    for name in API["names"][module]:
        assert explain(f"{module}.{name}", TRN2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tensor_tensor", "`dst` may take exactly the place of an operand"),
        ("bn_stats", "`dst` may lie over operands"),
        ("nc_n_gather", "`dst` must not lie over operands"),
    ],
)
def test_a_page_says_where_results_may_lie(name, said):
    assert f"in place\n  - {said}" in explain(name, TRN2)


def test_a_page_says_nothing_where_results_lie_in_another_memory():
    assert "in place\n" not in explain("nc_matmul", TRN2)


def test_a_word_without_a_page_leads_to_what_has_to_do_with_it():
    text = explain("gather", TRN2)
    assert text.startswith("There is no page about `gather`")
    assert {"nc_n_gather", "local_gather", "nl.gather_flattened"} <= set(text.split())
    assert "logical core" in explain("race", TRN2)


def test_names_of_the_older_dialect_have_pages_with_their_own_signatures():
    page = explain("neuronxcc.nki.isa.nc_matmul", TRN2)
    assert page.startswith("neuronxcc.nki.isa.nc_matmul(stationary, moving, ")
    assert "Today's is `nisa.nc_matmul`" in page
    assert explain("nisa.nc_matmul", TRN2).startswith("nisa.nc_matmul(dst, ")
    assert "`nki-lab migrate` moves" in explain("beta1", TRN2) == explain("neuronxcc", TRN2)
    for written in ("mgrid", "nl.mgrid", "neuronxcc.nki.language.mgrid"):
        assert explain(written, TRN2).startswith("neuronxcc.nki.language.mgrid\n")
    assert explain("t.assert_shape", TRN2).startswith("neuronxcc.nki.tensor.assert_shape(shape)")
    assert explain("neuronxcc.nki.language.bfloat16", TRN2) == explain("nl.bfloat16", TRN2)
    assert explain("ncc.sbuf.mod_alloc", TRN2).startswith(
        "neuronxcc.nki.compiler.sbuf.mod_alloc(*, base_addr, "
    )
    assert "reduce_op=np.amax" in explain("neuronxcc.nki.isa.range_select", TRN2)


@pytest.mark.parametrize("module", [*BETA1_API["names"]])
def test_every_official_name_of_the_older_dialect_has_a_page(module: str):
    for name in BETA1_API["names"][module]:
        assert explain(f"{module}.{name}", TRN2)
