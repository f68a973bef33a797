"""Arguments that former versions of NKI took: what to write instead of them, and what they mean in kernels for these.

Names are those of the older dialect's stubs and of the migration guide (nki/migration/index.rst).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from nki_lab.errors import Needs, NotOnTarget
from nki_lab.ir.definition.instruction import (
    BINDER,
    BINDING,
    Definition,
    Instruction,
    Rule,
    registry,
)
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma_compute import dma_compute
from nki_lab.isa.dma_transpose import TRANSPOSED
from nki_lab.isa.enums import dge_mode, dma_engine
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.source import is_internal
from nki_lab.targets.spaces import PSUM
from nki_lab.versions import ERROR, FORMS, Version, former_signature, refused

# Of one function (nki.isa without a prefix, nki.language with nl.), by its argument.
_OF_ONE = {
    ("affine_select", "pred"): (
        "say the compared number with pattern=[[step, count], ...], channel_multiplier= and offset=, and how with"
        " cmp_op="
    ),
    ("dma_copy", "dst_rmw_op"): "write nisa.dma_compute(dst, srcs, reduce_op) to add while moving",
    (
        "dma_copy",
        "unique_indices",
    ): "write nisa.dma_compute(dst, srcs, reduce_op) to add while moving",
    ("iota", "expr"): (
        "say the numbers with pattern=[[step, count], ...], offset= and channel_multiplier="
    ),
    ("memset", "shape"): "make the tile with nl.ndarray(shape, dtype), and pass it as dst=",
    ("register_move", "imm"): "write src=: a number or a register",
    ("nl.broadcast_to", "src"): "write x=",
    ("nl.copy", "src"): "write x=",
    ("nl.device_print", "prefix"): "write print_prefix=",
    ("nl.device_print", "x"): "write tensor=",
    ("nl.empty_like", "a"): "write x=",
    ("nl.expand_dims", "data"): "write x=",
    ("nl.shared_constant", "dtype"): "cast the array first: array.astype(...)",
    ("nl.softmax", "compute_dtype"): "it computes in float32; cast x with nl.copy(x, dtype=...)",
    ("nl.zeros_like", "a"): "write x=",
}
_MASK = (
    "leave it out and slice the operands to the part that is meant, e.g. tile[0:rows] with rows ="
    " min(128, total - start)"
)
_DTYPE = "the dtype of `dst` decides: make it with nl.ndarray(shape, dtype=...)"


def instead_of(function: str, argument: str) -> str:
    """Return what to write instead of an argument that NKI no longer takes, or ""."""
    former = _OF_ONE.get((function, argument))
    if former is not None:
        renamed = re.fullmatch(r"write (\w+)=", former)
        return Hint(former, Rewrite(argument, renamed[1])) if renamed else former
    if argument == "mask":
        return _MASK
    if argument == "dtype" and not function.startswith("nl."):
        return _DTYPE
    return ""


# -- calls by the signatures of earlier versions ---------------------------------------------------------------------


def bind_as_before(version: Version) -> None:
    """Let calls of instructions bind by the signatures of an earlier version, in kernels that are written for it.

    Only what has another signature there takes this way, and only once a kernel of such a version is traced: calls of
    all other kernels go straight to the binder of their instruction.
    """
    for definition in registry.values():
        signatures = _former.setdefault(definition, {})
        if version.name in signatures:
            continue
        former = former_signature(f"{definition.module}.{definition.name}", version)
        takes_any = (
            FORMS["unknown keyword"].level(version) != ERROR and definition.module == "nki.isa"
        )
        is_converted = (
            definition.name in CONVERTED and version.number < CONVERTED[definition.name][0]
        )
        if former is None and not takes_any and not is_converted:
            continue
        signatures[version.name] = _binder_of(definition, former, takes_any)
        kind = type(definition)
        if kind not in _newest:
            _newest[kind] = kind.__call__
            kind.__call__ = bound_by_version  # type: ignore[method-assign]


_former: dict[Definition, dict[str, Callable[..., dict[str, Any]]]] = {}
_newest: dict[type, Any] = {}


def bound_by_version(self: Definition, *args: Any, **kwargs: Any) -> Any:
    """Bind the arguments of a call by the signature that the kernel's version has, and emit the instruction."""
    builder = active.builder
    bind = None if builder is None else _former[self].get(builder.version.name)
    if bind is None or is_internal(
        sys._getframe(1).f_code
    ):  # composites are written for the newest version
        return _newest[type(self)](self, *args, **kwargs)
    arguments = bind(self, *args, **kwargs)
    for name in [
        n for n in arguments if n not in self.__signature__.parameters and n not in _PARTS
    ]:
        builder.meet_form(
            "unknown keyword", f"{self.name}: the keyword `{name}`, which it does not have,"
        )
        del arguments[name]
    before, convert = CONVERTED.get(self.name, ((), None))
    definition = self
    if convert is not None and builder.version.number < before:
        for former in _forms_of(self.name, arguments):
            builder.meet_form(former.key, FORMS[former.key].what)
        definition = convert(builder, arguments) or self
    call = _newest.get(type(definition), type(definition).__call__)
    return call(definition, **arguments)


