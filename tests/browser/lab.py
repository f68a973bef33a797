"""Drives a real JupyterLab as a person in front of a browser does.

    with Lab(folder) as lab, browser(chromium) as page:
        notebook = lab.open(page, "first.ipynb")
        notebook.run_all()
        notebook.screenshot("first")

Server and kernels have their own configuration, data and IPython folders, and nothing is asked from
the network. Give each test a folder of its own: a notebook of the same name shares its session.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import ConsoleMessage, Locator, Page, expect, sync_playwright

from tests.browser.patience import (
    ENDLESS_MS,
    STILL_SECONDS,
    Stillness,
    Watchdog,
    cpu_ticks,
    forget_log,
    watch_log,
)

ROOT = Path(__file__).parents[2]
#: Where pictures are left; not tracked.
OUT = ROOT / ".ci" / "out"

_CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Else every page has Node.js look whether JupyterLab ought to be built anew.
_PAGE_CONFIG: dict[str, object] = {"buildCheck": False}
_NOTIFICATIONS = {"checkForUpdates": False, "doNotDisturbMode": True}

# The status dot says "idle" also before there is a session; a run asked for then may be lost.
_KERNEL_IS_READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const context = panel?.sessionContext;
  const kernel = context?.session?.kernel;
  return context?.isReady && kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""

# Resolves to true when the last cell has finished, to false when one has raised.
_RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"

# Closes what JupyterLab shows without asking; tells whether the page is one.
_CLOSE_ALL = """() => {
  if (!window.jupyterapp?.shell) return false;
  for (const widget of [...window.jupyterapp.shell.widgets('main')]) widget.dispose();
  return true;
}"""
# What a closed notebook had begun comes to its end meanwhile, or is logged as an error that nobody asks for.
_CLOSED_MS = 500

_OPEN = """(path) => {
  const { commands } = window.jupyterapp;
  return commands.execute('docmanager:open', { path, factory: 'Notebook' }).then(() => null);
}"""

_OUTPUTS = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
  return Array.from({length: cells.length}, (_, i) => cells.get(i))
    .filter((cell) => cell.type === 'code')
    .map((cell) => cell.outputs.toJSON());
}"""


#: Notes what is written onto canvases: the text, its ends in pixels of the page, and its colour.
NOTE_TEXT = """() => {
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const wide = this.measureText(text).width;
    const left = x - { right: wide, center: wide / 2 }[this.textAlign] || x;
    const ratio = devicePixelRatio;
    const ends = [left, left + wide].map((at) => this.getTransform().transformPoint({ x: at, y }));
    (this.canvas.written ||= []).push({ text, colour: this.fillStyle, ends: ends.map((p) => p.x / ratio) });
    return write.call(this, text, x, y);
  };
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    this.canvas.written = [];
    return clear.apply(this, box);
  };
}"""


