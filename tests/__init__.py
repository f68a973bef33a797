"""Which promises does nki_lab keep?  A package, so that tests may import `tests.<module>`."""
