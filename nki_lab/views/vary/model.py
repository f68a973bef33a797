"""The blocks of data of a kernel's variants, each named by the numbers of its values: "1-0-2"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from nki_lab.profiler.analyses.report import badge
from nki_lab.views.run import ViewData
from nki_lab.views.vary.text import NO_VARIANTS, change
from nki_lab.views.vary.variants import Numbers, Variant, Variants, value_words
from nki_lab.widgets.packing import UnknownPart, pack

#: Variants whose figures and timeline a page without a kernel holds.
VARIANTS_SAVED = 24
#: Instructions of all variants that are timed for such a page.
MOST_SAVED = 20_000


class RunParts(Protocol):
    """The blocks of one run (`nki_lab.views.registry.Parts`)."""

    def make(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a part."""


class VaryParts:
    """Makes the blocks of a kernel's variants.

    Args:
        variants: None where only a profile is known.
        parts_of: makes the blocks of a run, beside another one where two are given.
    """

    def __init__(
        self,
        variants: Variants | None,
        parts_of: Callable[[ViewData, ViewData | None], RunParts],
    ) -> None:
        self.variants = variants
        self._parts_of = parts_of
        self._shown: dict[str, tuple[ViewData, RunParts]] = {}

    def variant(self, key: str) -> bytes:
        """Return the figures of a variant, packed."""
        variants, numbers = self._numbers(key)
        return pack(variant_entry(variants, variants.variant(numbers)))

    def timeline(self, what: str, key: str, part: str) -> Iterator[bytes]:
        """Yield the blocks of a variant's timeline, alone ("run") or below that of the start ("both")."""
        if part.partition("/")[0] != "timeline":
            raise UnknownPart(f"there is no data called {f'vary/{what}/{key}/{part}'!r}")
        return self._run(what, *self._numbers(key)).make(part)

    def saved(self) -> Iterator[str]:
        """Yield the names of the blocks that a page without a kernel holds, the nearest variants first."""
        variants = self.variants
        saved: list[Variant] = []
        if variants is not None and not variants.problem:
            # Timed before the overview is made, which lists them.
            nearest = [variants.variant(n) for n in variants.sweep(MOST_SAVED)]
            saved = list(dict.fromkeys([*nearest, *variants.visited]))[:VARIANTS_SAVED]
        yield from self.first()
        for variant in saved:
            key = key_of(variant.numbers)
            yield f"vary/at/{key}"
            if not variant.problem:
                yield from (f"vary/run/{key}/timeline{p}" for p in ("", "/events"))

    def first(self) -> list[str]:
        """Return the names of what is seen at first; the timeline of the start is that of the run."""
        can = self.variants is not None and not self.variants.problem
        return ["vary", "timeline", "timeline/events"] if can else ["vary"]

    def overview(self) -> bytes:
        """Return the parameters, their values, and the variants known so far, packed."""
        variants = self.variants
        if variants is None or variants.problem:
            problem = NO_VARIANTS if variants is None else variants.problem
            return pack({"problem": problem, "parameters": [], "fixed": [], "visited": []})
        start = variants.variant(variants.start)
        meta = {
            "problem": "",
            "name": variants.name,
            "badge": badge(start.profile),
            "parameters": [
                {
                    "name": parameter.name,
                    "kind": parameter.kind,
                    "values": parameter.texts,
                    "start": parameter.start,
                    "ordered": parameter.is_ordered,
                }
                for parameter in variants.parameters
            ],
            "fixed": [[name, value_words(value)] for name, value in variants.fixed.items()],
            "combinations": variants.combinations,
            "sweep": [list(numbers) for numbers in variants.sweep()],
            "visited": [variant_entry(variants, variant) for variant in variants.visited],
        }
        return pack(meta)

    def _numbers(self, key: str) -> tuple[Variants, Numbers]:
        variants = self.variants
        if variants is None or variants.problem:
            raise UnknownPart(NO_VARIANTS if variants is None else variants.problem)
        words = key.split("-")
        sizes = [len(parameter.values) for parameter in variants.parameters]
        if len(words) == len(sizes) and all(w.isascii() and w.isdigit() for w in words):
            numbers = tuple(map(int, words))
            if all(n < size for n, size in zip(numbers, sizes, strict=True)):
                return variants, numbers
        raise UnknownPart(f"there is no variant {key!r}")

    def _run(self, what: str, variants: Variants, numbers: Numbers) -> RunParts:
        variant = variants.variant(numbers)
        if variant.problem:
            raise UnknownPart(variant.problem)
        data = variant.data
        run = self._shown.get(what)
        if run is None or run[0] is not data:  # what the browser asks for is about the one it shows
            other = variants.variant(variants.start).data if what == "both" else None
            run = self._shown[what] = (data, self._parts_of(data, other))
        return run[1]


def key_of(numbers: Numbers) -> str:
    """Return the numbers of a variant as names of parts have them."""
    return "-".join(map(str, numbers))


def variant_entry(variants: Variants, variant: Variant) -> dict[str, Any]:
    """Return what the browser gets to know of a variant."""
    start = variants.variant(variants.start)
    ratio = None
    if variant.total_ns is not None and start.total_ns:
        ratio = variant.total_ns / start.total_ns
    return {
        "numbers": list(variant.numbers),
        "problem": variant.problem,
        "doubt": variant.doubt,
        "total": variant.total_ns,
        "ratio": ratio,
        "change": change(variant, start),
        "bound": variant.bound,
        "sbuf": variant.sbuf_bytes,
        "psum": variant.psum_banks,
        "instructions": variant.instructions,
    }
