"""The reverse pass: walks a program backwards and emits what gives the gradients of its inputs.

How an instruction hands the gradient of its result on to its operands is said in the block of the instruction, by its
facet `backward`, which is called with the instruction and a `Step`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from nki_lab.autodiff.saved import Kept, Value, Values
from nki_lab.autodiff.shadows import Shadows, covers, crowded, pieces
from nki_lab.autodiff.tile import Tile, empty, filled, product
from nki_lab.dtypes import DType, float32
from nki_lab.errors import NkiError, NoGradient
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import READ, UPDATE, Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset, tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.operators import OPS, Op
from nki_lab.targets.spaces import PRIVATE_HBM, SHARED_HBM
from nki_lab.versions import Version

_BY_HAND = "write the backward kernel by hand"
#: How often the tiles of the program may stand in SBUF beside the values that stay in their tiles.
_TIMES_PEAK = 4
#: Integers up to here are float32 numbers.
_EXACT = 1 << 24
_DYNAMIC = "has an address that is known only when the kernel runs"


def no_gradient(i: Instruction, why: str = "") -> NoGradient:
    """Return the error of an instruction that cannot be differentiated."""
    return NoGradient(
        f"{i.definition.name} {why or 'has no rule for its gradient'}", stack=i.stack, help=_BY_HAND
    )


class Step:
    """One instruction of the reverse pass, as its rule sees it.

    `gradient`, `value` and `result` give tiles, `add` takes the gradient of an operand.
    """

    def __init__(
        self,
        builder: Builder,
        i: Instruction,
        position: int,
        varied: frozenset[int],
        shadows: Shadows,
        values: Values,
        kept: Kept,
    ) -> None:
        self._builder, self._i, self._position = builder, i, position
        self._varied, self._shadows, self._values, self._kept = varied, shadows, values, kept
        self._contributions: list[tuple[NkiTensor, Tile]] = []
        self._rows: list[tuple[NkiTensor, Tile, Tile]] = []
        self._cleared: list[NkiTensor] = []
        self._given: dict[str, Tile | float | None] = {}
        self._gradients = {name: self._taken(name, role) for name, role in self._results()}

    def _results(self) -> list[tuple[str, str]]:
        definition, i = self._i.definition, self._i
        roles = definition.roles(i)
        return [(definition.params[k], role) for k, role in roles if role != READ]

    def _taken(self, name: str, role: str) -> Tile | None:
        """Return the gradient of a result; it is not that of what the result held before."""
        view, i = getattr(self._i, name), self._i
        if not self._shadows.touched(view):
            return None
        if view.dynamic is not None:
            raise no_gradient(i, _DYNAMIC)
        if not view.dtype.is_float or view.dtype.itemsize != view.storage.dtype.itemsize:
            raise no_gradient(
                i, f"writes `{view.name}` as {view.dtype}, and it is read as {view.storage.dtype}"
            )
        taken = self._shadows.take(view)
        if view.storage.on_chip and not self._shadows.reached(taken):
            taken = self._shadows.load(taken).view
        if role == UPDATE:
            return Tile(self._builder, lambda: taken, False)
        tile = Tile(self._builder, lambda: taken, covers(view) and view.storage.on_chip)
        if all(read.storage is not view.storage for read in i.read()):
            self._cleared.append(view)  # afterwards: until then its shadow is the gradient
            return tile
        if not view.storage.on_chip:
            raise no_gradient(i, "reads and writes one tensor of HBM")
        tile = tile if tile.fresh else tile.copied()
        self._shadows.clear(view)
        return tile

    # -- what a rule asks --------------------------------------------------------------------------------------------

    def gradient(self, name: str = "dst") -> Tile | None:
        """Return the gradient of a result, or None where nothing depends on it."""
        return self._gradients.get(name)

    def gradient_with_sum(self, sums: bool, elements: int) -> Tile:
        """Return the gradient of `elements` results per partition that `reduce_res` adds up, where `sums` says so."""
        gradient, of_sum = self.gradient(), self.gradient("reduce_res")
        if of_sum is None:
            assert gradient is not None
            return gradient
        if not sums:
            self.refuse(
                "gives a sum over several instructions, or another reduction, which has no rule"
            )
        return of_sum.repeated(elements) if gradient is None else gradient + of_sum

    def value(self, name: str) -> Any:
        """Return what an operand held: a tile, or the number given as it."""
        if name not in self._given:
            given = getattr(self._i, name)
            self._given[name] = (
                self._at(given, self._position) if isinstance(given, NkiTensor) else given
            )
        return self._given[name]

    def result(self, name: str = "dst") -> Tile:
        """Return what the instruction wrote."""
        return self._at(getattr(self._i, name), self._position + 1)

    def _at(self, view: NkiTensor, position: int) -> Tile:
        if view.dynamic is not None:
            raise no_gradient(self._i, _DYNAMIC)

        def make() -> NkiTensor:
            return self._kept.give(view, self._values.of(view, position))

        return Tile(self._builder, make, False)

    def wants(self, name: str) -> bool:
        """Tell whether an operand depends on an input whose gradient is wanted."""
        view = getattr(self._i, name) if name else None
        return isinstance(view, NkiTensor) and view.storage.id in self._varied

    def add(self, name: str, gradient: Tile | Callable[[], Tile]) -> None:
        """Give an operand this gradient, added up where all elements of a partition met one value."""
        if not self._takes(name):
            return
        view = getattr(self._i, name)
        tile = gradient if isinstance(gradient, Tile) else gradient()
        if view.storage.on_chip and view.free_size == 1 and tile.elements > 1:
            tile = tile.sums()
        self._contributions.append((view, tile))

    def _takes(self, name: str, rows: bool = False) -> bool:
        """Tell whether an operand takes a gradient; an error where it should and cannot."""
        if not self.wants(name):
            return False
        view = getattr(self._i, name)
        kinds = view.dtype.is_float, view.storage.dtype.is_float
        if not any(kinds):
            return False  # a step from one integer to the next has no slope
        if not all(kinds) or view.dtype.itemsize != view.storage.dtype.itemsize:
            raise no_gradient(
                self._i,
                f"reads `{view.name}` as {view.dtype}, and it is written as {view.storage.dtype}",
            )
        if view.dynamic is not None and not rows:
            raise no_gradient(self._i, _DYNAMIC)
        return True

    def add_parts(self, name: str, parts: Iterable[tuple[NkiTensor, NkiTensor]]) -> None:
        """Give parts of an operand in HBM the gradients that views of HBM hold."""
        if self._takes(name):
            self._contributions += [(view, self._shadows.load(held)) for view, held in parts]

    def add_every(self, name: str, step: int, first: int, gradient: Tile) -> None:
        """Give every `step`-th element of each partition of an operand, from `first` on, this gradient."""
        if self._takes(name):
            view = getattr(self._i, name)
            dense = view.reshape((view.shape[0], view.free_size))
            self._contributions.append((dense[:, first::step], gradient))

    def finish(self) -> None:
        """Add the gradients of the operands to their shadows."""
        uses = Counter(id(tile) for _, tile in self._contributions)
        for view, tile in self._contributions:
            tile.fresh = tile.fresh and uses[id(tile)] == 1
            self._shadows.add(view, tile)
        for view, index, tile in self._rows:
            self._shadows.add_rows(view, index, tile)
        for view in self._cleared:
            self._shadows.clear(view)

    # -- for rules ---------------------------------------------------------------------------------------------------

    def refuse(self, why: str) -> None:
        """Raise the error of an instruction whose rule does not hold for how it is used here."""
        raise no_gradient(self._i, why)

    def replace(self, name: str, gradient: Tile) -> None:
        """Give a result that the instruction only changed in places another gradient of what it held before."""
        view = getattr(self._i, name)
        self._shadows.clear(view)
        self._contributions.append((view, gradient))

    def again(self, result: str = "dst", **changes: Any) -> Tile:
        """Emit the instruction once more with other operands, into a tile, and return the tile."""
        old = getattr(self._i, result)
        dst = empty(self._builder, (old.shape[0], old.free_size))
        views = {n: v.view if isinstance(v, Tile) else v for n, v in changes.items()}
        given = dict(zip(self._i.definition.params, self._i.args, strict=True)) | views
        given |= {result: dst, "name": None}
        _emit(self._i.definition, **given)
        return Tile(self._builder, lambda: dst)

    def filled(self, like: Tile, value: float) -> Tile:
        """Return a tile of one number, as large as another."""
        return filled(self._builder, (like.partitions, like.elements), value)

    def scan_back(self, factors: Tile, gradient: Tile) -> Tile:
        """Return h with h[t] = gradient[t] + factors[t + 1] * h[t + 1] along each partition."""
        width, b = gradient.elements, self._builder
        shape = gradient.partitions, width
        turned = empty(b, shape)
        memset(dst=turned[:, 0:1], value=0.0)
        if width > 1:
            tensor_copy(dst=turned[:, 1:width], src=_backwards(factors.columns(1, width).view))
        flat = gradient.columns(0, width).view
        dst = empty(b, shape)
        _emit(
            self._i.definition,
            dst=_backwards(dst), data0=turned, data1=_backwards(flat), initial=0.0,
            op0=OPS["multiply"], op1=OPS["add"],
        )  # fmt: skip
        return Tile(b, lambda: dst)

    def shifted(self, tile: Tile, first: Any) -> Tile:
        """Return the elements of each partition one place later, behind `first`, a number or a column."""
        width = tile.elements
        dst = empty(self._builder, (tile.partitions, width))
        if isinstance(first, Tile):
            tensor_copy(dst=dst[:, 0:1], src=first.view)
        else:
            memset(dst=dst[:, 0:1], value=float(first))
        if width > 1:
            tensor_copy(dst=dst[:, 1:width], src=tile.columns(0, width - 1).view)
        return Tile(self._builder, lambda: dst)

    def over_partitions(self, row: Tile, partitions: int) -> Tile:
        """Return a tile of one partition repeated in all of them."""
        ones = filled(self._builder, (1, partitions), 1.0)
        return product(self._builder, [(ones, row)])

    def through(
        self,
        op: Op,
        left: Callable[[], Any],
        right: Callable[[], Any],
        gradient: Tile,
        result: Callable[[], Tile],
    ) -> tuple[Callable[[], Tile] | None, Callable[[], Tile] | None]:
        """Return what makes the gradients of both operands of `left op right`; None is 0.

        `left`, `right` and `result` give tiles or numbers.
        """
        slopes = op.alu.slopes if op.alu is not None else None
        if slopes is None:
            raise no_gradient(self._i, f"applies {op!r}, which has no rule for its gradient")

        def of_slope(slope: Any) -> Callable[[], Tile] | None:
            if slope == 0:
                return None
            if slope == 1:
                return lambda: gradient
            if slope == -1:
                return lambda: -gradient
            return lambda: gradient * slope(left, right, result)

        first, second = (*map(of_slope, slopes), None)[:2]
        return first, second

    def chain(
        self, data: str, *steps: tuple[Op | None, str, bool], gradient: Tile | None = None
    ) -> None:
        """Hand a gradient, that of `dst` where none is given, on through operators, one after the other.

        Args:
            data: the operand on the left of the first one.
            steps: (operator or None, its other operand, whether that is on the left).
        """
        gradient = self.gradient() if gradient is None else gradient
        steps = tuple(step for step in steps if step[0] is not None)
        if gradient is None or not any(self.wants(n) for n in (data, *(n for _, n, _ in steps))):
            return

        made: dict[int, Any] = {}
        for n in range(len(steps) - 1, -1, -1):
            op, operand, reverse = steps[n]
            assert op is not None
            left, right, result = (
                partial(self._before, n, data, steps, made),
                partial(self.value, operand),
                partial(self._before, n + 1, data, steps, made),
            )
            swaps = reverse and not op.is_unary
            sides = (right, left) if swaps else (left, right)
            grads = self.through(op, *sides, gradient, result)
            of_data, of_operand = reversed(grads) if swaps else grads
            if of_operand is not None:
                self.add(operand, of_operand)
            inner = self.wants(data) or any(self.wants(name) for _, name, _ in steps[:n])
            if of_data is None or not inner:
                return
            gradient = of_data()
        self.add(data, gradient)

    def _before(self, n: int, data: str, steps: Sequence[Any], made: dict[int, Any]) -> Any:
        """Return what the operator of step `n` gets on its left: the data, or what the step before it gives."""
        if n not in made:
            if n == 0:
                made[n] = self.value(data)
            elif n == len(steps) and self._i.dst.dtype is float32:
                made[n] = self.result()
            else:
                op, operand, reverse = steps[n - 1]
                other = 0.0 if op.is_unary else self.value(operand)
                left = self._before(n - 1, data, steps, made)
                made[n] = left.combine(op, other, reverse and not op.is_unary)
        return made[n]

    def turned(self, axes: Sequence[int]) -> None:
        """Hand the gradient of `dst`, whose axes are these of `src`, on through a transfer from HBM."""
        src, gradient = self._i.src, self.gradient()
        if src.storage.on_chip or not self._i.dst.storage.on_chip:
            self.refuse("transposes from SBUF or to HBM, which has no rule for its gradient")
        if gradient is not None and self._takes("src"):
            shape, strides = (tuple(of[a] for a in axes) for of in (src.shape, src.strides))
            view = NkiTensor._make(src.storage, shape, strides, src.offset, src.dtype)
            self._contributions.append((view, gradient.shaped(shape)))

    def _gathered(self, name: str, gradient: Tile) -> None:
        """Give the rows that a tile of indices chose their gradients."""
        view = getattr(self._i, name)
        if len(view.shape) != 2 or prod(view.storage.shape) // view.dynamic.step > _EXACT:
            raise no_gradient(
                self._i, "chooses among more than 2 ** 24 rows, or not those of a matrix"
            )
        if self._takes(name, rows=True):
            self._rows.append((view, self._at(view.dynamic.index, self._position), gradient))

    # -- of DMA ------------------------------------------------------------------------------------------------------

    def moved(self, dst: str, src: str) -> None:
        """Hand the gradient on through a copy between memories."""
        i = self._i
        gradient, source, target = self._gradients[dst], getattr(i, src), getattr(i, dst)
        if gradient is None or not self.wants(src):
            return
        if source.dynamic is not None and source.dynamic.kind is Addressing.VECTOR:
            self._gathered(src, gradient)
            return
        in_hbm = not (source.storage.on_chip or target.storage.on_chip)
        rows = source.shape[0] if len(source.shape) > 1 else 1
        moves = crowded(source) is not None and rows != target.shape[0]
        if moves or (in_hbm and source.shape != target.shape):
            raise no_gradient(
                i, "copies repeated elements, or within HBM, between shapes that differ"
            )
        if in_hbm:
            self.add_parts(src, pieces(source, gradient.view))
        elif target.storage.on_chip:
            self.add(src, gradient if source.storage.on_chip else gradient.shaped(target.shape))
        else:
            tile = empty(self._builder, source.shape)
            dma_copy(dst=tile, src=gradient.view)
            self.add(src, Tile(self._builder, lambda: tile))


def _emit(definition: Any, **arguments: Any) -> None:
    """Emit an instruction as a call in a kernel does."""
    definition(**arguments)


def _backwards(view: NkiTensor) -> NkiTensor:
    """Return a view [partitions, elements] with the last element first."""
    (rows, width), (row, step) = view.shape, view.strides
    offset = view.offset + (width - 1) * step
    return NkiTensor._make(view.storage, (rows, width), (row, -step), offset, view.dtype)


def varied_of(instructions: Sequence[Instruction], wanted: set[int]) -> frozenset[int]:
    """Return the ids of the tensors that depend on the wanted ones."""
    varied = set(wanted)
    for i in instructions:
        if any(view.storage.id in varied for view in i.read()):
            varied |= {v.storage.id for v in i.written()}
    return frozenset(varied)


def reverse(
    builder: Builder,
    instructions: Sequence[Instruction],
    varied: frozenset[int],
    shadows: Shadows,
    values: Values,
    kept: Kept,
) -> None:
    """Emit the reverse pass; `shadows` holds the gradients of the results, and then those of the inputs."""
    for position in range(len(instructions) - 1, -1, -1):
        i = instructions[position]
        if not any(shadows.touched(view) for view in i.written()):
            continue
        builder.placed = i.stack
        rule = i.definition.facets.get("backward")
        depends = any(view.storage.id in varied for view in i.read())
        if rule is None and depends:
            raise no_gradient(i)
        step = Step(builder, i, position, varied, shadows, values, kept)
        if depends:
            rule(i, step)  # type: ignore[misc]
        step.finish()
    builder.placed = None


@dataclass(frozen=True)
class Program:
    """A program to differentiate.

    Attributes:
        kernel: the program, as it was traced.
        wanted: the inputs whose gradients are wanted.
        results: which outputs are floats.
        room: bytes of each partition of SBUF for values that stay in their tiles.
        version: the version of NKI that it is written for.
    """

    kernel: Kernel
    wanted: tuple[Storage, ...]
    results: tuple[int, ...]
    room: int
    version: Version

    @classmethod
    def of(
        cls, kernel: Kernel, wanted: tuple[Storage, ...], peak: int, version: Version
    ) -> Program:
        """Return the program of a kernel that uses `peak` bytes of each partition of SBUF."""
        results = tuple(n for n, view in enumerate(kernel.outputs) if view.dtype.is_float)
        # Beside the values lie the tiles of the program or their gradients, in float32, and those of one rule.
        room = kernel.target.sbuf_usable_bytes_per_partition - _TIMES_PEAK * peak
        return cls(kernel, wanted, results, max(0, room), version)

    @property
    def signature(self) -> list[tuple[tuple[int, ...], DType]]:
        """Shape and dtype of each argument of the backward kernel."""
        inputs = [(s.shape, s.dtype) for s in self.kernel.inputs]
        return inputs + [(v.shape, v.dtype) for v in self._outputs]

    @property
    def _outputs(self) -> list[NkiTensor]:
        return [self.kernel.outputs[n] for n in self.results]

    def emit(
        self, builder: Builder, tensors: Sequence[NkiTensor], plan: Plan
    ) -> tuple[NkiTensor, ...]:
        """Emit the program and its reverse pass, and return the gradients of the wanted inputs."""
        kernel, instructions = self.kernel, self.kernel.instructions
        given = dict(zip((s.id for s in kernel.inputs), tensors, strict=False))
        copies = {
            s.id: given[s.id] if s.id in given else _again(builder, s) for s in kernel.storages
        }
        kept = Kept(builder, copies, plan.saved, plan.given)
        for position, i in enumerate(instructions):
            builder.placed = i.stack
            kept.save(position)
            if position in plan.needed:
                _emit_again(builder, i, copies)
        kept.save(len(instructions))
        builder.placed = None
        shadows = Shadows(builder, plan.whole)
        varied = varied_of(instructions, {s.id for s in self.wanted})
        gradients = []
        for storage in self.wanted:
            name = f"{storage.name}_gradient"
            gradients.append(builder.allocate(storage.shape, storage.dtype, SHARED_HBM, name))
            if storage.dtype is float32:
                shadows.place(storage, gradients[-1])
        read = Counter(view.storage.id for i in instructions for view in i.read())
        read.update(view.storage.id for view in self._outputs)
        for view, gradient in zip(self._outputs, tensors[len(kernel.inputs) :], strict=True):
            shadows.given(view, gradient, read[view.storage.id] == 1)
        reverse(builder, instructions, varied, shadows, plan.values, kept)
        for storage, gradient in zip(self.wanted, gradients, strict=True):
            shadows.finished(storage, gradient)
        return tuple(gradients)


class Plan:
    """What the reverse pass of a program needs of it, found in rehearsals that are thrown away.

    Attributes:
        values: takes down which values it asks for.
        saved: the values to save, each with a view that holds it; others stay in their tiles.
        given: those that are in arguments of the program.
        needed: positions of the instructions that they depend on.
        whole: tensors whose gradients are filled with zeros first.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.saved: dict[Value, NkiTensor] = {}
        self.given: dict[Value, NkiTensor] = {}
        self.needed: frozenset[int] = frozenset()
        self.whole: set[int] = set()
        self._rehearse()
        in_sbuf = self.values.in_sbuf(program.room)
        self.given = {v: view for v, view in self.values.given().items() if v not in in_sbuf}
        self.saved = {
            v: view
            for v, view in self.values.asked.items()
            if v not in in_sbuf and v not in self.given
        }
        self.needed = self.values.needed(self.given.keys())
        self._check()

    def _rehearse(self) -> None:
        before = -1
        while len(self.whole) > before:
            before = len(self.whole)
            self.values = Values(self.program.kernel.instructions)
            self._emit_once()

    def _check(self) -> None:
        """Raise NoGradient where the program gives other values the second time, or its gradient breaks a rule."""
        written: set[Any] = set()
        for position in sorted(self.needed):
            i = self.program.kernel.instructions[position]
            if i.form.registers or i.form.registers_set:
                raise no_gradient(i, "uses a register, whose values have no gradient")
            for state, role in i.form.state:
                if role in (READ, UPDATE) and state not in written:
                    raise no_gradient(
                        i, f"depends on what {state.title} held before, and so do the gradients"
                    )
                written.add(state)
        for error in self._emit_once()[:1]:
            raise NoGradient(
                f"the gradient of this line breaks a rule: {error.message}",
                stack=error.stack,
                notes=error.notes,
                help=_BY_HAND,
            )

    def _emit_once(self) -> list[NkiError]:
        """Emit the backward kernel into a trace that is thrown away, and return its errors."""
        builder = Builder(self.program.kernel.target, version=self.program.version)
        with builder.active():
            tensors = [
                builder.allocate(shape, dtype, SHARED_HBM, "given", origin="input")
                for shape, dtype in self.program.signature
            ]
            self.emit(builder, tensors)
        errors = builder.errors
        builder.release()
        return errors

    def emit(self, builder: Builder, tensors: Sequence[NkiTensor]) -> tuple[NkiTensor, ...]:
        """Emit the backward kernel for these arguments."""
        try:
            return self.program.emit(builder, tensors, self)
        finally:
            builder.placed = None


def _again(builder: Builder, storage: Storage) -> NkiTensor:
    """Return a tensor like one of the program, for the same values."""
    builder.placed = storage.stack
    buffer = storage.buffer if storage.on_chip or storage.data is not None else PRIVATE_HBM
    origin = storage.origin if storage.data is not None else "temporary"
    return builder.allocate(
        storage.shape, storage.dtype, buffer, storage.name, origin=origin, data=storage.data
    )


def _mapped(view: NkiTensor, i: Instruction, copies: dict[int, NkiTensor]) -> NkiTensor:
    """Return the same view of the tensor that stands for the one it looks at."""
    copy = copies[view.storage.id]
    dynamic = view.dynamic
    if dynamic is not None:
        if not isinstance(dynamic.index, NkiTensor):
            raise no_gradient(i, _DYNAMIC)
        dynamic = replace(dynamic, index=_mapped(dynamic.index, i, copies))
    return NkiTensor._make(copy.storage, view.shape, view.strides, view.offset, view.dtype, dynamic)


def _emit_again(builder: Builder, i: Instruction, copies: dict[int, NkiTensor]) -> None:
    copy = i.with_views(partial(_mapped, i=i, copies=copies))
    builder.emit(i.definition, copy.args)
