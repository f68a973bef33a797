"""A number of a target, with the page it comes from and how certain it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

# Pages, relative to the root of github.com/aws-neuron/aws-neuron-sdk; ":12" names a line.
TRN1_ARCH = "nki/guides/architecture/trainium_inferentia2_arch.rst"
TRN2_ARCH = "nki/guides/architecture/trainium2_arch.rst"
TRN3_ARCH = "nki/guides/architecture/trainium3_arch.rst"
ISA = "nki/api/nki/isa/__init__.py"
COLLECTIVES = "nki/api/nki/collectives/__init__.py"
COLLECTIVE_COMMUNICATION = "neuron-runtime/about/collectives.rst"
# Pages of the documentation of NKI 0.7, of which the stubs are not published yet.
GENERATED = "nki/api/generated"
LANGUAGE = "nki/api/nki/language/__init__.py"
SHARED_API = "nki/api/nki.api.shared.rst"
NKI_RELEASES = "release-notes/components/nki.rst"
SIMULATOR = "nki/guides/nki_simulator.rst"
DMA_BANDWIDTH = "nki/deep-dives/nki-dma-bandwidth-guide.rst"
DMA_OVERVIEW = "nki/get-started/about/nki-dma-overview.rst"
DGE = "nki/deep-dives/nki-dge.rst"
EXPLORER_SCHEMA = "tools/neuron-explorer/profile-schema-reference.rst"
EXPLORER_SUMMARY = "tools/neuron-explorer/overview-summary-page.rst"
# The cycle formulas stood in the API pages until late 2025; this commit still has them.
COSTS = "nki/api/nki/isa/__init__.py@1db4d74e"


class Status(Enum):
    """Say how a number came to be known."""

    DOCUMENTED = "documented"  #: stated in the text of the page
    PRINTED = "printed"  #: stands in a published picture or table of a real run
    DIGITISED = "digitised"  #: computed or read off by us from pages, pictures or tables
    ASSUMED = "assumed"  #: ours; the note says why this value
    REPLACED = "replaced"  #: stands in an overlay, which is the page


DOCUMENTED = Status.DOCUMENTED
PRINTED = Status.PRINTED
DIGITISED = Status.DIGITISED
ASSUMED = Status.ASSUMED


@dataclass(frozen=True)
class Fact:
    """A value with its unit, the page it came from and how sure it is.

    Args:
        value: a number, string, tuple or frozenset.
        unit: unit of `value`; "" for counts and names.
        page: page (with line) that states it; may be empty only for an assumption.
        status: one of `Status`.
        note: what a reader should know besides; required for an assumption.
        fitted: published rows the value was chosen by: names of kernels, each with how many rows of it. Empty where
            the value was not chosen to meet any time.
    """

    value: Any
    unit: str
    page: str
    status: Status
    note: str = ""
    fitted: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.status is ASSUMED:
            assert self.note, "an assumed fact must say why"
        else:
            assert self.page, f"a {self.status.value} fact must name its page"
        if self.fitted:
            assert self.status is DIGITISED, "numbers fitted to published rows are digitised"
