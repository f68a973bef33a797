"""What does `nki-lab catalog` do?"""

from __future__ import annotations


def catalog() -> None:
    """List every instruction with its engines, targets and meaning."""
    from rich.console import Console
    from rich.table import Table

    from nki_lab.isa.catalog import rows

    table = Table(box=None, pad_edge=False)
    table.add_column("instruction", no_wrap=True)
    for head in ("engines", "targets", "meaning"):
        table.add_column(head)
    for row in rows():
        table.add_row(row.name, ", ".join(row.engines), ", ".join(row.targets), row.summary)
    Console(markup=False, highlight=False).print(table)
