"""The versions of NKI that kernels are written for, and what changed from one to the next.

`version.py` says what a version is, `history.py` has one block for each, and `forms.py` has one row for each way of
writing that versions treat differently. A new version is a block in `history.py`, with rows in `forms.py`.
"""

from nki_lab.versions.forms import FORMS
from nki_lab.versions.history import (
    FRONTENDS,
    NEWEST,
    VERSIONS,
    added_in,
    begun_with,
    deprecated_in,
    ended_with,
    former_signature,
    is_newer,
    named_since,
    new_in,
    refused,
    removed_in,
    version_named,
    version_since,
    version_with,
)
from nki_lab.versions.version import ACCEPTED, DEPRECATED, ERROR, PORTABILITY, Form, Version

__all__ = [
    "ACCEPTED",
    "DEPRECATED",
    "ERROR",
    "FORMS",
    "FRONTENDS",
    "NEWEST",
    "PORTABILITY",
    "VERSIONS",
    "Form",
    "Version",
    "added_in",
    "begun_with",
    "deprecated_in",
    "ended_with",
    "former_signature",
    "is_newer",
    "named_since",
    "new_in",
    "refused",
    "removed_in",
    "version_named",
    "version_since",
    "version_with",
]
