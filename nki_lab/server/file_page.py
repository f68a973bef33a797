"""Turns a file into a page with the views that notebooks have.

A profile is shown as it is. A compiled kernel is not run: what depends on its program alone is there.
"""

from __future__ import annotations

from pathlib import Path

from nki_lab.compiler.program import SUFFIX, is_artifact
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.load import load as load_kernel
from nki_lab.runtime.not_run import has_times, view_before_run
from nki_lab.views.display import display
from nki_lab.views.registry import Needs, shown_with

_NOT_RUN = "a compiled kernel, not run: values are not known"
_NOT_TIMED = f"{_NOT_RUN}, and neither are times, since it has device loops"


def file_page(path: str | Path, theme: str | None = None) -> str:
    """Return the page that shows a profile or a compiled kernel.

    Args:
        path: the file, or the folder of a profile in tables.
        theme: "light" or "dark"; None follows the reader's system.

    Raises BadFile, with one sentence, for a file that is neither; UsageError where reading it needs a package.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX and not is_artifact(path):
        return display(Profile.load(path), shown_with(Needs.TIMES)).page(theme)
    compiled = load_kernel(path).compiled
    timed = has_times(compiled)
    tabs = shown_with(Needs.PROGRAM | Needs.TIMES if timed else Needs.PROGRAM)
    shown = display(
        view_before_run(compiled), tabs if timed else ("ir", *(t for t in tabs if t != "ir"))
    )
    return shown.page(theme, _NOT_RUN if timed else _NOT_TIMED)
