"""How does an option of the shared table become one of a command?"""

from __future__ import annotations

from typing import Any

import typer

from nki_lab.session.parsing import read_value
from nki_lab.session.table import BY_NAME


def declared(name: str) -> Any:
    """Return the typer declaration of the option `name`: flag, help, placeholder and reader."""
    option = BY_NAME[name]
    if option.is_switch:
        return typer.Option(option.flag, help=option.help)

    def read(text: str) -> Any:
        return read_value(option, text)

    return typer.Option(option.flag, metavar=option.metavar, help=option.help, parser=read)
