"""The modules of the views, in the order of their tabs."""

from functools import cache
from pathlib import Path

from nki_lab.views.run import VIEWS
from nki_lab.widgets.modules import Script


@cache
def scripts() -> tuple[Script, ...]:
    """Return the module of every view."""
    folder = Path(__file__).parent
    titles = {name: name.capitalize() for name in VIEWS} | {"ir": "IR"}
    return tuple(Script(name, titles[name], folder / name / "view.js") for name in VIEWS)
