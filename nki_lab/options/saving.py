"""In which files can a run be kept, and how?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nki_lab.errors import BadFile
from nki_lab.profiler import files

if TYPE_CHECKING:
    from nki_lab.runtime import Result


def _page(result: Result, path: Path) -> None:
    try:
        result.show().save_html(path)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}") from None


def _kernel(result: Result, path: Path) -> None:
    result.compiled.save(path)


def _profile(result: Result, path: Path) -> None:
    files.save(result.profile, path)


#: What a file of each ending holds.
ENDINGS: Mapping[str, str] = {
    ".html": "the views, as one page that needs no kernel",
    ".nkic": "the compiled kernel",
    **dict.fromkeys(files.ENDINGS, "the profile"),
}
_KEEP: Mapping[str, Callable[[Result, Path], None]] = {
    ".html": _page,
    ".nkic": _kernel,
    **dict.fromkeys(files.ENDINGS, _profile),
}


def keep(result: Result, paths: Sequence[Path]) -> list[str]:
    """Write a run to files, each as its ending says, and return a line on each.

    Raises BadFile where one cannot be written.
    """
    lines = []
    for path in paths:
        ending = path.suffix.lower()
        _KEEP[ending](result, path)
        lines.append(f"{ENDINGS[ending]}: written to {path}")
    return lines
