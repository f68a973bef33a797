"""Finds wrong cells that nbval lets pass, and says why they are wrong.

nbval runs the cells and compares their outputs. These checks stand beside it, in the same pytest run, and fail
what it does not see: a magic that nobody has, a magic with a comment above it, an error that a magic such as %%capture
hides, an expected error that does not come, outputs that were never stored, a kernel that has ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

import pytest

#: What differs from run to run and may not be compared, in nbval's own format.
SANITIZE = Path(__file__).with_name("sanitize.cfg")
# How often a silent kernel is asked whether it is alive.
_TICK = 1.0


class Fault(NamedTuple):
    """What is wrong with a cell, and what to write instead."""

    found: str
    help: str


class _KernelEnded(Exception):
    """The process that runs the cells is gone."""


_ENDED = Fault(
    "the kernel ended while it ran",
    "look for exit(), for a crash of compiled code, and for more memory than there is; the cells below were not run",
)


def misplaced_magic(source: str) -> Fault | None:
    """Return the fault of a cell whose `%%` line has comments above it, which IPython does not see as a magic.

    Empty lines above are not an error: IPython drops them.
    """
    lines = source.splitlines()
    written = [number for number, line in enumerate(lines) if line.strip()]
    for number in written:
        line = lines[number].strip()
        if line.startswith("%%") and number != written[0]:
            return Fault(
                f"line {number + 1} is `{line}` with a comment above it, so its body is not run as one",
                f"begin the cell with `{line.split()[0]}`, and write the comment below that line",
            )
        if not line.startswith("#"):
            break
    return None


def missed_fault(
    cell: Any, may_raise: bool, compared: bool, reply: Mapping[str, Any], errors: Sequence[Any]
) -> Fault | None:
    """Return what is wrong with a cell that nbval let pass.

    Args:
        cell: the cell as it is stored.
        may_raise: the cell is marked `raises-exception`.
        compared: its outputs are to be compared with the stored ones.
        reply: what the kernel said when the cell had ended.
        errors: outputs of the run that are errors.
    """
    raised = reply.get("status") == "error"
    if may_raise:
        if not raised:
            return Fault(
                "is marked `raises-exception`, and ended without an error",
                "take the mark away or put the mistake back; `%%nki --expect CODE` looks for the error itself",
            )
        stored = [output.ename for output in cell.outputs if output.output_type == "error"]
        if stored[:1] not in ([], [reply["ename"]]) or (not errors and not stored):
            expected = stored[0] if stored else "an error of Python"
            return Fault(
                f"was to raise {expected}, and ends with {_error(reply)}",
                "correct the cell, or store its new output: nki-lab execute --write",
            )
    elif raised:
        return Fault(f"ends with {_error(reply)}", _help_with_magic(str(reply.get("evalue"))))
    if compared and cell.execution_count is None and cell.source.strip():
        return Fault(
            "was never executed, so there is no output to compare with",
            "store its output (nki-lab execute --write), or only run the cells (--lax)",
        )
    return None


def _error(reply: Mapping[str, Any]) -> str:
    first = str(reply.get("evalue")).strip().partition("\n")[0]
    return f"{reply.get('ename')}: {first}".rstrip(": ")


def _help_with_magic(message: str) -> str:
    unknown = re.search(r"magic (?:function )?`(%+\w+)`[^\n]* not found", message)
    if unknown is None:
        return "correct the line of the magic; IPython prints such an error and goes on"
    if "nki" in unknown[1]:
        return "run %load_ext nki_lab in a cell above, or correct the name"
    return f"load the extension that has `{unknown[1]}` in a cell above, or correct the name"


class NotebookChecks:
    """A plugin of pytest that fails the cells which nbval lets pass."""

    def __init__(self) -> None:
        self._ended: dict[Any, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        """Watch the kernel that nbval starts for the first cell, and run nothing once it is dead."""
        yield
        if not _is_cell(item):
            return
        notebook: Any = item.parent
        if not isinstance(notebook.kernel.get_message, _Watch):
            from nbval.plugin import get_sanitize_patterns

            from nki_lab.cli.notebook_file import REPORT_HIDDEN_ERRORS

            notebook.kernel.kc.execute(REPORT_HIDDEN_ERRORS, silent=True)
            notebook.kernel.get_message = _Watch(notebook.kernel)
            notebook.sanitize_patterns.update(get_sanitize_patterns(SANITIZE.read_text("utf-8")))
        if notebook in self._ended:
            pytest.skip(f"not run: the kernel ended in cell [{self._ended[notebook]}]")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None]:
        """Let nbval run a cell, and look at what it does not."""
        if not _is_cell(item) or item.options["skip"]:
            return (yield)
        from nbval.plugin import NbCellError

        _refuse(item, misplaced_magic(item.cell.source))
        watch = item.parent.kernel.get_message
        watch.reply = {}
        try:
            done = yield
        except _KernelEnded:
            self._ended[item.parent] = item.cell_num + 1
            item.parent.kernel.stop()  # its sockets, which would keep a worker from ending
            _refuse(item, _ENDED)
        except NbCellError:
            # A difference between outputs is often the consequence; the traceback of an exception says all.
            if item.options["check_exception"] or not _errors(item):
                _refuse(item, _missed(item, watch.reply, compared=False))
            raise
        _refuse(item, _missed(item, watch.reply, compared=item.options["check"]))
        return done


def _missed(item: Any, reply: Mapping[str, Any], *, compared: bool) -> Fault | None:
    may_raise = item.options["check_exception"]
    return missed_fault(item.cell, may_raise, compared, reply, _errors(item))


def _errors(item: Any) -> list[Any]:
    return [output for output in item.test_outputs if output.output_type == "error"]


def _is_cell(item: Any) -> bool:
    from nbval.plugin import IPyNbCell

    return isinstance(item, IPyNbCell)


def _refuse(item: Any, fault: Fault | None) -> None:
    if fault is not None:
        from nbval.plugin import NbCellError

        # Cells are counted from 1 as everywhere in Jupyter; nbval's own number begins at 0.
        where = f"{item.path.name}, cell [{item.cell_num + 1}]"
        text = f"{where}: {fault.found}\nhelp: {fault.help}"
        raise NbCellError(item.cell_num, text, item.cell.source) from None


class _Watch:
    """Hands the messages of a kernel to nbval, keeps the last reply, and notices when the kernel is dead.

    nbval itself would wait for the whole time limit of the cell.
    """

    def __init__(self, kernel: Any) -> None:
        self._read = kernel.get_message
        self._is_alive = kernel.is_alive
        self.reply: Mapping[str, Any] = {}

    def __call__(self, stream: str, timeout: float | None = None) -> Any:
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            wait = max(0.0, min(_TICK, end - time.monotonic()))
            try:
                message = self._read(stream, timeout=wait)
            except Empty:
                if not self._is_alive():
                    raise _KernelEnded from None
                if time.monotonic() >= end:
                    raise
            else:
                if message["msg_type"] == "execute_reply":
                    self.reply = message["content"]
                return message
