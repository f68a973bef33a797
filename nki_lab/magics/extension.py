"""Loads and unloads nki_lab in a notebook."""

from __future__ import annotations

import os
import re

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.api import install
from nki_lab.choices import TARGET, forget_choices
from nki_lab.magics.completions import complete_options
from nki_lab.magics.editor import attach_editor, detach_editor
from nki_lab.magics.exercise_magic import ExerciseMagics
from nki_lab.magics.front_end import greet, part
from nki_lab.magics.line_magics import LineMagics
from nki_lab.magics.nki_magic import NkiMagics
from nki_lab.magics.progress import hide_progress, show_progress
from nki_lab.magics.view_magics import ViewMagics
from nki_lab.runtime import Result
from nki_lab.source import number_cells
from nki_lab.views.notebook import register, unregister

_TARGET = TARGET.env
#: Every class of magics.
MAGICS = (NkiMagics, LineMagics, ViewMagics, ExerciseMagics)

# What stood before loading, put back when unloading.
_before: dict[str, object] = {}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make the magics available (`%load_ext nki_lab`), and `import nki` find nki_lab.

    Where the official package is installed, `import nki` outside `%%nki` cells stays the official
    one.
    """
    forget_choices()
    _before["target"] = os.environ.get(_TARGET)
    _before["aliases"] = install.is_installed()
    install.install()
    for magics in MAGICS:
        shell.register_magics(magics)
    shell.Completer.custom_matchers.append(complete_options)
    register(shell, Result)
    attach_editor(shell)
    number_cells(lambda filename: _number(shell, filename))
    greet(shell)
    show_progress(shell)


def _number(shell: InteractiveShell, filename: str) -> int | None:
    """Return the number IPython gave the cell that it compiled under this name."""
    label = shell.compile.format_code_name(filename)
    digits = re.search(r"\d+", label[1]) if label else None
    return int(digits[0]) if digits and int(digits[0]) > 0 else None


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away again, with the aliases and the target they have set."""
    for magics in MAGICS:
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if matcher is not complete_options]
    unregister(shell, Result)
    detach_editor(shell)
    number_cells(lambda filename: None)
    hide_progress(shell)
    part(shell)
    if not _before.get("aliases", True):
        install.uninstall()
    target = _before.get("target")
    if isinstance(target, str):
        os.environ[_TARGET] = target
    else:
        os.environ.pop(_TARGET, None)
    _before.clear()
