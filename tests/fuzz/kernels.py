"""Turns a recipe of a few numbers into a kernel, with what it computes.

A recipe is a seed for the kernel as a whole and a list of steps, each with a seed of its own. Steps can be left out
one by one and those that stay do alike, so that hypothesis finds the few that matter when something fails.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from nki_lab.api import isa as nisa
from nki_lab.compiler.pipeline import SKIPPABLE
from nki_lab.dtypes import DTYPES
from nki_lab.errors import NkiError
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel, OutputRef
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.register import VirtualRegister
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.operators import OPS
from nki_lab.language.program import no_reorder
from nki_lab.simulator.eager import EagerRun
from nki_lab.targets import ALL_TARGETS, TRN2
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM
from nki_lab.targets.spec import Target
from tests.fuzz.arguments import DEFINITIONS, emit
from tests.fuzz.world import MOST_INDEX, Choices, World

#: A machine on which tiles only fit in places that others had before.
SMALL = replace(
    TRN2, sbuf_bytes_per_partition=1536, sbuf_reserved_bytes_per_partition=0, psum_bank_bytes=256
)
TARGETS: dict[str, Target] = {**{t.name: t for t in ALL_TARGETS}, "small": SMALL}
#: What a step may do, the simplest first, with how often.
KINDS = {
    "nothing": 1, "instruction": 10, "stateful": 3, "matmul": 2, "transfer": 2, "forget": 2, "tile": 1, "wait": 1,
    "ordered": 1, "loop": 1, "end": 1,
}  # fmt: skip
_MOST_LOOPS = 3
_STATEFUL = tuple(d for d in DEFINITIONS if d.state or d.sets)
_TRANSFERS = tuple(d for d in DEFINITIONS if any(o.rows for o in d.operands.values()))
_ACCUMULATING = tuple(d for d in DEFINITIONS if "accumulate" in d.position)


class Rejected(Exception):
    """The recipe makes no kernel that the machine defines, or that fits; the text says why."""


@dataclass(frozen=True)
class Recipe:
    """What a random kernel is made from.

    Attributes:
        target: a name in `TARGETS`.
        seed: of the choices for all of the kernel.
        steps: (kind, seed) of what it does, in order.
    """

    target: str
    seed: int
    steps: tuple[tuple[str, int], ...]


@dataclass
class Written:
    """A kernel as it was written, and what it computed while it was.

    Attributes:
        kernel: before all passes.
        arrays: its arguments before the run.
        outputs: its results, and then its arguments after the run.
        schedule: edges for `with_schedule`.
        choices: what it is like as a whole.
        counts: what is in it, for statistics.
    """

    kernel: Kernel
    arrays: list[np.ndarray]
    outputs: list[np.ndarray]
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()
    choices: Choices = field(default_factory=Choices)
    counts: Counter[str] = field(default_factory=Counter)


def written(recipe: Recipe) -> Written:
    """Write the kernel of a recipe and run it meanwhile, instruction by instruction.

    Raises Rejected.
    """
    try:
        return _Writer(recipe).written()
    except NkiError as error:  # only values show it, e.g. a negative exponent
        raise Rejected(f"{type(error).__name__}: {error.message}") from error


class _Writer:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.pick = pick = random.Random(recipe.seed)
        self.builder = Builder(TARGETS[recipe.target], root=_Writer.written.__code__)
        raw = pick.random() < 0.2
        # A run while writing does not know when a tile's life ends, so what the next one at its address finds there
        # is not what unwritten memory reads as: such kernels have no addresses.
        explicit = 0.0 if raw else pick.choice((0.0, 0.2, 0.6))
        skips = (
            ()
            if pick.random() < 0.8
            else tuple(pick.sample(SKIPPABLE, pick.randint(1, len(SKIPPABLE))))
        )
        self.choices = Choices(raw, explicit, window=pick.choice((256, 512, 1024)), skips=skips)
        if not raw and recipe.target != "small" and pick.random() < 0.12:
            self.choices = Choices(explicit=0.7, window=256, overlaps=True)
        self.named: list[str] = []
        self.whiles: list[tuple[Any, Any] | None] = []
        self.emitted: list[Instruction] = []
        self.counts: Counter[str] = Counter()

    def written(self) -> Written:
        builder, recipe = self.builder, self.recipe
        with builder.active():
            self.world = world = World(builder, self.choices, self.pick)
            run = EagerRun(builder.target, [a.copy() for a in world.arrays])
            run.begin(builder)
            builder.watch = run
            for kind, seed in recipe.steps:
                pick = random.Random(seed)
                world.pick = pick
                getattr(self, f"_{kind}")(pick)
            while world.loops:
                self._end(random.Random(0))
            world.pick = random.Random(recipe.seed + 1)
            outputs = self._outputs(world.pick)
        assert not builder.errors, builder.errors[0]
        kernel = Kernel(
            "fuzz", builder.target, storages=tuple(builder.storages), body=tuple(builder.body), outputs=tuple(outputs),
            result=tuple(OutputRef(k) for k in range(len(outputs))), forms=builder.forms,
            findings=tuple(builder.findings.values()), registers=tuple(r.name for r in builder.registers),
        )  # fmt: skip
        after = [a.copy() for a in world.arrays]
        run._arrays = after
        results = [r.copy() for r in run.end(kernel)]
        return Written(
            kernel,
            world.arrays,
            [*results, *after],
            self._schedule(),
            self.choices,
            self._counted(kernel),
        )

    # -- steps ---------------------------------------------------------------------------------------------------

    def _nothing(self, pick: random.Random) -> None:
        """Do nothing: what a step becomes that does not matter for a failure."""

    def _instruction(self, pick: random.Random, among: Any = DEFINITIONS) -> None:
        target = self.builder.target
        definition = pick.choice([d for d in among if all(target.supports(f) for f in d.requires)])
        name = f"n{len(self.emitted)}" if pick.random() < 0.3 else None
        made = emit(self.world, definition, pick, name)
        self.counts["found" if made else "not found"] += 1
        if made is not None:
            self.emitted.append(made)
            if name is not None and "name" in definition.position:
                self.named.append(name)

    def _stateful(self, pick: random.Random) -> None:
        self._instruction(pick, _STATEFUL)

    def _matmul(self, pick: random.Random) -> None:
        for _ in range(3):  # its rules are many
            before = len(self.emitted)
            self._instruction(pick, _ACCUMULATING)
            if len(self.emitted) > before:
                return

    def _transfer(self, pick: random.Random) -> None:
        self._instruction(pick, _TRANSFERS)

    def _forget(self, pick: random.Random) -> None:
        tiles = [s for s in self.world.tensors if s.on_chip]
        if tiles:
            self.world.retired.add(pick.choice(tiles).id)

    def _tile(self, pick: random.Random) -> None:
        """Make a tile that something may use much later."""
        shape = pick.choice((1, 32, 64, 128)), pick.choice((1, 4, 8, 24))
        dtype = DTYPES[pick.choice(("float32", "bfloat16", "int32"))]
        self.world.new(shape, dtype, pick.choice((SBUF, SBUF, PSUM)))

    def _wait(self, pick: random.Random) -> None:
        if len(self.emitted) > 1:
            at = pick.randrange(len(self.emitted) - 1)
            self.emitted[-1].depends_on(self.emitted[at])
            self.counts["depends_on"] += 1

    def _ordered(self, pick: random.Random) -> None:
        with no_reorder():
            for _ in range(pick.randint(1, 3)):
                self._instruction(pick)

    def _loop(self, pick: random.Random) -> None:
        world, builder = self.world, self.builder
        if len(world.loops) == _MOST_LOOPS or self.choices.overlaps:
            return
        if pick.random() < 0.3:  # until a tile has been counted down to zero
            tile = builder.allocate((1, 1), DTYPES["int32"], SBUF, f"left{len(builder.storages)}")
            world.note(nisa.memset(dst=tile, value=pick.randint(0, 3)))
            register = builder.register(f"w{len(builder.registers)}")
            nisa.register_load(register, tile)
            builder.open_loop("while", (), register)
            self.whiles.append((register, tile))
        else:
            register = builder.register(f"i{len(builder.registers)}", frozen=True)
            known = [r for r in world.registers if type(r) is VirtualRegister and not r.frozen]
            stop = pick.choice((0, 1, 2, 3, 3, *known[-1:]))
            builder.open_loop("for", (0, stop, pick.choice((1, 1, 2))), register)
            self.whiles.append(None)
        world.open_loop(register)

    def _end(self, pick: random.Random) -> None:
        world, builder = self.world, self.builder
        if not world.loops:
            return
        counted = self.whiles.pop()
        if counted is not None:
            register, tile = counted
            world.note(nisa.tensor_scalar(dst=tile, data=tile, op0=OPS["subtract"], operand0=1.0))
            nisa.register_load(register, tile)
        builder.close_loop()
        world.close_loop()

    # -- the end -------------------------------------------------------------------------------------------------

    def _outputs(self, pick: random.Random) -> list[Any]:
        """Store some of what there is; something that is surely written is always among it."""
        world, builder = self.world, self.builder

        def shared(like: Storage) -> Any:
            return builder.allocate(
                like.shape, like.dtype, SHARED_HBM, f"out{len(builder.storages)}"
            )

        first = shared(world.inputs["float32"].storage)
        nisa.dma_copy(dst=first, src=world.inputs["float32"])
        outputs = [first]
        alive = [s for s in world.tensors if s.origin == "temporary" and s.id not in world.retired]
        for s in pick.sample(alive, min(len(alive), 6)):
            if not world.may_touch({s}) or s.id in world.retired:
                continue
            if not (world.choices.raw or world.is_written(whole_view(s))):
                continue
            if s.buffer is SHARED_HBM:
                outputs.append(whole_view(s))
                continue
            held = whole_view(s)
            if s.buffer is PSUM:
                held = builder.allocate(s.shape, s.dtype, SBUF, f"t{len(builder.storages)}")
                world.note(nisa.tensor_copy(dst=held, src=whole_view(s)))
            out = shared(s)
            world.note(nisa.dma_copy(dst=out, src=held))
            outputs.append(out)
        return outputs

    def _schedule(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        pick = random.Random(self.recipe.seed + 2)
        if len(self.named) < 2 or pick.random() < 0.4:
            return ()
        return tuple(
            (later, (earlier,))
            for later, earlier in (pick.sample(self.named, 2) for _ in range(pick.randint(1, 2)))
        )

    def _counted(self, kernel: Kernel) -> Counter[str]:
        """Return what is in the kernel: 1 for each trait it has, and how often each instruction is in it."""
        counts = self.counts
        instructions = kernel.instructions
        traits = {
            "loops": kernel.has_loops,
            "nested loops": any(a.first < b.end and b.first < a.end for a, b in combinations(kernel.loops, 2)),
            "explicit addresses": any(s.address for s in kernel.storages),
            "addresses used again": bool(self.world.retired & {s.id for s in kernel.storages if s.address}),
            "in place": any(_in_place(i, shifted=False) for i in instructions),
            "shifted or overlapping": any(_in_place(i, shifted=True) for i in instructions),
            "hidden state": any(i.form.state for i in instructions),
            "registers": any(i.registers_read() or i.registers_written() for i in instructions),
            "dynamic addresses": any(i.form.dynamic for i in instructions),
            "rows or elements by index": any(
                d.kind is not Addressing.SCALAR for i in instructions for d in i.dynamic()
            ),
            "accumulate=None": any(
                "accumulate" in i.definition.position and i.accumulate is None for i in instructions
            ),
            "no_reorder": any(i.after for i in kernel.instructions),
            "unwritten reads": self.choices.raw,
            "passes left out": bool(self.choices.skips),
            "tiles over each other in use": self.choices.overlaps,
            "arguments written": bool(kernel.written_inputs),
            "psum": any(s.buffer is PSUM for s in kernel.storages),
        }  # fmt: skip
        counts.update(name for name, there in traits.items() if there)
        counts.update({f"target {self.recipe.target}": 1, "instructions": len(instructions)})
        counts.update(f"nisa {i.definition.name}" for i in instructions)
        counts.update({n: c for n, c in self.world.counts.items() if n.startswith("rejected")})
        return counts


def _in_place(i: Instruction, shifted: bool) -> bool:
    """Tell whether an instruction reads the tensor that it writes, in the same view or in another."""
    for w in i.written():
        for r in i.read():
            if r.storage is w.storage and r is not w:
                same = (r.offset, r.shape, r.strides) == (w.offset, w.shape, w.strides)
                if same != shifted:
                    return True
    return False


def described(recipe: Recipe, kernel: Kernel) -> str:
    """Return what a person needs to see a failure again."""
    return f"{recipe!r}\n{print_kernel(kernel, comments=False)}"


assert MOST_INDEX == 3, "while loops count down from what indices may be"
