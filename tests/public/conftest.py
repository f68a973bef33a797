"""Lets published kernels do what the NKI they were written for did."""

from collections.abc import Iterator

import pytest

from nki_lab.errors import RawEnum
from nki_lab.settings import override


@pytest.fixture(autouse=True)
def _older_kernels() -> Iterator[None]:
    with override(allow=RawEnum.code):
        yield
