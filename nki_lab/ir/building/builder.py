"""Builder: collects the program while a kernel is traced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, Protocol

import numpy as np

from nki_lab.dtypes import DType, int32, int64
from nki_lab.errors import (
    InstructionError,
    LoopControl,
    LoopOrder,
    Needs,
    NkiError,
    NotModelled,
    OutsideKernel,
    OverCapacity,
    RegisterValue,
    TensorArgument,
)
from nki_lab.ir.building.device_loops import loops_for_ever, repeated_names, while_test
from nki_lab.ir.building.findings import Findings
from nki_lab.ir.building.kept_order import KeptOrder
from nki_lab.ir.building.loop_state import LoopState
from nki_lab.ir.building.retarget import retarget
from nki_lab.ir.definition.author_text import variable_of
from nki_lab.ir.definition.form_key import (
    DEFAULT,
    LARGEST,
    SIMPLE,
    alike,
    check_integer,
    check_name,
    key_of,
    note_simple,
    plain_value,
)
from nki_lab.ir.definition.instruction import NAME, OPAQUE, Definition, Form, Instruction, Rule
from nki_lab.ir.definition.rule_errors import (
    author_frame,
    foreign_register,
    foreign_tensor,
    rule_error,
)
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.arguments import address_of, element_of, memory_of, shape_of
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.register import NkiScalar, Register, VirtualRegister
from nki_lab.ir.tensor.storage import Storage, Unreachable
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.source import Blame, Stack, key_of_frame, stack_of_frame
from nki_lab.targets.spaces import MemoryRegion
from nki_lab.targets.spec import Target
from nki_lab.versions import NEWEST, Version, begun_with
from nki_lab.versions.version import number_of


class Watch(Protocol):
    """Runs instructions while they are traced; the builder tells it what it appends."""

    def begin(self, builder: Builder) -> None:
        """Take the builder, which holds the kernel's arguments and nothing else yet."""

    def emitted(self, i: Instruction) -> None:
        """Follow an instruction that breaks no rule."""

    def opened(self, loop: Loop) -> None:
        """Follow the beginning of a device loop, whose body is still empty."""

    def closed(self, loop: Loop) -> None:
        """Follow the end of a device loop, with its body."""

    def values(self, tensor: NkiTensor) -> np.ndarray:
        """Return a copy of what a view holds now."""

    def shown(self, tensor: NkiTensor) -> str:
        """Return what a view holds now, as text."""

    def value(self, register: Register) -> int | None:
        """Return what a register holds now; None where it was never set."""


def current() -> Builder:
    """Return the builder of the kernel being traced; an error outside one."""
    builder = active.builder
    if builder is None:
        raise OutsideKernel(
            "a nki.language function was called outside a kernel",
            stack=stack_of_frame(sys._getframe(1))[:1],
            help="call it in a function decorated with @nki.jit, and call that function with arrays",
        )
    return builder


