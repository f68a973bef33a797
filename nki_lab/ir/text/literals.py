"""Literals: writes tensors and values in the text of a kernel, and reads them back.

A tensor is `%name` when it is the whole storage, `%name[0:128, 3, 0:512:2]` when indexing the storage gives it, and
otherwise its access pattern `%name[128x512 @ 64, strides 1024x2, bfloat16]`: sizes, first element and steps in
elements of the view's dtype, which is named where it is not the storage's. A view whose address depends on values of
the device ends in `by scalar $i step 512 limit 4`: the form, the register or tensor, and what one unit moves. A
register is `$name`, a scalar `$name:int32` or `$name:int64`. A name that is not an identifier is
quoted. Enums, operators and element types are the dotted names that their repr gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import inf, nan, prod
from typing import Any

import numpy as np

from nki_lab.dtypes import DTYPES, DType
from nki_lab.errors import NkiError, close_matches
from nki_lab.ir.tensor.fields import Addressing, Dynamic
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.register import NkiScalar, Register
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.ir.text.tokens import Token, Tokens
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import MemoryRegion

_BARE_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)+")
_WORDS = {"None": None, "True": True, "False": False, "inf": inf, "nan": nan}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_DEPTH_MAX = 50
_DATA_COLUMNS = 96
_DATA_BYTES_MAX = 1 << 30


@dataclass(frozen=True)
class Opaque:
    """A value that has no text form, e.g. a function: only the name of its class is kept."""

    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}>"


# -- writing ---------------------------------------------------------------------------------------------------------


def view_text(tensor: NkiTensor) -> str:
    """Return a tensor as text: its storage, and the part and layout of it where it is not all."""
    storage = tensor.storage
    name = f"%{name_text(storage.name)}"
    same_type = tensor.dtype == storage.dtype
    steps = contiguous_strides(storage.shape)
    plain = same_type and tensor.dynamic is None
    if plain and not tensor.offset and (tensor.shape, tensor.strides) == (storage.shape, steps):
        return name
    static = same_type and tensor.dynamic is None
    index = _index_text(tensor, steps) if static else None
    return f"{name}[{index or _pattern_text(tensor)}]"


def value_text(value: Any, leaf: Callable[[Any], str] | None = None) -> str:
    """Return an argument or constant as text; `leaf` writes everything but containers.

    What has no text form, e.g. a function, becomes `<its class>`.
    """
    leaf = leaf or leaf_text
    kind = type(value)
    if kind is tuple:
        return f"({', '.join(value_text(v, leaf) for v in value)}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(value_text(v, leaf) for v in value)}]"
    if kind is dict:
        entries = (f"{value_text(k)}: {value_text(v, leaf)}" for k, v in value.items())
        return f"{{{', '.join(entries)}}}"
    return leaf(value)


def leaf_text(value: Any) -> str:
    """Return a value other than a container as text."""
    kind = type(value)
    if kind is NkiTensor:
        return view_text(value)
    if kind is str:
        return _string_text(value)
    if isinstance(value, Register):
        width = f":{value.dtype}" if isinstance(value, NkiScalar) else ""
        return f"${name_text(value.name)}{width}"
    if isinstance(value, np.generic):
        value = value.item()
        kind = type(value)
    if value is None or kind in (bool, int, float, Opaque):
        return repr(value)
    shown = repr(value)
    return shown if _DOTTED.fullmatch(shown) else repr(Opaque(kind.__name__))


def name_text(name: str) -> str:
    """Return a name, quoted unless it is an identifier or several joined by dots."""
    return name if _BARE_NAME.fullmatch(name) else _string_text(name)


def dims_text(sizes: Iterable[int]) -> str:
    """Return sizes or strides as text, e.g. `128x512`."""
    return "x".join(map(str, sizes))


def data_text(data: np.ndarray) -> list[str]:
    """Return the elements of a constant as lines of hexadecimal words, `*n` behind a repeated one."""
    bits = np.ascontiguousarray(data).reshape(-1).view(f"u{data.dtype.itemsize}")
    digits = 2 * data.dtype.itemsize
    lines = [""]
    for value, run in groupby(bits.tolist()):
        count = sum(1 for _ in run)
        word = f"{value:0{digits}x}" + (f"*{count}" if count > 1 else "")
        if len(lines[-1]) + len(word) >= _DATA_COLUMNS:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [_string_text(line) for line in lines]


def _index_text(tensor: NkiTensor, steps: tuple[int, ...]) -> str | None:
    """Return the index that gives `tensor` from its whole storage, or None where none does."""
    entries: list[slice | int] = []
    rest = tensor.offset
    axis = 0
    for size, step in zip(tensor.storage.shape, steps, strict=True):
        start, rest = divmod(rest, step)
        stride = tensor.strides[axis] if axis < tensor.ndim else 0
        if stride >= step and stride % step == 0:
            every = stride // step
            entries.append(slice(start, min(size, start + tensor.shape[axis] * every), every))
            axis += 1
        else:
            entries.append(start)
    try:
        view = whole_view(tensor.storage)[tuple(entries)]
    except NkiError:
        return None
    same = (view.shape, view.strides, view.offset)
    if same != (tensor.shape, tensor.strides, tensor.offset):
        return None
    return ", ".join(
        str(e) if isinstance(e, int) else f"{e.start}:{e.stop}" + f":{e.step}" * (e.step > 1)
        for e in entries
    )


def _pattern_text(tensor: NkiTensor) -> str:
    dtype = f", {tensor.dtype}" if tensor.dtype != tensor.storage.dtype else ""
    dims, strides = dims_text(tensor.shape), dims_text(tensor.strides)
    return f"{dims} @ {tensor.offset}, strides {strides}{dtype}{_dynamic_text(tensor.dynamic)}"


def _dynamic_text(dynamic: Dynamic | None) -> str:
    if dynamic is None:
        return ""
    index = leaf_text(dynamic.index)
    return f", by {dynamic.kind.value} {index} step {dynamic.step} limit {dynamic.limit}"


def _string_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A tensor as it is written: a storage's name and the index or access pattern behind it."""

    token: Token
    name: str
    index: tuple[slice | int, ...] | None = None
    pattern: tuple[tuple[int, ...], int, tuple[int, ...], DType | None] | None = None
    dynamic: tuple[Addressing, Any, int, int] | None = None


