"""A line, an instruction and a finding, as the browser and the texts of several views get them."""

from __future__ import annotations

from typing import Any

from nki_lab.views.run import Place, Remark, ViewData


def place_entry(place: Place | None) -> dict[str, str]:
    """Return where a line stands and what it says; empty texts where there is none."""
    return {
        "place": place.heading if place else "",
        "source": place.text if place else "",
    }


def operation_entry(data: ViewData, position: int) -> dict[str, Any]:
    """Return an instruction of the program, by its position."""
    operation = data.operations[position]
    return {
        "position": position,
        "name": operation.name,
        "engine": operation.engine,
        "text": operation.text,
        **place_entry(operation.place),
    }


def remark_entry(remark: Remark) -> dict[str, str]:
    """Return a finding."""
    return {
        "kind": remark.kind,
        "message": remark.message,
        "help": remark.help,
        **place_entry(remark.place),
    }


def remark_lines(remark: Remark, excerpt: bool = False) -> list[str]:
    """Return a finding as text: its place, what it is, and what to do about it; on demand with the line it marks."""
    place = f"{remark.place.label}: " if remark.place else ""
    lines = [f"{place}{remark.kind}: {remark.message}"]
    if excerpt:
        lines += [f"   {line}" for line in remark.excerpt]
    return [*lines, f"  help: {remark.help}"] if remark.help else lines