BINDING.add(bound_by_version.__code__)


def _binder_of(
    definition: Definition, former: str | None, takes_any: bool
) -> Callable[..., dict[str, Any]]:
    words = former.split() if former is not None else None
    if words is None:
        asked = definition.__signature__.parameters.values()
        words = [p.name + ("" if p.default is p.empty else "=") for p in asked]
    return binder_before(definition.name, words, takes_any)


def binder_before(
    name: str, words: list[str], takes_any: bool = False
) -> Callable[..., dict[str, Any]]:
    """Make a function with the signature of an earlier version; it returns the arguments that were given, by name.

    Args:
        name: of the function, for the error of a wrong call.
        words: its parameters as `versions/history.py` has them. What it is called of comes before them.
        takes_any: whether it takes every keyword.
    """
    names = [word.partition("=")[0] for word in words]
    first = next((k for k, word in enumerate(words) if "=" in word), len(words))
    # Python takes no demanded parameter behind another one; the instruction tells what is missing.
    head = "".join(
        f", {n}" if k < first or n.startswith("*") else f", {n}=_absent"
        for k, n in enumerate(names)
    )
    rest = ", **_others" if takes_any else ""
    given = ", ".join(f"{n!r}: {n}" for n in names if not n.startswith("*"))
    text = (
        f"def {name}(self{head}{rest}):\n"
        f"    given = {{{given}}}\n"
        f"    given = {{n: v for n, v in given.items() if v is not _absent}}\n"
        f"    return {'given | _others' if takes_any else 'given'}\n"
    )
    scope: dict[str, Any] = {"_absent": object()}
    exec(compile(text, f"{BINDER} of {name} as before>", "exec"), scope)
    return scope[name]


def needs_of(rule: Rule, i: Instruction) -> Needs | None:
    """Return the versions that take an instruction which breaks a rule; None where no version does."""
    arguments = dict(zip(i.definition.params, i.args, strict=True))
    for former in _forms_of(i.definition.name, arguments):
        if former.argument in rule.about:
            return refused(FORMS[former.key], FORMS[former.key].what)
    return None


class _Former(NamedTuple):
    """A form that an instruction had: its key in FORMS, what tells it of the arguments, and one of these."""

    key: str
    is_it: Callable[[dict[str, Any]], bool]
    argument: str


def _forms_of(name: str, arguments: dict[str, Any]) -> list[_Former]:
    """Return the forms that a call of an instruction has."""
    return [former for former in _FORMS.get(name, ()) if former.is_it(arguments)]


def _from_psum(arguments: dict[str, Any]) -> bool:
    return getattr(arguments["src"], "buffer", None) is PSUM


def _cast_by_hardware(arguments: dict[str, Any]) -> bool:
    # The hardware block moves bytes as they are; for dtypes of two sizes the guide only says "undefined".
    src, dst = arguments["src"], arguments["dst"]
    if not (isinstance(src, NkiTensor) and isinstance(dst, NkiTensor)) or src.dtype == dst.dtype:
        return False
    by_hardware = arguments.get("dge_mode") in (dge_mode.hwdge, dge_mode.hwdge.value)
    is_plain = arguments.get("dst_rmw_op") is None
    return is_plain and by_hardware and src.dtype.itemsize == dst.dtype.itemsize


def _whole_float(arguments: dict[str, Any]) -> bool:
    value, dtype = arguments["value"], getattr(arguments["dst"], "dtype", None)
    # How others were rounded no page says.
    return (
        type(value) is float and value.is_integer() and dtype is not None and bool(dtype.is_integer)
    )


def _counted_from_the_last(arguments: dict[str, Any]) -> bool:
    # The page of 0.2 counts axes from the last one, [1, 2] are the last two; published kernels write [4] for the last.
    rank, axes = getattr(arguments.get("data"), "ndim", 0), _axes(arguments)
    if not axes or not all(type(axis) is int and axis > 0 for axis in axes):
        return False
    count = len(axes)
    is_minor = sorted(axes) == list(range(1, count + 1)) and count < rank - 1
    return is_minor or (axes == [4] and 1 < rank <= 4)


def _axes(arguments: dict[str, Any]) -> list[Any]:
    axis = arguments.get("axis")
    return list(axis) if isinstance(axis, (list, tuple)) else [axis]


def _fewer_axes(arguments: dict[str, Any]) -> bool:
    dst, src = arguments.get("dst"), arguments.get("src")
    if dst is None or getattr(dst, "ndim", 0) >= getattr(src, "ndim", 0):
        return False
    return prod(_transposed(arguments)) == dst.size


