"""Pages of `explain`: error codes, instructions, functions, options, targets and words."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import nki_lab.language as nl
from nki_lab.choices import Choice, from_environment
from nki_lab.dialects import NKI
from nki_lab.dtypes import DTYPES, DType
from nki_lab.errors import NkiError, UnknownTopic, close_matches, error_classes
from nki_lab.explain.glossary import TERMS, Term
from nki_lab.explain.public_names import bare_names, find, page_of
from nki_lab.isa import registry
from nki_lab.isa.catalog import SHORT, call_text, page
from nki_lab.session.questions import all_options
from nki_lab.session.reading import option_help
from nki_lab.targets import ALL_TARGETS, Target, get_target, target_names
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import MemoryRegion

_PAGES = """\
Pages are files of the AWS Neuron documentation, https://github.com/aws-neuron/aws-neuron-sdk, with the
line; @ names an older state of it."""
_PAGE = re.compile(
    r"\bnki/[\w./-]+\.(rst|py|png)|\b(neuron-runtime|about-neuron|tools)/[\w./-]+\.rst"
)
_ISA = tuple(f"{name}." for names in SHORT.items() for name in names)
_LANGUAGE = ("nki.language.", "nl.")
_Finder = Callable[[str, Target], str | None]


def explain(topic: str, target: Target) -> str:
    """Return the page about a topic; costs of instructions are those on `target`.

    Raises UnknownTopic, with close matches, for a name nothing is known about.
    """
    name = topic.strip()
    finders: list[_Finder] = [
        _error, _option, _instruction, _function, _dtype, _variable, _chip, _term, _construct,
    ]  # fmt: skip
    modules: tuple[tuple[tuple[str, ...], list[_Finder]], ...]
    modules = ((_ISA, [_instruction]), (_LANGUAGE, [_function, _dtype]))
    for prefixes, meant in modules:
        for prefix in prefixes:
            if name.startswith(prefix):
                name, finders = name.removeprefix(prefix), meant
    finders = [*finders, partial(_public, written=topic.strip())]
    for finder in finders:
        text = finder(name, target)
        if text is not None:
            return f"{text}\n\n{_PAGES}" if _PAGE.search(text) else text
    related = _related(topic.strip())
    if related:
        return "\n".join(
            [f"There is no page about `{name}`. These names have to do with it:", "", *related]
        )
    raise UnknownTopic(
        f"there is no page about `{topic.strip()}`",
        help=_codes_near(name)
        or close_matches(name, topics())
        or "name an error code, instruction, function of nki.language, method of a tensor, option,"
        " variable, target or engine",
    )


def _related(name: str) -> list[str]:
    """Return a line on each error, instruction, function and word that has to do with one word."""
    if not re.fullmatch(r"[A-Za-z]{3,}", name):
        return []
    word = re.compile(rf"(?<![a-z]){re.escape(name.lower())}(s|d|ed)?(?![a-z])")

    def first(text: str | None) -> str:
        return inspect.cleandoc(text or "").partition("\n")[0]

    # (name, what it is in short, all that is searched for the word)
    rows = [(k.code, first(k.__doc__), f"{k.__doc__} {k.page}") for k in error_classes()]
    rows += [(n, first(d.__doc__), f"{n} {first(d.__doc__)}") for n, d in sorted(registry.items())]
    functions = ((f"nl.{n}", getattr(nl, n).__doc__) for n in _functions())
    rows += [(n, first(doc), f"{n} {first(doc)}") for n, doc in functions]
    sentences = ((term, " ".join(term.text.split()).partition(". ")[0]) for term in TERMS)
    rows += [(t.names[0], s.rstrip(".") + ".", f"{t.names} {t.text}") for t, s in sentences]
    return [f"  {n:<28}{text}" for n, text, searched in rows if word.search(searched.lower())]


def _codes_near(name: str) -> str:
    """Return the codes of one stage for what looks like a code: one digit off is another error altogether."""
    code = re.fullmatch(r"(?:NKI|E)?(\d)\w*", name.upper())
    if code is None:
        return ""
    codes = [kind.code for kind in error_classes()]
    stage = [c for c in codes if c.startswith(f"NKI{code[1]}")]
    if not stage:
        return f"error codes go from {min(codes)} to {max(codes)}"
    return f"error codes that start with {stage[0][:4]}: {', '.join(stage)}"


def topics() -> tuple[str, ...]:
    """Return every name `explain` knows."""
    errors = [kind.code for kind in error_classes()]
    options = [option.flag for option in all_options()]
    variables = [choice.env for choice in from_environment()]
    return (
        *errors,
        *options,
        *sorted(registry),
        *_functions(),
        *DTYPES,
        *variables,
        *target_names(),
        *(name for term in TERMS for name in term.names),
        *NKI.subset.rows,
        *bare_names(),
    )


def _error(name: str, target: Target) -> str | None:
    for kind in error_classes():
        if name.upper() == kind.code or name == kind.__name__:
            bases = [b for b in kind.__mro__[1:] if b in error_classes() and b is not NkiError]
            lines = [f"{kind.code} {kind.__name__}", "", inspect.cleandoc(kind.__doc__ or "")]
            lines += [
                "",
                kind.page,
                "",
                *(f"one kind of {b.__name__} ({b.code})" for b in bases[:1]),
            ]
            if kind.wrong:
                wrong, right = (
                    textwrap.indent(t.rstrip(), "    ") for t in (kind.wrong, kind.right)
                )
                lines += [f"\nwrong{setting(kind)}:\n", wrong, "\nright:\n", right]
            return "\n".join(lines).rstrip()
    return None


def setting(kind: type[NkiError]) -> str:
    """Return what a reader must know of the lines around the examples of an error; "" where they are whole."""
    whole = ("%%nki", "$ ", "nkir", "import ", "from ")
    if kind.wrong.startswith(whole) or "def kernel(" in kind.wrong:
        return ""
    return " (lines of a kernel that has loaded its argument `x` [128, 4] into the tile `t`)"


def _option(name: str, target: Target) -> str | None:
    options = [
        o for o in all_options() if o.flag == f"--{name.removeprefix('--').replace('_', '-')}"
    ]
    return "\n\n".join(map(_option_page, options)) or None


def _option_page(option: Choice) -> str:
    lines = [
        f"{option.flag} {option.metavar}".rstrip(),
        "",
        *textwrap.wrap(option.help_text, 92),
        "",
    ]
    return "\n".join([*lines, f"commands: {', '.join(option.commands)}"])


def _instruction(name: str, target: Target) -> str | None:
    definition = registry.get(name)
    return None if definition is None else page(definition, target)


def _functions() -> list[str]:
    return sorted(n for n in nl.__all__ if _is_function(getattr(nl, n)))


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, DType))


def _function(name: str, target: Target) -> str | None:
    function: Callable[..., Any] | None = getattr(nl, name, None) if name in nl.__all__ else None
    if function is None or not _is_function(function):
        return None
    head = call_text(f"nl.{name}", inspect.signature(function))
    return "\n".join([*head, "", inspect.getdoc(function) or ""]).rstrip()


def _dtype(name: str, target: Target) -> str | None:
    dtype = DTYPES.get(name)
    if dtype is None:
        return None
    lanes = f", {dtype.lanes} lanes of {dtype.lane}" if dtype.lane is not None else ""
    stored = f"{dtype.itemsize} bytes per element, kept as NumPy {dtype.np}"
    return f"nl.{name} (element type)\n\nkind {dtype.kind}{lanes}; {stored}"


def _variable(name: str, target: Target) -> str | None:
    choice = next((c for c in from_environment() if c.env == name.upper()), None)
    if choice is None:
        return None
    lines = textwrap.wrap(choice.help_text, 92)
    standard = choice.text(choice.default)
    return "\n".join(
        [f"{choice.env} (environment variable)", "", *lines, "", f"default: {standard}"]
    )


def _chip(name: str, target: Target) -> str | None:
    if name.lower() not in target_names():
        return None
    chip = get_target(name)
    lines = [f"{chip.name} ({chip.core_name}); also: {', '.join(chip.aliases)}", ""]
    lines += [_fact(chip, field.name) for field in fields(chip) if field.name in chip.sources]
    others = sorted({f for t in ALL_TARGETS for f in t.features if f not in chip.features})
    lines += [
        "",
        f"has: {', '.join(sorted(chip.features)) or 'nothing beyond the common features'}",
    ]
    lines += [f"lacks: {', '.join(others)}"] if others else []
    return "\n".join(lines)


def _fact(chip: Target, name: str) -> str:
    fact = chip.sources[name]
    return f"  {name}: {shown(fact.value)} {fact.unit}".rstrip() + f"  ({fact.page or fact.note})"


def _term(name: str, target: Target) -> str | None:
    asked = " ".join(name.lower().split())
    term = next((t for t in TERMS if asked in t.names), None)
    return None if term is None else _term_page(term, target)


def _construct(name: str, target: Target) -> str | None:
    row = NKI.subset.rows.get(name)
    return None if row is None else row.page()


def _public(name: str, target: Target, written: str) -> str | None:
    offered = find(written)
    if offered is None:
        return None
    if isinstance(offered.value, DType):
        return _dtype(str(offered.value), target)
    word = offered.value.name if isinstance(offered.value, (Engine, MemoryRegion)) else ""
    return _term(word.removeprefix("shared_").removeprefix("private_"), target) or page_of(offered)


def _term_page(term: Term, target: Target) -> str:
    also = f"; also: {', '.join(term.names[1:])}" if term.names[1:] else ""
    lines = [f"{term.names[0]}{also}", "", term.text]
    if term.facts:
        lines += ["", f"on {target.name}", *(_fact(target, name) for name in term.facts)]
    if term.command:
        lines += ["", option_help(term.command).rstrip()]
    if term.source:
        lines += ["", f"Source: {term.source}"]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return the value of a fact about a target as it is printed."""
    if isinstance(value, frozenset):
        return ", ".join(map(str, sorted(value)))
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else str(value)
