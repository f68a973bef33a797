"""Reads notebook files, and keeps what is worth keeping of cells that have run.

What is kept is what a reader without a kernel can see and what is the same on every run: text, HTML
and small pictures. Widgets live in a kernel, so their state and ids are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import nbformat

from nki_lab.choices import PROGRESS
from nki_lab.errors import BadFile, UsageError
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE

_LIVE_TYPES = (LIVE_TYPE, WIDGET_TYPE, "application/vnd.jupyter.widget-state+json")
# nbval's tag for a cell whose output is another one on every machine.
_MACHINE_DEPENDENT = "nbval-ignore-output"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_LAST_WORDS = 20
_NOT_A_NOTEBOOK = (
    "save it again in Jupyter, or restore it: a notebook is a JSON document of its own format"
)
_REPORT = "print(globals().get('_nki') or '')"
#: Run in a kernel before its cells: a cell fails where a magic met an error and went on, as %%capture and %rerun do,
#: which run the cell themselves and drop what `run_cell` returns, and as %%time does in older releases of IPython.
#: What the author calls and catches is theirs.
REPORT_HIDDEN_ERRORS = """
def _report_hidden_errors(shell):
    import sys
    rooms = ("IPython.core.interactiveshell", "IPython.core.events", "IPython.core.async_helpers", "ipykernel.zmqshell")
    running, hidden, show = [], [], shell.showtraceback

    def by_author():
        frame = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__") in rooms:
            frame = frame.f_back
        return frame is not None and frame.f_globals is shell.user_ns

    def begins(info):
        running.append((info, by_author()))

    def shows(*args, **keywords):
        if not by_author():
            hidden.append(sys.exc_info()[1])
        return show(*args, **keywords)

    def ends(result):
        own = False
        while running and result is not None:
            info, own = running.pop()
            if info is result.info:
                break
        error = result and (result.error_before_exec or result.error_in_exec)
        if running:
            if error and not own:
                hidden.append(error)
            return
        errors = [e for e in hidden if e is not None]
        if result is not None and not error and errors:
            result.error_in_exec = errors[0]
        hidden.clear()

    shell.showtraceback = shows
    shell.events.register("pre_run_cell", begins)
    shell.events.register("post_run_cell", ends)

_report_hidden_errors(get_ipython())
del _report_hidden_errors
"""


# What IPython colours its tracebacks with.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Executed:
    """A notebook whose cells have run.

    Attributes:
        notebook: the notebook with its outputs, cleaned.
        report: report of the last kernel that ran in it, "" where none did.
    """

    notebook: Any
    report: str

    @property
    def cells(self) -> int:
        """Number of cells with code."""
        return sum(cell.cell_type == "code" for cell in self.notebook.cells)


def read(path: Path) -> Any:
    """Read a notebook; BadFile for a file that is none."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise BadFile(f"there is no file {path}", help="name a notebook that is there") from None
    except Exception as error:  # nbformat lets errors of json and jsonschema through
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadFile(f"{path.name} is not a notebook: {reason}", help=_NOT_A_NOTEBOOK) from None


def execute(path: Path, seconds: int, keep: Callable[[Any], None] | None = None) -> Executed:
    """Run every cell of a notebook, in its folder, in a kernel of this Python.

    Args:
        path: the notebook; the file is not changed.
        seconds: time limit of each cell.
        keep: takes the notebook where a cell fails, cleaned: that cell and those before it have their new outputs,
            those behind it what they had.

    Raises:
        BadFile: the file is not a notebook.
        UsageError: a cell raised, took too long or ended the kernel.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = [cell.outputs for cell in code]
    for cell in code:
        cell.outputs, cell.execution_count = [], None
    notebook.cells.append(nbformat.v4.new_code_cell(_REPORT, id="report-of-the-last-run"))
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name=_KERNEL["name"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
        coalesce_streams=True,
    )

    def begin(notebook: Any) -> None:
        assert client.kc is not None
        client.kc.execute(REPORT_HIDDEN_ERRORS, silent=True)

    client.on_notebook_start = begin
    # The kernel greets on its standard error; what it says there matters only when it dies.
    with TemporaryFile("w+") as log:
        try:
            client.execute(stderr=log, env=unattended())
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed = _failure(error, notebook, path.name, seconds, log)
            if keep is not None:
                notebook.cells.pop()
                for cell, outputs in zip(code, stored, strict=True):
                    if not (cell.outputs or _has_run(cell)):
                        cell.outputs = outputs
                clean(notebook)
                keep(notebook)
            raise failed from None
    last = notebook.cells.pop()
    clean(notebook)
    return Executed(notebook, "".join(output.text for output in last.outputs).strip())


def _failure(error: Any, notebook: Any, name: str, seconds: int, log: IO[str]) -> UsageError:
    """Return what a command says of a cell that raised, took too long or ended the kernel."""
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    if isinstance(error, CellExecutionError):
        shown = _traceback(notebook) or f"{error.ename}: {error.evalue}"
        number = sum(_has_run(cell) for cell in notebook.cells)
        failed = UsageError(
            f"{name}: cell [{number}] raises {error.ename}",
            help="correct the cell, or tag it `raises-exception` where it is to fail",
        )
        failed.message += f"\n\n{shown}"  # a traceback has lines, which a message has not
        return failed
    if isinstance(error, CellTimeoutError):
        return UsageError(
            f"{name}: a cell took more than {seconds} seconds",
            help=f"give its cells more time: --timeout {10 * seconds}",
        )
    log.seek(0)
    return UsageError(
        f"{name}: the kernel died",
        notes=log.read().splitlines()[-_LAST_WORDS:],
        help="look for a cell that ends Python or needs more memory than there is",
    )


def unattended() -> dict[str, str]:
    """Return the environment of notebooks that a command runs: what they solve, no learner has solved."""
    return {**os.environ, PROGRESS.env: "none"}


def clean(notebook: Any) -> None:
    """Leave in a notebook only what a reader sees and what is the same on every run."""
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
        if _MACHINE_DEPENDENT in cell.metadata.get("tags", ()) and "outputs" in cell:
            cell.outputs = []
        for output in cell.get("outputs", ()):
            for kind in _LIVE_TYPES:
                output.get("data", {}).pop(kind, None)
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number


def write(notebook: Any, path: Path) -> None:
    """Write a notebook, unless the file says the same already."""
    text = nbformat.writes(notebook, version=4).rstrip("\n") + "\n"
    if path.read_text("utf-8") == text:
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, "utf-8", newline="\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _has_run(cell: Any) -> bool:
    return cell.get("execution_count") is not None


def _traceback(notebook: Any) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    told = "\n".join("\n".join(o.traceback) for o in outputs if o.output_type == "error")
    return _COLOURS.sub("", told)
