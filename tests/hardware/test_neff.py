"""NEFF files: what is read of them, and that hostile ones end in one sentence."""

from __future__ import annotations

import json
import tarfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import nki_lab.hardware.neff as reader
from nki_lab.errors import BadFile
from nki_lab.hardware.neff import Tile, belongs, is_neff, read_neff, read_ntff_uuid
from nki_lab.hardware.neff_layout import neff_text, neff_view, placed_in_neff, placed_in_run
from nki_lab.targets import TRN2
from nki_lab.views.display import display
from tests.views.runs import added

from .neffs import PARTITION, UUID, copy, members, neff, ntff, packed, write_neff


def test_a_neff_tells_tensors_queues_instructions_and_places(tmp_path: Path) -> None:
    found = read_neff(write_neff(tmp_path / "k.neff"))
    assert (found.target, found.tool_version[:4], found.logical_core) == (TRN2, "2.21", 2)
    assert (found.version, found.uuid, found.name) == ((2, 0), UUID, "file.neff")
    # Inputs stand in the order of the call, which is not that of the nodes.
    assert [(t.name, t.kind, t.shape, t.dtype, t.nbytes) for t in found.tensors] == [
        ("a", "input", (128, 500), "float32", 256_000),
        ("b", "input", (128, 500), "float32", 256_000),
        ("out", "output", (128, 500), "float32", 256_000),
    ]
    first, second = found.cores
    counts = {"tensor": 1, "vector": 2, "scalar": 3, "gpsimd": 4, "sync": 5}
    assert first.instructions == counts and set(second.instructions.values()) == {1}
    assert found.instructions == {name: count + 1 for name, count in counts.items()}
    assert first.queues == {"qSPIO0": "sync"} and first.reserved == (Tile(0, 128, 229_368, 8),)
    # Engine by engine, in the order in which a NEFF lists them.
    assert [
        (t.source, t.dest, t.engine, t.nbytes, t.written or t.read) for t in first.transfers
    ] == [
        ("SB", "out", "gpsimd", 256_000, Tile(0, 128, 4096, 2000)),
        ("a", "SB", "sync", 256_000, Tile(0, 128, 200_000, 2000)),
        ("b", "SB", "sync", 128_000, Tile(64, 64, 204_000, 2000)),
    ]
    assert second.transfers == ()


@pytest.mark.parametrize("hashed", ["md5", "swapped", "sha256"])
def test_the_hash_is_known_in_every_form(tmp_path: Path, hashed: str) -> None:
    assert hashed in read_neff(write_neff(tmp_path / "k.neff", hashed=hashed)).hash_kind


