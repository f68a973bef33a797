"""Asks a real Jupyter server that has nki_lab's routes.

    with RunningServer(folder) as server:
        answer = server.page("run.json", theme="dark")
        answer.status, answer.message

It asks for a token, and its configuration is its own: nothing but these routes is switched on by it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKEN = "secret-of-the-tests"
_START_SECONDS = 90
_ENABLED = {"ServerApp": {"jpserver_extensions": {"nki_lab.server": True}}}


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Message
    body: bytes

    @property
    def message(self) -> str:
        """The sentence of an answer that is no page."""
        return json.loads(self.body)["message"]

    @property
    def help(self) -> str:
        """What to do about it."""
        return json.loads(self.body)["help"]


class RunningServer:
    """A Jupyter server on the loopback interface.

    Args:
        root: folder it shows.
        options: of its command line.
        environment: variables to set for it.
    """

    def __init__(
        self, root: Path, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        self.root = root
        self.options = options
        self.environment = environment or {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def __enter__(self) -> RunningServer:
        self._private = Path(tempfile.mkdtemp(prefix="server-"))
        folder = self._private / "config" / "jupyter_server_config.d"
        folder.mkdir(parents=True)
        (folder / "nki_lab.json").write_text(json.dumps(_ENABLED))
        private = {
            f"JUPYTER_{name.upper()}_DIR": str(self._private / name)
            for name in ("config", "data", "runtime")
        }
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._log = (self._private / "log").open("w")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                *("--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"),
                *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={self.root}"),
                *self.options,
            ],
            env={**os.environ, **private, "PYTHONPATH": path, **self.environment},
            cwd=self._private,
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
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._private, ignore_errors=True)

    def page(self, path: str, token: str = TOKEN, seconds: float = 60, **query: str) -> Answer:
        """Ask for the page of a file; `path` is put into the address as it is, but for blanks."""
        asked = urllib.parse.urlencode(query)
        return self.get(f"nki-lab/page/{path.replace(' ', '%20')}?{asked}", token, seconds)

    def get(self, address: str, token: str = TOKEN, seconds: float = 60) -> Answer:
        """Ask for an address below the server's."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{address}")
        if token:
            request.add_header("Authorization", f"token {token}")
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def log(self) -> str:
        """Return what the server has written so far."""
        return (self._private / "log").read_text()

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api", timeout=2).read()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server did not start:\n{self.log()[-3000:]}") from None
                time.sleep(0.1)
