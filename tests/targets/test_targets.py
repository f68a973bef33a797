"""Targets: every number has a source, and the numbers agree with the published peaks."""

from __future__ import annotations

import ast
import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import nki_lab.targets
from nki_lab.errors import UnknownTarget
from nki_lab.targets import ALL_TARGETS, TRN1, TRN2, TRN3, Fact, Status, Target, get_target
from nki_lab.targets.engines import GPSIMD, SCALAR, SYNC, TENSOR, VECTOR
from nki_lab.targets.features import FEATURES
from nki_lab.targets.spec import build_target

PACKAGE = Path(nki_lab.targets.__file__).parents[1]
BOOKKEEPING = {"features", "sources", "feature_sources"}


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_every_field_has_a_source(target: Target) -> None:
    for field in fields(Target):
        if field.name in BOOKKEEPING:
            continue
        fact = target.sources[field.name]
        assert fact.value == getattr(target, field.name)
        assert fact.page or (fact.status is Status.ASSUMED and fact.note), field.name
    assert set(target.feature_sources) == target.features
    assert all(fact.page for fact in target.feature_sources.values())


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_units_agree_with_field_names(target: Target) -> None:
    units = {"_bytes": "bytes", "_ns": "ns", "_cycles": "cycles", "_ghz": "GHz"}
    for name, fact in target.sources.items():
        if "bytes_per_ns" in name:
            assert fact.unit == "B/ns", name
            continue
        for ending, unit in units.items():
            if name.endswith(ending):
                assert fact.unit == unit, name


# Engine tables: Trainium1 guide lines 64-74, Trainium2 lines 41-64, Trainium3 lines 38-61.
@pytest.mark.parametrize(
    ("target", "ghz"),
    [
        (TRN1, (2.8, 1.12, 1.4, 1.4)),
        (TRN2, (2.4, 0.96, 1.2, 1.2)),
        (TRN3, (2.4, 1.2, 1.2, 1.2)),
    ],
)
def test_clocks(target: Target, ghz: tuple[float, ...]) -> None:
    assert tuple(target.clock_ghz(e) for e in (TENSOR, VECTOR, SCALAR, GPSIMD)) == ghz
    assert target.clock_ghz(SYNC) > 0


# "92 TFLOPS ... 23 TFLOPS for FP32" (Trainium1 guide, line 103); "79 BF16 ... 20 FP32" (Trainium2
# guide, line 71; Trainium3 guide, line 68).
@pytest.mark.parametrize(
    ("target", "bf16", "fp32"), [(TRN1, 92, 23), (TRN2, 79, 20), (TRN3, 79, 20)]
)
def test_peak_is_clock_times_width(target: Target, bf16: int, fp32: int) -> None:
    tflops = target.tensor_peak_flops_per_ns / 1000
    assert round(tflops) == bf16
    assert round(tflops / target.matmul_fp32_cycle_factor) == fp32


# MiB of SBUF: Trainium1 guide line 76, Trainium2 line 39, Trainium3 line 36. GB/s of 16 DMA
# engines: bandwidth guide lines 61-63.
@pytest.mark.parametrize(
    ("target", "sbuf_mib", "dma_gb_s"), [(TRN1, 24, 272), (TRN2, 28, 368), (TRN3, 32, 528)]
)
def test_memory_sizes_and_dma_rate(target: Target, sbuf_mib: int, dma_gb_s: int) -> None:
    assert target.sbuf_bytes == sbuf_mib << 20
    assert target.partitions * target.psum_bytes_per_partition == 2 << 20
    assert target.dma_bytes_per_ns_all_engines == dma_gb_s
    assert target.dma_bytes_per_ns < target.dma_peak_bytes_per_ns


