"""The catalogue of the JupyterLab extension: what it colours, completes and explains without asking a kernel.

The extension is built with this as `extension/src/catalog.json`; a test compares the two, so that a new name or option
cannot be forgotten there.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from nki_lab.choices import BadValue, Choice
from nki_lab.dialects import DIALECTS, NKI
from nki_lab.errors import error_classes
from nki_lab.explain.pages import topics
from nki_lab.isa.catalog import common_rules
from nki_lab.magics.catalog_names import Names
from nki_lab.magics.define import EXAMPLE
from nki_lab.magics.extension import MAGICS
from nki_lab.session.questions import all_options, options_of
from nki_lab.targets import ALL_TARGETS


def catalog() -> dict[str, Any]:
    """Return magics, options and NKI's names as plain data.

    Returns:
        magics: each magic with its first sentence, its uses, and its options or the words it takes.
        options: each option with its help, its placeholder, and its values with what they mean.
        codes: the errors that can be expected and explained, with their first sentence.
        targets: names of the chips.
        example: a cell with a small kernel that is called.
        ready: names a cell may use without importing them, and the module each stands for.
        dialects: the other dialects, as `--dialect` calls them, each with its package and its ready names.
        homes: modules of nki_lab, and the official one each of them is.
        tiles: limits that most instructions have for their operands.
        modules, entries, sets: NKI's names; see `catalog_names.Names`.
    """
    names = Names.collect()
    return {
        "magics": dict(sorted(_magics().items())),
        "options": {option.flag: _option(option) for option in all_options() if _in_cells(option)},
        "codes": {kind.code: _sentence(kind) for kind in error_classes()},
        "targets": [target.name for target in ALL_TARGETS],
        "example": textwrap.dedent(EXAMPLE),
        "ready": dict(NKI.ready),
        "dialects": {
            d.option: {"root": d.root, "ready": dict(d.ready)} for d in DIALECTS if d is not NKI
        },
        "homes": {home: name for dialect in DIALECTS for name, home in dialect.modules.items()},
        "modules": names.modules,
        "entries": names.entries,
        "sets": names.sets,
        "tiles": [rule.replace("{}", "a tile", 1) for rule in common_rules()],
    }


def with_chips(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the extension with today's chips to choose from."""
    properties = settings["properties"]
    chips = ["", *(target.name for target in ALL_TARGETS)]
    chosen = properties["defaultTarget"] | {"enum": chips}
    return settings | {"properties": properties | {"defaultTarget": chosen}}


def _magics() -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for magics in MAGICS:
        for kind, prefix in (("cell", "%%"), ("line", "%")):
            for name, function in magics.magics[kind].items():
                method = getattr(magics, function) if isinstance(function, str) else function
                entries[prefix + name] = _magic(prefix + name, method)
    return entries


def _magic(magic: str, method: Any) -> dict[str, Any]:
    doc = inspect.getdoc(method) or ""
    entry: dict[str, Any] = {"doc": doc.partition("\n")[0]}
    options = [option.flag for option in options_of(magic)]
    if options:
        return entry | {"options": options}
    # The lines of a docstring that start with the magic show how it is used.
    uses = [line.strip() for line in doc.splitlines()[1:] if line.strip().startswith(magic)]
    words = _words(magic)
    return entry | {"uses": uses} | ({"words": words} if words else {})


def _words(magic: str) -> list[str]:
    """Return the words a line magic takes, where they can be listed."""
    if magic == "%nki_target":
        return [target.name for target in ALL_TARGETS]
    return list(dict.fromkeys(topics())) if magic == "%nki_explain" else []


def _in_cells(option: Choice) -> bool:
    return any(command.startswith("%") for command in option.commands)


def _option(option: Choice) -> dict[str, Any]:
    entry: dict[str, Any] = {"doc": option.help_text}
    if option.metavar:
        entry["metavar"] = option.metavar
    if option.name == "expect":
        entry["codes"] = True
    if option.values:
        entry["values"] = {choice: option.meanings.get(choice, "") for choice in option.values}
        if _takes_several(option):
            entry["many"] = True
    return entry


def _takes_several(option: Choice) -> bool:
    try:
        option.parse(",".join(option.values[:1] * 2))
    except BadValue:
        return False
    return True


def _sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
