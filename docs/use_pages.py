"""Writes the pages about errors, magics, commands, views, chips and words, from the tables."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import typer
from ml_dtypes import bfloat16

from benchmarks.kernels import matmul
from docs.markdown import escaped, fence, page, prose, table
from nki_lab.choices import TARGET, from_environment
from nki_lab.cli.main import app
from nki_lab.errors import NkiError, error_classes
from nki_lab.explain.glossary import TERMS
from nki_lab.explain.pages import explain, setting, shown
from nki_lab.magics.extension import MAGICS
from nki_lab.runtime import run
from nki_lab.session.questions import all_options
from nki_lab.targets import ALL_TARGETS, get_target
from nki_lab.versions import ACCEPTED, DEPRECATED, ERROR, FORMS, NEWEST, PORTABILITY, VERSIONS
from nki_lab.views.charts.model import CHARTS
from nki_lab.views.registry import views
from nki_lab.widgets.picture import SHOWN_WIDTH
from nki_lab.widgets.static_page import picture_html

# What each wrong example is answered with; tests run the examples and compare.
_MESSAGES = Path(__file__).parents[1] / "tests" / "errors"


def error_page() -> str:
    """Return the page with every error: what it means, a mistake that gets it, and the same without."""
    parts = [
        "Every error has a code, a place in your cell or file, and a line that says what to write instead."
        " `%nki_explain NKI203` and `nki-lab explain NKI203` print what stands here. Each example is run by a test.\n"
    ]
    for kind in error_classes():
        parts += [
            f"## {kind.code} {kind.__name__}\n",
            prose((kind.__doc__ or "").partition("\n\n    Args:")[0]),
            prose(kind.page),
            *_examples(kind),
        ]
    return page("Errors", *parts)


def _examples(kind: type[NkiError]) -> list[str]:
    if not kind.wrong:
        return []
    parts = [f"Wrong{escaped(setting(kind))}:\n", fence(kind.wrong, _language(kind.wrong))]
    message = _MESSAGES / f"{kind.code}.txt"
    parts += [fence(message.read_text("utf-8"))] if message.is_file() else []
    return [*parts, "Right:\n", fence(kind.right, _language(kind.right))]


def _language(text: str) -> str:
    if text.startswith(("$ ", "nkir ")):
        return "text"
    return "ipython3" if text.startswith("%") else "python"


def magic_page() -> str:
    """Return the page with every magic and every option of the shared table."""
    parts = ["`%load_ext nki_lab` makes them available.\n"]
    for kind, sign in (("cell", "%%"), ("line", "%")):
        for cls in MAGICS:
            for name, method in cls.magics[kind].items():
                parts += [f"## `{sign}{name}`\n", fence(inspect.getdoc(getattr(cls, method)) or "")]
    rows = [
        [
            f"`{f'{option.flag} {option.metavar}'.rstrip()}`",
            escaped(option.help_text),
            ", ".join(f"`{command}`" for command in option.commands),
        ]
        for option in all_options()
    ]
    parts += ["## Options\n", table(("option", "what it does", "magics and commands"), rows)]
    return page("Magics", *parts)


def command_page() -> str:
    """Return the page with every command of the command line."""
    parts = [
        "Exit codes: 0 all is well, 1 a kernel, check or file is wrong, 2 the command line is.\n"
    ]
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        parts += [f"## `nki-lab {name}`\n", _help(command.help or "")]
        rows = [_parameter(p) for p in command.params if p.name != "help"]
        parts += [table(("argument or option", "what it does"), rows)] if rows else []
    variables = [
        [f"`{c.env}`", f"`{c.text(c.default)}`", escaped(c.help_text)] for c in from_environment()
    ]
    parts += ["## Environment variables\n", table(("variable", "default", "meaning"), variables)]
    return page("Commands", *parts)


def _help(text: str) -> str:
    """Return a command's help; its lines with commands are a block of code."""
    lines = inspect.cleandoc(text).splitlines()
    examples = [line.strip() for line in lines if line.strip().startswith("nki-lab ")]
    rest = "\n".join(line for line in lines if not line.strip().startswith("nki-lab "))
    return prose(rest) + ("\n" + fence("\n".join(examples)) if examples else "")


