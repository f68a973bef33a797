"""The channel between a kernel and the editor in front of it.

Over one comm, which stays open as long as the kernel lives: the editor finds it again after a reload of the page by
asking the kernel for its comms, and a kernel without nki_lab has none. It is opened only for a front end that sends
ids of cells, which those without an editor (nbclient, nbval, a terminal) do not.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

#: Name of the comm; extension/src/protocol.ts has it too.
TARGET = "nki-lab"
#: Version of what is said over it.
PROTOCOL = 1

Message = dict[str, Any]


class Channel:
    """The comm with an editor.

    Args:
        receive: is given each message of the editor, on the main thread and never while a cell runs.
    """

    def __init__(self, receive: Callable[[Message], None]) -> None:
        self._receive = receive
        self._comm: Any = None
        self._refused = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether somebody may listen."""
        return self._comm is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the main thread; None where there is none."""
        return self._loop

    def open(self) -> bool:
        """Open the comm where that has not been done, or refused; return whether it was opened just now."""
        if self._comm is not None or self._refused:
            return False
        from comm import create_comm  # the kernel's own

        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._comm = create_comm(target_name=TARGET, data={"protocol": PROTOCOL})
        self._comm.on_msg(self._arrived)
        self._comm.on_close(self._closed)
        return True

    def send(self, message: Message) -> None:
        """Send a message of plain data, if anybody may listen."""
        if self._comm is not None:
            self._comm.send(message)

    def close(self) -> None:
        """Close the comm."""
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.close()

    def _arrived(self, message: Message) -> None:
        data = message["content"]["data"]
        if not isinstance(data, dict):
            return
        if threading.current_thread() is threading.main_thread() or self._loop is None:
            self._receive(data)
        else:  # a subshell: a cell may be running
            self._loop.call_soon_threadsafe(self._receive, data)

    def _closed(self, message: Message) -> None:
        # A front end that does not know the comm closes it: there is no editor.
        self._comm = None
        self._refused = True
