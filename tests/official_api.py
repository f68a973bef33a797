"""The names, parameters and defaults of the official API (nki_lab/api/official_api.json)."""

from nki_lab.api.official import API
from nki_lab.api.official import same_signature as same_signature
from nki_lab.api.official import signature_of as signature_of

NAMES: dict[str, list[str]] = API["names"]
FUNCTIONS: dict[str, dict[str, str]] = API["functions"]
ENUMS: dict[str, dict[str, dict[str, object]]] = API["enums"]
METHODS: dict[str, dict[str, dict[str, str]]] = API["methods"]
ATTRIBUTES: dict[str, dict[str, list[str]]] = API["attributes"]
DROP_IN: dict[str, list[str]] = API["drop_in"]
