"""Tests that the work of a cell is shown where somebody looks at the cell, and nowhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.long_kernel import LONG

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

LOAD = f"""\
%load_ext nki_lab
import numpy as np
a = np.ones((128, 8), np.float32)

{LONG}
import nki_lab.progress
nki_lab.progress.FIRST_S = 0.1"""
WORK = "print('first')\n_ = long(a, 120_000)\nprint('last')"


class FrontEnd:
    """A kernel, and everything that it sends to its front end."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._editors: set[str] = set()  # comms for editors

    def run(self, code: str, metadata: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a cell and return the messages about it, but those for editors."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        request = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(request)
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            assert message["msg_type"] != "error", message["content"]["evalue"]
            if message["content"].get("execution_state") == "idle":
                return found
            if message["content"].get("target_name") == "nki-lab":
                self._editors.add(message["content"]["comm_id"])
            elif message["content"].get("comm_id") in self._editors:
                continue
            elif message["msg_type"] not in ("status", "execute_input"):
                found.append(message)
        pytest.fail("the kernel is still busy")

    def answer(self) -> None:
        """Do what our extension does when the kernel greets."""
        content = {"comm_id": "1", "target_name": "nki-lab:answer", "data": {}}
        self.client.shell_channel.send(self.client.session.msg("comm_open", content))


@pytest.fixture
def front_end(tmp_path: Path) -> Iterator[FrontEnd]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(tmp_path)}
    manager, client = start_new_kernel(kernel_name="python3", env=environment)
    try:
        made = FrontEnd(client)
        (greeting, closed) = made.run(LOAD, {"cellId": "zero"})
        assert greeting["msg_type"] == "comm_open"
        assert greeting["content"]["target_name"] == "nki-lab:greeting"
        assert closed["msg_type"] == "comm_close"
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def streams(messages: list[dict[str, Any]]) -> str:
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


@pytest.mark.thorough
def test_nothing_is_shown_where_a_notebook_is_only_executed(front_end: FrontEnd):
    messages = front_end.run(WORK)
    assert streams(messages) == "first\nlast\n"
    assert {m["msg_type"] for m in messages} == {"stream"}


@pytest.mark.thorough
def test_an_output_is_updated_and_empty_at_the_end(front_end: FrontEnd):
    messages = front_end.run(WORK, {"cellId": "one"})
    assert streams(messages) == "first\nlast\n"
    shown = [m for m in messages if m["msg_type"] != "stream"]
    assert [m["msg_type"] for m in shown] == ["display_data"] + ["update_display_data"] * (
        len(shown) - 1
    )
    assert len({m["content"]["transient"]["display_id"] for m in shown}) == 1
    data = [m["content"]["data"] for m in shown]
    assert any("long: simulating" in d.get("text/plain", "") for d in data)
    assert data[-1] == {}


def test_the_extension_is_told_in_its_cell_and_there_is_no_output(front_end: FrontEnd):
    front_end.answer()
    messages = front_end.run(WORK, {"cellId": "two"})
    assert streams(messages) == "first\nlast\n"
    opened, *told, closed = (m for m in messages if m["msg_type"] != "stream")
    assert opened["msg_type"] == "comm_open"
    assert opened["content"]["target_name"] == "nki-lab:progress"
    assert opened["content"]["data"] == {"cellId": "two"}
    assert {m["msg_type"] for m in told} == {"comm_msg"}
    assert closed["msg_type"] == "comm_close"
    fractions = [m["content"]["data"]["fraction"] for m in told]
    known = [f for f in fractions if f is not None]
    assert known
    assert known == sorted(known)
    # A kernel that has been loaded anew asks again.
    front_end.run("%unload_ext nki_lab\n%load_ext nki_lab\nnki_lab.progress.FIRST_S = 0.1")
    messages = front_end.run(WORK, {"cellId": "three"})
    assert "comm_open" not in {m["msg_type"] for m in messages}
