"""Reads NEFF files, which the official compiler writes, and the beginning of NTFF files, which a capture writes.

    NEFF    1,024 bytes of header, then a tar: info.json, kelf-0.json, neff.json, and for each core sgNN/def.json with a
            .json and a .bin for each engine
    NTFF    128 bytes of header, a message with the UUID of the NEFF, then records that nobody publishes

Header and descriptions: neuron-runtime/explore/work-with-neff-files.rst. How SBUF is addressed, how many bytes an
instruction has, that names of chips stand in kelf-0.json, and what an NTFF begins with, was seen in public files of two
compilers (2.0 for trn1, 2.21 for trn2). Nothing is unpacked to disk, and nothing of a NEFF is run.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from nki_lab.errors import BadFile
from nki_lab.profiler.formats.perfetto import blocks
from nki_lab.profiler.formats.reading import beginning_of
from nki_lab.targets import TRN1, TRN2, Target

HEADER = struct.Struct("<5Q128sI32s16s256sI64sQI468s")
#: Bytes from one partition of SBUF to the next, as transfers address it.
PARTITION_BYTES = 262_144
#: What transfers call SBUF.
SBUF = "SB"
_INSTRUCTION_BYTES = 64
#: What the compiler calls a chip.
_CHIPS = {"sunda": TRN1, "cayman": TRN2}
#: Name of an engine in def.json -> in a profile.
ENGINES = {"pe": "tensor", "dve": "vector", "act": "scalar", "pool": "gpsimd", "sp": "sync"}
#: Limits of what is read: bytes of the file, of all members, of one description, members, and transfers.
_FILE, _UNPACKED, _DESCRIPTION, _MEMBERS, _TRANSFERS = 1 << 30, 1 << 31, 1 << 28, 20_000, 2_000_000
#: Bytes of a header of a tar that names the next member.
_NAMES = 1 << 16
_READ = re.compile(r"(?:info|neff|kelf-\d+)\.json|sg\d{1,4}/[\w.-]+\.json")
_MEMBER = re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[^/\0\\][^\0\\]*")
_NTFF_HEADER = 128
_NTFF_VERSIONS = (4, 5)
_UUID_FIELD = 2
_HELP = "compile the kernel again, or copy the file again: NKI_ARTIFACTS_DIR is where NKI puts it"


@dataclass(frozen=True)
class NeffTensor:
    """A tensor of the signature: its name, "input" or "output", shape, dtype and bytes, as far as they are told."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class Tile:
    """A part of SBUF: partitions one below the other, and in each of them bytes from `byte` to `byte + row_bytes`."""

    partition: int
    partitions: int
    byte: int
    row_bytes: int


@dataclass(frozen=True)
class Transfer:
    """One descriptor: what moves between a tensor and SBUF, or between two tensors.

    Attributes:
        engine: whose program starts it.
        queue: the queue set it is put on.
        number: of the descriptor's block in its engine's file.
        op: "copy", "cast", "transpose", ...
        source, dest: names of variables; SBUF is "SB".
        dtype: of what arrives.
        nbytes: that leave the source.
        read, written: the part of SBUF at each end; None where that end is no SBUF.
    """

    engine: str
    queue: str
    number: int
    op: str
    source: str
    dest: str
    dtype: str
    nbytes: int
    read: Tile | None
    written: Tile | None


@dataclass(frozen=True)
class NeffCore:
    """The program of one core.

    Attributes:
        name: its folder, such as sg00.
        instructions: engine -> how many it has.
        queues: queue set -> the engine that owns it.
        variables: name -> kind and bytes.
        transfers: engine by engine, as their files list them; how those of two engines interleave is not told.
        reserved: parts of SBUF that the runtime keeps.
    """

    name: str
    instructions: Mapping[str, int]
    queues: Mapping[str, str]
    variables: Mapping[str, tuple[str, int]]
    transfers: tuple[Transfer, ...] = field(repr=False)
    reserved: tuple[Tile, ...] = ()