def _transposed(arguments: dict[str, Any]) -> tuple[int, ...]:
    src: Any = arguments["src"]
    axes = arguments.get("axes") or TRANSPOSED.get(src.ndim, ())
    return tuple(src.shape[axis] for axis in axes)


_FORMS = {
    "dma_copy": (
        _Former("copy from PSUM", _from_psum, "src"),
        _Former("cast by hardware", _cast_by_hardware, "dge_mode"),
    ),
    "memset": (_Former("float in integers", _whole_float, "value"),),
    "tensor_reduce": (_Former("reduce axis", _counted_from_the_last, "axis"),),
    "dma_transpose": (_Former("transpose rank", _fewer_axes, "dst"),),
}


def _as_dma_copy(builder: Any, arguments: dict[str, Any]) -> Definition | None:
    source, is_cast = arguments["src"], _cast_by_hardware(arguments)
    operator, unique = arguments.pop("dst_rmw_op", None), arguments.pop("unique_indices", True)
    if _from_psum(arguments):
        copied = builder.allocate(source.shape, source.dtype)
        tensor_copy(dst=copied, src=source)
        arguments["src"] = source = copied
    if is_cast:
        arguments["src"] = source.view(arguments["dst"].dtype)
    if operator is None:
        return None
    arguments["srcs"] = [arguments.pop("src"), arguments["dst"]]
    arguments |= {"reduce_op": operator, "unique_indices": unique}
    arguments.pop("dge_mode", None)
    return dma_compute


def _as_memset(builder: Any, arguments: dict[str, Any]) -> None:
    if _whole_float(arguments):
        arguments["value"] = int(arguments["value"])


def _as_register_move(builder: Any, arguments: dict[str, Any]) -> None:
    arguments["src"] = arguments.pop("imm")


def _as_sendrecv(builder: Any, arguments: dict[str, Any]) -> None:
    if "use_gpsimd_dma" in arguments:
        by_gpsimd = arguments.pop("use_gpsimd_dma")
        arguments["dma_engine"] = dma_engine.gpsimd_dma if by_gpsimd else dma_engine.dma


def _as_tensor_reduce(builder: Any, arguments: dict[str, Any]) -> None:
    # Later versions reduce only the last axes, so nothing else can have been meant by it.
    if _counted_from_the_last(arguments):
        rank, count = arguments["data"].ndim, len(_axes(arguments))
        arguments["axis"] = rank - 1 if count == 1 else tuple(range(rank - count, rank))


def _as_dma_transpose(builder: Any, arguments: dict[str, Any]) -> None:
    if _fewer_axes(arguments):
        arguments["dst"] = arguments["dst"].reshape(_transposed(arguments))


def _as_range_select(builder: Any, arguments: dict[str, Any]) -> None:
    # These versions did not look at them (release-notes/components/nki.rst, NKI 0.2.0, known issues).
    arguments.pop("on_false_value", None)
    arguments.pop("reduce_cmd", None)


def _as_rank_id(builder: Any, arguments: dict[str, Any]) -> None:
    arguments.pop("num_channels", None)


def _as_all_to_all_v(builder: Any, arguments: dict[str, Any]) -> None:
    if not builder.target.supports("neuron_switch"):
        raise NotOnTarget(
            f"nki.collectives.all_to_all_v: without a NeuronSwitch, as on {builder.target.name}, it was for groups"
            f" across nodes only until NKI 0.7, and the kernel is written for NKI {builder.version.name}",
            stack=builder.stack(),
            help="write `# nki: 0.7` above the kernel, use all_to_all, or choose the target trn3",
            needs=Needs("nki.collectives.all_to_all_v without a NeuronSwitch", since="0.7"),
        )


# Instructions whose arguments were others before a version (nki/migration/index.rst): the version, and what makes
# the arguments those of the newest version, or returns the instruction that has their meaning now.
CONVERTED: dict[str, tuple[tuple[int, ...], Callable[[Any, dict[str, Any]], Definition | None]]] = {
    "dma_copy": ((0, 3), _as_dma_copy),
    "memset": ((0, 3), _as_memset),
    "register_move": ((0, 3), _as_register_move),
    "sendrecv": ((0, 3), _as_sendrecv),
    "range_select": ((0, 3), _as_range_select),
    "tensor_reduce": ((0, 3), _as_tensor_reduce),
    "dma_transpose": ((0, 4), _as_dma_transpose),
    "collective_permute_implicit_current_processing_rank_id": ((0, 3), _as_rank_id),
    "all_to_all_v": ((0, 7), _as_all_to_all_v),
}
# Arguments that these had and their instruction has no longer.
_PARTS = {"dst_rmw_op", "unique_indices", "imm", "use_gpsimd_dma", "num_channels"}
