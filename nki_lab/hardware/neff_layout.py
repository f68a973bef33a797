"""Shows where the official compiler placed what a kernel moves, beside where ours did.

A NEFF tells the places of what its transfers read and write. Tiles that no transfer touches, and PSUM, stand in the
instructions alone, whose form is not published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nki_lab.hardware.neff import SBUF, Neff, NeffCore, NeffTensor, Tile, Transfer
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.text_table import text_table
from nki_lab.source import text_of
from nki_lab.targets import Target
from nki_lab.targets.engines import ENGINE_LABELS
from nki_lab.views.run import CodeLine, Operation, Place, ProgramStage, Slice, Tensor, ViewData

#: What is said above views of a NEFF.
NOTE = (
    "a program of the official compiler, not run: of SBUF only what transfers read and write is known; times"
    " and values are not"
)
#: The views of it.
VIEWS = ("memory", "ir")
_ABOUT = (
    "the official compiler placed these tiles; transfers stand engine by engine, as its files list them: how those of"
    " several engines interleave is not told; what is loaded is shown until another transfer touches its bytes, what is"
    " stored only while it is"
)
#: Transfers among which tiles are followed until something touches them again.
_FOLLOWED = 20_000
_BYTES_OF = re.compile(r"(\d+)$")
_SHOWN = 12


class _Used(NamedTuple):
    """A tile while it holds a part of a tensor that transfers bring or take.

    Attributes:
        tile: where it is.
        tensor, dtype: what it holds.
        first, last: from which transfer to which it is known to be in use.
        is_loaded: whether the first one brings what it holds; else it takes that away.
    """

    tile: Tile
    tensor: str
    dtype: str
    first: int
    last: int
    is_loaded: bool


class Placed(NamedTuple):
    """Tiles that hold parts of one tensor of device memory.

    Attributes:
        tensor: its name.
        way: "loaded" or "stored".
        tiles: how many different ones.
        transfers: how many move them.
        row_bytes: of the largest, in a partition.
        first, last: the first and the last byte of a partition that any of them has.
        partitions: the most that one has.
    """

    tensor: str
    way: str
    tiles: int
    transfers: int
    row_bytes: int
    first: int
    last: int
    partitions: int


def neff_view(neff: Neff, chip: Target) -> ViewData:
    """Return a NEFF as the views of a program show it: transfers in place of instructions, tiles, and tensors."""
    moved = list(_moved(neff))
    used = _used(moved)
    shapes = {t.name: t for t in neff.tensors}
    outside = [
        Tensor(t.name, "shared_hbm", t.shape or (t.nbytes,), t.dtype or "uint8", _itemsize(t.dtype), t.kind, False)
        for t in neff.tensors
    ]  # fmt: skip
    tensors = [*outside, *(_tensor(one, shapes.get(one.tensor)) for one in used)]
    operations = [_operation(one, len(neff.cores) > 1, core) for core, one in moved]

    def slices(number: int) -> Sequence[Slice]:
        if number < len(outside):
            return ()
        tensor, held = tensors[number], used[number - len(outside)]
        strides, touching = (tensor.row_elements, 1), (held.first,)
        readers, writers = ((), touching) if held.is_loaded else (touching, ())
        return [
            Slice(f"%{tensor.name}", tensor.shape, strides, 0, tensor.itemsize, readers, writers)
        ]

    def lines() -> Sequence[CodeLine]:
        return [CodeLine(o.text, o.place, n, o.engine) for n, o in enumerate(operations)]

    return ViewData(
        neff.name,
        Profile.from_tables(chip, {}, is_simulation=True, name=neff.name),
        operations=operations,
        stages=[ProgramStage("transfers of the NEFF", lines)],
        tensors=tensors,
        slices=slices,
        state="compiled, not run",
        about_places=_ABOUT,
    )


def _tensor(one: _Used, about: NeffTensor | None) -> Tensor:
    """Return a tile as a tensor; its place is what it holds, so that views colour it so."""
    text = f"{about.kind} {list(about.shape)} {about.dtype}" if about else "inside of the program"
    size = _itemsize(one.dtype)
    size = 1 if one.tile.row_bytes % size else size
    return Tensor(
        one.tensor,
        "sbuf",
        (one.tile.partitions, one.tile.row_bytes // size),
        one.dtype if size > 1 else "uint8",
        size,
        "temporary",
        True,
        (one.tile.partition, one.tile.byte),
        (one.first, one.last),
        Place(one.tensor, one.tensor, text),
    )


def _moved(neff: Neff) -> Iterator[tuple[int, Transfer]]:
    """Yield the transfers of all cores, each with the number of its core: of engines that begin with a load first."""
    for number, core in enumerate(neff.cores):
        stores_first: dict[str, bool] = {}
        for one in core.transfers:
            stores_first.setdefault(one.engine, one.written is None)
        for one in sorted(core.transfers, key=lambda one: stores_first[one.engine]):
            yield number, one


def _used(moved: Sequence[tuple[int, Transfer]]) -> list[_Used]:
    """Return the tiles that transfers touch, in their order.

    What is loaded stays until another transfer touches its bytes; of what is stored only that moment is known.
    """
    ends = [
        (n, core, tile, is_loaded)
        for n, (core, one) in enumerate(moved)
        for tile, is_loaded in ((one.read, False), (one.written, True))
        if tile is not None
    ]
    rows = [
        (n, c, t.partition, t.partition + t.partitions, t.byte, t.byte + t.row_bytes)
        for n, c, t, _ in ends
    ]
    number, cores, top, bottom, left, right = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    found: list[_Used] = []
    for k, (n, core, tile, is_loaded) in enumerate(ends):
        last = n
        if is_loaded and len(moved) <= _FOLLOWED:
            rest = slice(k + 1, None)
            over = (cores[rest] == core) & (number[rest] > n)
            over &= (top[rest] < tile.partition + tile.partitions) & (bottom[rest] > tile.partition)
            over &= (left[rest] < tile.byte + tile.row_bytes) & (right[rest] > tile.byte)
            later = np.flatnonzero(over)
            last = int(number[rest][later[0]]) - 1 if len(later) else len(moved) - 1
        one = moved[n][1]
        found.append(
            _Used(tile, one.source if is_loaded else one.dest, one.dtype, n, last, is_loaded)
        )
    return found


def _operation(one: Transfer, several: bool, core: int) -> Operation:
    ends = [
        f"{name}{_where(tile)}" for name, tile in ((one.source, one.read), (one.dest, one.written))
    ]
    of_core = f"core {core}: " if several else ""
    text = f"{of_core}{one.op or 'move'} {ends[0]} -> {ends[1]}, {one.nbytes:,} bytes, {one.queue}"
    outside = one.source if one.source != SBUF else one.dest
    return Operation(one.op or "move", one.engine, text, Place(outside, outside, ""))


def _where(tile: Tile | None) -> str:
    if tile is None:
        return ""
    rows = f"{tile.partition}:{tile.partition + tile.partitions}"
    return f"[{rows}, bytes {tile.byte}:{tile.byte + tile.row_bytes}]"


def _itemsize(dtype: str) -> int:
    """Return the bytes of an element, by the bits that its name ends with."""
    bits = _BYTES_OF.search(dtype)
    return max(1, int(bits[1]) // 8) if bits and int(bits[1]) in (8, 16, 32, 64) else 1


# -- in words --------------------------------------------------------------------------------------------------------


def neff_text(neff: Neff, ours: ViewData | None = None) -> str:
    """Return what a NEFF holds, and where its tiles are beside those of a kernel that nki_lab compiled."""
    chip = f"{neff.target.name} ({neff.chip})" if neff.target else neff.chip or "an unknown chip"
    lines = [
        f"{neff.path.name}: compiled for {chip} by neuronx-cc {neff.tool_version or 'of unknown version'}",
        f"  logical core of {neff.logical_core}, {len(neff.cores)} core programs, UUID {neff.uuid.hex()}",
        "",
    ]
    tensors = [
        (t.kind, t.name, " x ".join(map(str, t.shape)) or "scalar", t.dtype, f"{t.nbytes:,}")
        for t in neff.tensors
    ]
    lines += text_table(("tensor", "name", "shape", "dtype", "bytes"), tensors, None)
    lines += ["", *_programs(neff.cores), "", *_beside(neff, ours), "", NOTE]
    return text_of(lines)


def _programs(cores: Sequence[NeffCore]) -> list[str]:
    engines = [engine for engine in ENGINE_LABELS if engine != "dma"]
    rows = [
        (
            core.name,
            *(f"{core.instructions.get(e, 0):,}" for e in engines),
            f"{len(core.transfers):,}",
        )
        for core in cores
    ]
    return text_table(("core", *(ENGINE_LABELS[e] for e in engines), "transfers"), rows, None)


def _beside(neff: Neff, ours: ViewData | None) -> list[str]:
    """Return a table of the tiles that hold each tensor, by both compilers."""
    theirs = list(placed_in_neff(neff))
    mine = list(placed_in_run(ours)) if ours is not None else []
    rows = [_row("official", p) for p in theirs[:_SHOWN]]
    rows += [_row("nki_lab", p) for p in mine[:_SHOWN]]
    order = {name: n for n, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    rows.sort(key=lambda row: (order[row[0]], row[1]))
    heads = (
        "tensor",
        "way",
        "compiler",
        "tiles",
        "transfers",
        "partitions",
        "bytes each",
        "from byte",
        "to byte",
    )
    hidden = max(0, len(theirs) - _SHOWN) + max(0, len(mine) - _SHOWN)
    return [*text_table(heads, rows, None), *([f"... {hidden} more"] if hidden else [])]


def _row(who: str, p: Placed) -> tuple[str, ...]:
    numbers = (p.tiles, p.transfers, p.partitions, p.row_bytes, p.first, p.last)
    return (p.tensor, p.way, who, *(f"{n:,}" for n in numbers))


def placed_in_neff(neff: Neff) -> Iterator[Placed]:
    """Yield where the official compiler put parts of each tensor."""
    yield from _placed(
        (tensor, way, tile)
        for _, one in _moved(neff)
        for tensor, way, tile in (
            (one.source, "loaded", one.written),
            (one.dest, "stored", one.read),
        )
        if tile is not None and tensor != SBUF
    )


def placed_in_run(run: ViewData) -> Iterator[Placed]:
    """Yield where our compiler put parts of each tensor."""
    yield from _placed(_moves(run))


def _moves(run: ViewData) -> Iterator[tuple[str, str, Tile]]:
    """Yield what transfers between device memory and SBUF move: the tensor, the way, and the tile."""
    for position in range(len(run.operations)):
        accesses = run.accesses(position)
        inside = [a for a in accesses if run.tensors[a.tensor].memory == "sbuf"]
        outside = [a for a in accesses if run.tensors[a.tensor].memory.endswith("hbm")]
        if len(inside) != 1 or len(outside) != 1:
            continue
        tile, access = run.tensors[inside[0].tensor], inside[0]
        if tile.address is None or access.gather is not None:
            continue
        elements = access.elements()
        rows, columns = np.divmod(elements, tile.row_bytes // access.itemsize)
        first, last = (
            int(columns.min()) * access.itemsize,
            (int(columns.max()) + 1) * access.itemsize,
        )
        partition, byte = tile.address
        yield (
            run.tensors[outside[0].tensor].name,
            "loaded" if access.way == "writes" else "stored",
            Tile(
                partition + int(rows.min()),
                int(rows.max()) - int(rows.min()) + 1,
                byte + first,
                last - first,
            ),
        )


def _placed(moves: Iterator[tuple[str, str, Tile]]) -> Iterator[Placed]:
    found: dict[tuple[str, str], list[Tile]] = {}
    for tensor, way, tile in moves:
        found.setdefault((tensor, way), []).append(tile)
    for (tensor, way), tiles in found.items():
        yield Placed(
            tensor,
            way,
            len(set(tiles)),
            len(tiles),
            max(t.row_bytes for t in tiles),
            min(t.byte for t in tiles),
            max(t.byte + t.row_bytes for t in tiles) - 1,
            max(t.partitions for t in tiles),
        )
