"""Turns a file into a page with the views that notebooks have.

A profile is shown as it is. A compiled kernel is not run: what depends on its program alone is there. Of a NEFF of the
official compiler, the places of what it moves are shown.
"""

from __future__ import annotations

from pathlib import Path

from nki_lab.choices import Choices
from nki_lab.compiler.program import SUFFIX, is_artifact
from nki_lab.hardware.importers import load_profile
from nki_lab.hardware.neff import is_neff, read_neff
from nki_lab.hardware.neff_layout import NOTE as NEFF_NOTE
from nki_lab.hardware.neff_layout import VIEWS as NEFF_VIEWS
from nki_lab.hardware.neff_layout import neff_view
from nki_lab.profiler.formats.imported import IfNotTold
from nki_lab.runtime.load import load as load_kernel
from nki_lab.runtime.not_run import has_times, view_before_run
from nki_lab.views.display import display
from nki_lab.views.registry import Needs, shown_with

_NO_CHIP = "the file does not say which chip it is of: limits and shares are those of {}"
_NOT_RUN = "a compiled kernel, not run: values are not known"
_NOT_TIMED = f"{_NOT_RUN}, and neither are times, since it has device loops"


def file_page(path: str | Path, theme: str | None = None) -> str:
    """Return the page that shows a profile, a compiled kernel or a NEFF.

    Args:
        path: the file, or the folder of a profile in tables.
        theme: "light" or "dark"; None follows the reader's system.

    Raises BadFile, with one sentence, for a file that is neither; UsageError where reading it needs a package.
    """
    path = Path(path)
    if is_neff(path):
        neff = read_neff(path)
        chip = neff.target or Choices.current().chip
        return display(neff_view(neff, chip), NEFF_VIEWS).page(theme, NEFF_NOTE)
    if path.suffix.lower() != SUFFIX and not is_artifact(path):
        chosen = IfNotTold(Choices.current().chip)
        profile = load_profile(path, chosen)
        note = _NO_CHIP.format(chosen.target.name) if chosen.is_used else ""
        return display(profile, shown_with(Needs.TIMES)).page(theme, note)
    compiled = load_kernel(path).compiled
    timed = has_times(compiled)
    tabs = shown_with(Needs.PROGRAM | Needs.TIMES if timed else Needs.PROGRAM)
    shown = display(
        view_before_run(compiled), tabs if timed else ("ir", *(t for t in tabs if t != "ir"))
    )
    return shown.page(theme, _NOT_RUN if timed else _NOT_TIMED)
