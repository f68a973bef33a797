"""Which configurations of nki-library's suite do not pass, and why?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.public.nki_library.suite import Outcome, Run

UPSTREAM, OURS = "upstream", "not modelled"


@dataclass(frozen=True)
class Known:
    """Configurations that fail, all for one reason.

    Attributes:
        file: of the suite, or its beginning.
        names: regular expression found in the names of the configurations.
        message: part of what is reported.
        fault: UPSTREAM (the published files cannot work) or OURS.
    """

    file: str
    names: str
    message: str
    fault: str
    reason: str

    def lists(self, run: Run, outcome: Outcome) -> bool:
        """Tell whether a configuration is one of these."""
        named = re.search(self.names, outcome.name) is not None
        return named and run.file.startswith(self.file)

    def covers(self, run: Run, outcome: Outcome) -> bool:
        """Tell whether a configuration is one of these, and failed like these."""
        return (
            self.lists(run, outcome)
            and outcome.outcome == "failed"
            and self.message in outcome.message
        )


KNOWN: tuple[Known, ...] = ()


def reason_for(run: Run, outcome: Outcome) -> Known | None:
    """Return why a configuration is known to fail, if it is."""
    return next((known for known in KNOWN if known.covers(run, outcome)), None)


def is_listed(run: Run, outcome: Outcome) -> bool:
    """Tell whether a configuration is among the exceptions, however it ended."""
    return any(known.lists(run, outcome) for known in KNOWN)
