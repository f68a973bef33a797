"""Chooses the configurations of nki-library's suite that run, and records the outcome of each.

A pytest plugin inside the run of their suite. Of every test function it keeps a few configurations, small ones
first, and it appends one line of JSON for each outcome to the report.
"""

from __future__ import annotations

import json
import random
import re
import signal
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nki_lab.runtime.recording import record_runs
from tests.public.nki_library import stand_ins
from tests.public.nki_library.selection import drawn, spread

stand_ins.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the plugin."""
    group = parser.getgroup("nki_library")
    group.addoption("--pick", type=int, default=2, help="configurations of each test function")
    group.addoption(
        "--mx", action="store_true", help="run what only trn3 can run, and nothing else"
    )
    group.addoption("--draw", type=int, help="seed: draw configurations of any size by chance")
    group.addoption(
        "--time-limit", type=int, default=60, help="seconds that one configuration may compute"
    )
    group.addoption("--outcomes", help="file that gets one line of JSON for each outcome")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a few configurations of each test function: from the smaller half, evenly, or any by chance."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    are_marked = any(item.get_closest_marker("trn2") for item in items)  # not at the tag 2.28
    for item in items:
        if _is_mx(item, are_marked) == config.getoption("--mx") and not _is_left_out(item):
            functions[item.nodeid.partition("[")[0]].append(item)
    pick, seed = config.getoption("--pick"), config.getoption("--draw")
    items[:] = [
        item
        for found in functions.values()
        for item in (spread(found, pick) if seed is None else drawn(found, pick, seed))
    ]


def _is_mx(item: pytest.Item, are_marked: bool) -> bool:
    """Tell whether a configuration is for trn3: by the mark, or by a name that some of them have instead."""
    named = re.search("mx|_x4", item.nodeid.rpartition("::")[2], re.IGNORECASE) is not None
    return named or (are_marked and item.get_closest_marker("trn2") is None)


def _is_left_out(item: pytest.Item) -> bool:
    """Tell whether a configuration says nothing: skipped, or one that must be refused, for any reason."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return (
        item.get_closest_marker("skip") is not None
        or bool(parameters.get("is_negative_test_case"))
        or any(getattr(v, "is_negative_test_case", False) for v in parameters.values())
    )


def pytest_sessionstart() -> None:
    """Complete the harness, which the conftest file has imported by now."""
    stand_ins.complete()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Suit kernels and references, which have been imported by now."""
    stand_ins.complete_kernels()
    if session.config.getoption("--mx"):
        stand_ins.be_as_mx_references_expect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Seed what the inputs are drawn from, stop a configuration that takes too long, and keep the races that it has."""
    import torch

    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # theirs is the global generator
    torch.manual_seed(seed)

    def stop(*_: Any) -> None:
        item.stash[_SLOW] = True
        raise TimeoutError("the time limit of one configuration")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, item.config.getoption("--time-limit"))
    try:
        with record_runs() as runs:
            return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        item.stash[_RACES] = [f.message for r in runs for f in r.findings if f.kind == "hazard"]


_SLOW = pytest.StashKey[bool]()
_RACES = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Write down how a configuration ended; races may tell why its values are wrong."""
    report = yield
    if report.when == "call" or not report.passed:
        outcome = "slow" if item.stash.get(_SLOW, False) else report.outcome
        told = [str(call.excinfo.value), *item.stash.get(_RACES, [])] if call.excinfo else []
        _write(item.config, item.name, outcome, report.duration, "\n".join(told))
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write down a file that cannot be imported."""
    if report.failed:
        lines = str(report.longrepr).strip().splitlines()
        message = next((line[1:].strip() for line in reversed(lines) if line.startswith("E ")), lines[-1])  # fmt: skip
        _write(_config, "(import)", "failed", 0.0, message)


_config: Any = None


def pytest_configure(config: pytest.Config) -> None:
    """Remember the options for hooks that are not given them."""
    global _config
    _config = config


def _write(config: pytest.Config, name: str, outcome: str, seconds: float, message: str) -> None:
    line = {"name": name, "outcome": outcome, "seconds": round(seconds, 2), "message": message}
    with open(config.getoption("--outcomes"), "a", encoding="utf-8") as file:
        file.write(json.dumps({**line, "at": round(time.time())}) + "\n")