class Lab:
    """A JupyterLab server on the loopback interface, with our extensions of page and server as they are in this folder.

    Args:
        root: folder it shows.
        environment: variables to set for the server and its kernels.
        application: module that is run: "jupyterlab", or "notebook" for Notebook 7.
    """

    def __init__(
        self,
        root: Path,
        environment: dict[str, str] | None = None,
        application: str = "jupyterlab",
    ) -> None:
        self.root = root.resolve()
        self.environment = environment or {}
        self.application = application
        self.port = _free_port()
        self._prefix = ""  # of what pages call the notebooks of `root`
        self._changed = False  # what a page reads when it is loaded

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Folder of what Jupyter keeps, such as the signatures of trusted notebooks."""
        return self._private / "data"

    def __enter__(self) -> Lab:
        self._private = Path(tempfile.mkdtemp(prefix="lab-"))
        extensions = self._private / "share" / "labextensions"
        extensions.mkdir(parents=True)
        (extensions / "nki-lab").symlink_to(ROOT / "nki_lab" / "labextension")
        enabled = self._private / "etc" / "jupyter_server_config.d"
        enabled.mkdir(parents=True)
        (enabled / "nki_lab.json").symlink_to(ROOT / "extension" / "jupyter_server_config.json")
        defaults = self._private / "etc" / "labconfig" / "default_setting_overrides.d"
        defaults.mkdir(parents=True)
        (defaults / "nki_lab.json").symlink_to(ROOT / "extension" / "jupyter_settings.json")
        settings = self._private / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(_NOTIFICATIONS))
        self._page_config(_PAGE_CONFIG)
        self._log = (self._private / "log").open("w")
        watch_log(self._private / "log")
        self._process = subprocess.Popen(
            self._command(),
            env=self._environment(),
            cwd=self.root,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if _kept and (running := _kept[-1]):
            running.leave(self.url)
        self._process.terminate()  # ends the kernels too
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        forget_log(self._private / "log")
        shutil.rmtree(self._private, ignore_errors=True)

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook with these code cells into the folder and return its name."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.root / name)
        return name

    def path(self, name: str) -> str:
        """Return what pages call a file of the folder."""
        return self._prefix + name

    def set(self, plugin: str, **values: object) -> None:
        """Store settings of a plugin, such as `nki-lab:settings`, for pages that are opened later."""
        body = json.dumps({"raw": json.dumps(values)}).encode()
        self._ask("PUT", f"lab/api/settings/{plugin}", body)
        self._changed = True

    @contextmanager
    def without_extension(self) -> Iterator[None]:
        """Switch our extension off for pages that are opened meanwhile."""
        self._page_config({**_PAGE_CONFIG, "disabledExtensions": {"nki-lab": True}})
        try:
            yield
        finally:
            self._page_config(_PAGE_CONFIG)

    @contextmanager
    def inside(self, name: str) -> Iterator[Lab]:
        """Give this server with a new folder of `root` as its root; its kernels and changed settings go with it.

        Pages are loaded anew for it, so that nothing of another folder is seen.
        """
        lab = copy.copy(self)
        lab.root, lab._prefix, lab._changed = self.root / name, f"{self._prefix}{name}/", True
        lab.root.mkdir()
        settings = self._private / "settings"
        kept = {file: file.read_bytes() for file in settings.rglob("*") if file.is_file()}
        try:
            yield lab
        finally:
            for session in json.loads(self._ask("GET", "api/sessions")):
                if session["path"].startswith(lab._prefix):
                    self._ask("DELETE", f"api/sessions/{session['id']}")
            shutil.rmtree(settings)
            for file, data in kept.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)

    def open(self, page: Page, name: str) -> Notebook:
        """Open a notebook of the folder, and no other, and wait for its kernel."""
        path = self.path(name)
        if page.url.startswith(f"{self.url}/lab") and not self._changed:
            page.evaluate(_CLOSE_ALL)
            page.evaluate(_OPEN, path)
        else:
            workspace = Path(name).stem.replace("_", "-")
            page.goto(f"{self.url}/lab/workspaces/{workspace}/tree/{path}?reset")
            self._changed = False
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        notebook = Notebook(page)
        notebook.wait_for_kernel()
        return notebook

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.url}/{path}", body, method=method)
        return urllib.request.urlopen(request, timeout=STILL_SECONDS).read()

    def _page_config(self, values: dict[str, object]) -> None:
        """Tell pages that are opened later what they are to do."""
        folder = self._private / "config" / "labconfig"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "page_config.json").write_text(json.dumps(values))
        self._changed = True

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", self.application, "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"),
            *("--IdentityProvider.token=", "--ServerApp.password="),
            *("--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={self.root}"),
            "--expose-app-in-browser",
            "--LabApp.expose_app_in_browser=True",  # Notebook 7 serves JupyterLab, too
        ]

    def _environment(self) -> dict[str, str]:
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_PATH": "share",
            "JUPYTER_CONFIG_PATH": "etc",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        private = {name: str(self._private / folder) for name, folder in folders.items()}
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return {**os.environ, **private, "PYTHONPATH": path, **self.environment}

    def _wait(self) -> None:
        log = self._private / "log"
        stillness = Stillness()
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/status", timeout=STILL_SECONDS).read()
                return
            except OSError:
                still = stillness.look(log.stat().st_size, cpu_ticks(self._process.pid))
                if self._process.poll() is not None or still > STILL_SECONDS:
                    text = log.read_text()[-3000:]
                    raise RuntimeError(f"{self.application} did not start:\n{text}") from None
                time.sleep(0.1)


@dataclass
class Notebook:
    """The notebook a page shows."""

    page: Page

    def wait_for_kernel(self) -> None:
        """Wait until the kernel takes cells."""
        self.page.wait_for_function(_KERNEL_IS_READY, polling=100)

    def run_all(self) -> bool:
        """Run every cell; tell whether all of them succeeded."""
        return self.page.evaluate(_RUN_ALL)

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Return the outputs of every code cell, in nbformat."""
        return self.page.evaluate(_OUTPUTS)

    def cell(self, text: str) -> Locator:
        """Return the code cell whose source contains `text`."""
        return self.page.locator(".jp-CodeCell").filter(
            has=self.page.locator(".jp-InputArea", has_text=text)
        )

    def show_all_cells(self) -> None:
        """Draw every cell: JupyterLab only attaches those near the visible part."""
        for cell in self.page.locator(".jp-Notebook .jp-Cell").all():
            cell.scroll_into_view_if_needed()

    def screenshot(self, name: str, part: Locator | None = None) -> None:
        """Leave a picture of the page, or of a part of it."""
        picture(part or self.page, name)


