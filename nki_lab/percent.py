"""Writes shares as percent, in one form for texts, tables and pictures."""

from __future__ import annotations


def percent(share: float, digits: int = 1, sign: str = "-") -> str:
    """Return a share of 1 as percent: 0.142 is "14.2 %".

    Args:
        share: the share.
        digits: behind the point.
        sign: "+" to write it before gains as well.
    """
    return f"{100 * share:{sign}.{digits}f} %"
