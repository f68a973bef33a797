"""Definitions of instructions: signature, text, operands, rules and facets in one block.

    @instruction(engine=(VECTOR,), dst=writes(SBUF, PSUM), data=reads(SBUF, PSUM), rules=(...))
    def reciprocal(dst, data, name=None):
        '''Docstring: first line is the table row.'''

    @reciprocal.semantics
    def _(out, data): np.divide(1, data, out=out)

The `def` is what an author sees; the facets below it are what the machine does. Printer, verifier, dependences,
allocation, simulator, timing and documentation read the definition; none of them knows an instruction by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import CodeType
from typing import Any, NoReturn

from nki_lab.errors import InstructionError, NotModelled, OutsideKernel
from nki_lab.ir.definition.cost import at_least
from nki_lab.ir.definition.operands import (  # noqa: F401
    READ,
    SPOIL,
    UPDATE,
    WRITE,
    Operand,
    Order,
    Rule,
    Shape,
    State,
    operand_rules,
    reads,
    rule,
    updates,
    writes,
)  # fmt: skip
from nki_lab.ir.tensor.fields import Addressing, Dynamic
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Stack
from nki_lab.targets.choice import NamedChoice
from nki_lab.targets.engines import COMPUTE, DMA, Engine
from nki_lab.targets.spec import Target
from nki_lab.versions.version import Version, number_of


class dependency(NamedChoice):  # the official name
    """What `depends_on` asks for: a wait of the hardware, or an order in which instructions are issued (NKI 0.7)."""

    runtime = "runtime"
    schedule = "schedule"

    @classmethod
    def official_name(cls) -> str:
        """Return the name kernels write the class by."""
        return "nisa.dependency"


class Form:
    """All instructions with one operand signature: what is the same for them is settled once.

    Attributes:
        definition: the instruction's definition.
        reads, writes: positions of the arguments whose tensors are read and written.
        state: hidden registers it uses, as (state, role).
        engine: engine chosen by `.place`.
        broken, remarks: rules that do not hold: the errors, and those that are findings.
        dynamic: the address of an operand depends on values of the device.
        registers, registers_set: positions of the arguments that are registers it reads and sets.
        cache: what consumers derive from the form (costs, compute types), by consumer.
    """

    __slots__ = (
        "definition", "reads", "writes", "state", "engine", "broken", "remarks", "cache",
        "dynamic", "registers", "registers_set", "_args", "_stack", "__weakref__",
    )  # fmt: skip

    def __init__(
        self, example: Instruction, target: Target, version: Version | None = None
    ) -> None:
        definition = example.definition
        self.definition = definition
        # Not the instruction, which holds its form: a circle would keep what its tensors hold.
        self._args, self._stack = example.args, example.stack
        example.form = self
        self.cache: dict[Any, Any] = {}
        self.broken: tuple[Rule, ...] = ()
        self.reads: tuple[int, ...] = ()
        self.writes: tuple[int, ...] = ()
        self.state: tuple[tuple[State, str], ...] = ()
        self.dynamic = False
        self.registers: tuple[int, ...] = ()
        self.registers_set: tuple[int, ...] = ()
        self.engine = definition.engines[0]
        failed = definition.broken_rules(example, target, version)
        self.broken = tuple(r for r in failed if not r.finding)
        self.remarks = tuple(r for r in failed if r.finding)
        if self.broken:
            return
        roles = definition.roles(example)
        self.reads = tuple(k for k, role in roles if role != WRITE)
        self.writes = tuple(k for k, role in roles if role != READ)
        self.dynamic = any(v.dynamic is not None for _, _, v in definition.tensors(example))
        held = [k for k, v in enumerate(example.args) if isinstance(v, Register)]
        self.registers = tuple(k for k in held if definition.params[k] not in definition.sets)
        self.registers_set = tuple(k for k in held if definition.params[k] in definition.sets)
        self.state = tuple(definition.state_of(example))
        self.engine = definition.place_of(example, target)

    @property
    def example(self) -> Instruction:
        """An instruction of this form, as the first one was."""
        i = Instruction(self.definition, self._args, self._stack)
        i.form = self
        return i


class Instruction:
    """An instruction of a program: a definition and its bound arguments.

    Arguments are attributes: `i.dst`, `i.data1`. This is also `nki.isa.NkiInstruction`, which authors get back.
    """

    __slots__ = ("definition", "args", "form", "stack", "after", "ident")

    def __init__(self, definition: Definition, args: tuple[Any, ...], stack: Stack = ()) -> None:
        self.definition = definition
        self.args = args
        self.form: Form = None  # type: ignore[assignment]  # set when it joins a program
        self.stack = stack
        self.after: tuple[Instruction, ...] = ()
        self.ident = (
            -1
        )  # place in the order of emission; a pass that rewrites an instruction keeps it

    def __getattr__(self, name: str) -> Any:
        if name in Instruction.__slots__:  # a copy that is still being made
            raise AttributeError(name)
        try:
            return self.args[self.definition.position[name]]
        except KeyError:
            raise AttributeError(
                f"{self.definition.name} has no argument `{name}`", name=name, obj=self
            ) from None

    def read(self) -> list[NkiTensor]:
        """Return the tensors it reads: operands, those inside lists, and tiles of indices."""
        form = self.form
        tensors = _tensors(self.args, form.reads)
        if form.dynamic:
            tensors += [d.index for d in self.dynamic() if type(d.index) is NkiTensor]
        return tensors

    def written(self) -> list[NkiTensor]:
        """Return the tensors it writes."""
        return _tensors(self.args, self.form.writes)

    def dynamic(self) -> list[Dynamic]:
        """Return what the addresses of its tensors depend on."""
        form = self.form
        views = _tensors(self.args, (*form.reads, *form.writes))
        return [v.dynamic for v in views if v.dynamic is not None]

    def registers_read(self) -> list[Register]:
        """Return the registers whose values it needs: operands, and addresses of its tensors."""
        registers = [self.args[k] for k in self.form.registers]
        if self.form.dynamic:
            registers += [d.index for d in self.dynamic() if isinstance(d.index, Register)]
        return registers

    def registers_written(self) -> list[Register]:
        """Return the registers it sets."""
        return [self.args[k] for k in self.form.registers_set]

    def with_args(self, **changes: Any) -> Instruction:
        """Return a copy with some arguments replaced; the builder must give it a form."""
        args = list(self.args)
        for name, value in changes.items():
            args[self.definition.position[name]] = value
        i = Instruction(self.definition, tuple(args), self.stack)
        i.after = self.after
        i.ident = self.ident
        return i

    def with_views(self, change: Callable[[NkiTensor], NkiTensor]) -> Instruction:
        """Return a copy with the tensors that `change` gives for its own, or itself where all stay; it needs a form."""
        args = _with_views(self.args, change)
        if args is self.args:
            return self
        i = self.with_args()
        i.args = args
        return i

    @property
    def accumulate_is_open(self) -> bool:
        """Whether it is not said if a product is added to what is there (accumulate=None)."""
        position = self.definition.position.get("accumulate")
        return position is not None and self.args[position] is None

    def following(self, producers: Sequence[Instruction]) -> Instruction:
        """Return a copy that waits for `producers` instead of those it was asked to wait for."""
        i = self.with_args()
        i.form = self.form
        i.after = tuple(producers)
        return i

    def depends_on(self, *producers: Instruction, kind: dependency | None = None) -> Instruction:
        """Make this instruction wait for `producers`, beyond what its operands ask for.

        A producer may come later in the kernel: the instructions change places (nki/api/nki/isa/__init__.py).

        Args:
            producers: what calls of instructions returned.
            kind: nisa.dependency.runtime, a wait; so is no kind, which is deprecated since NKI 0.7.
                (nki/api/generated/nki.isa.NkiInstruction.html)

        Raises InstructionError for what is not an instruction, for the instruction itself, and where the trace ends
        for an edge that leaves a device loop or closes a circle; NotModelled for dependency.schedule, which orders the
        issue of instructions without a wait.
        """
        if kind is not None and not isinstance(kind, dependency):
            raise InstructionError(
                f"depends_on: kind={kind!r} is not a member of nisa.dependency",
                help="write kind=nisa.dependency.runtime",
            )
        if kind is dependency.schedule:
            raise NotModelled(
                "depends_on(kind=nisa.dependency.schedule) orders the issue of instructions without a wait, which is"
                " not modelled",
                help="write kind=nisa.dependency.runtime, which waits as well, or use nl.no_reorder()",
            )
        for producer in producers:
            if not isinstance(producer, Instruction):
                raise InstructionError(
                    f"depends_on takes instructions, found {type(producer).__name__}",
                    help="keep what the producing nki.isa call returned and pass it",
                )
            if producer is self:
                raise InstructionError(
                    f"depends_on: {self.definition.name} waits for itself",
                    help="pass the instruction that has to come first",
                )
        if active.builder is None:
            raise OutsideKernel(
                "depends_on was called outside a kernel",
                help="order instructions where they are made",
            )
        if kind is None:
            active.builder.meet_form("dependency kind", "depends_on without `kind`")
        active.builder.note_edges(self, producers)
        self.after += producers
        return self

    def __repr__(self) -> str:
        return f"<{self.definition.name}>"


def _is_moved(dynamic: Dynamic) -> bool:
    return dynamic.kind is Addressing.SCALAR


def _with_views(value: Any, change: Callable[[NkiTensor], NkiTensor]) -> Any:
    if type(value) is tuple:
        parts = tuple(_with_views(part, change) for part in value)
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    return change(value) if type(value) is NkiTensor else value


def _tensors(args: tuple[Any, ...], positions: tuple[int, ...]) -> list[NkiTensor]:
    tensors: list[NkiTensor] = []
    for k in positions:
        value = args[k]
        if type(value) is tuple:
            tensors += value
        else:
            tensors.append(value)
    return tensors


# How a form's key treats an argument; see Definition._keyed.
NAME, OPAQUE, REQUIRED = object(), object(), object()

Facet = Callable[..., Any]
Numerics = Callable[[Instruction], Mapping[str, Any]]
Groups = Callable[[Instruction, int], tuple[tuple[int, ...], ...]]


@dataclass(eq=False)
class Definition:
    """One instruction: signature, documentation, operands, rules and facets.

    Attributes:
        name: official name in `module`.
        module: official module, "nki.isa" or "nki.collectives".
        engines: engines that can run it, the preferred one first.
        operands: parameter name -> Operand.
        rules: constraints beyond those the operands declare.
        numerics: gives, for an instruction, the NumPy type each operand is computed in (None: its stored bits).
        state: hidden registers as (State, role) pairs, or a function of the instruction giving them.
        requires: features (`Target.features`) a target must have.
        opaque: parameters whose numeric value no rule, role, placement or cost looks at.
        in_place_safe: `out` may share memory with an operand that is read.
        any_start: operands that may start at any partition (DMA).
        every_lane: it uses the hidden registers of all partitions, not only of those its operands are on.
        sets: parameters that are registers the instruction sets.
        meets: the two cores of a logical core meet in it.
        alone_since: the version of NKI from which on a core may call what needs two of them alone; "" for none.
        groups: `(i, number of ranks) -> lists of ranks` that meet in it, each rank in one; None where ranks do not.
        takes: parameter -> function from what authors give to what a program holds, e.g. of an object of the API.
        gives: parameter among `sets` that no author gives: a call makes the register and returns it; "" for none.
        like: parameters of which one has the dtype of what `gives` names, which is a scalar then; empty for a register.
        identities: rules ask which views are the same, where one of them is dynamic.
        observes: it only looks at its operands: no engine runs it, in no time, and nothing waits for it.
        balanced: where `engine` is left open, the compiler chooses by how busy the engines are.
        order: in which order elements are read and written, of the instruction or by result; None where it follows
            from the shapes of the operands, as it does where all are STREAM or VECTOR.
    """

    name: str
    module: str
    engines: tuple[Engine, ...]
    operands: dict[str, Operand]
    rules: tuple[Rule, ...]
    numerics: Numerics | None
    state: Any
    requires: tuple[str, ...]
    opaque: frozenset[str]
    in_place_safe: bool
    any_start: frozenset[str]
    every_lane: bool
    sets: frozenset[str]
    meets: bool
    alone_since: str
    groups: Groups | None
    takes: Mapping[str, Callable[[Any], Any]]
    gives: str
    like: tuple[str, ...]
    identities: bool
    observes: bool
    balanced: bool
    order: Order | Mapping[str, Order] | None
    signature: inspect.Signature
    doc: str
    params: tuple[str, ...]
    position: dict[str, int]
    facets: dict[str, Facet] = field(default_factory=dict)
    _orders: dict[str, Order] = field(default_factory=dict)  # by result

    def __post_init__(self) -> None:
        self.__name__ = self.name
        self.__qualname__ = self.name
        self.__doc__ = self.doc
        asked = [p for p in self.signature.parameters.values() if p.name != self.gives]
        self.__signature__ = self.signature.replace(parameters=asked)
        # How emit keys an argument: "name" never, opaque numbers by type only, everything else by value.
        self.keyed = tuple(self._keyed(p) for p in self.signature.parameters.values())
        self.defaults = tuple(
            REQUIRED if p.default is p.empty or p.name == "name" else p.default
            for p in self.signature.parameters.values()
        )

    def _keyed(self, parameter: inspect.Parameter) -> Any:
        """Say how `Builder.emit` keys an argument: NAME, OPAQUE, by value, or as a member of an enum."""
        if parameter.name == "name":
            return NAME
        if parameter.name in self.opaque:
            return OPAQUE
        return type(parameter.default) if isinstance(parameter.default, Enum) else None

    # -- facets, used as decorators ------------------------------------------------------------------------------

    def _attach(self, facet: str) -> Callable[[Facet], Facet]:
        def attach(fn: Facet) -> Facet:
            fn.__name__ = f"{self.name}.{facet}"
            self.facets[facet] = fn
            return fn

        return attach

    @property
    def semantics(self) -> Callable[[Facet], Facet]:
        """Attach the meaning: NumPy arrays in, results written into `out`."""
        return self._attach("semantics")

    @property
    def result(self) -> Callable[[Facet], Facet]:
        """Attach `(i) -> shape` that `dst` must have, as [partitions, elements per partition]."""
        return self._attach("result")

    @property
    def place(self) -> Callable[[Facet], Facet]:
        """Attach `(i, target) -> Engine`."""
        return self._attach("place")

    @property
    def cost(self) -> Callable[[Facet], Facet]:
        """Attach `(i, target) -> iterable of MicroOp or Transfer`."""
        return self._attach("cost")

    @property
    def on_scalar(self) -> Callable[[Facet], Facet]:
        """Attach `(i) -> instruction`: another one that gives the same values of floats on Scalar, or None."""
        return self._attach("on_scalar")

    @property
    def backward(self) -> Callable[[Facet], Facet]:
        """Attach `(i, step)`: hand the gradients of the results on to the operands; see `nki_lab.autodiff.reverse`."""
        return self._attach("backward")

    # -- what consumers ask --------------------------------------------------------------------------------------

    @property
    def waits_for_others(self) -> bool:
        """Whether cores or ranks meet in it, so that it keeps its place among what does."""
        return self.meets or self.groups is not None

    def taken(self, name: str, value: Any) -> Any:
        """Return an argument as a program holds it."""
        return self.takes[name](value) if name in self.takes else value

    def tensors(self, i: Instruction) -> Iterable[tuple[int, Operand, NkiTensor]]:
        """Yield (argument position, operand, tensor) for every tensor argument."""
        for name, operand in self.operands.items():
            value = i.args[self.position[name]]
            for tensor in value if type(value) is tuple else (value,):
                if type(tensor) is NkiTensor:
                    yield self.position[name], operand, tensor

    def roles(self, i: Instruction) -> list[tuple[int, str]]:
        """Return (argument position, role) of every operand whose tensor is accessed."""
        roles = []
        for name, operand in self.operands.items():
            value = i.args[self.position[name]]
            if type(value) is NkiTensor or (type(value) is tuple and value):
                role = operand.role(i) if callable(operand.role) else operand.role
                if role is not None:
                    roles.append((self.position[name], role))
        return roles

    def order_of(self, result: str) -> Order:
        """Return in which order elements are read and a result is written, by the name of the operand."""
        order = self._orders.get(result)
        if order is None:
            order = self._orders[result] = self._order_of(result)
        return order

    def _order_of(self, result: str) -> Order:
        if self.operands[result].shape is Shape.VECTOR:
            return Order.LAST
        order = self.order.get(result) if isinstance(self.order, Mapping) else self.order
        if order is not None:
            return order
        shapes = {operand.shape for operand in self.operands.values()}
        follows = shapes <= {Shape.STREAM, Shape.VECTOR} and DMA not in self.engines
        return Order.STREAM if follows else Order.NONE

    def _order_problems(self) -> list[str]:
        """Return the results that may lie over an operand although no order is stated for them."""
        problems = []
        for name, operand in self.operands.items():
            others = [o for n, o in self.operands.items() if n != name]
            read = any(o.role != WRITE for o in others)
            stated = self.order.get(name) if isinstance(self.order, Mapping) else self.order
            derived = self.order_of(name) is not Order.NONE
            if (
                operand.role != READ
                and read
                and stated is None
                and not derived
                and not self.observes
            ):
                problems.append(
                    f"no order of `{name}`: state order=Order.STREAM, LAST, MOVES or NONE"
                )
        if isinstance(self.order, Mapping):
            problems += [f"order of unknown `{n}`" for n in self.order if n not in self.operands]
        return problems

    def state_of(self, i: Instruction) -> Iterable[tuple[State, str]]:
        """Return the hidden registers `i` uses, with their roles."""
        return self.state(i) if callable(self.state) else self.state

    def place_of(self, i: Instruction, target: Target) -> Engine:
        """Return the engine that runs `i`."""
        place = self.facets.get("place")
        if place is not None:
            return place(i, target)
        asked = i.args[self.position["engine"]] if "engine" in self.position else Engine.unknown
        return asked if asked is not Engine.unknown else self.engines[0]

    def cost_of(self, i: Instruction, target: Target) -> tuple[Any, ...]:
        """Return the micro-operations of `i`, an address in a register included."""
        costs = tuple(self.facets["cost"](i, target))
        if i.form.dynamic and i.form.engine in COMPUTE and any(map(_is_moved, i.dynamic())):
            # Documented for copies, max(600, N) cycles; the other instructions are taken to be alike.
            return at_least(costs, target.dynamic_address_min_cycles)
        return costs

    def all_rules(self) -> tuple[Rule, ...]:
        """Return every rule in the order it is checked: operands first, then the instruction's own."""
        return (*operand_rules(self), *self.rules)

    def broken_rules(
        self, i: Instruction, target: Target, version: Version | None = None
    ) -> list[Rule]:
        """Return the rules that do not hold; rules about a broken operand are not checked further.

        Those of some versions of NKI are left out where no version is given: a kernel was held to them when it was
        traced.
        """
        broken: list[Rule] = []
        doubtful: set[str] = set()
        for r in self.all_rules():
            if doubtful.intersection(r.about):
                continue
            if r.since and (version is None or version.number < number_of(r.since)):
                continue
            if not r.holds(i, target):
                broken.append(r)
                if not r.finding:
                    doubtful.update(r.about)
        return broken

    def check_complete(self) -> list[str]:
        """Return what is missing or misnamed in this definition; empty when it is complete."""
        problems = [
            f"no {what}" for what, there in (
                ("docstring", self.doc), ("semantics", "semantics" in self.facets),
                ("cost", self.observes or "cost" in self.facets),
                ("effect", self.observes or self.state or self.sets
                 or any(o.role != READ for o in self.operands.values())),
            ) if not there
        ]  # fmt: skip
        outs = (f"out_{n}" for n in (*self.operands, *self.sets))
        names = {*self.params, "out", *outs, "written", "target", "dtypes", "notice", "rank", "ranks",
                 "world", "peer", *(s.parameter for s in State)}  # fmt: skip
        wanted = (
            inspect.signature(self.facets["semantics"]).parameters
            if "semantics" in self.facets
            else {}
        )
        problems += [f"semantics asks for unknown `{n}`" for n in wanted if n not in names]
        problems += [
            f"operand `{n}` is not a parameter" for n in self.operands if n not in self.position
        ]
        problems += [
            f"rule about unknown `{n}`"
            for r in self.rules
            for n in r.about
            if n not in self.position
        ]
        return problems + self._order_problems()