def _linked(kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo("sg00/link")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def _named(name: str, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _changed(path: str, **changes: object) -> bytes:
    files = members()
    return neff(packed(files | {path: files[path] | changes}))


def _with_desc(**changes: object) -> bytes:
    return _changed(
        "sg00/SP.json", dma=[copy(("a", 0), ("SB", 0), [2000, 128], [1, -1], **changes)]
    )


HOSTILE = {
    "wrong hash": (neff(packed(members()), hashed="wrong"), "does not have the hash"),
    "cut off": (neff(packed(members()))[:-9], "bytes follow|bytes, and"),
    "header alone": (neff(b"")[:500], "cut off"),
    "no gzip": (neff(b"plain"), "not a gzip|packed part is damaged"),
    "half a gzip": (neff(packed(members())[:900]), "damaged or cut off"),
    "symbolic link": (neff(packed(members(), more=[_linked(tarfile.SYMTYPE)])), "a link or a device"),
    "hard link": (neff(packed(members(), more=[_linked(tarfile.LNKTYPE)])), "a link or a device"),
    "device": (neff(packed(members(), more=[_linked(tarfile.CHRTYPE)])), "a link or a device"),
    "path upwards": (neff(packed(members(), more=[_named("sg00/../../x.json")])), "leads out of it"),
    "absolute path": (neff(packed(members(), more=[_named("/etc/x.json")])), "leads out of it"),
    "twice": (neff(packed(members(), more=[_named("info.json")])), "there twice"),
    "long names": (neff(packed(members(), more=[_named("x" * 70_000)])), "impossible size"),
    "unpacks to much": (neff(packed(members(), more=[_named("w.bin", 3 << 20)])), "unpacks to more"),
    "deep JSON": (neff(packed(members(**{"neff.json": b"[" * 200_000}))), "no JSON"),
    "no JSON": (neff(packed(members(**{"sg00/def.json": b"\xff{"}))), "no JSON"),
    "no definition": (_changed("kelf-0.json", graphs=[{"definition": "sg07/def.json"}]), "lacks a part"),
    "a list for a name": (_changed("kelf-0.json", target=["cayman"]), "wrong type"),
    "negative offset": (_with_desc(to_off=-5), "wrong type"),
    "a huge offset": (_with_desc(to_off=1 << 70), "wrong type"),
    "a text for sizes": (_with_desc(to_sizes=["2000", 128]), "wrong type"),
    "sizes without steps": (_with_desc(to_steps=[1]), "wrong type"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "words"), HOSTILE.values(), ids=HOSTILE)
def test_damaged_and_hostile_files_end_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
) -> None:
    monkeypatch.setattr(reader, "_UNPACKED", 1 << 20)
    (tmp_path / "k.neff").write_bytes(content)
    with pytest.raises(BadFile, match=words) as error:
        read_neff(tmp_path / "k.neff")
    assert (
        "\n" not in error.value.message
        and error.value.message.startswith("k.neff")
        and error.value.help
    )
    assert [path.name for path in tmp_path.iterdir()] == ["k.neff"]


def test_random_damage_ends_in_one_sentence(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    for _ in range(40):
        files = members()
        path = str(random.choice([name for name in files if name.endswith(".json")]))
        text = np.frombuffer(json.dumps(files[path]).encode(), np.uint8).copy()
        text[random.integers(0, len(text), 3)] = random.choice(
            np.frombuffer(b'0-9"[]{}:,a', np.uint8), 3
        )
        (tmp_path / "k.neff").write_bytes(neff(packed(files | {path: text.tobytes()})))
        with suppress(BadFile):
            neff_text(read_neff(tmp_path / "k.neff"))


def test_what_is_no_neff_is_told_by_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "x.neff"
    file.write_bytes(b"PK\3\4" + bytes(2000))
    assert not is_neff(file) and not is_neff(tmp_path) and not is_neff(tmp_path / "none")
    with pytest.raises(BadFile, match="not a NEFF"):
        read_neff(file)
    with pytest.raises(BadFile, match="no file"):
        read_neff(tmp_path / "none.neff")
    with pytest.raises(BadFile, match="is not a file"):
        read_neff(tmp_path)


@pytest.mark.parametrize("version", [4, 5])
def test_an_ntff_names_its_neff(tmp_path: Path, version: int) -> None:
    file = tmp_path / "p.ntff"
    cut = UUID[:5] + b"\0" + UUID[6:]  # a UUID with a zero byte is told up to there
    for uuid, told, same in (
        (UUID, UUID + b"more", True),
        (UUID, UUID[:13], False),
        (cut, UUID[:5], True),
        (bytes(reversed(UUID)), UUID + b"x", False),
    ):
        file.write_bytes(ntff(told, version))
        assert read_ntff_uuid(file) == told
        assert belongs(uuid, file) is same
    file.write_bytes(ntff(UUID, 9))
    with pytest.raises(BadFile, match="not an NTFF"):
        read_ntff_uuid(file)


def test_views_and_words_show_the_places(tmp_path: Path) -> None:
    found = read_neff(write_neff(tmp_path / "k.neff"))
    shown = neff_view(found, TRN2)
    tiles = [(t.name, t.address, t.shape, t.lifetime) for t in shown.tensors if t.memory == "sbuf"]
    assert tiles == [
        ("a", (0, 200_000), (128, 500), (0, 2)),
        ("b", (64, 204_000), (64, 500), (1, 2)),
        ("out", (0, 4096), (128, 500), (2, 2)),
    ]
    assert "not run" in display(shown, ("memory", "ir")).page(None, "not run")
    said = neff_text(found, added().view_data)
    assert "compiled for trn2 (cayman)" in said and "official" in said and "nki_lab" in said
    assert [(p.tensor, p.way, p.tiles, p.first, p.last) for p in placed_in_neff(found)] == [
        ("a", "loaded", 1, 200_000, 201_999),
        ("b", "loaded", 1, 204_000, 205_999),
        ("out", "stored", 1, 4096, 6095),
    ]


def test_what_is_loaded_lasts_until_something_touches_it(tmp_path: Path) -> None:
    places = [0, 1000, 8000, 1500]
    moves = [
        copy(("a", 0), ("SB", place), [1000, 128], [1, -1], f"I-{n}-0")
        for n, place in enumerate(places)
    ]
    moves += [copy(("a", 0), ("SB", 64 * PARTITION), [1000, 64], [1, -1], "I-9-0")]
    files = members()
    for engine, dma in (("SP", moves), ("Pool", [])):
        files[f"sg00/{engine}.json"] |= {"dma": dma}
    (tmp_path / "k.neff").write_bytes(neff(packed(files)))
    shown = neff_view(read_neff(tmp_path / "k.neff"), TRN2)
    lasts = [t.lifetime for t in shown.tensors if t.memory == "sbuf"]
    assert lasts == [(0, 3), (1, 2), (2, 4), (3, 4), (4, 4)]


def test_our_tiles_are_found_by_the_tensor_they_hold() -> None:
    run = added().view_data
    found = {(p.tensor, p.way): p for p in placed_in_run(run)}
    ours = {t.name: t for t in run.tensors}
    loaded = [p for (_, way), p in found.items() if way == "loaded"]
    assert loaded and all(p.partitions <= 128 and p.first >= 0 for p in loaded)
    assert {name for name, _ in found} <= {n for n, t in ours.items() if t.memory.endswith("hbm")}
