"""Overlays: a chip with some of its timing constants replaced by those of a TOML file, `trn2+mine.toml`.

    # What a run on our instance showed.
    base = "trn2"

    [constants]
    dma_start_ns = 812
    vector_ghz = 0.98

A program is the same with and without an overlay, except for what the compiler orders by time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from nki_lab.errors import BadFile, close_matches
from nki_lab.targets.constants import TIMING
from nki_lab.targets.facts import Fact, Status
from nki_lab.targets.spec import Target

_MOST_BYTES = 1 << 20
_TYPES = get_type_hints(Target)
_PARTS = ("base", "constants")

# One object per name and values, so that targets can be compared by identity.
_OVERLAID: dict[tuple[Any, ...], Target] = {}


def overlaid(base: Target, file: str) -> Target:
    """Return a chip with the constants of an overlay file; it is named after both.

    Raises BadFile, with the line, for what is no constant of the chip or no value that it can have.
    """
    values = _constants(base, file, _read(file))
    return target_with(base, f"{base.name}+{file}", values)


def target_with(base: Target, name: str, values: Mapping[str, float], keep: bool = True) -> Target:
    """Return the chip of this name with some constants of another value.

    Args:
        base: the chip.
        name: of the new one.
        values: the constants.
        keep: return the same object for the same values; False for one that is only timed with.
    """
    key = (base.name, name, tuple(sorted(values.items())))
    target = _OVERLAID.get(key) if keep else None
    if target is None:
        page = name.partition("+")[2]
        facts = {
            n: Fact(value, base.sources[n].unit, page, Status.REPLACED)
            for n, value in values.items()
        }
        facts["name"] = Fact(name, "", page, Status.REPLACED)
        facts["aliases"] = Fact((), "", page, Status.REPLACED)
        target = replace(
            base,
            **{n: fact.value for n, fact in facts.items()},
            sources=MappingProxyType({**base.sources, **facts}),
        )
        if keep:
            _OVERLAID[key] = target
    return target


def replaced_constants(target: Target) -> dict[str, float]:
    """Return the constants that the overlay of a target has replaced; nothing where there is none."""
    facts = target.sources
    return {n: facts[n].value for n in TIMING if facts[n].status is Status.REPLACED}


def is_whole(name: str) -> bool:
    """Tell whether a constant is a whole number."""
    return _TYPES[name] in (int, int | None)


def checked(base: Target, name: str, value: Any) -> str:
    """Return what is wrong with a value for a constant of a chip, as the end of a sentence; "" where nothing is."""
    if name not in TIMING:
        if name in base.sources:
            return f"`{name}` is no time but a size or a limit, which programs depend on"
        return f"there is no constant `{name}`"
    if getattr(base, name) is None:
        return f"{base.name} has no `{name}`"
    whole = is_whole(name)
    if type(value) is not int and (whole or type(value) is not float):
        return f"{name} is a {'whole ' if whole else ''}number; found {value!r}"
    unit = base.sources[name].unit
    least, most = TIMING[name].between(unit)
    if not least <= value <= most:
        return (
            f"{name} lies between {least:,g} and {most:,g} {unit}".rstrip() + f"; found {value:,g}"
        )
    return ""


def _read(file: str) -> str:
    if not file:
        raise BadFile("the overlay has no name", help="write for example trn2+mine.toml")
    path = Path(file).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise BadFile(f"overlay {file} is not a file", help="name a TOML file of constants")
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadFile(
            f"overlay {file} cannot be read: {error.strerror or type(error).__name__}",
            help="name a TOML file with a table [constants]; `nki-lab calibrate` writes one",
        ) from None
    if len(content) > _MOST_BYTES:
        raise BadFile(f"overlay {file} is larger than 1 MiB", help="name a TOML file of constants")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadFile(
            f"overlay {file} is not a text file", help="name a TOML file of constants"
        ) from None


def _constants(base: Target, file: str, text: str) -> dict[str, float]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFile(
            f"overlay {file} is not TOML: {error}",
            help="write lines such as `dma_start_ns = 812` below [constants]",
        ) from None
    for name in document:
        if name not in _PARTS:
            raise _wrong(
                text,
                file,
                name,
                f"an overlay has no `{name}`",
                "write constants below [constants]"
                if name in TIMING
                else close_matches(name, _PARTS) or "it has `base` and a table [constants]",
            )
    if document.get("base", base.name) != base.name:
        raise _wrong(
            text,
            file,
            "base",
            f"this overlay is of {document['base']!r}, not of {base.name}",
            f"write {document['base']}+{file}",
        )
    values = document.get("constants", {})
    if not isinstance(values, dict):
        raise _wrong(
            text, file, "constants", "`constants` is not a table", "write [constants] above them"
        )
    for name, value in values.items():
        message = checked(base, name, value)
        if message:
            raise _wrong(
                text,
                file,
                name,
                message,
                close_matches(name, TIMING) if name not in TIMING else "",
            )
    # A float stays one, however it is written: 1 and 1.0 are the same clock.
    return {n: v if is_whole(n) else float(v) for n, v in values.items()}


def _wrong(text: str, file: str, name: str, message: str, help: str) -> BadFile:
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[\]=.]""")
    number = next((n for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)
    return BadFile(
        f"{file}, line {number}: {message}",
        help=help or "the constants are those of `nki-lab explain trn2` that are times or rates",
    )
