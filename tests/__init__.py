"""The tests of nki_lab. A package, so that tests may import `tests.<module>`."""
