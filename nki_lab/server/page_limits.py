"""Limits how long making a page may take, how much memory it may need, and how many are made at once."""

from __future__ import annotations

import asyncio
from functools import cached_property

from traitlets import Float, Int
from traitlets.config import Configurable


class PageLimits(Configurable):
    """Limits of pages that show a file, set in the server's configuration: `c.PageLimits.seconds = 30`."""

    seconds = Float(120.0, help="Seconds after which making a page is given up.", config=True)
    memory_bytes = Int(4 << 30, help="Bytes of memory that making a page may take.", config=True)
    file_bytes = Int(1 << 30, help="Larger files are refused before they are read.", config=True)
    at_once = Int(2, min=1, help="Pages made at the same time; others wait.", config=True)

    @cached_property
    def turns(self) -> asyncio.Semaphore:
        """What a page waits for before it is made."""
        return asyncio.Semaphore(self.at_once)
