"""Writes the documentation page of the versions of Neuron Explorer's schema, from the schema and its reader."""

from __future__ import annotations

from itertools import pairwise

from nki_lab.profiler.formats.explorer_files import DIFFERENCES, KEYS
from nki_lab.profiler.schema import SCHEMA_VERSION, VERSIONS
from nki_lab.profiler.span import EVENTS


def schema_page() -> str:
    """Return the page, in Markdown."""
    lines = [
        "# Versions of Neuron Explorer's schema",
        "",
        f"nki_lab writes version {SCHEMA_VERSION}, the newest one of which every column is known, and reads a folder of"
        " any version by it.",
        "",
        "| version | SDK | columns |",
        "|---|---|---|",
        *(f"| {v.version} | {v.sdk} | {v.columns} |" for v in VERSIONS),
        "",
    ]
    for before, version in pairwise(VERSIONS):
        lines += [
            f"## From {before.version} to {version.version}",
            "",
            "| change | source |",
            "|---|---|",
            *(f"| {change} | {source} |" for change, source in version.changes),
            "",
        ]
    return "\n".join([*lines, *_reader()])


def _reader() -> list[str]:
    return [
        "## What reading a folder leaves out",
        "",
        "A row of the table Warning names each of these:",
        "",
        *(f"- {what}" for what in DIFFERENCES.values()),
        "",
        "Units are those that the folder's own table SchemaFields gives. A folder is refused if a column is missing or"
        " different without which its events say nothing:",
        "",
        *(f"- {table}: {', '.join(f'`{c}`' for c in KEYS[table])}" for table in EVENTS),
        "",
    ]