class Builder(Findings):
    """Collects storages, instructions, loops, errors and findings of one trace.

    Attributes:
        target: the machine traced for.
        program: (program_id, num_programs) of the core.
        grid: shape of the launch grid; `()` where the kernel was called without one.
        strict: findings become errors.
        watch: runs what is traced, at once; None where nothing does.
        mend: `(i) -> the instruction emitted for it`, or None; asked about an instruction that breaks a rule, for a
            dialect whose compiler inserts copies of operands.
        needs_of: `(rule, i) -> Needs`, or None; asked about a broken rule that another version of NKI may not have had.
        met: the author's functions that were called -> their global names, and where they were called first.
        prepared: the first part of a collective whose second part is to come, and the loop it stands in.
        configuration: what the kernel's decorator asks of the compiler, for kernels that it calls.
        identities: the identity matrices of shared HBM, by size and dtype.
    """

    def __init__(
        self,
        target: Target,
        *,
        root: Any = None,
        program: tuple[int, int] = (0, 1),
        grid: tuple[int, ...] = (),
        strict: bool = False,
        watch: Watch | None = None,
        version: Version = NEWEST,
        allow: tuple[str, ...] = (),
    ) -> None:
        super().__init__(version, allow)
        self.target = target
        self.needs_of: Callable[[Rule, Instruction], Needs | None] = lambda rule, i: None
        self.configuration: Any = None
        self.prepared: Any = None
        self.prepared_in = 0
        self.watch = watch
        self.mend: Callable[[Instruction], Instruction | None] | None = None
        self.root = root
        self.program = program
        self.grid = grid
        self.place: tuple[int, ...] = ()  # of the program in the grid, where one core runs several
        #: The places of what follows, in a program made of another one; None where the author's frames tell them.
        self.placed: Stack | None = None
        self.strict = strict
        self.storages: list[Storage] = []
        self.registers: list[Register] = []
        self.open_whiles: list[Any] = []
        self.loop_states: list[LoopState] = []  # of the open `while` loops
        #: Where loops were opened around whose bodies something changed -> what did; None where that was told at once.
        self.unsure: dict[Stack, dict[str, Any] | None] = {}
        #: What the loops of a dialect that repeats their bodies have noted, while they do.
        self.notes: Any = None
        #: Calls bodies for several passes, in a trace that is thrown away.
        self.rehearsal: Any = None
        self.kept_order = KeptOrder()
        self._outer: list[tuple[list[Any], Loop]] = []
        self._loops = 0
        self._hbm_bytes = 0
        self._open_loops: set[int] = set()
        self._count = 0
        self._allocated = 0  # how many instructions there were when the last tensor was made
        self.body: list[Instruction | Loop] = []
        self.forms: dict[Any, Form] = {}
        self.retargeted: dict[Any, Form] = {}  # what retargeting made of forms
        #: A new tensor that the next instruction writes for the same call: both have its place.
        self.result: Storage | None = None
        self.errors: list[NkiError] = []
        self._names: dict[str, int] = {}
        self._shapes: set[tuple[int, ...]] = set()  # of results that were created
        self._given: set[str] = set()  # names that the author gave to tensors
        self._stacks: dict[tuple[int, ...], Stack] = {}
        self.met: dict[CodeType, tuple[dict[str, Any], Stack]] = {}
        self._assigned: dict[int, str] = {}  # by identity of the stack
        self._reported: set[tuple[Any, Stack]] = set()
        # For holds_comparison: whether each storage holds truth values, after so much of the current body.
        self._truths: dict[Storage, bool] = {}
        self._looked_at = 0
        self.identities: dict[tuple[int, DType], NkiTensor] = {}
        # Where `depends_on` was called, by the idents of the instruction that waits and of its producer.
        self.edges: dict[tuple[int, int], Stack] = {}

    @property
    def judged_by(self) -> Version | None:
        """The version whose rules instructions are held to; None for a program that was held to them before."""
        return self.version

    def release(self) -> None:
        """Forget what was collected, when the trace has ended.

        Tensors know their builder, which would hold them in a circle, and all that the trace has made with them.
        """
        Builder.__init__(
            self, self.target, program=self.program, strict=self.strict, version=self.version
        )

    # -- places --------------------------------------------------------------------------------------------------

    def stack(self, depth: int = 2) -> Stack:
        """Return the author's places from `depth` frames up to the kernel, innermost first; equal ones are one."""
        if self.placed is not None:
            return self.placed
        frame = sys._getframe(depth)
        key = key_of_frame(frame, self.root)
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = stack_of_frame(frame, self.root)
            self._meet(frame, stack)
        return stack

    def _meet(self, frame: Any, stack: Stack) -> None:
        """Note the functions that a new place is the first to show; called once per place, not per instruction."""
        for depth, (code, _) in enumerate(stack):  # type: ignore[misc]
            while frame.f_code is not code:
                frame = frame.f_back
            if code not in self.met:
                self.met[code] = (frame.f_globals, stack[depth + 1 :])
            frame = frame.f_back

    # -- tensors -------------------------------------------------------------------------------------------------

    def allocate(
        self,
        shape: Any,
        dtype: DType,
        buffer: MemoryRegion | str | None = None,
        name: str | None = "",
        *,
        address: tuple[int, int] | None = None,
        origin: str = "temporary",
        data: np.ndarray | None = None,
    ) -> NkiTensor:
        """Create a tensor and return the view of all of it.

        Args:
            shape: positive integers; in SBUF and PSUM the partition axis first, at least two axes.
            dtype: NKI dtype.
            buffer: memory; None is SBUF.
            name: for errors, IR and profiles; by default the variable it is assigned to.
            address: start partition and byte within the partition, on chip only.
            origin: "input", "constant" or "temporary".
            data: contents of a constant.
        """
        stack = self.stack() if origin == "temporary" else ()
        if isinstance(buffer, str):
            buffer = self.memory_named(buffer)
        space = memory_of(buffer)
        sizes = shape_of(shape)
        element = element_of(dtype)
        if origin == "temporary":
            self.check_newer(element)
        if space.on_chip:
            if sizes == (1,):
                # The pages of register_load and register_store make their tensor so; on chip it has two axes.
                sizes = (1, 1)
            if len(sizes) < 2:
                raise TensorArgument(
                    f"shape {sizes} in {space.name}: SBUF and PSUM tensors have a partition axis and a free axis",
                    help=f"write shape ({sizes[0]}, 1) for one value per partition, or (1, {sizes[0]}) for one row",
                    blame=Blame.of("shape", 0),
                )
            if sizes[0] > self.target.partitions:
                raise TensorArgument(
                    f"shape {sizes} in {space.name}: {sizes[0]} partitions, but the memory has"
                    f" {self.target.partitions}",
                    help="split axis 0 into tiles of 128, or put the extra rows on a free axis",
                    blame=Blame.of("shape", 0),
                )
        place = None
        if address is not None:
            place = address_of(address, space, sizes, element, self.target)
        if name is None:  # published kernels pass on a name that may be missing
            name = ""
        if not isinstance(name, str):
            raise TensorArgument(
                f"name must be a string, found {type(name).__name__}",
                help="write name='weights', or leave it out",
            )
        storage = self._stored(sizes, element, space, name, stack)
        storage.address, storage.origin, storage.data = place, origin, data
        if not space.on_chip:
            self._count_hbm(storage)
        return NkiTensor._make(storage, sizes, contiguous_strides(sizes), 0, element)

    def fresh(
        self, shape: tuple[int, ...], dtype: DType, space: MemoryRegion, name: str = ""
    ) -> NkiTensor:
        """Create a tensor on the chip for a result, as `allocate` does; its shape holds integers."""
        if shape not in self._shapes:
            made = self.allocate(shape, dtype, space, name)
            self._shapes.add(shape)
            return made
        storage = self._stored(shape, dtype, space, name, self.stack())
        return NkiTensor._make(storage, shape, contiguous_strides(shape), 0, dtype)

    def _stored(
        self, sizes: tuple[int, ...], dtype: DType, space: MemoryRegion, name: str, stack: Stack
    ) -> Storage:
        storages, outer = self.storages, self._outer
        called = name or self._assigned.get(id(stack)) or self._variable(stack)
        storage = Storage(
            len(storages), self._unique(called), sizes, dtype, space,
            stack=stack, owner=self, loop=outer[-1][1].number if outer else 0, named=bool(name),
        )  # fmt: skip
        storage.called = called
        storages.append(storage)
        self._allocated = self._count
        return storage

    def _count_hbm(self, storage: Storage) -> None:
        self._hbm_bytes += storage.nbytes
        if self._hbm_bytes > self.target.hbm_bytes_per_chip:
            raise OverCapacity(
                f"with {storage.describe()} the kernel's tensors in HBM need {self._hbm_bytes:,} bytes; a chip of"
                f" {self.target.name} has {self.target.hbm_bytes_per_chip:,}",
                stack=storage.stack,
                help="make the tensor smaller, or check its sizes",
            )

    def _unique(self, name: str) -> str:
        names = self._names
        seen = names.get(name)
        if seen is None:
            names[name] = 0
            return name
        candidate = name
        while candidate in names:
            seen += 1
            candidate = f"{name}.{seen}"
        names[name] = seen
        names[candidate] = 0
        return candidate

    def note_name(self, name: str) -> None:
        """Note a name that the author gave to a tensor; nki.language names its own tiles as it likes."""
        if name in self._given:
            self.find_for_parser(
                f"two tensors with name={name!r}", "give each tensor a different name, or none"
            )
        self._given.add(name)

    def _variable(self, stack: Stack) -> str:
        name = self._assigned.get(id(stack))
        if name is None:
            name = self._assigned[id(stack)] = variable_of(stack) or "tile"
        return name

    # -- instructions --------------------------------------------------------------------------------------------

    def emit(self, definition: Definition, args: tuple[Any, ...]) -> Instruction:
        """Append an instruction and return it; broken rules are collected, not raised."""
        i = self.formed(definition, args, 4)
        form = i.form
        if self.newer and author_frame(sys._getframe(1)) is not None:
            self.check_newer(definition, *args)
        if form.broken and self.mend is not None and (mended := self.mend(i)) is not None:
            return mended
        i.ident = self._count
        self._count += 1
        if self.kept_order.blocks:
            self.kept_order.note(i)
        if form.broken:
            self._report(form.broken, i)
        if form.remarks:
            self.remark(form.remarks, i)
        self.body.append(i)
        if self.watch is not None:
            if form.broken:  # without its result nothing that follows can be run
                raise self.errors.pop()
            self.watch.emitted(i)
        return i

    def formed(self, definition: Definition, args: tuple[Any, ...], depth: int) -> Instruction:
        """Return an instruction with its form, called `depth` frames below the author; it is in no scope yet."""
        # One entry per argument, in a loop without calls for the common kinds: this runs once per instruction.
        key: list[Any] = [definition]
        changed: dict[int, Any] | None = None
        foreign: NkiTensor | None = None
        result, self.result = self.result, None
        stack: Stack | None = None
        for value, keyed, default in zip(args, definition.keyed, definition.defaults):  # noqa: B905
            if value is default:
                key.append(DEFAULT)
                continue
            kind = type(value)
            if keyed is NAME:
                if value is not None:
                    check_name(definition.name, value)
                key.append(None)
            elif kind is NkiTensor:
                storage = value.storage
                if result is not None and storage is result:
                    stack = storage.stack
                if storage.owner is not self or (
                    storage.loop and storage.loop not in self._open_loops
                ):
                    foreign = value
                first = value.offset and value.offset * value.dtype.itemsize // storage.form_bytes
                if storage.address is not None:
                    first += storage.address.partition * (storage.row_bytes // storage.form_bytes)
                seen = (value.shape, value.strides, value.dtype, storage.buffer, first)
                if value.dynamic is None:
                    key.append(seen)
                else:
                    key.append((seen, value.dynamic.key))
                    foreign = self._check_index(definition, value) or foreign
            elif kind is VirtualRegister or kind is NkiScalar:
                key.append((kind, value.dtype))
                self._check_register(definition, len(key) - 2, value)
            elif kind is float:
                if not -LARGEST < value < LARGEST:
                    self.check_number(definition, len(key) - 1, value)
                key.append(kind if keyed is OPAQUE else (kind, value))
            elif (kind is int or kind is str) and isinstance(keyed, type):
                value = self._member(definition, len(key) - 1, value, keyed)
                changed = {**(changed or {}), len(key) - 1: value}
                key.append(key_of(value))
            elif kind is int or kind is bool:
                if not -0x80000000 <= value <= 0xFFFFFFFF and not definition.like:
                    check_integer(definition.name, value)
                    self.check_number(definition, len(key) - 1, value)
                key.append(kind if keyed is OPAQUE else (kind, value))
            elif kind in SIMPLE:
                key.append(value)
            else:
                for item in value if kind is list or kind is tuple else (value,):
                    if type(item) is Unreachable:
                        raise item.error
                if kind is tuple or kind is list or isinstance(value, (np.generic, np.ndarray)):
                    plain = plain_value(value)
                    changed = {**(changed or {}), len(key) - 1: plain}
                    foreign = foreign or self._foreign(definition, plain)
                    self.check_number(definition, len(key) - 1, plain)
                else:
                    note_simple(value)
                key.append(key_of(value))
        if changed:
            args = tuple(changed.get(n, v) for n, v in enumerate(args))
        if definition.identities:
            key.append(alike(args))
        if stack is None:
            stack = self.stack(depth)
        i = Instruction(definition, args, stack)
        alone = definition.alone_since and self.version.number >= number_of(definition.alone_since)
        if "lnc2" in definition.requires and self.program[1] == 1 and not alone:
            raise InstructionError(
                f"{definition.name} needs both cores of a logical core, but the kernel runs on one",
                stack=stack,
                help="launch the kernel on two cores, kernel[2](...), or check nl.num_programs() first",
                needs=begun_with(f"{definition.name} on one core", definition.alone_since),
            )
        if foreign is not None:
            raise foreign_tensor(i, foreign, self)
        identity = tuple(key)
        form = self.forms.get(identity)
        if form is None:
            form = self.forms[identity] = Form(i, self.target, self.judged_by)
        i.form = form
        return i

    def retarget(self, i: Instruction, dst: NkiTensor, moves: bool = False, **changes: Any) -> None:
        """Let an instruction write into `dst` instead of the tensor it was emitted for; see `retarget.retarget`."""
        fresh = self.storages[-1] if self._allocated == i.ident else None
        retarget(self, i, dst, changes, fresh, moves)
        self.note_changed()

    def note_changed(self) -> None:
        """Note that an instruction was changed, which may have been looked at for comparisons."""
        self._looked_at = 0

    def note_edges(self, later: Instruction, producers: Iterable[Instruction]) -> None:
        """Note where the author asked an instruction to wait for others."""
        stack = self.stack(3)
        for producer in producers:
            self.edges.setdefault((later.ident, producer.ident), stack)

    def _member(self, definition: Definition, position: int, value: Any, kind: type[Any]) -> Any:
        """Take a raw value for the enum member it stands for; one that stands for none breaks a rule."""
        try:
            member = kind(value)
        except ValueError:
            return value
        name = definition.params[position]
        what = f"{definition.name}: {name}={value!r}, a raw value of {kind.__name__},"
        help = Hint(f"write {name}={member!r}", Rewrite("", repr(member)))
        blame = Blame(definition.name, ((name, position),))
        # Of strings no page says that they are refused. Published kernels pass both, and their meaning is not in doubt.
        if isinstance(value, str):
            what += " is none of the values that NKI documents"
            self.find("portability", what, help, blame=blame)
        else:
            self.meet_form("raw enum", what, help, blame)
        return member

    def _report(self, broken: tuple[Rule, ...], i: Instruction) -> None:
        frame = author_frame(sys._getframe(2))
        for rule in broken:
            # An unrolled loop makes the same mistake in every trip; it is reported once.
            if (rule, i.stack) not in self._reported:
                self._reported.add((rule, i.stack))
                self.errors.append(rule_error(rule, i, frame, self.needs_of(rule, i)))

    def remark(self, remarks: tuple[Rule, ...], i: Instruction) -> None:
        """Record the rules that an instruction breaks and that are findings."""
        for rule in remarks:
            error = rule_error(rule, i)
            message = f"{error.message} ({'; '.join(error.notes)})"
            self.find(rule.finding, message, error.help, error.code, i.stack)

    def _check_register(self, definition: Definition, position: int, register: Register) -> None:
        name = definition.params[position]
        self._check_live(definition.name, register)
        if isinstance(register, NkiScalar):
            register._operand()
        if register.frozen and name in definition.sets:
            raise RegisterValue(
                f"{definition.name}: register `{register.name}` is the induction variable of a device loop, which"
                " only the loop changes",
                help="keep your own value in a register from nisa.register_alloc()",
                blame=Blame(definition.name, ((name, position),)),
            )
        if register.by_value and name in definition.sets:
            self.find(
                "portability",
                f"{definition.name}: writing register `{register.name}` has no effect on its loop, which gives the body"
                " a copy in each pass; not every NKI compiler takes it",
                help="keep your own value in a register from nisa.register_alloc()",
            )

    def _check_live(self, what: str, register: Register) -> None:
        """Refuse a register of another trace, and one whose loop has ended."""
        if register.owner is not self:
            raise foreign_register(what, register)
        if register.loop and register.loop not in self._open_loops:
            raise NotModelled(
                f"{what}: `{register.name}` was set in a device loop that has ended; no page says which value it has"
                " behind the loop",
                help="store it in a tensor in the body, with nisa.scalar_store or nisa.register_store, and load it"
                " behind the loop",
            )

    def _check_index(self, definition: Definition, view: NkiTensor) -> NkiTensor | None:
        """Return the tile of indices of a view when it belongs to another trace or an ended loop."""
        assert view.dynamic is not None
        index = view.dynamic.index
        if isinstance(index, Register):
            self._check_live(definition.name, index)
            return None
        assert isinstance(index, NkiTensor)
        storage = index.storage
        is_live = storage.owner is self and (not storage.loop or storage.loop in self._open_loops)
        return None if is_live else index

    def _foreign(self, definition: Definition, value: Any) -> NkiTensor | None:
        """Return a tensor inside a list that belongs to another trace."""
        for item in value if type(value) is tuple else ():
            if type(item) is NkiTensor:
                if item.storage.owner is not self:
                    return item
                if item.dynamic is not None and (index := self._check_index(definition, item)):
                    return index
        return None

    # -- registers and loops --------------------------------------------------------------------------------------

    @property
    def loop(self) -> int:
        """Number of the innermost device loop that is open, from 1 on; 0 outside all."""
        return self._outer[-1][1].number if self._outer else 0

    def register(self, name: str = "", frozen: bool = False) -> VirtualRegister:
        """Return a new register, named after the variable it is assigned to."""
        called = name or variable_of(self.stack()) or "register"
        register = VirtualRegister(len(self.registers), self._unique(called), self, frozen)
        self.registers.append(register)
        return register

    def scalar(self, *like: Any, name: str = "") -> NkiScalar:
        """Return a new scalar with the first dtype for scalars among `like` and theirs; int32 where there is none."""
        dtypes = (getattr(value, "dtype", value) for value in like)
        dtype = next((d for d in dtypes if d is int32 or d is int64), int32)
        called = self._unique(name or variable_of(self.stack()) or "scalar")
        self.registers.append(scalar := NkiScalar._make(len(self.registers), called, self, dtype))
        scalar.loop = self.loop
        return scalar

    @property
    def loop_stack(self) -> Stack:
        """Where the innermost open device loop was opened."""
        return self._outer[-1][1].stack

    def passes(self, bounds: tuple[Any, ...] = ()) -> Iterator[None]:
        """Yield for each pass that is traced of the loop that was opened last: once, but in a rehearsal."""
        if self.rehearsal is None:
            yield
        else:
            yield from self.rehearsal.passes(self, bounds)

    def open_loop(self, kind: str, bounds: tuple[Any, ...], register: Register) -> None:
        """Begin a loop that the device runs; what follows is its body until `close_loop`."""
        if self.kept_order.blocks:
            raise LoopOrder(
                "a device loop cannot stand inside nl.no_reorder",
                help="put the no_reorder block inside the loop's body",
            )
        for bound in bounds:
            if isinstance(bound, Register):
                self._check_live("the bound of a device loop", bound)
        self._loops += 1
        loop = Loop(kind, bounds, register, (), self.stack(), self._loops)
        self._outer.append((self.body, loop))
        self._open_loops.add(loop.number)
        self._look_for_truths()
        self.body, self._looked_at = [], 0
        if self.watch is not None:
            self.watch.opened(loop)

    def close_loop(self) -> None:
        """End the innermost open loop."""
        outer, loop = self._outer.pop()
        self._open_loops.discard(loop.number)
        self.errors += repeated_names(self.body)
        outer.append(replace(loop, body=tuple(self.body)))
        self._look_for_truths()
        self.body, self._looked_at = outer, len(outer)
        if self.watch is not None:
            self.watch.closed(outer[-1])

    @contextmanager
    def inside_loop(self, number: int) -> Iterator[None]:
        """Allow tensors of a device loop whose body is not collected here."""
        self._open_loops.add(number)
        try:
            yield
        finally:
            self._open_loops.discard(number)

    def check_closed(self) -> None:
        """Refuse a trace that ended inside a device loop, or that requested an order outside any block."""
        self.kept_order.check_entered()
        if self.prepared is not None:
            raise InstructionError(
                f"{self.prepared.definition.name} is never triggered",
                stack=self.prepared.stack,
                help="call the trigger with what it returned",
            )
        if self._outer:
            raise LoopControl(
                "a device loop was left before its end",
                stack=self._outer[-1][1].stack,
                help="do not return from, or raise in, the body of a device loop",
            )

    def while_test(self, register: Register, frame: FrameType) -> bool | None:
        """Answer the test of a register: open or close the device loop of a `while`; None for any other test."""
        return while_test(self, register, frame)

    def loops_for_ever(self, frame: FrameType) -> bool:
        """Tell whether what a frame tests is a `while` over a tensor that nothing in its body can end."""
        return loops_for_ever(frame)

    def take_back(self, count: int) -> list[Instruction | Loop]:
        """Remove all but the first `count` instructions of the current body, and return them."""
        self._look_for_truths()
        taken = self.body[count:]
        del self.body[count:]
        self._looked_at = count
        return taken

    def holds_comparison(self, tensor: NkiTensor) -> bool:
        """Tell whether the last instruction that wrote into a tensor's storage compared values."""
        self._look_for_truths()
        return tensor.storage.origin == "temporary" and self._truths.get(tensor.storage, False)

    def _look_for_truths(self) -> None:
        # Kernels ask in every trip of long unrolled loops: each instruction is looked at once.
        for i in self.body[self._looked_at :]:
            if type(i) is Instruction:
                gives = [a.gives_truth for a in i.args if hasattr(a, "gives_truth")]
                self._truths.update((t.storage, bool(gives) and gives[-1]) for t in i.written())
        self._looked_at = len(self.body)

    # -- the trace of this thread ------------------------------------------------------------------------------------

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Make this the builder that instructions and tensor creation use."""
        previous = active.builder
        active.builder = self
        try:
            yield self
        finally:
            active.builder = previous
