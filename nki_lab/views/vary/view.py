"""The kernel with other values of its parameters."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lab.views.registry import Needs, Parts, View, of_parts
from nki_lab.views.run import ViewData
from nki_lab.views.vary.model import VaryParts
from nki_lab.views.vary.picture import vary_picture
from nki_lab.views.vary.text import NO_VARIANTS, variants_text


def vary_text(data: ViewData, limit: int | None) -> list[str]:
    """Return a table of the variants; those of a sweep are timed now."""
    if data.variants is None:
        return [NO_VARIANTS]
    return variants_text(data.variants, limit).split("\n")


def known_text(data: ViewData, limit: int | None) -> list[str]:
    """Return a table of the variants that have been timed."""
    if data.variants is None:
        return [NO_VARIANTS]
    return variants_text(data.variants, limit, data.variants.visited).split("\n")


def _variants(parts: Parts) -> VaryParts:
    return VaryParts(parts.data.variants, Parts)


@of_parts
def _overview(parts: Parts) -> bytes:
    return parts.kept(_variants).overview()


@of_parts
def _variant(parts: Parts, key: str) -> bytes:
    return parts.kept(_variants).variant(key)


@of_parts
def _alone(parts: Parts, key: str, part: str) -> Iterator[bytes]:
    return parts.kept(_variants).timeline("run", key, part)


@of_parts
def _beside_the_start(parts: Parts, key: str, part: str) -> Iterator[bytes]:
    return parts.kept(_variants).timeline("both", key, part)


@of_parts
def _first(parts: Parts) -> list[str]:
    return parts.kept(_variants).first()


@of_parts
def _saved(parts: Parts) -> Iterator[str]:
    return parts.kept(_variants).saved()


VIEW = View(
    name="vary",
    title="Vary",
    needs=Needs.RUN,
    text=vary_text,
    words="Times with other values of the parameters",
    parts={
        "vary": _overview,
        "vary/at/{variant}": _variant,
        "vary/run/{variant}/{*part}": _alone,
        "vary/both/{variant}/{*part}": _beside_the_start,
    },
    first=(_first,),
    saved=(_saved,),
    live=("vary/both/{variant}/{*part}",),
    picture=vary_picture,
    known_text=known_text,
    if_small=True,
)