@dataclass(frozen=True)
class Neff:
    """A compiled program.

    Attributes:
        path: its file.
        name: of the program.
        uuid: which an NTFF repeats.
        version: of the format.
        logical_core: physical cores that it needs of one logical core.
        hash_kind: how its hash is stored: "md5", "md5, words swapped" or "sha256".
        tool_version: of the compiler.
        chip: what the compiler calls the chip.
        tensors: inputs in the order of the call, then outputs.
        cores: their programs.
    """

    path: Path
    name: str
    uuid: bytes
    version: tuple[int, int]
    logical_core: int
    hash_kind: str
    tool_version: str
    chip: str
    tensors: tuple[NeffTensor, ...]
    cores: tuple[NeffCore, ...] = field(repr=False)

    @property
    def target(self) -> Target | None:
        """The chip it was compiled for; None where its name is not known."""
        return _CHIPS.get(self.chip)

    @cached_property
    def instructions(self) -> dict[str, int]:
        """Engine -> instructions on all cores."""
        return {
            engine: sum(core.instructions.get(engine, 0) for core in self.cores)
            for engine in ENGINES.values()
        }


def is_neff(path: str | Path) -> bool:
    """Tell whether a file begins as a NEFF does: a header that says it is as long as a header."""
    begun = beginning_of(Path(path))
    return len(begun) >= 40 and begun[8:16] == HEADER.size.to_bytes(8, "little") and begun[0] < 32


def read_neff(path: str | Path) -> Neff:
    """Read a NEFF.

    Raises BadFile with one sentence where it is none, damaged, or holds what no NEFF does.
    """
    path = Path(path)
    if not is_neff(path):
        if not os.path.isfile(path):
            name = repr(str(path)[:80])
            is_there = os.path.lexists(path)
            raise BadFile(
                f"{name} is not a file" if is_there else f"there is no file {name}",
                help="name a .neff file",
            )
        raise BadFile(
            f"{path.name} is not a NEFF: it does not begin with a header of {HEADER.size:,} bytes",
            help="name the .neff file that the official compiler wrote",
        )
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except BadFile:
        raise
    except OSError as error:
        problem = error.strerror or "its packed part is damaged"
    except (EOFError, tarfile.TarError, zlib.error):
        problem = "its packed part is damaged or cut off"
    except (json.JSONDecodeError, RecursionError, UnicodeDecodeError):
        problem = "a description in it is no JSON"
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        problem = "a description in it lacks a part, or has one of the wrong type"
    raise _bad(path, problem)


def read_uuid(path: str | Path) -> bytes | None:
    """Return the UUID that the header of a NEFF tells, without reading more; None where the file is none."""
    path = Path(path)
    if not is_neff(path):
        return None
    with path.open("rb") as file:
        begun = file.read(HEADER.size)
    return HEADER.unpack(begun)[8] if len(begun) == HEADER.size else None


def _bad(path: Path, problem: str) -> BadFile:
    return BadFile(f"{path.name} is not a readable NEFF: {problem}", help=_HELP)


def _read(path: Path, file: BinaryIO) -> Neff:
    begun = file.read(HEADER.size)
    if len(begun) < HEADER.size:
        raise _bad(path, "its header is cut off")
    _, size, data_size, major, minor, _, _, digest, uuid, name, _, _, _, cores, _ = HEADER.unpack(
        begun
    )
    packed = path.stat().st_size - size
    if packed != data_size:
        raise _bad(path, f"its header tells {data_size:,} bytes, and {packed:,} follow it")
    if packed > _FILE:
        raise _bad(path, f"it has more than {_FILE >> 20} MiB")
    kind = _hash_kind(file, digest)
    if kind is None:
        raise _bad(path, "its content does not have the hash that its header tells")
    file.seek(size)
    files, sizes = _members(path, file)
    graphs = [g for n in sorted(files) if n.startswith("kelf-") for g in files[n]["graphs"]]
    kelf: Mapping[str, Any] = next(
        (files[name] for name in sorted(files) if name.startswith("kelf-")), {}
    )
    left = _TRANSFERS
    programs = []
    for graph in graphs:
        core = _core(path, graph["definition"], files, sizes, left)
        left -= len(core.transfers)
        programs.append(core)
    return Neff(
        path=path,
        name=_c_string(name) or path.stem,
        uuid=uuid,
        version=(major, minor),
        logical_core=max(cores, 1),
        hash_kind=kind,
        tool_version=_word(files.get("info.json", {}).get("tool_version", "")),
        chip=_word(kelf.get("target", "")),
        tensors=tuple(_tensors(files, programs)),
        cores=tuple(programs),
    )


