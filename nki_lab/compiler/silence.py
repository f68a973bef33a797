"""Traces a kernel without showing its prints, warnings and breakpoints.

A view may ask for a trace while a cell runs: front ends handle such requests in another thread. What other
threads print goes where it always went, so the streams are not redirected, but put behind ones that look at who writes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_one_at_a_time = threading.RLock()
#: Whether the work that goes on is inside a block; threads that it starts for itself take this with them.
_silent: ContextVar[bool] = ContextVar("nki_lab_silent", default=False)


class _Muted:
    """A stream that drops what is written inside the block, and passes on everything else.

    Once it is `over` it passes on all: somebody may have kept it, to put it back later.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.over = False

    @property
    def _drops(self) -> bool:
        return not self.over and _silent.get()

    def write(self, text: str) -> int:
        """Write a text."""
        return len(text) if self._drops else self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write out what waits."""
        if not self._drops:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def silence() -> Iterator[None]:
    """Print, warn of and stop at nothing inside the block, whatever other threads do; blocks take turns."""
    with _one_at_a_time:
        out, err = _Muted(sys.stdout), _Muted(sys.stderr)
        hook = _passed_by(sys.breakpointhook)
        before = sys.stdout, sys.stderr, sys.breakpointhook
        outside = _silent.set(True)
        sys.stdout, sys.stderr, sys.breakpointhook = out, err, hook  # type: ignore[assignment]
        try:
            yield
        finally:
            _silent.reset(outside)
            out.over = err.over = True
            # Where another thread has put its own stream over ours meanwhile, that one stays.
            if sys.stdout is out:  # type: ignore[comparison-overlap]
                sys.stdout = before[0]
            if sys.stderr is err:  # type: ignore[comparison-overlap]
                sys.stderr = before[1]
            if sys.breakpointhook is hook:
                sys.breakpointhook = before[2]


def _passed_by(hook: Callable[..., Any]) -> Callable[..., Any]:
    def stop(*args: Any, **kwargs: Any) -> Any:
        return None if _silent.get() else hook(*args, **kwargs)

    return stop
