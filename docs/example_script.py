"""Writes a whole script that uses an instruction, ready to be run.

It is written around the usual call of the instruction (`example_call`), so that a new instruction has one as soon as it
is defined: arguments, tiles that hold them, the call, and a store of what it wrote. Tests run every one of them.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import numpy as np

from nki_lab.dtypes import DTYPES, DType, uint32
from nki_lab.ir.definition.instruction import READ, UPDATE, WRITE, Definition, Instruction
from nki_lab.ir.tensor.register import NkiScalar, Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.example import example_call
from nki_lab.targets.spaces import PSUM
from nki_lab.targets.spec import Target

_MODULES = {"nki.isa": "nisa", "nki.collectives": "ncc"}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
# Parameters that name the other one of two cores, by their official names.
_PARTNER = ("send_to_rank", "recv_from_rank")
_OTHER = "other = 1 - nl.program_id(0)"
# What holds whole numbers in floats, by that name.
_WHOLE = ("segment_ids",)
_CORES = 2
_WIDTH = 96


def example_script(definition: Definition, target: Target) -> str | None:
    """Return a script that runs a kernel with this instruction on `target`; None where no usual call was found."""
    made = example_call(definition, target)
    return None if made is None else _Script(definition, made, target).text()


class _Script:
    """The parts of one script, in the order in which they are written."""

    def __init__(self, definition: Definition, made: Instruction, target: Target) -> None:
        self.definition, self.made, self.target = definition, made, target
        self.values = dict(zip(definition.params, made.args, strict=True))
        roles: dict[str, set[str]] = {}
        for position, role in definition.roles(made):
            roles.setdefault(definition.params[position], set()).add(role)
        self.roles = roles
        self.collective = definition.module == "nki.collectives"
        both = definition.meets or "lnc2" in definition.requires
        self.cores = _CORES if both else 1
        #: Arguments of the kernel, as the arrays that it is called with.
        self.arrays: dict[str, str] = {}
        self.body: list[str] = []
        self.results: list[str] = []

    def text(self) -> str:
        """Return the script."""
        call = self._call()
        before, self.body = self.body, []
        self._keep_results()
        kernel = [*before, *call, *self.body, f"return {', '.join(self.results)}"]
        lines = [*self._imports(), "", "", "@nki.jit", f"def kernel({', '.join(self.arrays)}):"]
        lines += [f"    {line}" for line in kernel]
        return "\n".join([*lines, "", "", *self._run()]) + "\n"

    def _imports(self) -> list[str]:
        narrow = any("ml_dtypes." in array for array in self.arrays.values())
        return [
            *(["import ml_dtypes"] if narrow else []),
            *(["import numpy as np"] if self.arrays else []),
            "import nki_lab",
            "",
            "nki_lab.install()",
            "import nki",
            *(["import nki.collectives as ncc"] if self.collective else []),
            "import nki.isa as nisa",
            "import nki.language as nl",
        ]

    def _call(self) -> list[str]:
        """Return the call, after writing what its arguments need."""
        definition = self.definition
        arguments = []
        for name, value in self.values.items():
            parameter = definition.signature.parameters[name]
            if name == definition.gives or self._is_default(value, parameter):
                continue
            arguments.append(f"{name}={self._argument(name, value)}")
        stem, _, part = definition.name.rpartition("_")
        if part in ("prepare", "trigger"):  # two calls that belong together
            text = f"prepared = ncc.{stem}_prepare({', '.join(arguments)})"
            lines = textwrap.wrap(
                text, _WIDTH - 4, subsequent_indent="    ", break_on_hyphens=False
            )
            return [*lines, f"ncc.{stem}_trigger(prepared)"]
        if definition.module in _MODULES:
            text = f"{_MODULES[definition.module]}.{definition.name}({', '.join(arguments)})"
        else:  # an operator of scalars
            text = f"a {_SIGNS[self.values['op'].name]} b"
        given = f"{definition.gives} = {text}" if definition.gives else text
        return textwrap.wrap(given, _WIDTH - 4, subsequent_indent="    ", break_on_hyphens=False)

    def _is_default(self, value: Any, parameter: inspect.Parameter) -> bool:
        if parameter.default is parameter.empty or isinstance(value, (NkiTensor, tuple)):
            return isinstance(value, tuple) and value == parameter.default
        return not isinstance(value, Register) and bool(value == parameter.default)

    def _argument(self, name: str, value: Any) -> str:
        if name in _PARTNER:
            if _OTHER not in self.body:
                self.body.append(_OTHER)
            return "other"
        if isinstance(value, NkiTensor):
            return self._tensor(name, value)
        if isinstance(value, NkiScalar):
            self.body.append(
                f"{name} = nisa.scalar_load(nl.full((1, 1), 3, {_dtype(value.dtype)}))"
            )
            return name
        if isinstance(value, Register):
            # Those that are read get a number; the others are set by the call.
            start = "" if name in self.definition.sets else "3"
            self.body.append(f"{name} = nisa.register_alloc({start})")
            return name
        if isinstance(value, tuple) and isinstance(_first(value), NkiTensor):
            listed = f"[{self._tensor(name, _first(value))}]"
            return f"[{listed}]" if self.definition.operands[name].nested else listed
        if name == "replica_group":
            return f"ncc.ReplicaGroup({_listed(value)!r})"
        return repr(_listed(value) if isinstance(value, tuple) else value)

    def _tensor(self, name: str, tensor: NkiTensor) -> str:
        """Write what makes a tensor, with values where the instruction reads it, and return its name."""
        roles = self.roles.get(name, {READ})
        read, updated = READ in roles, UPDATE in roles
        if tensor.storage.on_chip:
            # Sums that go to PSUM for the first time need nothing there.
            if read or (updated and tensor.buffer is not PSUM):
                self._load(name, tensor)
            else:
                self.body.append(_made(name, tensor))
        elif read and not self.collective:
            self.arrays[name] = _array(name, tensor)
        else:  # collectives take neither arguments nor results of a kernel, but copies of them
            self.body.append(_made(name, tensor))
            if read or updated:
                self.arrays[f"{name}_in"] = _array(name, tensor)
                self._once(f"nisa.dma_copy(dst={name}, src={name}_in)")
        return name

    def _load(self, name: str, tensor: NkiTensor) -> None:
        given = f"{name}_in" if tensor.buffer is PSUM else name
        self.arrays[given] = _array(name, tensor)
        loaded = f"nl.load({given})"
        if tensor.dtype.kind == "packed":
            loaded += f".view({_dtype(tensor.dtype)})"
        if tensor.buffer is PSUM:
            self.body.append(_made(name, tensor))
            self.body.append(f"nisa.tensor_copy(dst={name}, src={loaded})")
        else:
            self.body.append(f"{name} = {loaded}")

    def _once(self, statement: str) -> None:
        """Write a statement that one of two cores carries out for both."""
        if self.cores == 1:
            self.body.append(statement)
        else:
            self.body += ["if nl.program_id(0) == 0:", f"    {statement}"]

    def _keep_results(self) -> None:
        """Write what brings the results into HBM, where a kernel's results lie."""
        for name, value in self.values.items():
            tensor = _first(value)
            if isinstance(value, NkiScalar) and name in self.definition.sets:
                self.body.append(
                    f"cell = nl.ndarray((1, 1), dtype={_dtype(value.dtype)}, buffer=nl.sbuf)"
                )
                self.body.append(f"nisa.scalar_store(dst=cell, value={name})")
                self._store("cell", (1, 1), value.dtype)
            elif isinstance(value, Register) and name in self.definition.sets:
                self.body.append("cell = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)")
                self.body.append(f"nisa.register_store(dst=cell, src={name})")
                self._store("cell", (1, 1), uint32)
            elif isinstance(tensor, NkiTensor) and {WRITE, UPDATE} & self.roles.get(name, set()):
                self._keep(name, tensor)
        if not self.results:  # it only changes what is hidden, and a kernel must have a result
            name = next(n for n, value in self.values.items() if isinstance(value, NkiTensor))
            self._keep(name, self.values[name])

    def _keep(self, name: str, tensor: NkiTensor) -> None:
        if tensor.storage.on_chip:
            source = f"nl.copy({name})" if tensor.buffer is PSUM else name
            self._store(source, tensor.shape, tensor.dtype)
        elif self.collective:
            result = self._result(tensor.shape, tensor.dtype)
            self._once(f"nisa.dma_copy(dst={result}, src={name})")
        else:
            self.results.append(name)

    def _store(self, source: str, shape: tuple[int, ...], dtype: DType) -> None:
        if dtype.kind == "packed":
            source, dtype = f"{source}.view(nl.{dtype.np.name})", DTYPES[dtype.np.name]
        if self.cores > 1:  # each core has its own result
            result = self._result((self.cores, *shape), dtype)
            self.body.append(f"nl.store({result}[nl.program_id(0)], {source})")
        else:
            self.body.append(f"nl.store({self._result(shape, dtype)}, {source})")

    def _result(self, shape: tuple[int, ...], dtype: DType) -> str:
        name = f"result{len(self.results) or ''}"
        made = f"nl.ndarray({shape!r}, dtype={_dtype(dtype)}, buffer=nl.shared_hbm)"
        self.body.append(f"{name} = {made}")
        self.results.append(name)
        return name

    def _run(self) -> list[str]:
        """Return what makes the arguments and runs the kernel."""
        given = ", ".join(self.arrays)
        seeded = any("rng." in array for array in self.arrays.values())
        lines = ["rng = np.random.default_rng(0)"] if seeded else []
        lines += [f"{name} = {array}" for name, array in self.arrays.items()]
        kernel = f"kernel[{self.cores}]" if self.cores > 1 else "kernel"
        target = f'target="{self.target.name}"'
        if not self.collective:
            arguments = f"{given}, " if given else ""
            return [*lines, f"result = nki_lab.run({kernel}, {arguments}{target})"]
        ranks = self._ranks()
        lines.append(f"given = ({given}{',' if len(self.arrays) == 1 else ''})")
        call = f"nki_lab.launch({kernel}, ranks={ranks}, inputs=[given] * {ranks}, {target})"
        return [*lines, f"results = {call}"]

    def _ranks(self) -> int:
        known = ("replica_group", "source_target_pairs")
        lists = [self.values[name] for name in known if name in self.values]
        return 1 + max((rank for groups in lists for group in groups for rank in group), default=1)


def _first(value: Any) -> Any:
    """Return a tensor, or the first one in lists of them."""
    while isinstance(value, tuple) and value:
        value = value[0]
    return value


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _made(name: str, tensor: NkiTensor) -> str:
    buffer = f"buffer=nl.{tensor.buffer.name}"
    return f"{name} = nl.ndarray({tensor.shape!r}, dtype={_dtype(tensor.dtype)}, {buffer})"


def _dtype(dtype: DType) -> str:
    return f"nl.{dtype}"


def _array(name: str, tensor: NkiTensor) -> str:
    """Return what makes an array for an argument: numbers from 0 to 1, and zeros of whole numbers."""
    shape, dtype = tensor.shape, tensor.dtype
    of = f"{'np' if hasattr(np, dtype.np.name) else 'ml_dtypes'}.{dtype.np.name}"
    if name in _WHOLE:
        return f"np.sort(rng.integers(0, 5, {shape!r})).astype({of})"
    if dtype.kind == "float":
        return f"rng.random({shape!r}).astype({of})"
    return f"np.zeros({shape!r}, dtype={of})"
