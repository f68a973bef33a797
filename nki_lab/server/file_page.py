"""Turns a file into a page with the views that notebooks have.

A profile is shown as it is. A compiled kernel is not run: what depends on its program alone is there.
"""

from __future__ import annotations

from pathlib import Path

from nki_lab.compiler.artifact import SUFFIX, is_artifact
from nki_lab.profiler.formats.files import load as load_profile
from nki_lab.runtime.load import load as load_kernel
from nki_lab.runtime.not_run import has_times, view_before_run
from nki_lab.views import display

#: What is known of a run whose program is not, in the order of the tabs.
PROFILE_VIEWS = ("report", "timeline", "source")
#: What is known of a program that has not run, and what is where its times can be modelled without running it.
KERNEL_VIEWS = ("ir", "layout", "memory", "source", "findings", "array", "graph")
TIMED_VIEWS = ("report", *KERNEL_VIEWS[:5], "timeline", *KERNEL_VIEWS[5:])

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
        return display(load_profile(path), PROFILE_VIEWS).page(theme)
    compiled = load_kernel(path).compiled
    timed = has_times(compiled)
    shown = display(view_before_run(compiled), TIMED_VIEWS if timed else KERNEL_VIEWS)
    return shown.page(theme, _NOT_RUN if timed else _NOT_TIMED)