#: How the file names of generated binders begin (source.is_internal).
BINDER = "<nki_lab binder"
#: Code of other functions that bind arguments.
BINDING: set[CodeType] = set()


def _refuse(definition: Definition) -> NoReturn:
    raise OutsideKernel(
        f"{definition.module}.{definition.name} was called outside a kernel",
        help="call it in a function decorated with @nki.jit, and call that function with arrays",
    )


def is_binding(code: CodeType) -> bool:
    """Tell whether `code` lies between the author's call of an instruction and the builder."""
    return code.co_filename.startswith(BINDER) or code in BINDING


def binder(
    name: str,
    signature: inspect.Signature,
    takes: Mapping[str, Callable[[Any], Any]],
    gives: str,
    like: tuple[str, ...],
) -> Any:
    """Make the function that binds the arguments of a call and emits the instruction.

    Args:
        name: the instruction.
        signature: its parameters.
        takes: functions from what authors give to what a program holds, by parameter.
        gives: the parameter whose register the call makes and returns, or "".
        like: the parameters that say the dtype of a scalar that it makes instead.
    """
    asked = [p for p in signature.parameters.values() if p.name != gives]
    scope = {"_active": active, "_refuse": _refuse}
    scope |= {f"_{p.name}": p.default for p in asked} | {f"_take_{n}": f for n, f in takes.items()}
    head = ", ".join(p.name if p.default is p.empty else f"{p.name}=_{p.name}" for p in asked)
    bound = {n: f"_take_{n}({n})" if n in takes else n for n in signature.parameters}
    if gives:
        bound[gives] = f"_builder.scalar({', '.join(like)})" if like else "_builder.register()"
    returned = f".args[{list(bound).index(gives)}]" if gives else ""
    values = ", ".join(bound.values())
    code = (
        f"def {name}(self, {head}):\n    _builder = _active.builder or _refuse(self)\n"
        f"    return _builder.emit(self, ({values},)){returned}\n"
    )
    exec(compile(code, f"{BINDER} of {name}>", "exec"), scope)
    return scope[name]


