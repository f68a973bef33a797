"""The text of a random kernel, its tiles and views; the reference runs each line as it is written.

So a writer knows which values are fixed, and never asks for what the pages forbid: a line that the reference refuses
is left out. What a loop repeats is written first and run as a block.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.reference.language import NAMES
from tests.reference.machine import Machine, argument
from tests.reference.numbers import TYPES, Array, DType
from tests.reference.tensors import Refused, Register, Tensor

ROWS, COLUMNS = 128, 96
FLOATS = (
    "float32",
    "float32",
    "float32",
    "bfloat16",
    "bfloat16",
    "float16",
    "float8_e4m3",
    "float8_e5m2",
    "tfloat32",
)
INTEGERS = ("int32", "int32", "uint32", "uint8", "int8", "int16", "uint16")
STYLES = ("tame", "tame", "wide", "special", "halves")


@dataclass
class Program:
    """A kernel with its arguments.

    Attributes:
        inputs: (name, dtype, array) of each parameter; with several ranks one array each in a first axis.
        lines: statements, one or more lines each; what makes a result is one statement.
        results: names of tensors that the kernel returns.
        equal: pairs of results that must be equal, whatever they are.
        between: (result, least, most) that the pages promise.
        ran: results and arguments afterwards, where the reference ran it while it was written.
    """

    target: str
    seed: int
    cores: int = 1
    ranks: int = 1
    inputs: list[tuple[str, DType, Array]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    equal: list[tuple[str, str]] = field(default_factory=list)
    between: list[tuple[str, float, float]] = field(default_factory=list)
    ran: tuple[list[Tensor], list[Tensor]] | None = None

    @property
    def text(self) -> str:
        head = f"def kernel({', '.join(name for name, _, _ in self.inputs)}):\n"
        body = "".join(
            f"    {line}\n" for statement in self.lines for line in statement.split("\n")
        )
        ends = [name for name in self.results if f"\n    {name} = " in f"\n{body}"]
        return f"{head}{body}    return {', '.join(ends)}{',' * (len(ends) == 1)}\n"


@dataclass(frozen=True)
class Handle:
    """A tensor of the reference with the expression that gives it."""

    text: str
    t: Any

    def __repr__(self) -> str:
        return self.text

    def then(self, more: str) -> Handle:
        """Return the view that `more` takes of it; names in it must be constants."""
        return Handle(self.text + more, eval(f"t{more}", {"t": self.t, **NAMES}))


@dataclass(frozen=True)
class Name:
    """A constant with the text that names it."""

    text: str
    value: Any

    def __repr__(self) -> str:
        return self.text


def op(name: str) -> Name:
    return Name(f"nl.{name}", name)


def choice(kind: str, name: str) -> Name:
    return Name(f"nisa.{kind}.{name}", name)


def _text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, list):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return repr(value)


def _value(value: Any) -> Any:
    if isinstance(value, (Handle, Name)):
        return value.t if isinstance(value, Handle) else value.value
    return [_value(v) for v in value] if isinstance(value, list) else value


def step_of(rows: int) -> int:
    """Return of what the first partition of an access is a multiple."""
    return 128 if rows > 64 else 64 if rows > 32 else 32


class Writer:
    """A kernel while it is written."""

    def __init__(self, target: str, seed: int, cores: int = 1, ranks: int = 1) -> None:
        self.program = Program(target, seed, cores, ranks)
        self.pick = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.env: dict[str, Any] = dict(NAMES)
        self.machine = Machine(target, cores, ranks)
        self.machine.begin()
        self.dry = cores * ranks > 1
        self.tiles: list[Handle] = []
        self.sources: dict[tuple[str, str], Handle] = {}
        self.registers: list[Handle] = []
        self.changed: set[int] = set()  # memories that an instruction was given to write into
        self.count = 0
        self.style = self.pick.choice(STYLES)
        self.chip = self.machine.chip
        self.body: list[str] | None = None

    # -- statements ----------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        (self.program.lines if self.body is None else self.body).append(text)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def call(
        self, function: str, *, namespace: str = "nisa", into: str = "", **arguments: Any
    ) -> Any:
        """Run an instruction and write its line; Refused where the reference refuses it."""
        given = {k: v for k, v in arguments.items() if v is not ...}
        result = None
        if not self.dry:
            result = getattr(NAMES[namespace], function)(**{k: _value(v) for k, v in given.items()})
        self.line(
            f"{into}{namespace}.{function}({', '.join(f'{k}={_text(v)}' for k, v in given.items())})"
        )
        return result

    # -- tensors -------------------------------------------------------------------------------------------------

    def source(self, dtype: str, style: str | None = None) -> Handle:
        """Return an argument of a type."""
        key = (dtype, style or self.style)
        if key not in self.sources:
            self.sources[key] = self.given(dtype, self._values(TYPES[dtype], key[1]))
        return self.sources[key]

    def given(self, dtype: str, array: Array) -> Handle:
        """Make an argument from an array (one per rank along a first axis)."""
        name = self.name("a")
        self.program.inputs.append((name, TYPES[dtype], array))
        t = argument(array[0] if self.program.ranks > 1 else array, TYPES[dtype])
        self.env[name] = t
        return Handle(name, t)

    def _values(self, dtype: DType, style: str) -> Array:
        shape = (ROWS, COLUMNS) if self.program.ranks == 1 else (self.program.ranks, ROWS, COLUMNS)
        rng = self.numbers
        if dtype.kind == "p":
            return rng.integers(0, 0x78787878 if dtype.size == 4 else 1 << 16, shape).astype(
                dtype.np
            ) & dtype.np.type(
                0x7777BBBB & ((1 << 8 * dtype.size) - 1) if dtype.size == 4 else 0xFFFF
            )
        if dtype.kind == "s":
            return rng.integers(120, 134, shape).astype(np.uint8).view(dtype.np)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(np.uint8)
        if dtype.kind in "iu":
            info = np.iinfo(dtype.np)
            low, high = (-20, 21) if style == "tame" else (info.min, info.max + 1)
            v = rng.integers(max(low, info.min), high, shape)
            if style == "wide":
                v = v >> rng.integers(0, 8 * dtype.size - 1, shape)
            if style == "special":
                v = np.where(
                    rng.random(shape) < 0.3,
                    rng.choice([info.min, info.max, 0, 1, info.max - 1], shape),
                    v,
                )
            return v.astype(dtype.np)
        if style == "tame":
            x = rng.integers(-40, 41, shape) / 8
        elif (
            style == "halves"
        ):  # few bits, many of them halfway between two numbers of a narrower type
            x = rng.integers(-4096, 4097, shape) / 2.0 ** rng.integers(0, 14, shape)
        elif style == "wide":
            x = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3, shape)
        else:
            x = rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)
            odd = rng.choice(
                [
                    math.nan,
                    math.inf,
                    -math.inf,
                    -0.0,
                    0.0,
                    1e-40,
                    -1e-42,
                    dtype.top,
                    -dtype.top,
                    1.0,
                    2.0**24 + 1,
                    -2.5,
                    0.5,
                    1.5,
                ],
                shape,
            )
            x = np.where(rng.random(shape) < 0.3, odd, x)
        with np.errstate(all="ignore"):
            v = x.astype(np.float32).astype(dtype.np)
            if dtype.name == "tfloat32":
                v = (v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return v

    def array(
        self, shape: tuple[int, ...], dtype: str, buffer: str = "sbuf", prefix: str = "t"
    ) -> Handle:
        """Write the line that makes a tensor."""
        name = self.name(prefix)
        if self.program.cores > 1 and prefix == "h" and self.program.ranks == 1:
            buffer = "private_hbm"  # both cores write the tensors of a recipe
        t = NAMES["nl"].ndarray(shape, TYPES[dtype], buffer)
        self.env[name] = t
        self.line(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{buffer})")
        handle = Handle(name, t)
        self.tiles.append(handle)
        return handle

    def fill(self, tile: Handle, style: str | None = None) -> None:
        """Write all of a tile."""
        t, dtype = tile.t, tile.t.dtype.name
        if t.buffer == "psum":
            held = self.array(t.shape, dtype)
            self.fill(held, style)
            self.call("tensor_copy", dst=tile, src=held)
            return
        if t.dtype.kind in "iu" and self.pick.random() < 0.1 and t.buffer == "sbuf":
            self.call("memset", dst=tile, value=self.pick.randrange(3))
            return
        source = self.source(dtype if dtype != "tfloat32" else "float32", style)
        rows, free = t.shape[0], t.free
        if t.size > ROWS * COLUMNS or (free > COLUMNS and rows > 1):
            raise Refused("too large")
        if free > COLUMNS:
            part = source.then(f".reshape(({ROWS * COLUMNS},))[0:{free}]")
        else:
            first, column = self.pick.randint(0, ROWS - rows), self.pick.randint(0, COLUMNS - free)
            part = source.then(f"[{first}:{first + rows}, {column}:{column + free}]")
        if dtype == "tfloat32":
            held = self.array((rows, free), "float32")
            self.call("dma_copy", dst=held, src=part)
            self.call("tensor_copy", dst=tile, src=held)
        else:
            self.call("dma_copy", dst=tile, src=part)

    def clean(self, t: Tensor) -> bool:
        """Tell whether every value of a view is fixed."""
        try:
            return self.dry or bool((t.error(t.places()[0]) <= 0).all())
        except Refused:
            return False

    def read(
        self,
        rows: int,
        free: tuple[int, ...] | int,
        dtype: str,
        mem: str = "sbuf",
        style: str | None = None,
        plain: bool = False,
    ) -> Handle:
        """Return a view to read, with fixed values where possible."""
        shape = (rows, *((free,) if isinstance(free, int) else free))
        if style is None and self.pick.random() < 0.7:
            fits = [h for h in self.tiles[-12:] if self._fits(h, shape, dtype, mem)]
            self.pick.shuffle(fits)
            for h in fits[:3]:
                view = self._view(h, shape, True, plain)
                if self.clean(view.t):
                    return view
        tile = self._tile(shape, dtype, mem)
        self.fill(tile, style)
        return self._view(tile, shape, True, plain)

    def write(
        self,
        rows: int,
        free: tuple[int, ...] | int,
        dtype: str,
        mem: str = "sbuf",
        avoid: tuple[Any, ...] = (),
        plain: bool = False,
    ) -> Handle:
        """Return a view to write, in a tensor that none of `avoid` is a view of."""
        shape = (rows, *((free,) if isinstance(free, int) else free))
        memories = {
            id(h.t.memory) for h in avoid if isinstance(h, Handle) and isinstance(h.t, Tensor)
        }
        if self.pick.random() < (0.5 if self.body is None else 0.9):
            fits = [
                h
                for h in self.tiles[-12:]
                if self._fits(h, shape, dtype, mem) and id(h.t.memory) not in memories
            ]
            if fits:
                return self._changed(self._view(self.pick.choice(fits), shape, False, plain))
        tile = self._tile(shape, dtype, mem)
        if tile.t.size != math.prod(shape) or self.pick.random() < 0.2:
            self.fill(tile)
        return self._changed(self._view(tile, shape, False, plain))

    def _changed(self, view: Handle) -> Handle:
        self.changed.add(id(view.t.memory))
        return view

    def either(self, source: Handle, *others: Handle, **where: Any) -> Handle:
        """Return the source itself, for an operation in place, or another view of its shape to write."""
        dtype = where.pop("dtype", source.t.dtype.name)
        t = source.t
        alone = all(
            o.t.memory is not t.memory or o is source for o in others if isinstance(o, Handle)
        )
        if (
            dtype == t.dtype.name
            and self.pick.random() < 0.25
            and alone
            and 0 not in t.strides
            and not t.is_indirect()
        ):
            return self._changed(source)
        return self.write(t.shape[0], t.shape[1:], dtype, avoid=(source, *others), **where)

    def _fits(self, h: Handle, shape: tuple[int, ...], dtype: str, mem: str) -> bool:
        t = h.t
        if t.dtype.name != dtype or t.buffer != mem or t.ndim != 2:
            return False
        return t.shape[0] >= shape[0] and t.shape[1] >= math.prod(shape[1:])

    def _tile(self, shape: tuple[int, ...], dtype: str, mem: str) -> Handle:
        rows, free = shape[0], math.prod(shape[1:])
        more = self.pick.choice((0, 0, free, 3, 8))
        wide = free + more if free + more <= COLUMNS else free
        return self.array((self.pick.choice((rows, rows, ROWS)), wide), dtype, mem)

    def _view(self, h: Handle, shape: tuple[int, ...], reading: bool, plain: bool) -> Handle:
        pick, (rows, *free) = self.pick, shape
        total, wide, size = h.t.shape[0], h.t.shape[1], math.prod(shape[1:])
        first = pick.choice(range(0, total - rows + 1, step_of(rows)))
        spare = wide - size
        column = pick.choice((0, spare, pick.randint(0, spare)))
        form = pick.random()
        cut = f"[{first}:{first + rows}, {column}:{column + size}]"
        if first == 0 and rows == total and spare == 0 and len(free) == 1 and form < 0.5:
            return h
        if plain or form < 0.35:
            return h.then(cut + (f".reshape({shape})" if len(free) > 1 else ""))
        if (form < 0.45 and self.registers and spare > 0 and not self.dry) or (
            self.body is not None and self.registers and spare > 3 and form < 0.6
        ):
            register = pick.choice(self.registers)
            most = 3 if register.text in ("i", "j") else register.t.value
            if most is not None and 0 <= most <= spare:
                moved = Handle(
                    f"{h.text}[{first}:{first + rows}, nl.ds({register.text}, {size})]",
                    h.t[first : first + rows, NAMES["nl"].ds(register.t, size)],
                )
                return moved.then(f".reshape({shape})") if len(free) > 1 else moved
        if form < 0.55 and len(free) == 1 and size > 1 and 2 * size - 1 <= wide:
            column = pick.randint(0, wide - 2 * size + 1)
            return h.then(f"[{first}:{first + rows}, {column}:{column + 2 * size - 1}:2]")
        if form < 0.7 and len(free) == 2:
            a, b = free
            if form < 0.62:
                return h.then(f"{cut}.reshape({(rows, b, a)}).permute((0, 2, 1))")
            return h.then(f"{cut}.rearrange(('p', ('x', 'y')), ('p', 'y', 'x'), {{'y': {a}}})")
        if form < 0.75 and reading and len(free) == 2 and not self.dry:
            a, b = free
            return h.then(
                f"[{first}:{first + rows}, {column}:{column + b}].expand_dim(1).broadcast(1, {a})"
            )
        if form < 0.95:
            steps = [math.prod(free[k + 1 :]) for k in range(len(free))]
            pattern = [[wide, rows], *([s, n] for s, n in zip(steps, free, strict=True))]
            return h.then(f".ap(pattern={pattern}, offset={first * wide + column})")
        return h.then(cut + (f".reshape_dim(1, {tuple(free)})" if len(free) > 1 else ""))

    # -- indices and registers -----------------------------------------------------------------------------------

    def index(self, values: Array, dtype: str) -> Handle:
        """Return a tile with indices."""
        given = self.given(
            dtype,
            values.astype(TYPES[dtype].np)
            if self.program.ranks == 1
            else np.stack([values.astype(TYPES[dtype].np)] * self.program.ranks),
        )
        tile = self.array(values.shape, dtype)
        self.tiles.pop()
        self.call("dma_copy", dst=tile, src=given)
        return tile

    def register(self, most: int) -> Handle:
        """Return a register that holds 0 to `most`."""
        name, value = self.name("r"), self.pick.randint(0, most)
        register = Register(value)
        self.env[name] = register
        if self.pick.random() < 0.5 or self.dry:
            self.line(f"{name} = nisa.register_alloc({value})")
        else:
            tile = self.index(np.array([[value]]), self.pick.choice(("int32", "uint32")))
            self.line(f"{name} = nisa.register_alloc()")
            register.value = None
            self.call("register_load", dst=Handle(name, register), src=tile)
        handle = Handle(name, register)
        self.registers.append(handle)
        return handle

    # -- loops ---------------------------------------------------------------------------------------------------

    def loop(self, body: Callable[[], None]) -> None:
        """Write a loop that the device runs, also in another, and run the outermost."""
        pick, outer, dry = self.pick, self.body, self.dry
        inside = "i" if outer is None else "j"
        function, trips = self.name("body"), pick.choice((0, 1, 2, 2, 3))
        before, registers = list(self.tiles), list(self.registers)
        start, counter = self.name("r"), None
        if pick.random() < 0.3 and outer is None:
            counter = self.index(np.array([[trips]]), "int32")
            one = self.index(np.array([[1]]), "int32")
            self.line(f"{start} = nisa.register_alloc()\nnisa.register_load({start}, {counter})")
            self.env[start] = Register(trips)
        bound: Any = trips
        if counter is None and pick.random() < 0.3:
            bound = self.register(3) if outer is None else Handle("i", None)
        self.body, self.dry = [], True
        self.registers = [*registers, Handle(inside, Register(0))]
        body()
        lines, self.body, self.dry = self.body, outer, dry
        self.tiles, self.registers = before, registers
        if not lines:
            return
        if counter is not None:
            less = (
                f"nisa.tensor_tensor(dst={counter}, data1={counter}, data2={one}, op=nl.subtract)"
            )
            lines += [less, f"nisa.register_load({inside}, {counter})", f"return {inside}"]
        head = f"def {function}({inside}):\n" + "\n".join(
            f"    {part}" for statement in lines for part in statement.split("\n")
        )
        end = (
            f"nl.while_loop({start}, {function})"
            if counter is not None
            else f"nl.fori_loop(0, {bound}, {function})"
        )
        block = f"{head}\n{end}"
        if not dry:
            exec(block, self.env)
        self.line(block)

    # -- results -------------------------------------------------------------------------------------------------

    def result(self, h: Handle) -> str:
        """Return a tensor from the kernel; the name of the result."""
        t = h.t
        name = self.name("o")
        lines = [f"{name} = nl.ndarray({t.shape}, dtype=nl.{t.dtype.name}, buffer=nl.shared_hbm)"]
        held = h.text
        if t.buffer == "psum":
            held = self.name("t")
            lines += [
                f"{held} = nl.ndarray({t.shape}, dtype=nl.{t.dtype.name}, buffer=nl.sbuf)",
                f"nisa.tensor_copy(dst={held}, src={h.text})",
            ]
        lines.append(f"nisa.dma_copy(dst={name}, src={held})")
        statement = "\n".join(lines)
        if not self.dry:
            exec(statement, self.env)
        self.line(statement)
        self.program.results.append(name)
        return name

    def finish(self, most: int = 7) -> Program:
        """Return what the kernel made and end it."""
        worth = [
            h for h in self.tiles if h.t.buffer in ("sbuf", "psum", "private_hbm", "shared_hbm")
        ]
        if not self.dry:
            worth = [h for h in worth if (h.t.memory.error < np.inf).any()]
        self.pick.shuffle(worth)
        late = sorted(worth, key=lambda h: id(h.t.memory) not in self.changed)[:most]
        for h in late:
            self.result(h)
        if not self.program.results:
            raise Refused("nothing to return")
        if not self.dry:
            self.program.ran = (
                [self.env[r] for r in self.program.results],
                [self.env[name] for name, _, _ in self.program.inputs],
            )
        return self.program