@dataclass(frozen=True)
class RegisterName:
    """A register as it is written; a scalar has a dtype."""

    name: str
    dtype: DType | None = None


class Literals(Tokens):
    """The words of a text, read as values.

    Args:
        text: what is read.
        names: what dotted names stand for, beside element types, engines and memories.
    """

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        super().__init__(text)
        members = [*Engine, *MemoryRegion, *DTYPES.values()]
        self.names: dict[str, Any] = {**{repr(value): value for value in members}, **names}
        self.depth = 0

    def deeper(self, token: Token) -> None:
        """Count a container or loop that opens at `token`; `depth` goes down where it closes."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            self.refuse(f"nested more than {_DEPTH_MAX} deep", token)

    def value(self) -> Any:
        """Read a value; tensors stay references."""
        if self.next.text == "%":
            return self.reference()
        if self.skip("$"):
            name = self.name("the name of a register")
            return RegisterName(name, self.dtype() if self.skip(":") else None)
        token = self.take()
        if token.kind == "int":
            return self.integers(token)[0]
        if token.kind == "float":
            return float(token.text)
        if token.kind == "string":
            return self.string(token)
        if token.kind == "name":
            if token.text in _WORDS:
                return _WORDS[token.text]
            if token.text not in self.names:
                near = close_matches(token.text, self.names)
                self.fail("a name of nki.language or nki.isa", token, near)
            return self.names[token.text]
        if token.text == "<":
            opaque = Opaque(self.name("the name of a class"))
            self.expect(">")
            return opaque
        if token.text not in _CLOSING:
            self.fail("a value", token)
        self.deeper(token)
        value = self._mapping() if token.text == "{" else self._sequence(token)
        self.depth -= 1
        return value

    def _sequence(self, opening: Token) -> Any:
        closing = _CLOSING[opening.text]
        values = []
        comma = False
        while not self.skip(closing):
            values.append(self.value())
            comma = self._comma(closing)
        if opening.text == "[":
            return values
        return tuple(values) if comma or len(values) != 1 else values[0]

    def _mapping(self) -> dict[Any, Any]:
        entries = {}
        while not self.skip("}"):
            token = self.next
            key = self.value()
            if not _is_key(key):
                self.fail("a key", token)
            self.expect(":")
            entries[key] = self.value()
            self._comma("}")
        return entries

    def _comma(self, closing: str) -> bool:
        comma = self.skip(",")
        if not comma and self.next.text != closing:
            self.fail(f"`,` or `{closing}`", self.next)
        return comma

    def reference(self) -> Reference:
        """Read a tensor."""
        token = self.expect("%")
        name = self.name("the name of a storage")
        if not self.skip("["):
            return Reference(token, name)
        if self.next.kind in ("dims", "int") and self.words[self.at + 1].text == "@":
            pattern, dynamic = self._pattern()
            return Reference(token, name, pattern=pattern, dynamic=dynamic)
        entries: list[slice | int] = []
        while True:
            start = self.integer("an index, or sizes and `@`")
            if self.skip(":"):
                stop = self.integer("the end of the slice")
                entries.append(
                    slice(start, stop, self.integer("the step") if self.skip(":") else 1)
                )
            else:
                entries.append(start)
            if not self.skip(","):
                self.expect("]")
                return Reference(token, name, index=tuple(entries))

    def _pattern(self) -> tuple[Any, Any]:
        token = self.next
        shape = self.sizes("the shape of the view")
        self.expect("@")
        offset = self.integer("the first element")
        self.expect(",")
        self.expect("strides")
        strides = self.dims("the stride of each axis, e.g. 512x1")
        if len(strides) != len(shape):
            self.refuse(f"the view has {len(shape)} sizes and {len(strides)} strides", token)
        dtype = dynamic = None
        while self.skip(","):
            if self.skip("by"):
                dynamic = self._dynamic()
            else:
                dtype = self.dtype()
        self.expect("]")
        return (shape, offset, strides, dtype), dynamic

    def _dynamic(self) -> tuple[Addressing, Any, int, int]:
        token = self.take()
        kinds = {kind.value: kind for kind in Addressing}
        if token.text not in kinds:
            self.fail(", ".join(kinds), token)
        start = self.next
        self.deeper(start)
        index = self.value()
        self.depth -= 1
        if type(index) not in (Reference, RegisterName):
            self.fail("a register or a tensor", start)
        self.expect("step")
        step = self.integer("the elements one unit moves")
        self.expect("limit")
        return kinds[token.text], index, step, self.integer("the number of valid indices")

    def sizes(self, what: str) -> tuple[int, ...]:
        """Read the sizes of axes."""
        token = self.next
        sizes = self.dims(f"{what}, e.g. 128x512")
        if min(sizes) < 1:
            self.fail("sizes of 1 or more", token)
        return sizes

    def dtype(self) -> DType:
        """Read an element type."""
        token = self.take()
        if token.text not in DTYPES or token.kind != "name":
            near = close_matches(token.text, DTYPES)
            self.fail("an element type such as float32", token, near)
        return DTYPES[token.text]

    def data(self, storage: Storage, token: Token) -> np.ndarray:
        """Read the elements of the constant that `storage` holds."""
        if storage.nbytes > _DATA_BYTES_MAX:
            self.refuse(f"{storage.nbytes} bytes are more than a text can hold", token)
        size = storage.dtype.itemsize
        word_form = re.compile(rf"([0-9a-f]{{{2 * size}}})(?:\*([0-9]{{1,12}}))?")
        values, counts = [], []
        while self.next.kind == "string":
            token = self.take()
            for word in self.string(token).split():
                match = word_form.fullmatch(word)
                if match is None:
                    self.refuse(
                        f"found `{word[:40]}`, expected {2 * size} hexadecimal digits an element",
                        token,
                    )
                values.append(int(match[1], 16))
                counts.append(int(match[2] or 1))
        if sum(counts) != prod(storage.shape):
            self.refuse(
                f"there are {sum(counts)} elements for a storage of {prod(storage.shape)}", token
            )
        bits = np.repeat(np.array(values, dtype=f"u{size}"), counts)
        return bits.view(storage.dtype.np).reshape(storage.shape)


def _is_key(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_key, value))
    return type(value) not in (list, dict, Reference, RegisterName)
