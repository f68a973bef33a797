"""Tells the editor what it needs, and answers what it asks.

Kernel to editor, each a dict with `kind`:
    status       chip, backend and recent runs; after the comm was opened, after runs, and when asked
    diagnostics  marks by cell, made by the cell `origin`, instead of all that this cell made before
    checked      the answer to `check`, with the same marks
Editor to kernel:
    hello        asks for status and all marks, after a reload of the page
    target       chooses the chip `name`, as %nki_target does
    check        asks what is wrong with `text` of the cell `cell`, without running it
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

from nki_lab import __version__
from nki_lab.choices import TARGET, Choices, choose
from nki_lab.errors import NkiError
from nki_lab.magics.cells import Cell, future_flags
from nki_lab.magics.channel import Channel, Message
from nki_lab.magics.check_cell import MAGIC, Draft, is_kernel_cell
from nki_lab.magics.copied_process import AVAILABLE, in_copy
from nki_lab.magics.diagnostics import ByCell, CellIds, diagnostics
from nki_lab.magics.front_end import running_cell
from nki_lab.magics.run_list import RunList
from nki_lab.runtime import Result
from nki_lab.runtime.recording import on_run
from nki_lab.source import headline
from nki_lab.targets import get_target, target_names

#: Seconds that a check may spend on compiling.
CHECK_SECONDS = 2.0


_Heard = TypeVar("_Heard")


def _aside(method: Callable[[Editor, _Heard], None]) -> Callable[[Editor, _Heard], None]:
    """Let a mistake of ours end the messages to an editor, but no cell of the author."""

    @functools.wraps(method)
    def heard(self: Editor, what: _Heard) -> None:
        try:
            method(self, what)
        except Exception as error:
            self.detach()
            print(
                "nki_lab: editors get no more messages, because of a mistake in nki_lab:"
                f" {headline(error)}",
                file=sys.stderr,
            )

    return heard


class Editor:
    """The notebook as an editor sees it, kept up to date with events of IPython.

    Nothing is sent, and next to nothing done, where no front end has sent the id of a cell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._channel = Channel(self._received)
        self._ids = CellIds()
        self._runs = RunList()
        self._printed: list[NkiError] = []
        self._told: dict[str, ByCell] = {}
        self._target = ""
        self._attached = False

    def attach(self) -> None:
        """Listen to cells and runs."""
        self._attached = True
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)
        on_run(self._ran)

    def detach(self) -> None:
        """Stop listening, and close the comm."""
        if not self._attached:
            return
        self._attached = False
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)
        on_run(None)
        self._channel.close()

    # -- while a cell runs ------------------------------------------------------------------------------------------

    def defined(self, cell: Cell) -> None:
        """Note under which name the text of the `%%nki` cell that is running is known."""
        if self._channel.is_open and self._cell is not None:
            self._ids.note(cell.filename, self._cell)

    def expected(self, errors: Iterable[NkiError]) -> None:
        """Note errors that the running cell was to end with: its text has them."""
        self._printed += errors

    _cell: str | None = None

    @_aside
    def _ran(self, result: Result) -> None:
        if self._channel.is_open:
            self._runs.note(result)

    @_aside
    def _begin(self, info: ExecutionInfo) -> None:
        self._cell = running_cell(self._shell)
        self._printed = []
        if self._cell is None:
            return
        if self._channel.open():
            self._send_status()
        raw = info.raw_cell or ""
        if not is_kernel_cell(raw) and hasattr(self._shell.compile, "get_code_name"):
            name = self._shell.compile.get_code_name(raw, raw, self._shell.execution_count)
            above = len(raw) - len(raw.lstrip())
            self._ids.note(name, self._cell, raw[:above].count("\n"))

    @_aside
    def _end(self, result: ExecutionResult) -> None:
        if result.info is None:
            return
        if self._cell is None:  # the cell that has loaded nki_lab: its beginning was not seen
            self._begin(result.info)
        cell, self._cell = self._cell, None
        if cell is None or not self._channel.is_open:
            return
        number = result.execution_count
        findings = self._runs.end_cell(cell, number, self._ids)
        error = result.error_before_exec or result.error_in_exec
        errors: list[BaseException] = list(self._printed)
        raw = result.info.raw_cell or ""
        if isinstance(error, NkiError) or (isinstance(error, Exception) and is_kernel_cell(raw)):
            errors.append(error)
        marks = diagnostics(self._ids, cell, errors, findings or (), raw)
        self._printed = []
        self._tell(cell, marks)
        if findings is not None or self._target_name() != self._target:
            self._send_status()

    def _tell(self, origin: str, by_cell: ByCell) -> None:
        """Send the marks of a cell that has run, where there are any or were any."""
        concerned = origin in self._told or any(origin in marks for marks in self._told.values())
        if not any(by_cell.values()) and not concerned:
            return
        # A cell that has run is as it was typed: what others had found in it is of an older text.
        for marks in self._told.values():
            marks.pop(origin, None)
        self._told.pop(origin, None)
        if any(by_cell.values()):
            self._told[origin] = by_cell
        self._send_marks(origin, by_cell)

    def _send_marks(self, origin: str, by_cell: ByCell) -> None:
        self._channel.send({"kind": "diagnostics", "origin": origin, "cells": by_cell})

    # -- between cells ----------------------------------------------------------------------------------------------

    @_aside
    def _received(self, message: Message) -> None:
        kind = message.get("kind")
        if kind == "hello":
            self._send_status()
            for origin, marks in self._told.items():
                self._send_marks(origin, marks)
        elif kind == "target" and message.get("name") in target_names():
            choose(TARGET, message["name"], "%nki_target")
            self._send_status()
        elif kind == "check":
            text, cell = message.get("text"), message.get("cell")
            if isinstance(text, str) and isinstance(cell, str):
                self._check(message.get("id"), cell, text)

    def _target_name(self) -> str:
        """Return the chip that a kernel of the dialect of the last run is compiled for."""
        try:
            return Choices.current().with_standard(self._runs.standard).chip.name
        except NkiError:  # a chip that nobody knows, in the environment
            return ""

    def _send_status(self) -> None:
        self._target = self._target_name()
        self._channel.send(
            {
                "kind": "status",
                "version": __version__,
                "target": self._target,
                "targets": list(dict.fromkeys(get_target(name).name for name in target_names())),
                "backend": Choices.current().backend,
                "runs": self._runs.rows(self._shell.user_ns),
            }
        )

    def _check(self, number: Any, cell: str, text: str) -> None:
        """Answer a check: at once with what the text says, or once a copy of the process has compiled the call."""

        def answer(marks: ByCell, compiled: bool, unseen: str) -> None:
            self._channel.send(
                {
                    "kind": "checked",
                    "id": number,
                    "origin": cell,
                    "cells": marks,
                    "compiled": compiled,
                    "unseen": unseen,
                }
            )

        if not is_kernel_cell(text):
            answer({cell: []}, False, "the cell does not start with %%nki")
            return
        filename = f"<cell {cell}>"
        ids = self._ids.and_also(filename, cell)
        try:
            draft = Draft(
                Cell.unrun(filename, MAGIC, text), self._shell.user_ns, future_flags(self._shell)
            )
        except NkiError as error:
            answer(diagnostics(ids, cell, [error], text=text), False, "")
            return
        more = draft.read()
        by_cell = diagnostics(ids, cell, draft.errors, draft.findings, text)
        if not more or not AVAILABLE:
            draft.cell.forget()
            answer(by_cell, False, "this system cannot copy a process" if more else draft.unseen)
            return

        def compile_() -> Any:
            try:
                draft.compile()
            except (
                Exception
            ) as error:  # a fault of ours, which must not pass for a kernel that takes long
                return [[], f"nki_lab failed while it compiled the cell: {headline(error)}"]
            marks = diagnostics(ids, cell, draft.errors, draft.findings, text)
            return [marks, draft.unseen]

        def done(told: Any) -> None:
            if told is None:
                answer(
                    by_cell, False, f"compiling was not finished after {CHECK_SECONDS:g} seconds"
                )
            elif told[1]:
                answer(by_cell, False, told[1])
            else:
                answer(told[0], True, "")

        in_copy(self._channel.loop, compile_, done, CHECK_SECONDS)
        draft.cell.forget()


_editors: dict[int, Editor] = {}


def attach_editor(shell: InteractiveShell) -> None:
    """Have the editor in front of a shell told about its cells."""
    detach_editor(shell)
    _editors[id(shell)] = Editor(shell)
    _editors[id(shell)].attach()


def detach_editor(shell: InteractiveShell) -> None:
    """End what `attach_editor` began."""
    editor = _editors.pop(id(shell), None)
    if editor is not None:
        editor.detach()


def editor_of(shell: InteractiveShell) -> Editor | None:
    """Return what tells the editor in front of a shell."""
    return _editors.get(id(shell))
