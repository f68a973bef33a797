"""Holds published kernels to the version of NKI that they were written for."""

from collections.abc import Iterator

import pytest

from nki_lab.choices import use
from nki_lab.errors import RawEnum

#: The version of NKI of each suite; 0.6 is that of the clone of aws-neuron-sdk.
VERSIONS = {"test_samples": "0.1"}


@pytest.fixture(autouse=True)
def _older_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    version = VERSIONS.get(request.module.__name__.rpartition(".")[2], "0.6")
    with use(nki=version, allow=RawEnum.code):
        yield
