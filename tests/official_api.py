"""What are the names, parameters and defaults of the official API? (tests/data/nki_api_0_6.json)"""

import inspect
import json
from pathlib import Path

_DATA = json.loads(Path(__file__).parent.joinpath("data/nki_api_0_6.json").read_text("utf-8"))
NAMES: dict[str, list[str]] = _DATA["names"]
FUNCTIONS: dict[str, dict[str, str]] = _DATA["functions"]
ENUMS: dict[str, dict[str, dict[str, object]]] = _DATA["enums"]
TILE_SIZE: list[str] = _DATA["tile_size"]


def signature_of(function) -> str:
    """Return names and defaults as the data file writes them: `x axis dtype=None keepdims=False`."""
    words = []
    for p in inspect.signature(function).parameters.values():
        word = ("**" if p.kind is p.VAR_KEYWORD else "") + p.name
        if p.default is not p.empty:
            word += f"={p.default!r}".replace("=nl.", "=").replace("=nisa.", "=")
        words.append(word)
    return " ".join(words)
