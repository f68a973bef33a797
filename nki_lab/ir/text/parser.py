"""Parser: turns the text form of a kernel into a kernel again.

The grammar is what `printer` writes (see there); white space and comments mean nothing. Everything a person can get
wrong in a text raises BadKernelText with line and column. The parser does not judge the program: it reads broken
hardware rules and views outside their storage as they stand, and `verify` reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from inspect import Parameter
from typing import Any

from nki_lab.errors import NkiError, close_matches
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Definition, Form, Instruction, registry
from nki_lab.ir.program.nodes import Kernel, Loop, OutputRef, Param
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.register import NkiScalar, Register, VirtualRegister
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.ir.text.literals import Literals, Reference, RegisterName
from nki_lab.ir.text.printer import FORMAT
from nki_lab.ir.text.tokens import Token
from nki_lab.source import Stack
from nki_lab.targets import get_target
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import MemoryRegion
from nki_lab.targets.spec import Target

_ORIGINS = ("input", "constant", "temporary")


def parse_kernel(
    text: str,
    definitions: Mapping[str, Definition] = registry,
    names: Mapping[str, Any] | None = None,
    target_of: Callable[[str], Target] = get_target,
) -> Kernel:
    """Return the kernel that `text` describes.

    Args:
        text: what `print_kernel` returned, or the same written by hand.
        definitions: instructions by name.
        names: what dotted names such as `nl.add` or `nisa.reduce_cmd.idle` stand for; element types, engines and
            memories need not be among them.
        target_of: gives the target of a name.

    Raises:
        BadKernelText: with the line and column of what cannot be read.
    """
    return _Parser(text, definitions, names or {}, target_of).kernel()


class _Program(Builder):
    """A builder whose instructions come from no author's text."""

    judged_by = None

    def stack(self, depth: int = 2) -> Stack:
        return ()