def test_usable_sbuf_is_total_less_reserved() -> None:
    # github.com/aws-neuron/aws-neuron-sdk/issues/1060: "Total SB Partition Size: 196608"
    assert TRN1.sbuf_usable_bytes_per_partition == 196608
    # nki-library's largest published bound, 224*1024 - 16384 - 8 - 256, must fit.
    assert TRN2.sbuf_usable_bytes_per_partition >= 224 * 1024 - 16384 - 8 - 256
    assert TRN2.sbuf_usable_bytes_per_partition < TRN2.sbuf_bytes_per_partition


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_moving_tile_fits_psum(target: Target) -> None:
    assert target.matmul_moving_free_max_fp32 * 4 <= target.psum_bytes_per_partition
    assert target.matmul_moving_free_max_bf16 * 2 <= target.psum_bytes_per_partition
    assert target.matmul_stationary_free_max == target.pe_columns


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_start_partitions_cover_every_size(target: Target) -> None:
    limits = [most for most, _ in target.start_partitions]
    assert limits == sorted(limits) and limits[-1] == target.partitions
    for most, starts in target.start_partitions:
        assert all(start + most <= target.partitions for start in starts)


def test_features_only_grow_with_the_generation() -> None:
    # A chip with a NeuronSwitch does not take collectives in two parts.
    assert TRN1.features < TRN2.features - {"split_collectives"} < TRN3.features
    assert TRN2.features | TRN3.features <= set(FEATURES)


def test_unknown_feature_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="matmul_doubel_row"):
        TRN2.supports("matmul_doubel_row")
    assert TRN2.supports("matmul_double_row") and not TRN1.supports("matmul_double_row")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("trn1", TRN1),
        ("inf2", TRN1),
        ("gen2", TRN1),
        ("trn2", TRN2),
        ("gen3", TRN2),
        ("TRN3", TRN3),
        ("gen4", TRN3),
        (TRN2, TRN2),
    ],
)
def test_names_and_aliases(name: str | Target, target: Target) -> None:
    assert get_target(name) is target


def test_unknown_target_offers_close_names() -> None:
    with pytest.raises(UnknownTarget, match="there is no target `tnr2`") as error:
        get_target("tnr2")
    assert "trn2" in error.value.help


def test_targets_are_frozen_singletons() -> None:
    with pytest.raises(FrozenInstanceError):
        TRN1.partitions = 64  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(TRN2)) is TRN2
    assert copy.deepcopy(TRN3) is TRN3


def test_a_missing_or_misspelled_fact_is_refused() -> None:
    facts = dict(TRN1.sources)
    del facts["partitions"]
    with pytest.raises(AssertionError, match="missing \\['partitions'\\]"):
        build_target(facts, {})
    with pytest.raises(AssertionError, match="partitons"):
        build_target(dict(TRN1.sources) | {"partitons": facts["name"]}, {})


def test_a_fact_without_page_or_reason_is_refused() -> None:
    with pytest.raises(AssertionError, match="must name its page"):
        Fact(1, "ns", "", Status.DOCUMENTED)
    with pytest.raises(AssertionError, match="must say why"):
        Fact(1, "ns", "", Status.ASSUMED)
    with pytest.raises(AssertionError, match="are digitised"):
        Fact(1, "ns", "page", Status.DOCUMENTED, fitted=(("kernel", 1),))


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_few_numbers_are_fitted_and_their_rows_are_counted(target: Target) -> None:
    fitted = {name: fact.fitted for name, fact in target.sources.items() if fact.fitted}
    assert len(fitted) <= 14, sorted(fitted)
    for name, rows in fitted.items():
        assert all(kernel and count > 0 for kernel, count in rows), name


def test_no_code_compares_the_name_of_a_target() -> None:
    names = {name for target in ALL_TARGETS for name in (target.name, *target.aliases)}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = {
                    c.value
                    for part in (node.left, *node.comparators)
                    for c in ast.walk(part)
                    if isinstance(c, ast.Constant) and isinstance(c.value, str)
                }
                assert not constants & names, f"{path}:{node.lineno} compares a target's name"