def picture(shown: Page | Locator, name: str) -> None:
    """Leave a picture in OUT for a person to look at, where NKI_LAB_PICTURES is set: each takes up to a second."""
    if os.environ.get("NKI_LAB_PICTURES"):
        OUT.mkdir(parents=True, exist_ok=True)
        shown.screenshot(path=OUT / f"{name}.png")


@dataclass
class Console:
    """What the page said to the developer: errors, and requests that left or failed.

    Attributes:
        errors: texts of errors of scripts.
        requests: addresses asked for that are not this machine's.
    """

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> Console:
        """Collect from `page`."""
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self._heard(message))
        page.on("request", lambda request: self._request(request.url))
        return self

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            # "the server responded with a status of 500" does not say for what.
            self.errors.append(f"{message.text} ({message.location['url']})")

    def _request(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")):
            self.requests.append(url)


@contextmanager
def one_chromium() -> Iterator[None]:
    """Let every `browser` inside of it give a page of one Chromium, and the same page as long as it shows JupyterLab.

    A person keeps JupyterLab open, too; loading it takes longer than what most tests do with it.
    """
    _kept.append(None)
    try:
        yield
    finally:
        if chromium := _kept.pop():
            chromium.stop()


@contextmanager
def browser(
    chromium: str,
    width: int = 1400,
    height: int = 1000,
    still: float = STILL_SECONDS,
    anew: bool = False,
) -> Iterator[Page]:
    """Give a page of a headless Chromium, whose waits end when nothing moves any more.

    Args:
        chromium: path of the executable, from the fixture of that name.
        width, height: size of the window, in pixels of CSS.
        still: seconds without a move after which a wait fails.
        anew: whether it must be an empty page, also inside of `one_chromium`.
    """
    running = _kept[-1] if _kept else None
    if running is None or running.ended or running.still != still:
        if running is not None:
            running.stop()
        running = _Chromium(chromium, still)
        if _kept:
            _kept[-1] = running
    page = running.open(width, height, anew)
    try:
        yield page
        running.idle(page)
    except Exception as error:
        if running.ended:
            raise TimeoutError(f"nothing has moved for {still:g} seconds") from error
        raise
    finally:
        if not _kept:
            running.stop()


class _Chromium:
    """A running Chromium, whose pages share what they have loaded."""

    def __init__(self, chromium: str, still: float) -> None:
        self.still = still
        token = f"--nki-lab-tests={uuid.uuid4()}"
        expect.set_options(timeout=ENDLESS_MS)
        self._playwright = sync_playwright().start()
        self._chrome = self._playwright.chromium.launch(
            executable_path=chromium,
            headless=True,
            args=[*_CHROMIUM_ARGUMENTS, token],
            timeout=ENDLESS_MS,
        )
        self._context = self._chrome.new_context()
        self._idle: Page | None = None
        self._watchdog = Watchdog(self._context, token, still)

    @property
    def ended(self) -> bool:
        """Whether the watchdog has ended it."""
        return self._watchdog.ended

    def open(self, width: int, height: int, anew: bool) -> Page:
        """Give a page of this size: the one that was used last if it can be used again."""
        page = None
        if not anew:
            page, self._idle = self._idle, None
        page = page or self._context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        return page

    def idle(self, page: Page) -> None:
        """Take back a page."""
        if self._idle is None and page.evaluate(_CLOSE_ALL):
            page.wait_for_timeout(_CLOSED_MS)
            self._idle = page
        else:
            page.close()

    def leave(self, address: str) -> None:
        """Close the page that is kept if it shows this server: it would go on asking for it."""
        if self._idle and self._idle.url.startswith(address):
            self._idle.close()
            self._idle = None

    def stop(self) -> None:
        """End it."""
        self._watchdog.stop()
        self._chrome.close()
        self._playwright.stop()


# What `one_chromium` keeps; None until its first page is opened.
_kept: list[_Chromium | None] = []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
