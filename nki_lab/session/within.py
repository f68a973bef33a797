"""Under which choices does what runs inside a block run?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.api.install import aliases
from nki_lab.runtime.chosen import within
from nki_lab.runtime.recording import record_runs
from nki_lab.runtime.result import Result
from nki_lab.runtime.time_limit import time_limit
from nki_lab.settings import override
from nki_lab.source import Stack


@contextmanager
def session(options: Namespace, stack: Stack = ()) -> Iterator[list[Result]]:
    """Let `import nki` find nki_lab, and the options act, inside a `with` block; collect its runs.

    Args:
        options: values of `target`, `lnc`, `capacity`, `skip`, `strict`, `allow`, `max_trips`, `debug` and `timeout`.
        stack: place of the time limit, shown when it ends something outside the author's text.
    """
    with (
        aliases(),
        override(
            capacity=options.capacity,
            skip_passes=options.skip,
            strict="1" if options.strict else None,
            allow=options.allow,
            max_trips=options.max_trips,
            debug="1" if options.debug else None,
        ),
        within(options.target, options.lnc),
        record_runs() as runs,
        time_limit(options.timeout, stack),
    ):
        yield runs