def _hash_kind(file: BinaryIO, stored: bytes) -> str | None:
    """Return how the hash of what follows is stored; None where it is another one."""
    md5, sha = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    while piece := file.read(1 << 20):
        md5.update(piece)
        sha.update(piece)
    plain = md5.digest()
    swapped = b"".join(plain[n : n + 4][::-1] for n in range(0, 16, 4))
    kinds = {
        "md5": plain + bytes(16),
        "md5, words swapped": swapped + bytes(16),
        "sha256": sha.digest(),
    }
    return next((kind for kind, digest in kinds.items() if digest == stored), None)


class _Checked(tarfile.TarInfo):
    """A member of a tar, refused before anything of it is read where a NEFF has no such one."""

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> _Checked:  # type: ignore[override]
        """Read the header of a member."""
        member = super().frombuf(buf, encoding, errors)
        names = member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)
        if not (member.isreg() or member.isdir() or names) or member.issparse():
            raise _Refused("a member of it is a link or a device")
        if member.size < 0 or (names and member.size > _NAMES):
            raise _Refused("a member of it has an impossible size")
        return member


class _Refused(Exception):
    """A NEFF holds what none does."""


class _Limited:
    """A packed file that ends with _Refused where it unpacks to too much."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=file)
        self._left = _UNPACKED

    def read(self, count: int) -> bytes:
        """Return the next bytes."""
        piece = self._file.read(count)
        self._left -= len(piece)
        if self._left < 0:
            raise _Refused(f"it unpacks to more than {_UNPACKED >> 20} MiB")
        return piece


def _members(path: Path, file: BinaryIO) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the descriptions in a packed tar by name, and the size of every member."""
    files: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    try:
        with tarfile.open(fileobj=_Limited(file), mode="r|", tarinfo=_Checked) as tar:  # type: ignore[call-overload]
            for member in tar:
                if not member.isreg():
                    continue
                if _MEMBER.fullmatch(member.name) is None:
                    raise _Refused(f"the name of a member leads out of it: {member.name[:60]!r}")
                if member.name in sizes or len(sizes) >= _MEMBERS:
                    raise _Refused("a member of it is there twice, or there are too many")
                sizes[member.name] = member.size
                if _READ.fullmatch(member.name) is None:
                    continue
                if member.size > _DESCRIPTION:
                    raise _Refused(f"{member.name} has more than {_DESCRIPTION >> 20} MiB")
                content = tar.extractfile(member)
                assert content is not None
                files[member.name] = json.loads(content.read())
    except _Refused as error:
        raise _bad(path, str(error)) from None
    return files, sizes


def _core(
    path: Path, definition: str, files: Mapping[str, Any], sizes: Mapping[str, int], left: int
) -> NeffCore:
    """Read the program of a core; at most `left` transfers."""
    about = files[definition]
    folder = definition.rpartition("/")[0]
    transfers: list[Transfer] = []
    instructions = {}
    for key, engine in ENGINES.items():
        if key not in about:
            continue
        instructions[engine] = (
            sizes.get(f"{folder}/{about[f'{key}_instr']}", 0) // _INSTRUCTION_BYTES
        )
        for block in files[f"{folder}/{about[key]}"].get("dma", ()):
            if len(transfers) + len(block["desc"]) > left:
                raise _bad(path, f"it has more than {_TRANSFERS:,} transfers")
            transfers += [_transfer(engine, block, one) for one in block["desc"]]
    reserved = [
        Tile(
            _size(r["base_partition"]), _size(r["partitions"]), _size(r["offset"]), _size(r["size"])
        )
        for r in about.get("runtime_statebuffer_reservation", ())
    ]
    return NeffCore(
        name=folder,
        instructions=instructions,
        queues={
            str(name): ENGINES.get(queue.get("owner", ""), "")
            for name, queue in about["dma_queue"].items()
        },
        variables={
            str(name): (_word(v["type"]), _size(v.get("size", 0)))
            for name, v in about["var"].items()
        },
        transfers=tuple(transfers),
        reserved=tuple(reserved),
    )


