"""Tests cells in a real kernel: numbers of cells, interrupts and time limits."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.manager import KernelManager, start_new_kernel

from tests.magics.notebook import ARRAYS, cell

ROOT = Path(__file__).parents[2]
ENDLESS = "print('started', flush=True)\ndef endless(x):\n    while True:\n        nl.load(x)\n"

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


@dataclass
class Kernel:
    """A running kernel and what its front end gets to see."""

    manager: KernelManager
    client: Any

    def run(self, code: str, interrupt: bool = False, typed: Sequence[str] = ()) -> tuple[str, str]:
        """Run a cell; return its text output and its error as shown, "" where there is none.

        With `interrupt`, the kernel is interrupted once the cell has printed something. `typed` answers prompts.
        """
        sent = self.client.execute(code, allow_stdin=bool(typed))
        for answer in typed:
            self.client.get_stdin_msg(timeout=30)
            self.client.input(answer)
        text, shown = "", ""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
                if interrupt:
                    interrupt = False
                    # A moment later, so that the cell is past its print and inside the kernel.
                    threading.Timer(0.2, self.manager.interrupt_kernel).start()
            elif message["msg_type"] == "error":
                shown = "\n".join([content["ename"], *content["traceback"]])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return _plain(text), _plain(shown)
        pytest.fail(f"the kernel is still busy with:\n{code}")


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Return a kernel with nki_lab and two arrays loaded, in its cell 1."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    folder = tmp_path_factory.mktemp("ipython")
    environment = os.environ | {"PYTHONPATH": path, "IPYTHONDIR": str(folder)}
    environment.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
    manager, client = start_new_kernel(kernel_name="python3", env=environment)
    try:
        made = Kernel(manager, client)
        assert made.run(f"%load_ext nki_lab\n{ARRAYS}") == ("", "")
        # What a first run loads would take most of a short time limit on a busy machine.
        assert made.run(cell("--run 'add(a, b)' --quiet")) == ("", "")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_errors_name_the_cell_by_its_number(kernel: Kernel):
    number = int(kernel.run("print(len(In) - 1)")[0]) + 1
    text, shown = kernel.run("\n\n" + cell("--shwo ir"))
    assert text == ""
    assert shown.startswith("UnknownOption\nerror[NKI603]: %%nki has no option `--shwo`")
    assert f"--> cell [{number}], line 3" in shown


def test_an_interrupt_ends_the_cell_and_the_next_one_is_right(kernel: Kernel):
    started = time.monotonic()
    text, shown = kernel.run(cell("--run 'endless(a)'", ENDLESS), interrupt=True)
    assert time.monotonic() - started < 10
    assert text == "started\n"
    assert shown.startswith("KeyboardInterrupt\n")
    assert "--> cell [" in shown
    text, shown = kernel.run(cell("--run 'add(a, b)' --check 'a + b' --show none"))
    assert (text.splitlines()[0][:11], shown) == ("add on trn3", "")


def test_a_time_limit_ends_the_cell_and_the_next_one_is_right(kernel: Kernel):
    _, shown = kernel.run(cell("--timeout 0.3 --run 'endless(a)'", ENDLESS))
    assert shown.startswith("TimedOut\nerror[NKI602]: not finished after 0.3 seconds")
    assert "line 5" in shown or "line 4" in shown
    assert kernel.run("print(a.shape)") == ("(128, 24)\n", "")


def test_a_time_limit_in_a_loop_of_the_device_names_its_line(kernel: Kernel):
    body = """
def counting(x):
    tile = nl.load(x)
    going = nisa.register_alloc(1)
    while going:
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(x, tile)
"""
    _, shown = kernel.run(cell("--nki 0.6 --timeout 1.5 --run 'counting(a)'", body))
    assert shown.startswith("TimedOut\nerror[NKI602]: not finished after 1.5 seconds")
    assert re.search(r"line [567]\b", shown)


def test_source_and_tracebacks_have_the_lines_of_the_cell(kernel: Kernel):
    kernel.run("%%nki\n\ndef f(x):\n    return x\ndef g():\n    return {}['key']\nf = nki.jit(f)")
    text, _ = kernel.run("import inspect; print(inspect.getsourcelines(f))")
    assert text == "(['def f(x):\\n', '    return x\\n'], 3)\n"
    _, shown = kernel.run("g()")
    assert "----> 6     return {}['key']" in shown


DOUBLED = """
def doubled(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    {stop}
    nisa.tensor_scalar(tile, tile, nl.multiply, -1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


def test_breakpoint_in_a_debug_run_shows_values_and_steps_over_instructions(kernel: Kernel) -> None:
    body = DOUBLED.format(stop="breakpoint()")
    line = "--debug --run 'doubled(a[:2, :2])' --show none"
    text, shown = kernel.run(cell(line, body), typed=("p tile", "s", "p tile", "c"))
    assert shown == ""
    assert text.count("<tensor `tile` [2, 2] float32 in sbuf>") == 2
    first, second = re.findall(r"in sbuf>\n\[\[ ?(-?)\d", text)
    assert (first, second) == ("-", ""), text
    assert "skipped" not in text
    assert "doubled on trn3" in text


def test_a_debugger_started_after_an_error_stops_at_the_kernels_line(kernel: Kernel) -> None:
    body = DOUBLED.format(stop="assert np.asarray(tile).min() > 0")
    _, shown = kernel.run(cell("--debug --run 'doubled(a[:2, :2])'", body))
    assert shown.startswith("KernelRaised")
    text, shown = kernel.run("%debug", typed=("p tile", "q"))
    assert "<tensor `tile` [2, 2] float32 in sbuf>" in text
    assert "nki_lab" not in text


def test_a_cell_that_runs_again_frees_what_it_replaces(kernel: Kernel) -> None:
    count = (
        "import gc\nfrom nki_lab.runtime import Result\nfrom nki_lab.simulator import Program\n"
        "gc.collect()\nobjects = gc.get_objects()\n"
        "print([sum(type(o) is kind for o in objects) for kind in (Result, Program)])\ndel objects"
    )
    text = cell("--run 'add(a, b)' --show none --quiet")
    before = kernel.run(text + "\n")[1] + kernel.run(count)[0]
    for number in range(6):
        wrong = "--check 'a - b'" if number % 2 else "--check 'a + b'"
        _, shown = kernel.run(cell(f"--run 'add(a, b)' {wrong} --show none --quiet"))
        assert bool(shown) == bool(number % 2)
        kernel.run(cell("--timeout 0.3 --run 'endless(a)'", ENDLESS))
    assert kernel.run(count)[0] == before
    kernel.run("del add_result, _nki, add")
    runs, _ = eval(kernel.run(count)[0])
    assert runs == eval(before)[0] - 1
