"""Reads NEFF and NTFF files of public repositories, where the environment names a folder with some.

    NKI_LAB_NEFFS=/tmp/neffs pytest tests/public/test_neffs.py

The folder holds what `git show COMMIT:PATH` gives for the .neff and .ntff files of Ericcsr/asst4-trainium and
chengli2003/asst4-trainium2, each repository in a folder of its own. No licence is told there, so none is here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_lab.hardware.neff import PARTITION_BYTES, belongs, is_ntff, read_neff
from nki_lab.hardware.neff_layout import neff_text

_FOLDER = os.environ.get("NKI_LAB_NEFFS", "")
NEFFS = sorted(Path(_FOLDER).rglob("*.neff")) if _FOLDER else []
NTFFS = [path for path in sorted(Path(_FOLDER).rglob("*.ntff")) if is_ntff(path)] if _FOLDER else []
pytestmark = pytest.mark.skipif(not NEFFS, reason="NKI_LAB_NEFFS names no folder with NEFF files")


def test_every_public_file_is_read_and_paired() -> None:
    found = [read_neff(path) for path in NEFFS]
    for neff in found:
        assert neff.target is not None and neff.tensors and neff.tool_version
        assert all(tensor.shape and tensor.dtype and tensor.nbytes for tensor in neff.tensors)
        for one in (one for core in neff.cores for one in core.transfers):
            for tile in filter(None, (one.read, one.written)):
                assert tile.partition + tile.partitions <= 128
                assert tile.byte + tile.row_bytes <= PARTITION_BYTES
        assert "official" in neff_text(neff)
    for ntff in NTFFS:
        owners = [neff.path for neff in found if belongs(neff.uuid, ntff)]
        assert owners == [ntff.with_suffix(".neff")]
