"""Talks with a kernel as an editor does: with ids of cells, and over the comm."""

from __future__ import annotations

import os
import time
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager, start_new_kernel

ROOT = Path(__file__).parents[2]


class EditorKernel:
    """A kernel, and what its editor has been told.

    Attributes:
        opened: ids of comms of ours that the kernel opened.
        messages: what came over them, in order.
    """

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(folder)}
        environment.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
        self.manager: KernelManager
        self.manager, self.client = start_new_kernel(kernel_name="python3", env=environment)
        self.opened: list[str] = []
        self.messages: list[dict[str, Any]] = []

    def stop(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code: str, cell: str | None = None) -> list[dict[str, Any]]:
        """Run a cell and return what the editor was told while it ran; `text` and `error` keep its output."""
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": True}
        content |= {"user_expressions": {}, "allow_stdin": False}
        message = self.client.session.msg("execute_request", content)
        if cell is not None:
            message["metadata"]["cellId"] = cell
        self.client.shell_channel.send(message)
        self.text, self.error = "", ""
        sent = message["header"]["msg_id"]
        before = len(self.messages)
        self._until(
            lambda m: (
                m["parent_header"].get("msg_id") == sent
                and m["msg_type"] == "status"
                and m["content"]["execution_state"] == "idle"
            )
        )
        return self.messages[before:]

    def ask(self, answer: str, **data: Any) -> dict[str, Any]:
        """Send a message over the comm and return the next one of the kind `answer`."""
        self.send(**data)
        return self.next(answer)

    def send(self, **data: Any) -> None:
        """Send a message over the comm."""
        content = {"comm_id": self.opened[-1], "data": data}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", content))

    def next(self, kind: str) -> dict[str, Any]:
        """Return the next message of a kind."""
        before = len(self.messages)
        self._until(lambda m: any(told["kind"] == kind for told in self.messages[before:]))
        return self.messages[-1]

    def check(self, text: str, cell: str) -> dict[str, Any]:
        """Ask for a check and return the answer."""
        answer = self.ask("checked", kind="check", id=7, cell=cell, text=text)
        assert (answer["id"], answer["origin"]) == (7, cell)
        return answer

    def _until(self, is_last: Any) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            content, kind = message["content"], message["msg_type"]
            if kind == "comm_open" and content["target_name"] == "nki-lab":
                self.opened.append(content["comm_id"])
            elif kind == "comm_msg" and content["comm_id"] in self.opened:
                self.messages.append(content["data"])
            elif kind == "stream":
                self.text += content["text"]
            elif kind == "error":
                self.error = content["evalue"]
            if is_last(message):
                return
        raise AssertionError("the kernel does not answer")
