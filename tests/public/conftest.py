"""Lets published kernels do what the NKI they were written for did."""

from collections.abc import Iterator

import pytest

from nki_lab.choices import inside
from nki_lab.errors import RawEnum


@pytest.fixture(autouse=True)
def _older_kernels() -> Iterator[None]:
    with inside(allow=RawEnum.code):
        yield
