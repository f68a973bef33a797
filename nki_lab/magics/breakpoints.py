"""`breakpoint()` in a kernel of a notebook."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.source import is_internal


@contextmanager
def breakpoints(shell: InteractiveShell) -> Iterator[None]:
    """Let `breakpoint()` open IPython's debugger inside a `with` block, where it would do nothing.

    In a notebook it only reaches the front end's own debugger, and nothing stops unless that is switched on.
    """
    if not _goes_nowhere():
        yield
        return

    class Debugger(shell.debugger_cls):  # type: ignore[misc, name-defined]
        """Steps through the author's text alone."""

        def stop_here(self, frame: FrameType) -> Any:
            # Asked first, since IPython prints a line for each frame it skips.
            return not _is_ours(frame) and super().stop_here(frame)

    before = sys.breakpointhook
    sys.breakpointhook = lambda *_, **__: Debugger(skip=["nki_lab.*"]).set_trace(sys._getframe(1))
    try:
        yield
    finally:
        sys.breakpointhook = before


def _goes_nowhere() -> bool:
    debugpy: Any = sys.modules.get("debugpy")
    if debugpy is None or "PYTHONBREAKPOINT" in os.environ:
        return False
    return "debugpy" in getattr(sys.breakpointhook, "__name__", "") and not (
        debugpy.is_client_connected()
    )


# NumPy and others, which may lie in the folder of the standard library.
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def _is_ours(frame: FrameType) -> bool:
    """Tell whether a frame belongs to nki_lab, or to a library that it calls."""
    at: FrameType | None = frame
    while at is not None and not is_internal(at.f_code):
        written = at.f_code.co_filename.startswith((*_LIBRARIES, "<frozen"))
        if not written and not _is_generated(at):
            return False
        at = at.f_back
    return at is not None


def _is_generated(frame: FrameType) -> bool:
    """Tell whether Python has made a function itself: what makes a named tuple, or a dataclass of nki_lab."""
    module = frame.f_globals.get("__name__") or ""
    return frame.f_code.co_filename == "<string>" and module.startswith(("namedtuple_", "nki_lab."))
