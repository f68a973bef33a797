"""`%%nki --migrate`: moves a cell to today's NKI."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from nki_lab.dialects import NKI
from nki_lab.magics.cells import Cell
from nki_lab.magics.define import parsed
from nki_lab.migration.modules import Module, Scope
from nki_lab.migration.moving import Migration, migrated
from nki_lab.session.evaluate import evaluate
from nki_lab.session.questions import Expression
from nki_lab.versions import Version

# What the line of the new cell does not say any more.
_LEFT_OUT = re.compile(r"\s+--(?:migrate\b|nki(?:=|\s+)\S+)")


def migrate_cell(cell: Cell, run: Expression, scope: Scope, since: Version | None) -> Migration:
    """Move a cell, and compare both versions by what an expression runs.

    Args:
        cell: the cell; its names are not bound.
        run: calls its kernels.
        scope: names of the notebook, which stay as they are.
        since: the version that its line names.
    """
    parsed(cell)
    ready = {name: import_module(module) for name, module in NKI.ready.items()}
    module = Module(cell.text, cell.filename, None, ready | scope)

    def call(names: dict[str, Any]) -> None:
        evaluate(run, names, cell.option_stack)

    return migrated(module, call, since)


def moved_cell(cell: Cell, text: str) -> str:
    """Return the text of the new cell: the line of the magic without what is done, and the new text below it."""
    _, _, body = text.partition(f"# {cell.typed}\n")
    return f"{_LEFT_OUT.sub('', cell.typed)}\n{body}"
