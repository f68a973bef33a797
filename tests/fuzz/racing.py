"""Writes random kernels for two cores, and works out by enumeration which of their lines race.

A kernel is text. Which bytes a line touches comes from evaluating the same index expressions on NumPy arrays that hold
the number of every byte (`Bytes`); which lines run beside each other comes from counting, per tensor, what orders its
uses. Nothing here asks nki_lab.
"""

from __future__ import annotations

import importlib.util
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
    "uint8": np.uint8,
}
SAME_SIZE = {"float32": "int32", "int32": "float32"}
STATIC, DYNAMIC = "static", "dynamic"
LENGTH = 4096  # elements of the arguments that stores take their values from

HEAD = """\
import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa


def kernel({parameters}):
    core = nl.program_id(0)
"""


class Bytes:
    """A view of a tensor: the numbers of its bytes, with those of one element along the last axis."""

    def __init__(
        self, array: np.ndarray, whole: np.ndarray | None = None, skipped: int = 0
    ) -> None:
        self.array = array
        self.whole = array if whole is None else whole
        self.skipped = skipped  # elements of rows whose index is out of range

    @property
    def size(self) -> int:
        return prod(self.array.shape[:-1]) + self.skipped

    def _of(self, array: np.ndarray) -> Bytes:
        return Bytes(array, self.whole)

    def __getitem__(self, key: Any) -> Bytes:
        return self._of(self.array[key if type(key) is tuple else (key,)])

    def permute(self, dims: Any) -> Bytes:
        return self._of(self.array.transpose(*dims, len(dims)))

    def reshape(self, shape: Any) -> Bytes:
        return self._of(self.array.reshape(*shape, self.array.shape[-1]))

    def reshape_dim(self, dim: int, sizes: Any) -> Bytes:
        shape = self.array.shape
        return self._of(self.array.reshape(*shape[:dim], *sizes, *shape[dim + 1 :]))

    def flatten_dims(self, start: int, end: int) -> Bytes:
        shape = self.array.shape
        return self._of(self.array.reshape(*shape[:start], -1, *shape[end + 1 :]))

    def expand_dim(self, dim: int) -> Bytes:
        return self._of(np.expand_dims(self.array, dim))

    def select(self, dim: int, index: int) -> Bytes:
        return self._of(self.array.take(index, axis=dim))

    def broadcast(self, dim: int, size: int) -> Bytes:
        return self._of(np.repeat(self.array, size, axis=dim))

    def view(self, dtype: type) -> Bytes:
        outer = self.array.shape[:-2]
        return self._of(self.array.reshape(*outer, -1, np.dtype(dtype).itemsize))

    def ap(self, pattern, offset=0, scalar_offset=0, vector_offset=None, indirect_dim=0) -> Bytes:
        """Return an access pattern over a whole tensor."""
        flat = self.whole.reshape(-1, self.whole.shape[-1])
        shape = self.whole.shape
        row = prod(shape[indirect_dim + 1 : -1])
        places = np.full((1,) * len(pattern), offset + scalar_offset * row)
        for axis, (stride, count) in enumerate(pattern):
            steps = np.arange(count) * stride
            if axis == 0 and vector_offset is not None:
                steps = np.asarray(vector_offset).reshape(-1) * row
            places = places + steps.reshape(-1, *(1,) * (len(pattern) - 1 - axis))
        return self._of(flat[places])

    def vector_select(self, dim: int, vector_offset: np.ndarray) -> Bytes:
        rows = np.asarray(vector_offset).reshape(-1)
        valid = rows[rows < self.array.shape[dim]]
        left_out = (len(rows) - len(valid)) * prod(self.array.shape[1:-1])
        return Bytes(self.array.take(valid, axis=dim), self.whole, left_out)


