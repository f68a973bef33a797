"""Moves kernels to another version of NKI: text in, text out, comments kept, equality proved by running both.

`names.py`, `rewriter.py`, `calls.py` and `loops.py` change the text, by the rules that `nki_lab.versions` has as data;
`facts.py` asks a run for what the text does not say; `modules.py` and `proof.py` run both texts and compare every bit.
"""

from nki_lab.migration.api import migrate
from nki_lab.migration.moving import Migration

__all__ = ["Migration", "migrate"]
