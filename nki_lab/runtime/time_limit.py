"""Stops a run that takes too long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from nki_lab.errors import TimedOut, UsageError, without_our_frames
from nki_lab.source import Stack, stack_in_cells

# Should the exception be lost, as in a finalizer, the next alarm comes after this many seconds.
_AGAIN_S = 1.0


class _Expired(BaseException):
    """Ends a run from outside; no `except Exception` of an author holds it up."""


@contextmanager
def time_limit(seconds: float | None, stack: Stack = ()) -> Iterator[None]:
    """Raise TimedOut when the block takes longer than a number of seconds; None sets no limit.

    Works on the main thread of systems with interval timers; elsewhere a limit is a UsageError.
    Handlers and timers that were set before are set again afterwards.

    Args:
        seconds: the limit, in seconds of wall-clock time.
        stack: place shown when the time ran out outside the author's text.
    """
    if seconds is None:
        yield
        return
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        raise UsageError(
            "a time limit can be set only on the main thread, and not on Windows",
            stack=stack,
            help="leave --timeout out",
        )
    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, _expire)
    outer_s, outer_interval_s = signal.getitimer(signal.ITIMER_REAL)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Expired as expired:
        place = stack_in_cells(expired) or stack
        without_our_frames(expired)
        raise TimedOut(
            f"not finished after {seconds:g} seconds",
            stack=place,
            help="look for an endless loop, or give a larger --timeout",
        ) from None
    finally:
        # Once more: the alarm may have come just before the timer was stopped above.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer_s:
            left_s = max(outer_s - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left_s, outer_interval_s)


def _expire(number: int, frame: FrameType | None) -> Any:
    raise _Expired