registry: dict[str, Definition] = {}


def instruction(
    *,
    engine: tuple[Engine, ...],
    rules: Iterable[Rule] = (),
    numerics: Numerics | None = None,
    state: Any = (),
    requires: tuple[str, ...] = (),
    opaque: Iterable[str] = (),
    in_place_safe: bool = False,
    any_start: Iterable[str] = (),
    every_lane: bool = False,
    sets: Iterable[str] = (),
    module: str = "nki.isa",
    meets: bool = False,
    alone_since: str = "",
    groups: Groups | None = None,
    takes: Mapping[str, Callable[[Any], Any]] | None = None,
    gives: str = "",
    like: tuple[str, ...] = (),
    identities: bool = False,
    observes: bool = False,
    balanced: bool = False,
    order: Order | Mapping[str, Order] | None = None,
    **operands: Operand,
) -> Callable[[Callable[..., Any]], Any]:
    """Define an instruction from its signature and docstring; attach facets below it.

    Args:
        engine: engines that can run it, the preferred one first.
        rules: constraints beyond those of the operands.
        numerics: `(i) -> {operand: NumPy dtype or None}`; None computes every operand in float32.
        state: hidden registers it uses: (State, role) pairs or a function of the instruction.
        requires: features a target must have.
        opaque: parameters whose numeric value changes nothing but the values computed.
        in_place_safe: the meaning is exactly one ufunc call, which copes with `out` sharing memory with an operand.
        any_start: operands that may start at any partition (DMA).
        every_lane: hidden registers are used of all partitions.
        sets: parameters that are registers the instruction sets.
        module: official module that has it.
        meets: the two cores of a logical core meet in it.
        alone_since: the version of NKI from which on one core may call it alone.
        groups: the lists of ranks that meet in it.
        takes: how what authors give becomes what a program holds, by parameter.
        gives: the parameter that is a register made and returned by a call.
        like: what is made is a scalar with the dtype that one of these parameters has.
        identities: rules ask which views are the same, where one of them is dynamic.
        observes: it only looks at its operands; it is not an instruction of the machine and not in `registry`.
        balanced: where `engine` is left open, the compiler chooses by how busy the engines are.
        order: in which order elements are read and written, where the shapes of the operands do not say it.
        operands: one Operand per tensor parameter, under the parameter's name.
    """

    def define(fn: Callable[..., Any]) -> Definition:
        signature = inspect.signature(fn)
        params = tuple(signature.parameters)
        convert = takes or {}
        # Each instruction has its own class, so that a call reaches the generated binder directly.
        space = {
            "__call__": binder(fn.__name__, signature, convert, gives, like),
            "__module__": fn.__module__,
        }
        definition = type(fn.__name__, (Definition,), space)(
            fn.__name__, module, engine, operands, tuple(rules), numerics, state, requires,
            frozenset(opaque), in_place_safe, frozenset(any_start), every_lane, frozenset(sets), meets, alone_since,
            groups, convert, gives, like, identities, observes, balanced, order, signature,
            inspect.getdoc(fn) or "", params, {p: k for k, p in enumerate(params)},
        )  # fmt: skip
        if not observes:
            registry[definition.name] = definition
        return definition

    return define