def _transfer(engine: str, block: Mapping[str, Any], one: Mapping[str, Any]) -> Transfer:
    sizes = [_size(n) for n in one["from_sizes"]]
    return Transfer(
        engine=engine,
        queue=_word(block.get("queue") or block.get("instance_name") or ""),
        number=_size(block.get("id", 0)),
        op=_word(one.get("op") or ("transpose" if "transpose_op" in one else "")),
        source=_word(one["from"]),
        dest=_word(one["to"]),
        dtype=_word(one["to_dtype"]),
        nbytes=prod(sizes),
        read=_tile(one, "from"),
        written=_tile(one, "to"),
    )


def _tile(one: Mapping[str, Any], end: str) -> Tile | None:
    """Return the part of SBUF at an end of a descriptor, with all that lies between its first and last byte."""
    if one[end] != SBUF:
        return None
    partition, byte = divmod(_size(one[f"{end}_off"]), PARTITION_BYTES)
    rows, row_bytes = 1, 1
    for size, step in zip(one[f"{end}_sizes"], one[f"{end}_steps"], strict=True):
        reach = (_size(size) - 1) * _size(step)
        down, across = divmod(reach, PARTITION_BYTES)
        rows += max(down, 0)
        row_bytes += max(across, 0)
    return Tile(partition, rows, byte, row_bytes)


def _tensors(files: Mapping[str, Any], cores: list[NeffCore]) -> Iterator[NeffTensor]:
    """Yield the tensors of the signature: inputs in the order of the call, then outputs in that of the graph."""
    neff = files.get("neff.json", {})
    maps = [files[name] for name in sorted(files) if name.endswith("/tensor_map.json")]
    known: dict[str, Any] = {name: about for one in reversed(maps) for name, about in one.items()}
    nodes = neff.get("nodes", [])
    inputs = [nodes[_size(n)]["name"] for n in neff.get("arg_nodes", ())]
    outputs = [name for node in nodes if node["op"] != "null" for name in node["output_names"]]
    signature = neff.get("metadata", {}).get("signatures", {}).get("default", {}).get("inputs", {})
    variables = {
        name: size for core in reversed(cores) for name, (_, size) in core.variables.items()
    }
    for kind, names in (("input", inputs), ("output", outputs)):
        for name in dict.fromkeys(map(_word, names)):
            about = {**signature.get(name, {}), **known.get(name, {})}
            shape = about.get("sim_shape") or about.get("shape") or about.get("tf_shape") or ()
            yield NeffTensor(
                name,
                kind,
                tuple(map(_size, shape)),
                _word(about.get("dtype", "")),
                variables.get(name, 0),
            )


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError("no size")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10_000:
        raise ValueError("no name")
    return value


def _c_string(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


# -- NTFF ------------------------------------------------------------------------------------------------------------


def is_ntff(path: str | Path) -> bool:
    """Tell whether a file begins as an NTFF does: a version, and the length of a message that the file has room for."""
    path = Path(path)
    begun = beginning_of(path)
    if len(begun) <= _NTFF_HEADER or begun[0] not in _NTFF_VERSIONS:
        return False
    length = int.from_bytes(begun[1:9], "little")
    return 0 < length <= path.stat().st_size - _NTFF_HEADER and begun[_NTFF_HEADER] == 0x0A


def read_ntff_uuid(path: str | Path) -> bytes:
    """Return what an NTFF repeats of the UUID of its NEFF: it ends at a zero byte, or goes on behind the UUID.

    Raises BadFile where the file is no NTFF, or tells none.
    """
    path = Path(path)
    if is_ntff(path):
        with path.open("rb") as file:
            begun = file.read(_NTFF_HEADER)
            length = int.from_bytes(begun[1:9], "little")
            message = file.read(min(length, _NAMES))
        try:
            for number, start, end in blocks(message):
                if number == _UUID_FIELD:
                    return message[start:end]
        except ValueError:
            pass  # the message is longer than what was read of it
    raise BadFile(
        f"{path.name} is not an NTFF, or one of a version that is not known",
        help="name the .ntff file that `neuron-explorer capture` wrote",
    )


def belongs(uuid: bytes, ntff: str | Path) -> bool:
    """Tell whether an NTFF was captured of the NEFF with a UUID. Raises BadFile where it is no NTFF."""
    told = read_ntff_uuid(ntff)
    wanted = uuid.partition(b"\0")[0] if len(told) < len(uuid) else uuid
    return bool(wanted) and told[: len(uuid)] == wanted