def _parameter(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [f"`{parameter.metavar or parameter.name.upper()}`", escaped(parameter.help or "")]
    flags = " / ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" `{parameter.metavar or 'VALUE'}`"
    return [flags + value, escaped(parameter.help or "")]


def version_page() -> str:
    """Return the page with what versions of NKI treat differently, and the names that are new in each."""
    heads = ["form", *(f"{v.name}" for v in VERSIONS), "instead", "page"]
    words = {ACCEPTED: "", PORTABILITY: "finding", DEPRECATED: "deprecated", ERROR: "error"}
    rows = [
        [
            escaped(form.what),
            *(words[form.level(v)] for v in VERSIONS),
            escaped(form.instead),
            escaped(form.source),
        ]
        for form in FORMS.values()
    ]
    parts = [
        "A kernel is written for one version of NKI: a comment `# nki: 0.6` above it or at the head of its cell or"
        ' file, `nki.jit(nki="0.6")`, `--nki 0.6`, `nki_lab.run(..., nki="0.6")` or `NKI_LAB_NKI` names it; else it is'
        f" {NEWEST.name}. What a kernel says of itself comes first; its comment and its decorator must agree."
        " Calls are bound by the signatures of the version, and names that it does not have yet are"
        " errors. Before 0.7 a parser reads the text of a kernel: what it refuses of Python is a finding"
        " ([the language](../language.md)). In 0.7 all of Python may be used.\n",
        table(heads, rows),
    ]
    for version in reversed(VERSIONS[1:]):
        parts.append(f"## {version.name}, Neuron SDK {version.sdk}\n")
        for owner, names in version.adds.items():
            parts.append(f"New in `{owner}`: {', '.join(f'`{n}`' for n in names.split())}.\n")
        if version.before:
            parts.append(
                "Signatures that are new: " + ", ".join(f"`{n}`" for n in version.before) + ".\n"
            )
        parts += [
            f"Removed: `{n}`; write `{instead}`.\n" for n, (_, instead) in version.removes.items()
        ]
        parts += [f"Not seen of `{n}`: {escaped(what)}.\n" for n, what in version.unseen.items()]
    return page("Versions of NKI", *parts)


def target_page() -> str:
    """Return the page with every number of every chip, and the document it came from."""
    text = (
        "Every number that limits or times a kernel, with its page in the"
        " [AWS Neuron documentation](https://github.com/aws-neuron/aws-neuron-sdk), or the reason where none says it."
        " [How far to trust modelled times](../timing.md) says what the status means.\n"
    )
    parts = [text]
    for target in ALL_TARGETS:
        others = ", ".join(f"`{name}`" for name in target.aliases)
        parts += [f"## {target.name}\n", f"{target.core_name}; other names: {others}.\n"]
        parts += [
            f"It has: {escaped(', '.join(sorted(target.features)) or 'no further features')}.\n"
        ]
        facts = [
            (f.name, target.sources[f.name]) for f in fields(target) if f.name in target.sources
        ]
        rows = [
            [
                f"`{name}`",
                escaped(f"{shown(fact.value)} {fact.unit}".rstrip()),
                fact.status.value,
                escaped(fact.page or fact.note),
            ]
            for name, fact in facts
        ]
        parts += [table(("fact", "value", "status", "page, or reason"), rows)]
    return page("Chips", *parts)


def glossary_page() -> str:
    """Return the page with every word that errors, views and options use."""
    default = get_target(TARGET.default)
    parts = [f"Numbers are those of `{default.name}`.\n"]
    for term in sorted(TERMS, key=lambda term: term.names[0]):
        if not term.names[0].startswith("%"):  # magics have a page to themselves
            parts += [f"## {escaped(term.names[0])}\n", prose(term.text)]
            rest = explain(term.names[0], default).partition(term.text)[2].strip()
            parts += [fence(rest)] if rest else []
    return page("Words", *parts)


def view_page() -> str:
    """Return the page with every view of a run, in the order of the tabs."""
    rows = [
        (
            view.title,
            f"`--show {name}`",
            escaped(sys.modules[f"nki_lab.views.{name}.view"].__doc__ or ""),
        )
        for name, view in views().items()
    ]
    return page("Views", table(("tab", "alone", "what it shows"), rows))


def chart_page() -> str:
    """Return the page with every chart of a run, each drawn for one kernel."""
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.standard_normal((512, n)).astype(bfloat16) for n in (256, 1024))
    result = run(matmul, lhs, rhs, target="trn2")
    parts = [
        "The tab Charts shows them below each other, `--show charts` shows them alone, and `result.chart(name)` gives"
        " one of them. These are of a product of 256 x 512 by 512 x 1,024 elements in bfloat16.\n"
    ]
    for name, chart in CHARTS.items():
        words = (inspect.getdoc(chart) or "").partition("\n")[0]
        picture = picture_html(words, chart(result).to_svg().encode(), "svg+xml", SHOWN_WIDTH)
        parts.append(f"## {name.replace('_', ' ').capitalize()}\n\n{escaped(words)}\n\n{picture}\n")
        parts.append(fence(f'result.chart("{name}")', "python"))
    return page("Charts", *parts)


def readme_page(readme: str, titles: Iterable[str]) -> str:
    """Return sections of README.md, whose examples tests run, as the page that begins the documentation."""
    sections = {part.partition("\n")[0]: part for part in readme.split("\n## ")[1:]}
    return page("Quickstart", *(f"## {sections[title].rstrip()}\n" for title in titles))
