"""Runs the unittest files of a folder and writes one line of JSON for each test: `python -m ... FOLDER REPORT`."""

from __future__ import annotations

import importlib
import io
import json
import sys
import time
import traceback
import unittest
from pathlib import Path
from typing import Any

from nki_lab.api.install import install


class _Recorder(unittest.TestResult):
    def __init__(self, report: io.TextIOBase) -> None:
        super().__init__()
        self.report = report

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started = time.perf_counter()
        self.message = ""

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.message = _message(err[1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.message = _message(err[1])

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.write(test.id(), self.message, time.perf_counter() - self.started)

    def write(self, name: str, message: str, seconds: float) -> None:
        """Append the outcome of one test."""
        outcome = "failed" if message else "passed"
        line = {"name": name, "outcome": outcome, "message": message, "seconds": seconds}
        print(json.dumps(line), file=self.report, flush=True)


def _message(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    told = "".join(traceback.format_exception_only(error)).strip()
    return f"{told} ({Path(where.filename).name}:{where.lineno})"


def main(folder: str, report: str) -> None:
    """Import each file and run its tests; a file without a test class has passed when it has been imported."""
    install()
    sys.path.insert(0, folder)
    with open(report, "w", encoding="utf-8") as lines:
        recorder = _Recorder(lines)
        for file in sorted(Path(folder).glob("test_*.py")):
            started = time.perf_counter()
            try:
                module = importlib.import_module(file.stem)
            except Exception as error:
                recorder.write(file.stem, _message(error), time.perf_counter() - started)
                continue
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
            if suite.countTestCases():
                suite.run(recorder)
            else:
                recorder.write(file.stem, "", time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
