"""The trace of this thread: the builder that calls of instructions reach, and what runs them at once."""

from __future__ import annotations

import threading
from typing import Any


class _Active(threading.local):
    builder: Any = None


active = _Active()


def watch_of(owner: Any) -> Any:
    """Return the `Watch` of the trace that a tensor or register belongs to; None where nothing runs it."""
    return getattr(owner, "watch", None)
