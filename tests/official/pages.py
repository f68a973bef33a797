"""Says which test shows what of which page; `test_pages` holds the table complete.

Paths of the documentation are below `nki/` of aws-neuron-sdk, those of nki-samples begin with `samples:`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def shows(page: str, *behaviours: str) -> Callable[[_F], _F]:
    """Mark a test as one that shows these behaviours of a page."""

    def mark(test: _F) -> _F:
        vars(test).setdefault("shown", []).append((page, behaviours))
        return test

    return mark


def rows() -> list[tuple[str, str, str]]:
    """Return page, behaviour and test of everything that is shown, by page."""
    marked = [
        (page, behaviour, f"{module.replace('.', '/')}.py::{name}")
        for module, name, test in _tests()
        for page, behaviours in getattr(test, "shown", ())
        for behaviour in behaviours
    ]
    return sorted(marked + [(page, *told) for page, told in ELSEWHERE.items()])


def _tests() -> Iterator[tuple[str, str, Any]]:
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name.rpartition(".")[2].startswith("test_"):
            for name, test in vars(importlib.import_module(module.name)).items():
                yield module.name, name, test


#: Page -> what is shown, and the file with the cases of that instruction: its example is in the older dialect.
ELSEWHERE: dict[str, tuple[str, str]] = {
    f"test/test_nki_isa_{page}.py": (f"nisa.{instruction}", f"tests/isa/cases/{family}.py")
    for page, instruction, family in (
        ("activation", "activation", "activation"),
        ("affine_select", "affine_select", "positions"),
        ("bn_stats", "bn_stats", "statistics"),
        ("copypredicated", "tensor_copy_predicated", "copies"),
        ("dma_copy", "dma_copy", "dma"),
        ("dma_transpose", "dma_transpose", "dma"),
        ("dropout", "dropout", "random"),
        ("iota", "iota", "positions"),
        ("local_gather", "local_gather", "gather"),
        ("max8", "max8", "search"),
        ("memset", "memset", "copies"),
        ("nc_find_index8", "nc_find_index8", "search"),
        ("nc_match_replace8", "nc_match_replace8", "search"),
        ("nc_matmul", "nc_matmul", "matmul"),
        ("nc_stream_shuffle", "nc_stream_shuffle", "gather"),
        ("nc_transpose", "nc_transpose", "transpose"),
        ("partition_reduce", "tensor_partition_reduce", "reduction"),
        ("range_select", "range_select", "selection"),
        ("reciprocal", "reciprocal", "elementwise"),
        ("reduce", "tensor_reduce", "reduction"),
        ("select_reduce", "select_reduce", "selection"),
        ("sequence_bounds", "sequence_bounds", "search_gpsimd"),
        ("tensor_copy", "tensor_copy", "copies"),
        ("tensor_scalar", "tensor_scalar", "tensor_scalar"),
        ("tensor_scalar_cumulative", "tensor_scalar_cumulative", "scans"),
        ("tensor_tensor", "tensor_tensor", "elementwise"),
        ("tensor_tensor_scan", "tensor_tensor_scan", "scans"),
    )
}  # fmt: skip

_HOST = "shows how to set up, call or profile a kernel on a machine with devices"
_INDEX = "an index of other pages"
_TEXT = "text and pictures only"
_OLDER = "the older dialect, whose own tests are in tests/beta1"
#: Page without an example that could be shown here -> why.
WITHOUT: dict[str, str] = {
    **dict.fromkeys(
        ("get-started/index.rst", "deep-dives/index.rst", "guides/index.rst", "guides/architecture/index.rst",
         "guides/tutorials/index.rst", "index.rst", "api/index.rst", "api/nki.api.shared.rst",
         "api/nki.collectives.rst", "api/nki.isa.rst", "api/nki.language.rst", "api/nki.language.tile_size.rst",
         "api/nki.rst"),
        _INDEX,
    ),
    **dict.fromkeys(
        ("get-started/about/memory-hierarchy-overview.rst", "deep-dives/nki-dma-bandwidth-guide.rst",
         "deep-dives/nki-compiler.rst", "nki_faq.rst"),
        _TEXT,
    ),
    "get-started/setup-env.rst": _HOST,
    "guides/use-neuron-profile.rst": _HOST,
    "samples:test/unit/test_neuron_profile.py": _HOST,
    "samples:test/integration/perf_utils": _HOST,
    "samples:test/integration/select_and_scatter_kernel": "its kernel has been taken out of nki-samples",
    "examples/layout-dynamic-loop.py": "is not Python: a line is cut off",
    "samples:contributed/interpolate_trilinear_fwd.py": "imports torch_xla; as bilinear, with one axis more",
    **dict.fromkeys(
        (f"test/test_{name}.py" for name in (
            "nki_mask", "nki_memory_semantics", "nki_nl_add", "nki_nl_broadcast", "nki_nl_dslice",
            "nki_nl_gather_flattened", "nki_nl_load_store", "nki_nl_load_store_indirect", "nki_nl_load_transpose2d",
            "nki_nl_mgrid", "nki_simulate_kernel", "nki_spmd_grid", "psum_modulo_alloc", "sbuf_modulo_alloc")),
        _OLDER,
    ),
}  # fmt: skip