@dataclass
class Tensor:
    """A tensor that both cores share."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str  # "named", "unnamed" or "input"

    def bytes(self) -> Bytes:
        size = np.dtype(NUMPY[self.dtype]).itemsize
        return Bytes(np.arange(prod(self.shape) * size).reshape(*self.shape, size))


@dataclass
class Line:
    """A line of the kernel: what it touches, as (tensor, expression, written), or the tensors it orders."""

    number: int
    cores: tuple[int, ...]
    uses: list[tuple[str, str, bool]] = field(default_factory=list)
    orders: tuple[str, ...] = ()


@dataclass
class Repeat:
    """A device loop: the values of its variable on each pass."""

    variable: str
    values: list[int]
    body: list[Any]


Event = tuple[int, bool, frozenset[int]]  # line, written, bytes


@dataclass
class Written:
    """A kernel with its arguments and its races, as (line of core 0, line of core 1)."""

    text: str
    arguments: dict[str, np.ndarray]
    races: set[tuple[int, int]]
    counts: dict[str, int]

    def kernel(self, folder: Path, number: int) -> Any:
        """Return the function, loaded from a file."""
        path = folder / f"racing_{number}.py"
        path.write_text(self.text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel


class Writer:
    """Writes one kernel.

    Args:
        seed: of every choice.
        kind: STATIC or DYNAMIC.
        ranks: it may meet other ranks in collectives.
    """

    def __init__(self, seed: int, kind: str, ranks: bool = False) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.ranks = ranks
        self.lines: list[str] = []
        self.arguments: dict[str, np.ndarray] = {}
        self.values: list[dict[str, Any]] = [{}, {}]  # of registers and tiles of indices, per core
        self.tensors: dict[str, Tensor] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self.indent = 1
        self.loops: list[tuple[str, list[int]]] = []
        self.results: list[str] = []
        self.named = 0

    # -- text --------------------------------------------------------------------------------------------------------

    def put(self, text: str) -> int:
        """Add a line and return its number, counted below the head."""
        self.lines.append("    " * self.indent + text)
        return len(self.lines)

    def name(self, letter: str) -> str:
        self.named += 1
        return f"{letter}{self.named}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def write(self) -> Written:
        """Write the kernel and work out its races."""
        choice = self.random
        for dtype in NUMPY:
            self.arguments[f"w_{dtype}"] = (np.arange(LENGTH) % 7).astype(NUMPY[dtype])
        shape = self._shape()
        dtype = choice.choice([*NUMPY, "float32"])
        for _ in range(choice.choice([1, 1, 2])):
            self._tensor(shape if self.chance(0.7) else self._shape(), dtype)
        self.put('z = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm, name="z")')
        self.split = {name: self._split(t) for name, t in self.tensors.items()}
        self.mistakes = choice.choice([0.0, 0.0, 0.15, 0.5])
        body = self._body(choice.randint(2, 6))
        if self.kind == DYNAMIC and not self.counts["dynamic"]:
            body.append(self._use(dynamic=True))
        returned = [*self.results, *(n for n, t in self.tensors.items() if t.kind != "input")]
        self.put(f"return ({', '.join(['z', *returned])},)")
        parameters = ", ".join(self.arguments)
        head = HEAD.format(parameters=parameters)
        races = self._races(body, head.count("\n"))
        return Written(
            head + "\n".join(self.lines) + "\n", self.arguments, races, dict(self.counts)
        )

    def _shape(self) -> tuple[int, ...]:
        rank = self.random.choice([1, 2, 2, 3, 3, 4])
        sizes = [8, 12, 16] if rank == 1 else [2, 4, 6, 8] if rank < 4 else [2, 4]
        if self.kind == DYNAMIC:
            rank, sizes = max(rank, 2), [4, 6, 8]
        return tuple(
            self.random.choice(sizes) for _ in range(min(rank, 3 if self.kind == DYNAMIC else 4))
        )

    def _tensor(self, shape: tuple[int, ...], dtype: str) -> None:
        kind = self.random.choice(["named", "unnamed", "input"])
        name = self.name("s")
        self.tensors[name] = Tensor(name, shape, dtype, kind)
        self.counts[kind] += 1
        if kind == "input":
            self.arguments[name] = np.zeros(shape, NUMPY[dtype])
            return
        named = f', name="{name}"' if kind == "named" else ""
        self.put(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.shared_hbm{named})")

    # -- which part of a tensor a line takes -------------------------------------------------------------------------

    def _split(self, t: Tensor) -> tuple[int, str]:
        """Return an axis that the cores divide, and how."""
        return self.random.randrange(len(t.shape)), self.random.choice(["halves", "interleaved"])

    def _view(self, t: Tensor) -> str:
        """Return an expression for a part of a tensor; `core` in it is the core."""
        if self.chance(self.mistakes):
            return self._any_view(t)
        axis, how = self.split[t.name]
        size, text, shape = t.shape[axis], t.name, list(t.shape)
        order = list(range(len(shape)))
        way = self.random.choice(["plain", "plain", "permute", "split", "ap", "dtype"])
        if way == "permute":
            self.random.shuffle(order)
            text += f".permute({tuple(order)})"
        if way == "split" and size % 2 == 0:
            sizes = (2, size // 2) if how == "halves" else (size // 2, 2)
            self.counts["split axis"] += 1
            index = [":"] * (len(shape) + 1)
            index[axis + (how != "halves")] = "core"
            return self._finer(t, f"{text}.reshape_dim({axis}, {sizes})[{', '.join(index)}]")
        if way == "dtype" and t.dtype in SAME_SIZE:
            text += f".view(nl.{SAME_SIZE[t.dtype]})"
        half = size // 2
        index = [":"] * len(shape)
        index[order.index(axis)] = (
            f"core * {half} : core * {half} + {half}" if how == "halves" else "core::2"
        )
        if way == "ap" and how == "halves":
            steps = [prod(shape[k + 1 :]) for k in range(len(shape))]
            counts = [half if k == axis else n for k, n in enumerate(shape)]
            start = f"core * {half * steps[axis]}"
            if self.chance(0.5):  # backwards
                start += f" + {(half - 1) * steps[axis]}"
                steps[axis] = -steps[axis]
            self.counts["pattern"] += 1
            return (
                f"{text}.ap({[list(p) for p in zip(steps, counts, strict=True)]}, offset={start})"
            )
        self.counts[way] += 1
        return self._finer(t, f"{text}[{', '.join(index)}]")

    def _finer(self, t: Tensor, text: str) -> str:
        """Return a part of a part, sometimes."""
        array = self._evaluate(text, 0).array
        if array.ndim < 2 or not self.chance(0.4):
            return text
        return f"{text}[{self._slices(array.shape[:-1])}]"

    def _slices(self, shape: tuple[int, ...]) -> str:
        parts = []
        for size in shape:
            start = self.random.randrange(size)
            end = self.random.randint(start + 1, size)
            step = self.random.choice(["", "", "::2", "::3"])
            whole = self.chance(0.4)
            parts.append(f"{'' if whole else start}:{'' if whole else end}" + step[1:])
        return ", ".join(parts)

    def _any_view(self, t: Tensor) -> str:
        """Return any part of a tensor, other for each core or the same."""
        way = self.random.choice(["slices", "each", "flat", "ap", "shifted"])
        if way == "slices":
            return f"{t.name}[{self._slices(t.shape)}]"
        if way == "each":
            first, second = (f"{t.name}[{self._slices(t.shape)}]" for _ in range(2))
            return f"({first}, {second})[core]"
        total = prod(t.shape)
        if way == "flat":
            return f"{t.name}.reshape(({total},))[{self._slices((total,))}]"
        if way == "shifted":
            return f"{t.name}.reshape(({total},))[core : core + {total - 1}]"
        a, b = self.random.choice([1, 2, 3]), self.random.choice([1, 2])
        most = (total - 1 - a) // 2
        count = self.random.randint(1, max(1, most // a))
        rest = max(0, total - 1 - a * (count - 1))
        other = self.random.randint(1, max(1, min(3, rest // max(b, 1))))
        room = total - 1 - a * (count - 1) - b * (other - 1)
        shift = self.random.randint(0, max(0, room))
        return f"{t.name}.ap([[{a}, {count}], [{b}, {other}]], offset={shift})"

    def _dynamic_view(self, t: Tensor, is_written: bool) -> tuple[str, str]:
        """Return a part placed by values of the device, and what it is placed by."""
        rows, row = t.shape[0], prod(t.shape[1:])
        way = self.random.choice(
            ["gather", "register", "register"] + ["loop"] * 3 * bool(self.loops)
        )
        self.counts["dynamic"] += 1
        self.counts[way] += 1
        mine = [self._rows_of(t, core) for core in range(2)]
        if way == "gather":
            count = self.random.randint(1, min(len(rows_) for rows_ in mine))
            chosen = [self.random.sample(rows_, count) for rows_ in mine]
            if self.chance(0.6):
                if self.chance(0.3):  # a row that is skipped
                    self.counts["skipped"] += 1
                    chosen = [[*of_core[1:], 1000] for of_core in chosen]
                return f"{t.name}.vector_select(0, {self._indices(chosen)})", way
            tile = self._indices(chosen)
            inner = self.random.randint(1, row)
            return (
                f"{t.name}.ap([[{row}, {count}], [1, {inner}]], vector_offset={tile}, indirect_dim=0)",
                way,
            )
        if way == "register":
            by = self._register([self.random.choice(rows_) for rows_ in mine], self.chance(0.3))
        else:
            variable, values = self.random.choice(self.loops)
            if self.chance(0.6) and max(values, default=0) < rows // 2:
                start = f"core * {rows // 2 * row}" if self.split[t.name][1] == "halves" else "0"
                inner = self.random.randint(1, row)
                return (
                    f"{t.name}.ap([[{row}, 1], [1, {inner}]], offset={start}, scalar_offset={variable})",
                    way,
                )
            by = variable
            if max(values, default=0) >= rows:
                by = self._register([self.random.choice(rows_) for rows_ in mine])
        if self.chance(0.4):
            return f"{t.name}.select(0, {by})", way
        if self.chance(0.4):
            return f"{t.name}[nl.ds({by}, 1)]", way
        inner = self.random.randint(1, row)
        first = self.random.randint(0, row - inner)
        return f"{t.name}.ap([[{row}, 1], [1, {inner}]], offset={first}, scalar_offset={by})", way

    def _rows_of(self, t: Tensor, core: int) -> list[int]:
        rows = list(range(t.shape[0]))
        if self.chance(self.mistakes):
            return rows
        half = len(rows) // 2
        by_halves = self.split[t.name][1] == "halves"
        return rows[core * half : (core + 1) * half] if by_halves else rows[core::2]

    def _indices(self, chosen: list[list[int]]) -> str:
        """Return the name of a tile of indices with other values on each core."""
        given, tile = self.name("g"), self.name("t")
        self.arguments[given] = np.array(chosen, np.uint32)[:, :, None]
        count = len(chosen[0])
        self.put(f"{tile} = nl.ndarray(({count}, 1), dtype=nl.uint32, buffer=nl.sbuf)")
        self.put(f"nisa.dma_copy({tile}, {given}[core])")
        for core in range(2):
            self.values[core][tile] = np.array(chosen[core])
        return tile

    def _register(self, values: list[int], as_tile: bool = False) -> str:
        """Return the name of a register, or of a tile of one element, with another value on each core."""
        given, tile, register = self.name("v"), self.name("t"), self.name("q")
        self.arguments[given] = np.array(values, np.int32)[:, None, None]
        self.put(f"{tile} = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)")
        self.put(f"nisa.dma_copy({tile}, {given}[core])")
        if as_tile:
            self.counts["scalar tile"] += 1
            for core in range(2):
                self.values[core][tile] = values[core]
            return tile
        self.put(f"{register} = nisa.register_alloc()")
        self.put(f"nisa.register_load({register}, {tile})")
        for core in range(2):
            self.values[core][register] = values[core]
        return register

    # -- lines -------------------------------------------------------------------------------------------------------

    def _body(self, count: int, depth: int = 0) -> list[Any]:
        body: list[Any] = []
        for _ in range(count):
            what = self.random.random()
            if what < 0.30:
                body += self._order()
            elif what < (0.5 if self.kind == DYNAMIC else 0.38) and depth < 2:
                body.append(self._loop(depth))
            else:
                body.append(self._use(self.kind == DYNAMIC and self.chance(0.6)))
        return body

    def _order(self) -> list[Line]:
        """Return what orders a tensor, or only looks like it."""
        name = self.random.choice(list(self.tensors))
        way = self.random.choice(
            ["own", "own", "own", "view", "other", "sendrecv", "crossed"]
            + ["collective"] * 2 * self.ranks
        )
        self.counts[f"order: {way}"] += 1
        both = (0, 1)
        if way == "other":
            others = ["z", *(n for n in self.tensors if n != name)]
            name = self.random.choice(others)
            return [Line(self.put(f"nisa.core_barrier({name}, (0, 1))"), both, orders=(name,))]
        if way == "crossed":
            second = self.random.choice([n for n in ["z", *self.tensors] if n != name])
            text = f"nisa.core_barrier(({name}, {second})[core], (0, 1))"
            return [Line(self.put(text), both)]
        if way == "sendrecv":
            a, b = self.name("t"), self.name("t")
            self.put(f"{a} = nl.zeros((2, 4), dtype=nl.float32, buffer=nl.sbuf)")
            self.put(f"{b} = nl.ndarray((2, 4), dtype=nl.float32, buffer=nl.sbuf)")
            return [Line(self.put(f"nisa.sendrecv({a}, {b}, 1 - core, 1 - core, pipe_id=0)"), both)]
        if way == "collective":
            t = self.tensors[name]
            if t.kind == "input" or t.dtype != "float32" or self.indent > 1:
                return []
            other = self.name("s")
            self.put(
                f"{other} = nl.ndarray({t.shape}, dtype=nl.float32, buffer=nl.shared_hbm, name={other!r})"
            )
            self.tensors[other] = Tensor(other, t.shape, t.dtype, "named")
            self.split[other] = self.split[name]
            text = f"ncc.all_reduce(srcs=[{name}], dsts=[{other}], replica_group=ncc.ReplicaGroup([[0, 1]]), op=nl.add)"
            return [Line(self.put(text), both, orders=(name, other))]
        view = f"{name}[0:1]" if way == "view" else name
        return [
            Line(self.put(f"nisa.core_barrier(data={view}, cores=(0, 1))"), both, orders=(name,))
        ]

    def _loop(self, depth: int) -> Repeat:
        """Return a device loop, whose bounds or end may be values of the device."""
        variable = self.name("i")
        start, count = self.random.randint(0, 1), self.random.choice([0, 1, 2, 3, 3])
        step = self.random.choice([1, 1, 2])
        values = list(range(start, start + count * step, step))
        kind = (
            self.random.choice(["fixed", "fixed", "register", "while"])
            if self.kind == DYNAMIC
            else "fixed"
        )
        self.counts[f"loop: {kind}"] += 1
        if kind == "while":
            tile, counter = self.name("t"), self.name("q")
            self.arguments[counter + "_n"] = np.array([[count]], np.int32)
            self.put(f"{tile} = nl.load({counter}_n)")
            self.put(f"{counter} = nisa.register_alloc()")
            self.put(f"nisa.register_load({counter}, {tile})")
            self.put(f"while {counter}:")
        else:
            stop: Any = start + count * step
            if kind == "register":
                stop = self._register([stop, stop])
            self.put(f"for {variable} in nl.dynamic_range({start}, {stop}, {step}):")
            self.loops.append((variable, values))
        self.indent += 1
        body = self._body(self.random.randint(1, 3), depth + 1)
        if kind == "while":
            self.put(f"nisa.tensor_scalar({tile}, {tile}, nl.subtract, 1)")
            self.put(f"nisa.register_load({counter}, {tile})")
        else:
            self.put("pass")
            self.loops.pop()
        self.indent -= 1
        return Repeat(variable, values, body)

    def _use(self, dynamic: bool) -> Line:
        """Return a line that reads or writes a shared tensor, on both cores or one."""
        t = self.tensors[self.random.choice(list(self.tensors))]
        cores = self.random.choice([(0, 1), (0, 1), (0, 1), (0,), (1,)])
        is_written = self.chance(0.55)
        text = self._dynamic_view(t, is_written)[0] if dynamic else self._view(t)
        if not is_written and not dynamic and self.chance(0.15):
            text = f"{text}.expand_dim(0).broadcast(0, 2)"
        sizes = [self._evaluate(text, core, first=True).size for core in range(2)]
        size = str(sizes[0]) if sizes[0] == sizes[1] else f"{tuple(sizes)}[core]"
        dtype = SAME_SIZE[t.dtype] if ".view(" in text else t.dtype
        uses = [(t.name, text, is_written)]
        if is_written:
            values = f"w_{dtype}[0:{size}]"
            way = self.random.choice(["store", "store", "through a tile", "added"])
            if way == "added" and dynamic and ".vector_select" in text and len(set(sizes)) == 1:
                way = "scattered sum"
            if dtype != "float32" or (way == "added" and dynamic):
                way = "store" if way in ("added", "scattered sum") else way
            if way == "through a tile":
                tile = self.name("t")
                self.put(f"{tile} = nl.ndarray((1, {size}), dtype=nl.{dtype}, buffer=nl.sbuf)")
                self.put(f"nisa.dma_copy({tile}, {values})")
                values = tile
            skip = ", oob_mode=nisa.oob_mode.skip" if ".vector_select" in text else ""
            call = f"nisa.dma_copy({text}, {values}{skip})"
            if way == "scattered sum":
                rows, tile = self.name("e"), self.name("t")
                count = sizes[0] // prod(t.shape[1:])
                self.put(
                    f"{tile} = nl.ndarray(({count}, {sizes[0] // count}), dtype=nl.float32, buffer=nl.sbuf)"
                )
                self.put(f"nisa.dma_copy({tile}, w_float32[0:{size}])")
                self.put(f"{rows} = {text}")
                uses.append((t.name, text, False))
                call = f"nisa.dma_compute({rows}, [{rows}, {tile}], nl.add{skip})"
            if way == "added":
                uses.append((t.name, text, False))
                call = f"nisa.dma_compute({text}, [{text}, {values}], nl.add)"
        else:
            way = "load"
            result = self.name("r")
            self.results.append(result)
            creation = (
                f"{result} = nl.ndarray((2, {max(sizes)}), dtype=nl.{dtype}, buffer=nl.shared_hbm)"
            )
            self.lines.insert(0, "    " + creation)
            skip = ", oob_mode=nisa.oob_mode.skip" if ".vector_select" in text else ""
            call = f"nisa.dma_copy({result}[core, 0:{size}], {text}{skip})"
        self.counts[way] += 1
        # The line of a result that is made above moves every other line down by one; see `_races`.
        guard = "" if len(cores) == 2 else f"if core == {cores[0]}: "
        return Line(self.put(guard + call) - len(self.results), cores, uses)

    # -- truth -------------------------------------------------------------------------------------------------------

    def _evaluate(
        self, text: str, core: int, loops: dict[str, int] | None = None, first: bool = False
    ) -> Bytes:
        names: dict[str, Any] = {name: t.bytes() for name, t in self.tensors.items()}
        names |= {f"nl_{name}": kind for name, kind in NUMPY.items()}
        names |= self.values[core] | (loops or {})
        if first:  # the first pass, or 0 where there is none
            names |= {name: (values or [0])[0] for name, values in self.loops}
        nl = SimpleNamespace(ds=lambda start, size: slice(start, start + size), **NUMPY)
        return eval(text, {"core": core, "nl": nl, **names})

    def _races(self, body: list[Any], head: int) -> set[tuple[int, int]]:
        """Return the pairs of lines that touch one byte in the same span, one of them writing."""
        spans: list[dict[tuple[str, int], list[Event]]] = []
        for core in range(2):
            number: dict[str, int] = defaultdict(int)
            touching: dict[tuple[str, int], list[Event]] = defaultdict(list)
            for line, loops in _executed(body, core, {}):
                for name in line.orders:
                    number[name] += 1
                for name, text, is_written in line.uses:
                    touched = self._evaluate(text, core, loops).array.reshape(-1).tolist()
                    touching[name, number[name]].append(
                        (self._number(line, head), is_written, frozenset(touched))
                    )
            spans.append(touching)
        races = set()
        for key in spans[0].keys() & spans[1].keys():
            for line, is_written, touched in spans[0][key]:
                for other, other_written, other_touched in spans[1][key]:
                    if (is_written or other_written) and not touched.isdisjoint(other_touched):
                        races.add((line, other))
        return races

    def _number(self, line: Line, head: int) -> int:
        return head + len(self.results) + line.number


def _executed(
    body: list[Any], core: int, loops: dict[str, int]
) -> Iterator[tuple[Line, dict[str, int]]]:
    for node in body:
        if isinstance(node, Repeat):
            for value in node.values:
                yield from _executed(node.body, core, {**loops, node.variable: value})
        elif core in node.cores:
            yield node, loops


def kernels(
    kind: str, accept: Callable[[Written], bool], count: int, seed: int = 0, ranks: bool = False
) -> Iterator[Written]:
    """Yield `count` kernels that `accept` takes, from a seed on."""
    while count:
        written = Writer(seed, kind, ranks).write()
        seed += 1
        if accept(written):
            count -= 1
            yield written
