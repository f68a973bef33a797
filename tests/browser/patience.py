"""Waits as long as something moves, however slow the machine is.

A limit in seconds is too short on a busy machine and too long on an idle one. These tests have none: calls of
Playwright wait without end, and a watchdog ends the browser, and with it the wait, when for STILL_SECONDS

- no server has written a line into its log,
- no page has changed its document, loaded a file or exchanged a message with a kernel,
- and the test itself has computed nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from threading import Event, Thread

from playwright.sync_api import BrowserContext, Page, Request, WebSocket

#: How long everything may be still before a wait fails.
STILL_SECONDS = 60.0
#: In place of a limit, where Playwright takes 0 for "do not wait at all".
ENDLESS_MS = 86_400_000
# Less is what handling the page's own polls takes.
_COMPUTED_SECONDS = 0.5
_POLL_SECONDS = 0.5

# JupyterLab asks its server for kernels and folders every ten seconds, and writes its lists and the title anew.
_POLLED = "/api/"
_REPORT_CHANGES = """(() => {
  let reported = 0;
  const polled = 'title, .jp-DirListing, .jp-RunningSessions';
  const isPolled = ({ target }) => (target.closest ? target : target.parentElement)?.closest(polled);
  new MutationObserver((changes) => {
    const now = performance.now();
    if (now - reported > 500 && !changes.every(isPolled)) {
      reported = now;
      window.reportChange?.();
    }
  }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
})()"""

_logs: set[Path] = set()


def watch_log(log: Path) -> None:
    """Count lines of this file as progress from now on."""
    _logs.add(log)


def forget_log(log: Path) -> None:
    """Take back `watch_log`."""
    _logs.discard(log)


class Stillness:
    """How long nothing has moved."""

    def __init__(self) -> None:
        self._signs: object = None
        self._since = time.monotonic()

    def moved(self, *_: object) -> None:
        """Note that something has moved."""
        self._since = time.monotonic()

    def look(self, *signs: object) -> float:
        """Return the seconds since anything moved; other `signs` than the last time are a move."""
        if signs != self._signs:
            self._signs = signs
            self.moved()
        return time.monotonic() - self._since


def cpu_ticks(pid: int) -> int:
    """Return the processor time that a process has used, in ticks; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


class Watchdog:
    """Ends a browser when nothing moves.

    Args:
        context: whose pages are watched.
        token: a word in the command line of the browser.
        still: seconds without a move.

    Attributes:
        ended: whether it has ended the browser.
    """

    def __init__(self, context: BrowserContext, token: str, still: float = STILL_SECONDS) -> None:
        self.ended = False
        self._token = token
        self._still = still
        self._stillness = Stillness()
        self._stop = Event()
        context.set_default_timeout(0)
        context.set_default_navigation_timeout(0)
        context.expose_binding("reportChange", self._stillness.moved)
        context.add_init_script(_REPORT_CHANGES)
        context.on("page", self._watch)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stop.set()
        self._thread.join()

    def _watch(self, page: Page) -> None:
        moved = self._stillness.moved
        page.on("requestfinished", self._loaded)
        page.on("websocket", self._connected)
        page.on("console", moved)
        page.on("load", moved)

    def _loaded(self, request: Request) -> None:
        if _POLLED not in request.url:
            self._stillness.moved()

    def _connected(self, socket: WebSocket) -> None:
        if socket.url.partition("?")[0].endswith("/channels"):  # of a kernel
            socket.on("framereceived", self._stillness.moved)
            socket.on("framesent", self._stillness.moved)

    def _run(self) -> None:
        computed = time.process_time()
        while not self._stop.wait(_POLL_SECONDS):
            if time.process_time() > computed + _COMPUTED_SECONDS:
                computed = time.process_time()
                self._stillness.moved()
            lines = [log.stat().st_size for log in sorted(_logs) if log.exists()]
            if self._stillness.look(lines) > self._still:
                self.ended = True
                print(f"nothing has moved for {self._still:g} seconds", file=sys.stderr)
                _end(self._token)
                return


def _end(token: str) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in words:
            os.kill(int(process.name), signal.SIGKILL)
