"""Solutions of notebook 37, Files from a device."""

ANSWERS = {
    "37.1": "ps",
    "37.2": 14.0,
    "37.3": "scalar",
    "37.4": "scalar ACTIVATE",
    "37.5": "b.neff",
}
