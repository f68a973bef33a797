"""Chooses the configurations of nki-library's suite that are timed, and times them.

A pytest plugin inside a run of their suite, in place of their harness's own execution: the kernel they would run is
compiled for trn2 and timed; values are neither computed nor compared.
"""

from __future__ import annotations

import enum
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.library import mended
from benchmarks.library.rows import SIZES, Goal, agrees, name_of
from benchmarks.running import Run
from benchmarks.scoring import PARTS
from nki_lab.dtypes import dtype_of
from nki_lab.ir.program.execution import Execution
from nki_lab.runtime import simulate
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule
from nki_lab.timing.two_cores import schedule_cores
from tests.public.nki_library import stand_ins

stand_ins.install()
mended.install()

_CORES = "2"  # of a logical core where a test does not say: their CompilerArgs on trn2
_ENUMS = {"norm_type": "NormType", "quant_type": "QuantizationType", "act_fn_type": "ActFnType"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    group = parser.getgroup("nki_library_times")
    group.addoption("--goals", help="JSON file with the configurations to time")
    group.addoption("--times", help="file that gets one line of JSON for each")
    group.addoption("--time-limit", type=int, default=120, help="seconds of one configuration")


def pytest_configure(config: pytest.Config) -> None:
    """Read which configurations are asked for."""
    given = json.loads(Path(config.getoption("--goals")).read_text("utf-8"))
    config.stash[_GOALS] = [Goal(**goal) for goal in given]


_GOALS = pytest.StashKey[list[Goal]]()
_ANSWERS = pytest.StashKey[list[int]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first configuration that agrees with each goal; kernels have been imported by now."""
    mended.complete()
    left = dict(enumerate(config.stash[_GOALS]))
    kept = []
    for item in items:
        found = _facts(item)
        goal = found.pop("goal", None)
        numbers = [
            n for n, g in left.items() if agrees(g, found) and goal in (None, f"{g.goal:.0f}")
        ]
        if numbers:
            item.stash[_ANSWERS] = numbers
            # What the harness skips because its simulation would take long takes seconds here.
            item.own_markers = [mark for mark in item.own_markers if mark.name != "skip"]
            for n in numbers:
                del left[n]
            kept.append(item)
    items[:] = kept


def _facts(item: pytest.Item) -> dict[str, str]:
    """Return what a configuration is, as the rows write it."""
    found: dict[str, str] = {}
    for name, value in item.callspec.params.items() if hasattr(item, "callspec") else ():
        if name == "tpbSgCyclesSum":
            first = value[0] if isinstance(value, tuple) else value
            found["goal"] = "none" if first is None else f"{first:.0f}"
        elif hasattr(value, "tensors"):
            for tensor in value.tensors.values():
                for key, number in tensor.items():
                    found[name_of(key)] = _range_text(item, name_of(key), number)
        else:
            found[name_of(name)] = _text(value)
    return {"vnc_degree": _CORES, **found}


def _range_text(item: pytest.Item, name: str, value: Any) -> str:
    if name in _ENUMS and not isinstance(value, enum.Enum):
        value = getattr(item.module, _ENUMS[name])(value)
    elif value in (0, 1) and name not in SIZES:
        value = bool(value)
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool | int | float | str | dict | list | tuple) or value is None:
        return str(value)
    dtype = dtype_of(value)
    return str(value if dtype is None else dtype)


def pytest_sessionstart() -> None:
    """Complete the harness, which the conftest file has imported by now, and take its execution over."""
    stand_ins.complete()
    sys.modules["test.utils.test_orchestrator"].Orchestrator.execute = _execute


_running: pytest.Item | None = None
_limit = 0


def _execute(self: Any, tested: Any) -> None:
    given = tested.kernel_input or {}
    cores = tested.compiler_input.logical_nc_config
    arguments = {name.removesuffix(".must_alias_input"): value for name, value in given.items()}
    begun = time.perf_counter()
    compiled = simulate(tested.kernel_func)[cores].compile(**arguments).compiled
    kernels = (compiled.kernel, *compiled.others)
    executions = [Execution.in_program_order(kernel) for kernel in kernels]
    options = TimingOptions(program_overhead=True)
    if len(executions) == 2:
        timelines = schedule_cores(executions, options)
    else:
        timelines = [schedule(executions[0], options)]
    run = Run(max(timelines, key=lambda timeline: timeline.total_ns))
    assert _running is not None
    _write(
        _running,
        value=run.total_ns,
        roofline_ns=run.roofline_ns,
        bytes_ns=run.bytes_ns,
        bottleneck=run.bottleneck,
        busy=[run.active_percent(part) for part in PARTS],
        instructions=sum(len(kernel.instructions) for kernel in kernels),
        seconds=round(time.perf_counter() - begun, 2),
    )
    raise _Timed


class _Timed(BaseException):
    """What is asked of a configuration is done: no values are compared."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Stop a configuration when it is timed, or takes too long, and write down why one was not timed."""
    global _running
    _running = item

    def stop(*_: Any) -> None:
        raise TimeoutError("the time limit of one configuration")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(item.config.getoption("--time-limit"))
    try:
        return (yield)
    except _Timed:
        return None
    except BaseException as problem:
        _write(item, problem=f"{type(problem).__name__}: {problem}"[:300])
        raise
    finally:
        signal.alarm(0)


def _write(item: pytest.Item, **facts: Any) -> None:
    line = {"goals": item.stash[_ANSWERS], "name": item.name, **facts}
    with open(item.config.getoption("--times"), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
