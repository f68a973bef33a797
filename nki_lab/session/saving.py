"""Keeps a run in files, by their endings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nki_lab.errors import BadFile
from nki_lab.profiler.formats import files

if TYPE_CHECKING:
    from nki_lab.runtime import Result
from nki_lab.source import printable


def _page(result: Result, path: Path) -> None:
    try:
        result.show().save_html(path)
    except OSError as error:
        raise BadFile.unwritable(path, error) from None


def _kernel(result: Result, path: Path) -> None:
    result.compiled.save(path)


def _profile(result: Result, path: Path) -> None:
    files.save(result.profile, path)


# What a file of each ending holds, and what writes it.
_KINDS: Mapping[str, tuple[str, Callable[[Result, Path], None]]] = {
    ".html": ("the views, as one page that needs no kernel", _page),
    ".nkic": ("the compiled kernel", _kernel),
    **dict.fromkeys(files.ENDINGS, ("the profile", _profile)),
}
#: What a file of each ending holds.
ENDINGS: Mapping[str, str] = {ending: holds for ending, (holds, _) in _KINDS.items()}


def keep(result: Result, paths: Sequence[Path]) -> list[str]:
    """Write a run to files, each as its ending says, and return a line on each.

    Raises BadFile where one cannot be written.
    """
    lines = []
    for path in paths:
        holds, write = _KINDS[path.suffix.lower()]
        write(result, path)
        lines.append(printable(f"{holds}: written to {path}"))
    return lines
