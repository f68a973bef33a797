"""What is told when a file of ours is damaged or was changed by hand?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.errors import BadFile, UnknownTarget
from nki_lab.profiler.profile import BadTable


@contextmanager
def reading(complaint: str) -> Iterator[None]:
    """Turn whatever goes wrong while a document is read into BadFile: `complaint`, and what is wrong."""
    try:
        yield
        return
    except (json.JSONDecodeError, RecursionError):
        problem = "the JSON is damaged or cut off"
    except BadTable as error:
        problem = str(error)
    except UnknownTarget as error:
        problem = error.message
    except (KeyError, TypeError, AttributeError, AssertionError, ValueError, OverflowError):
        problem = "a part of it is missing or of the wrong type"
    raise BadFile(f"{complaint}: {problem}")