class _Parser:
    def __init__(
        self,
        text: str,
        definitions: Mapping[str, Definition],
        names: Mapping[str, Any],
        target_of: Callable[[str], Target],
    ) -> None:
        self.words = Literals(text, names)
        self.definitions = definitions
        self.target_of = target_of
        self.program: _Program
        self.storages: dict[str, Storage] = {}
        self.addresses: dict[int, Address] | None = None
        self.waits: list[tuple[int, ...]] | None = None
        self.engines = False
        self.poisoned: set[int] = set()
        self.tracked: set[int] = set()
        self.labels: dict[str, tuple[int, Instruction]] = {}
        self.count = 0
        self.loops = 0
        self.placed: dict[tuple[Form, Engine], Form] = {}

    def kernel(self) -> Kernel:
        w = self.words
        w.expect("nkir")
        token = w.next
        version = w.integer("the version of the format")
        if version != FORMAT:
            w.refuse(f"the text has format {version}, this nki_lab reads {FORMAT}", token)
        w.expect("kernel")
        name = w.name("the name of the kernel")
        w.expect("on")
        target = self.target()
        self.program = _Program(target, program=self.core())
        if w.skip("with"):
            self.passes()
        w.expect("{")
        written = []
        while w.skip("param"):
            param = w.name("the name of a parameter")
            w.expect("=")
            written.append((param, w.value()))
        while w.skip("storage"):
            self.storage()
        overlaps = []
        while w.skip("overlap"):
            overlaps.append(self.overlap())
        body = self.block("`return`, `}`")
        outputs: list[NkiTensor] = []
        result = self.resolved(w.value(), outputs) if w.skip("return") else None
        w.expect("}")
        if w.next.kind != "end":
            w.fail("the end of the text", w.next)
        # Parameters stand before the storages that they name.
        params = tuple(Param(n, self.resolved(value)) for n, value in written)
        waits = None if self.waits is None else tuple(self.waits)
        kernel = Kernel(
            name, self.program.target, params, tuple(self.program.storages), body, tuple(outputs), result,
            self.program.forms, addresses=self.addresses, overlaps=tuple(overlaps),
            poisoned=frozenset(self.poisoned), tracked=frozenset(self.tracked), placed=self.engines, waits=waits,
            program=self.program.program,
            registers=tuple(r.name for r in self.program.registers),
        )  # fmt: skip
        self.program.release()
        return kernel

    def target(self) -> Target:
        token = self.words.next
        name = self.words.name("the name of a target")
        try:
            return self.target_of(name)
        except NkiError as error:
            self.words.refuse(error.message, token, error.help)

    def core(self) -> tuple[int, int]:
        w = self.words
        if not w.skip(","):
            return 0, 1
        w.expect("core")
        token = w.next
        core = w.integer("the number of the core")
        w.expect("of")
        cores = w.integer("the number of cores")
        if not 0 <= core < cores:
            w.refuse(f"there is no core {core} of {cores}", token)
        return core, cores

    def passes(self) -> None:
        while True:
            token = self.words.take()
            if token.text == "addresses":
                self.addresses = {}
            elif token.text == "engines":
                self.engines = True
            elif token.text == "waits":
                self.waits = []
            else:
                self.words.fail("`addresses`, `engines` or `waits`", token)
            if not self.words.skip(","):
                return

    # -- storages ------------------------------------------------------------------------------------------------

    def storage(self) -> None:
        w = self.words
        token = w.expect("%")
        name = w.name("the name of a storage")
        if name in self.storages:
            w.refuse(f"there is already a storage `{name}`", token)
        w.expect(":")
        dtype = w.dtype()
        w.expect("[")
        shape = w.sizes("the shape of the storage")
        w.expect("]")
        w.expect("in")
        token = w.take()
        if token.text not in MemoryRegion.__members__:
            w.fail(f"a memory: {', '.join(MemoryRegion.__members__)}", token)
        memory = MemoryRegion[token.text]
        storage = Storage(len(self.storages), name, shape, dtype, memory, owner=self.program)
        while w.skip(","):
            self.fact(storage)
        self.storages[name] = storage
        self.program.storages.append(storage)

    def fact(self, s: Storage) -> None:
        token = self.words.take()
        if token.text in _ORIGINS:
            s.origin = token.text
        elif token.text == "named":
            s.named = True
        elif token.text == "poisoned":
            self.poisoned.add(s.id)
        elif token.text == "tracked":
            self.tracked.add(s.id)
        elif token.text == "requested":
            s.address = self.address()
        elif token.text == "at":
            if self.addresses is None:
                self.words.refuse(
                    "the kernel has no addresses", token, "write `with addresses` behind its target"
                )
            self.addresses[s.id] = self.address()
        elif token.text == "loop":
            s.loop = self.words.integer("the number of the loop")
        elif token.text == "data":
            s.data = self.words.data(s, token)
        else:
            self.words.fail(
                f"{', '.join(_ORIGINS)}, named, requested, poisoned, tracked, loop, at or data",
                token,
            )

    def overlap(self) -> frozenset[int]:
        w = self.words
        members = []
        while True:
            members.append(self.tensor(w.reference()).storage.id)
            if not w.skip(","):
                return frozenset(members)

    def address(self) -> Address:
        w = self.words
        w.expect("(")
        partition = w.integer("the start partition")
        w.expect(",")
        byte = w.integer("the byte within the partition")
        w.expect(")")
        return Address(partition, byte)

    # -- instructions --------------------------------------------------------------------------------------------

    def block(self, ends: str) -> tuple[Instruction | Loop, ...]:
        w = self.words
        body: list[Instruction | Loop] = []
        while w.next.text not in ("}", "return"):
            if w.next.text in ("for", "while"):
                body.append(self.loop())
            elif w.next.text == "#" or w.next.kind == "name":
                body.append(self.instruction())
            else:
                w.fail(f"an instruction, `for`, `while` or {ends}", w.next)
        return tuple(body)

    def loop(self) -> Loop:
        w = self.words
        token = w.take()
        register = self.resolved(w.value())
        bounds: Any = ()
        if token.text == "for":
            w.expect("in")
            start = w.next
            bounds = self.resolved(w.value())
            if type(bounds) is not tuple or len(bounds) != 3:
                w.fail("(start, stop, step)", start)
        w.expect("{")
        w.deeper(token)
        self.loops += 1
        number = self.loops
        with self.program.inside_loop(number):
            body = self.block("`}`")
        w.depth -= 1
        w.expect("}")
        return Loop(token.text, bounds, register, body, (), number)

    def instruction(self) -> Instruction:
        w = self.words
        label = w.next
        name = w.integer("the label of an instruction") if w.skip("#") else None
        token = w.next
        called = w.name("the name of an instruction")
        definition = self.definitions.get(called)
        if definition is None:
            near = close_matches(called, self.definitions)
            w.fail("the name of an instruction", token, near)
        instruction = self.emit(definition, self.arguments(definition, token), token)
        start = w.next
        if w.skip("on"):
            self.place(instruction, start)
        if w.skip("after"):
            instruction.after = tuple(i for _, i in self.earlier())
        start = w.next
        waits = tuple(k for k, _ in self.earlier()) if w.skip("waits") else ()
        if self.waits is not None:
            self.waits.append(waits)
        elif waits:
            w.refuse("the kernel has no waits", start, "write `with waits` behind its target")
        if name is not None:
            if str(name) in self.labels:
                w.refuse(f"there is already an instruction #{name}", label)
            self.labels[str(name)] = self.count, instruction
        self.count += 1
        return instruction

    def arguments(self, definition: Definition, call: Token) -> tuple[Any, ...]:
        w = self.words
        given: dict[str, Any] = {}
        w.expect("(")
        while not w.skip(")"):
            token = w.next
            name = w.name("the name of an argument or `)`")
            if name not in definition.position:
                near = close_matches(name, definition.params)
                w.fail(f"an argument of {definition.name}", token, near)
            if name in given:
                w.refuse(f"{definition.name} gets `{name}` twice", token)
            w.expect("=")
            given[name] = self.resolved(w.value())
            if w.next.text != ")":
                w.expect(",")
        for name, parameter in definition.signature.parameters.items():
            if name not in given and parameter.default is Parameter.empty:
                w.refuse(f"{definition.name} needs the argument `{name}`", call)
            given.setdefault(name, definition.taken(name, parameter.default))
        return tuple(given[name] for name in definition.params)

    def emit(self, definition: Definition, args: tuple[Any, ...], token: Token) -> Instruction:
        try:
            return self.program.emit(definition, args)
        except Exception as error:
            # Rules and placement are written for arguments of the right kind; a text can hold any.
            self.words.refuse(
                f"the arguments of {definition.name} make no sense", token,
                notes=[f"checking them raised {type(error).__name__}: {error}"],
            )  # fmt: skip

    def place(self, i: Instruction, on: Token) -> None:
        if not self.engines:
            self.words.refuse(
                "the kernel has no engines", on, "write `with engines` behind its target"
            )
        token = self.words.take()
        if token.text not in Engine.__members__:
            self.words.fail(f"an engine: {', '.join(Engine.__members__)}", token)
        engine = Engine[token.text]
        form = i.form
        if engine is not form.engine:
            placed = self.placed.get((form, engine))
            if placed is None:
                placed = self.placed[form, engine] = copy(form)
                placed.engine, placed.cache = engine, {}
            i.form = placed

    def earlier(self) -> list[tuple[int, Instruction]]:
        w = self.words
        producers = []
        while True:
            token = w.expect("#")
            name = str(w.integer("the label of an instruction"))
            if name not in self.labels:
                w.refuse(f"no instruction before this one has the label #{name}", token)
            producers.append(self.labels[name])
            if not w.skip(","):
                return producers

    def register(self, written: RegisterName) -> Register:
        """Return the register of a name, making it when it is first written."""
        for register in self.program.registers:
            if register.name == written.name:
                return register
        number = len(self.program.registers)
        if written.dtype is None:
            self.program.registers.append(VirtualRegister(number, written.name, self.program))
        else:
            scalar = NkiScalar._make(number, written.name, self.program, written.dtype)
            self.program.registers.append(scalar)
        return self.program.registers[-1]

    # -- tensors -------------------------------------------------------------------------------------------------

    def resolved(self, value: Any, outputs: list[NkiTensor] | None = None) -> Any:
        """Return a value with the tensors its references mean; with `outputs`, they go there instead."""
        kind = type(value)
        if kind is RegisterName:
            return self.register(value)
        if kind is Reference:
            tensor = self.tensor(value)
            if outputs is None:
                return tensor
            outputs.append(tensor)
            return OutputRef(len(outputs) - 1)
        if kind in (tuple, list):
            return kind(self.resolved(v, outputs) for v in value)
        if kind is dict:
            return {key: self.resolved(v, outputs) for key, v in value.items()}
        return value

    def tensor(self, reference: Reference) -> NkiTensor:
        storage = self.storages.get(reference.name)
        if storage is None:
            self.words.refuse(
                f"there is no storage `{reference.name}`", reference.token,
                close_matches(reference.name, self.storages),
            )  # fmt: skip
        whole = whole_view(storage)
        if reference.pattern is not None:
            shape, offset, strides, dtype = reference.pattern
            dynamic = None
            if reference.dynamic is not None:
                form, index, step, limit = reference.dynamic
                dynamic = Dynamic(form, self.resolved(index), step, limit)
            return NkiTensor._make(storage, shape, strides, offset, dtype or storage.dtype, dynamic)
        try:
            return whole if reference.index is None else whole[reference.index]
        except NkiError as error:
            self.words.refuse(error.message, reference.token, error.help)
