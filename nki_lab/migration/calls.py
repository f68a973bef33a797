"""Rules for calls: arguments that versions take in another order, under another name, or no longer.

What a version takes is read from `nki_lab.versions` and the registry of instructions; a rule here only says what is
written instead, where that is more than a name.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import libcst as cst
import libcst.matchers as m

from nki_lab import language
from nki_lab.dtypes import DTYPES
from nki_lab.ir.definition.instruction import Definition, Instruction, registry
from nki_lab.isa.dma_transpose import TRANSPOSED
from nki_lab.isa.former import CONVERTED, instead_of
from nki_lab.migration.names import cast_array, code_of, dotted_name
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.targets.spaces import MemoryRegion
from nki_lab.versions import (
    ERROR,
    FORMS,
    Version,
    deprecated_in,
    former_signature,
    removed_in,
    version_with,
)

if TYPE_CHECKING:
    from nki_lab.migration.rewriter import Rewriter

_SIMPLE = m.Name() | m.Attribute() | m.Subscript()


class Site:
    """A call in a text, with its arguments by the names that they have in the version it is written for.

    Attributes:
        rewriter: the rewriting that the call is part of.
        name: official name of what is called; "" for anything else.
        original, updated: the call in the original text, and with what rules did inside it.
        arguments: (parameter, argument) in the order of the text; "" for `*` and for one too many.
        emitted: the instructions that it emitted in a run.
    """

    def __init__(
        self, rewriter: Rewriter, name: str, original: cst.Call, updated: cst.Call
    ) -> None:
        self.rewriter, self.name, self.original, self.updated = rewriter, name, original, updated
        self.function = updated.func
        former = parameters_of(name, rewriter.since) or ()
        self.arguments: list[tuple[str, cst.Arg]] = []
        for position, arg in enumerate(updated.args):
            label = "" if arg.star or position >= len(former) else former[position]
            self.arguments.append((arg.keyword.value if arg.keyword else label, arg))
        self.emitted: list[Instruction] = rewriter.facts.emitted.get(rewriter.place(original), [])
        self.is_changed = False

    @property
    def method(self) -> str:
        """The last part of the name of what is called."""
        return dotted_name(self.updated.func).rpartition(".")[2] or (
            self.updated.func.attr.value if isinstance(self.updated.func, cst.Attribute) else ""
        )

    @property
    def is_starred(self) -> bool:
        """Whether arguments are handed on as `*arguments` or `**arguments`."""
        return any(arg.star for _, arg in self.arguments)

    @property
    def shown(self) -> str:
        """How reports call it."""
        return self.name.replace("nki.language", "nl").replace("nki.isa", "nisa")

    def is_before(self, version: tuple[int, ...]) -> bool:
        """Tell whether it is written for an earlier version, and moved to that one or a later one."""
        return self.rewriter.since.number < version <= self.rewriter.to.number

    def met(self, form: str) -> bool:
        """Tell whether a run met a form here that is to be moved."""
        return self.rewriter.met(form, self.original)

    def value(self, parameter: str) -> cst.BaseExpression | None:
        """Return the argument of a parameter."""
        return next((arg.value for name, arg in self.arguments if name == parameter), None)

    def literal(self, parameter: str) -> Any:
        """Return the value of an argument that is a literal; None for any other one."""
        value = self.value(parameter)
        try:
            return None if value is None else ast.literal_eval(code_of(value))
        except (ValueError, SyntaxError):
            return None

    def set(self, parameter: str, value: cst.BaseExpression | str) -> None:
        """Give a parameter another argument, or one where it has none."""
        node = cst.parse_expression(value) if isinstance(value, str) else value
        self.is_changed = True
        for k, (name, arg) in enumerate(self.arguments):
            if name == parameter:
                self.arguments[k] = name, arg.with_changes(value=node)
                return
        arg = cst.Arg(node, cst.Name(parameter), equal=_EQUAL)
        self.arguments.append((parameter, arg))

    def rename(self, parameter: str, name: str) -> None:
        """Give a parameter another name."""
        self.is_changed = True
        self.arguments = [(name if n == parameter else n, arg) for n, arg in self.arguments]

    def drop(self, parameter: str) -> cst.BaseExpression | None:
        """Leave an argument out, and return what it was; comments beside it go above the statement."""
        value = self.value(parameter)
        for name, arg in self.arguments:
            if name == parameter:
                self.rewriter.keep_comments(arg)
        self.is_changed |= value is not None
        self.arguments = [(n, arg) for n, arg in self.arguments if n != parameter]
        return value

    def change(self, text: str, comment: str = "") -> None:
        """Note what was changed."""
        self.rewriter.change(self.original, f"{self.shown}: {text}", comment)

    def decide(self, text: str) -> None:
        """Leave what is to decide above the statement."""
        self.rewriter.decide(self.original, f"{self.shown}: {text}")

    def written(self, official: str) -> str:
        """Return how the module writes an official name."""
        return code_of(self.rewriter.names.written(official))

    def result(self) -> cst.Call:
        """Return the call as it is written for the new version."""
        now = parameters_of(self.name, self.rewriter.to)
        args, is_positional = [], True
        for position, (name, arg) in enumerate(self.arguments):
            if arg.star or not name or now is None:
                args.append(arg)
                continue
            is_positional = (
                is_positional
                and arg.keyword is None
                and position < len(now)
                and now[position] == name
            )
            if arg.keyword is None and not is_positional:
                arg = arg.with_changes(keyword=cst.Name(name), equal=_EQUAL)
                self.is_changed = True
            elif arg.keyword is not None and arg.keyword.value != name:
                arg = arg.with_changes(keyword=cst.Name(name))
            args.append(arg)
        if not self.is_changed:
            return self.updated
        if args and len(args) != len(self.updated.args):
            args = _with_commas(args, self.updated.args)
        return self.updated.with_changes(func=self.function, args=args)


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _with_commas(args: list[cst.Arg], before: Any) -> list[cst.Arg]:
    """Return arguments with commas between them, and the one behind the last that the call had."""
    inner = next((a.comma for a in before if isinstance(a.comma, cst.Comma)), None)
    if inner is None:
        inner = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = before[-1].comma if before else cst.MaybeSentinel.DEFAULT
    space = last.whitespace_after if isinstance(last, cst.Comma) else None
    if (
        isinstance(last, cst.Comma)
        and args[-1].comma is not last
        and isinstance(space, cst.ParenthesizedWhitespace)
    ):
        # What it said of the argument that is left out stands above the statement.
        line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        last = last.with_changes(whitespace_after=space.with_changes(first_line=line))
    return [
        *(
            a
            if isinstance(a.comma, cst.Comma) and a is not before[-1]
            else a.with_changes(comma=inner)
            for a in args[:-1]
        ),
        args[-1].with_changes(comma=last),
    ]


@lru_cache(maxsize=4096)
def parameters_of(name: str, version: Version) -> tuple[str, ...] | None:
    """Return the parameters of a function of NKI in a version; None for what is not one."""
    former = former_signature(name, version)
    if former is not None:
        return tuple(word.partition("=")[0] for word in former.split())
    module, _, member = name.rpartition(".")
    definition = registry.get(member)
    if definition is not None and definition.module == module:
        return tuple(definition.__signature__.parameters)
    called = (
        getattr(language, member, None)
        if module == "nki.language" and member in language.__all__
        else None
    )
    if not callable(called) or inspect.isclass(called):
        return None
    return tuple(inspect.signature(called).parameters)


def definition_of(name: str) -> Definition | None:
    """Return the instruction of an official name."""
    module, _, member = name.rpartition(".")
    definition = registry.get(member)
    return definition if definition is not None and definition.module == module else None


# -- one call --------------------------------------------------------------------------------------------------------


def move_call(site: Site) -> cst.BaseExpression:
    """Return a call as it is written for the new version."""
    if site.method == "depends_on" and not site.name:
        _depends_on(site)
        return site.result()
    if site.method == "reshape" and not site.name:
        return _reshape(site)
    if not site.name:
        return site.updated
    if site.name == "nki.jit":
        _jit(site)
        return site.result()
    if site.name == "nki.language.par_dim" and site.is_before((0, 3)) and len(site.arguments) == 1:
        site.change("axis 0 is the partition axis in any case")
        return site.updated.args[0].value
    now = deprecated_in(site.rewriter.to).get(site.name)
    if now is not None and "." not in now:
        return _plain_python(site, now)
    gone = removed_in(site.name)
    if gone is not None and gone.number <= site.rewriter.to.number:
        site.decide(f"NKI {gone.name} no longer has it; write {gone.removes[site.name][1]}")
        return site.updated
    former, new = (parameters_of(site.name, v) for v in (site.rewriter.since, site.rewriter.to))
    if former is None or new is None:
        return site.updated
    if site.is_starred:
        if former != new:
            site.decide("write out what `*` and `**` hand on: its parameters are others now")
        return site.updated
    for rule in (*_FORMS, *_RULES.get(site.name, ())):
        if rule(site):
            return site.result()
    _unknown(site, new)
    before = [arg.keyword is None for _, arg in site.arguments]
    result = site.result()
    if before != [arg.keyword is None for arg in result.args]:
        site.change("arguments whose place is another one are given by name")
    return result


Rule = Callable[[Site], Any]
_RULES: dict[str, list[Rule]] = {}
_FORMS: list[Rule] = []


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function a rule for calls of some functions of nki.isa; it returns True where no other rule applies."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES.setdefault(name if name.startswith("nki.") else f"nki.isa.{name}", []).append(
                function
            )
        return function

    return register


def _form(function: Rule) -> Rule:
    """Make a function a rule for all calls."""
    _FORMS.append(function)
    return function


def _before(instruction: str, site: Site) -> bool:
    """Tell whether an instruction took other arguments in the version that a call is written for."""
    return site.is_before(CONVERTED[instruction][0])


def _unknown(site: Site, new: tuple[str, ...]) -> None:
    """Rename, leave out or report the arguments that the new version does not have."""
    ignores = FORMS["unknown keyword"].level(site.rewriter.since) != ERROR and site.name.startswith(
        "nki.isa."
    )
    function = site.name.removeprefix("nki.isa.").replace("nki.language.", "nl.")
    known = parameters_of(site.name, site.rewriter.since) or ()
    for name in [n for n, arg in site.arguments if n and n not in new]:
        advice = instead_of(function, name)
        if isinstance(advice, Hint) and isinstance(advice.rewrites[0], Rewrite):
            site.rename(name, advice.rewrites[0].new)
            site.change(f"`{name}` is `{advice.rewrites[0].new}`")
        elif name not in known and ignores:
            site.drop(name)
            site.change(f"`{name}` was ignored")
        else:
            earlier = version_with(site.name, name)
            last = (
                f"NKI {earlier.name} was the last version that had `{name}`"
                if earlier
                else f"it has no `{name}`"
            )
            site.decide(f"{last}; {advice}" if advice else last)


def _plain_python(site: Site, now: str) -> cst.BaseExpression:
    """Write a function of Python instead of a deprecated one that is the same."""
    if site.is_starred or any(arg.keyword for _, arg in site.arguments):
        site.decide(f"it is deprecated; write {now}(...), which takes no names")
        return site.updated
    site.change(f"it is {now}")
    return site.updated.with_changes(func=cst.Name(now))


def _jit(site: Site) -> None:
    known = [(arg.keyword.value, arg) for arg in site.updated.args if arg.keyword]
    for name, arg in known:
        if name in ("mode", "nki", "allow"):
            site.drop(name)
            site.change(f"`{name}` is left out")
        elif name == "platform_target" and site.rewriter.moves("platform target"):
            target = site.literal(name) or code_of(arg.value)
            site.drop(name)
            how = f"set NEURON_PLATFORM_TARGET_OVERRIDE={target} where it is called"
            site.change(f"`platform_target` is left out: {how}", f"For {target}: {how}.")


def _depends_on(site: Site) -> None:
    if site.rewriter.moves("dependency kind") and not any(n == "kind" for n, _ in site.arguments):
        site.set("kind", site.written("nki.isa.dependency.runtime"))
        site.rewriter.change(site.original, "depends_on: `kind` is given")


def _reshape(site: Site) -> cst.BaseExpression:
    """Take the first elements before a reshape that kept no more."""
    call, function = site.updated, site.updated.func
    forms = site.rewriter.facts.forms.get(site.rewriter.place(site.original), set())
    form = next((f for f in forms if f.startswith("reshape") and site.rewriter.moves(f)), None)
    if form is None or not isinstance(function, cst.Attribute) or len(call.args) != 1:
        return call
    shape, tensor = call.args[0].value, code_of(function.value)
    sizes = shape.elements if isinstance(shape, (cst.Tuple, cst.List)) else ()
    if (
        not sizes
        or not m.matches(function.value, _SIMPLE)
        or any(isinstance(size, cst.StarredElement) for size in sizes)
    ):
        site.rewriter.decide(site.original, f"{FORMS[form].what}; {FORMS[form].instead}")
        return call
    axis = 1 if form == "reshape on chip" else 0
    simple = len(sizes) == axis + 1 or _SIMPLE | m.Integer()
    count = " * ".join(
        code_of(size.value)
        if simple is True or m.matches(size.value, simple)
        else f"({code_of(size.value)})"
        for size in sizes[axis:]
    )
    first = f"{tensor}.flatten_dims({axis}, {tensor}.ndim - 1)[{':, ' * axis}0:{count}]"
    again = "" if len(sizes) == axis + 1 else f".reshape({code_of(shape)})"
    site.rewriter.change(site.original, "reshape: the first elements are taken before")
    return cst.parse_expression(first + again)


# -- forms of any call -----------------------------------------------------------------------------------------------


@_form
def _enum_numbers(site: Site) -> None:
    definition = definition_of(site.name)
    if definition is None or not site.rewriter.moves("raw enum"):
        return
    for name, arg in site.arguments:
        parameter = definition.signature.parameters.get(name)
        kind = (
            type(parameter.default) if parameter and isinstance(parameter.default, Enum) else None
        )
        if kind is None:
            continue
        number = site.literal(name)
        if type(number) is int and number in [member.value for member in kind]:
            member = repr(kind(number)).replace("nisa.", "nki.isa.", 1)
            site.set(name, site.written(member))
            site.change(f"{name}={number} is {kind(number)!r}")
        elif site.met("raw enum") and not site.rewriter.names.official(arg.value):
            members = sorted(
                {repr(getattr(i, name)) for i in site.emitted if name in i.definition.params}
            )
            site.decide(
                f"`{name}` is a number here; write a member of nisa.{kind.__name__}: {', '.join(members)}"
            )


@_form
def _buffers(site: Site) -> None:
    text = site.literal("buffer")
    if isinstance(text, str) and site.rewriter.moves("string buffer"):
        if text in {*MemoryRegion.__members__, "hbm"}:
            site.set("buffer", site.written(f"nki.language.{text}"))
            site.change(f"buffer={text!r} is nl.{text}")
    elif site.met("string buffer"):
        site.decide(f"`buffer` is a string here; {FORMS['string buffer'].instead}")
    if (
        site.rewriter.moves("private result")
        and site.rewriter.place(site.original) in site.rewriter.facts.private
    ):
        name = site.rewriter.names.official(site.value("buffer") or cst.Name("_"))
        if name in ("nki.language.hbm", "nki.language.private_hbm") or isinstance(text, str):
            site.set("buffer", site.written("nki.language.shared_hbm"))
            site.change("a result lies in nl.shared_hbm")
        else:
            site.decide(f"it makes a result: {FORMS['private result'].instead}")


@_form
def _repeats(site: Site) -> None:
    if not site.met("broadcast"):
        return
    for i in site.emitted:
        pair = [getattr(i, n, None) for n in ("data1", "data2")]
        repeated = [
            any(s == 0 and n > 1 for s, n in zip(t.strides, t.shape, strict=True))
            for t in pair
            if t is not None
        ]
        names = ("x", "y")
        if sum(repeated) == 1:
            small, large = (names[k] for k in (repeated.index(True), repeated.index(False)))
            one, other = site.value(small), site.value(large)
            if one is not None and other is not None and m.matches(other, _SIMPLE):
                function = site.written("nki.language.broadcast_to")
                site.set(small, f"{function}({code_of(one)}, {code_of(other)}.shape)")
                site.change(f"`{small}` is repeated with nl.broadcast_to")
                return
    site.decide(f"it is given tiles of different shapes; {FORMS['broadcast'].instead}")


@_form
def _simulated(site: Site) -> None:
    for form in ("quotient", "remainder"):
        if site.met(form):
            site.decide(
                f"NKI's compiler refuses it, and the same value is had in no other way; {FORMS[form].instead}"
            )


# -- rules of one instruction ----------------------------------------------------------------------------------------


@_rule("memset")
def _memset(site: Site) -> None:
    value = site.value("value")
    if value is None or not site.rewriter.moves("float in integers"):
        return
    number = site.literal("value")
    kinds = {i.dst.dtype.is_integer for i in site.emitted if i.definition.name == "memset"}
    if not kinds and type(number) is float:
        kinds = {_is_integer(dtype) for dtype in _dtypes_of(site, "dst")}
    if type(number) is float and True in kinds and number.is_integer():
        if kinds == {True}:
            site.set("value", str(int(number)))
            site.change(f"value={number} of integers is {int(number)}")
        else:
            site.decide("`dst` has integers in some calls; give a number of its type")
    elif site.met("float in integers"):
        if kinds == {True}:
            site.set("value", f"int({code_of(value)})")
            site.change("the value of integers is an integer")
        else:
            site.decide("`dst` has integers in some calls; give a number of its type")


@_rule("dma_copy")
def _dma_copy(site: Site) -> bool:
    if not _before("dma_copy", site):
        return False
    source = site.value("src")
    if source is not None and (site.met("copy from PSUM") or _is_made_in(site, "src", "psum")):
        copies = [i.definition.name for i in site.emitted if i.stack]
        if copies.count("tensor_copy") * 2 == len(copies):
            site.set("src", f"{site.written('nki.language.copy')}({code_of(source)})")
            site.change("a tile in PSUM is copied into SBUF first")
        else:
            site.decide(f"`src` is in PSUM in some calls; {FORMS['copy from PSUM'].instead}")
    dst = site.value("dst")
    if site.met("cast by hardware") and source is not None and dst is not None:
        if m.matches(dst, _SIMPLE):
            site.set("src", f"{code_of(source)}.view({code_of(dst)}.dtype)")
            site.change("bits are moved: `src` is seen in the dtype of `dst`")
        else:
            site.decide(
                f"bits are moved from one dtype to another; {FORMS['cast by hardware'].instead}"
            )
    unique = site.drop("unique_indices")
    operator = site.drop("dst_rmw_op")
    if operator is None:
        if unique is not None:
            site.change("`unique_indices` says nothing without `dst_rmw_op`")
        return False
    kinds = {i.definition.name for i in site.emitted} & {"dma_copy", "dma_compute"}
    is_none = code_of(operator) == "None" or kinds == {"dma_copy"}
    if is_none:
        site.change("`dst_rmw_op` is None")
        return False
    if kinds == {"dma_compute"} or site.rewriter.names.official(operator):
        site.change("what adds while moving is nisa.dma_compute")
        _become_compute(site, operator, unique)
        return True
    plain = site.result()
    _become_compute(site, operator, unique)
    adding = site.result()

    def split(line: cst.SimpleStatementLine) -> Any:
        def branch(call: cst.Call) -> cst.IndentedBlock:
            return cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(call)])])

        test = cst.parse_expression(f"{code_of(operator)} is None")
        return cst.If(
            test, branch(plain), cst.Else(branch(adding)), leading_lines=line.leading_lines
        )

    site.rewriter.split(split)
    site.change("it is nisa.dma_copy or nisa.dma_compute, as `dst_rmw_op` says")
    return True


def _become_compute(site: Site, operator: cst.BaseExpression, unique: Any) -> None:
    """Make a dma_copy with `dst_rmw_op` the nisa.dma_compute that it is."""
    dst, src = (code_of(site.value(n) or cst.Name("None")) for n in ("dst", "src"))
    site.rename("src", "srcs")
    site.set("srcs", f"[{src}, {dst}]")
    site.drop("dge_mode")
    site.set("reduce_op", operator)
    if unique is not None:
        site.set("unique_indices", unique)
    site.name = "nki.isa.dma_compute"
    site.function = site.rewriter.names.written(site.name)


@_rule("nki.language.shared_constant")
def _shared_constant(site: Site) -> None:
    array = site.value("constant")
    dtype = site.drop("dtype") if array is not None else None
    if array is None or dtype is None:
        return
    if code_of(dtype) != "None":
        site.set("constant", cast_array(array, code_of(dtype)))
    site.change("`dtype` is that of the array")


@_rule("register_move")
def _register_move(site: Site) -> None:
    if _before("register_move", site) and site.value("imm") is not None:
        site.rename("imm", "src")
        site.change("`imm` is `src`")


@_rule("sendrecv")
def _sendrecv(site: Site) -> None:
    if not _before("sendrecv", site):
        return
    by_gpsimd = site.value("use_gpsimd_dma")
    if by_gpsimd is None:
        return
    site.rename("use_gpsimd_dma", "dma_engine")
    members = {
        flag: site.written(f"nki.isa.dma_engine.{name}")
        for flag, name in ((True, "gpsimd_dma"), (False, "dma"))
    }
    text = code_of(by_gpsimd)
    value = members.get(text == "True") if text in ("True", "False") else None
    site.set("dma_engine", value or f"{members[True]} if {text} else {members[False]}")
    site.change("`use_gpsimd_dma` is `dma_engine`")


@_rule("range_select")
def _range_select(site: Site) -> None:
    if _before("range_select", site):
        for name in ("on_false_value", "reduce_cmd"):
            if site.drop(name) is not None:
                site.change(f"`{name}` was ignored")


@_rule("nki.collectives.collective_permute_implicit_current_processing_rank_id")
def _rank_id(site: Site) -> None:
    name = "collective_permute_implicit_current_processing_rank_id"
    if _before(name, site) and site.drop("num_channels") is not None:
        site.change("`num_channels` is left out")


@_rule("tensor_reduce")
def _tensor_reduce(site: Site) -> None:
    if not site.met("reduce axis"):
        return
    axes = {i.axis for i in site.emitted if i.definition.name == "tensor_reduce"}
    axis = next(iter(axes)) if len(axes) == 1 else None
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    former = site.literal("axis")
    if axis is not None and former is not None:
        site.set("axis", str(axis))
        site.change(f"axis={former} was counted from the last axis: it is {axis}")
    else:
        site.decide(f"axes were counted from the last one; {FORMS['reduce axis'].instead}")


@_rule("dma_transpose")
def _dma_transpose(site: Site) -> None:
    if not site.met("transpose rank"):
        return
    dst, src = site.value("dst"), site.value("src")
    axes = site.literal("axes")
    moved = [i for i in site.emitted if i.definition.name == "dma_transpose"]
    if axes is None and site.value("axes") is None:
        ranks = {i.src.ndim for i in moved}
        axes = TRANSPOSED.get(ranks.pop()) if len(ranks) == 1 else None
    if dst is None or src is None or axes is None or not m.matches(src, _SIMPLE):
        site.decide(f"it is given fewer axes than `src` has; {FORMS['transpose rank'].instead}")
        return
    shape = ", ".join(f"{code_of(src)}.shape[{axis}]" for axis in axes)
    site.set("dst", f"{code_of(dst)}.reshape(({shape}))")
    site.change("`dst` has the axes of `src`")


@_rule("nki.language.rsqrt")
def _rsqrt(site: Site) -> None:
    value = site.value("x")
    if site.met("rsqrt of PSUM") and value is not None:
        site.set("x", f"{site.written('nki.language.copy')}({code_of(value)})")
        site.change("a tile in PSUM is copied into SBUF first")


# -- what a text says where no run tells -----------------------------------------------------------------------------


def _makers(site: Site, parameter: str) -> Iterator[cst.Call]:
    """Yield the calls that make the tensor of an argument, as the function around says it."""
    if site.emitted or not site.rewriter.functions:
        return
    value = site.value(parameter)
    while isinstance(value, (cst.Subscript, cst.Attribute)):
        value = value.value
    if not isinstance(value, cst.Name):
        return
    for node in m.findall(site.rewriter.functions[-1], m.Assign(value=m.Call())):
        assert isinstance(node, cst.Assign) and isinstance(node.value, cst.Call)
        targets = [dotted_name(t.target) for t in node.targets]
        if value.value in targets and site.rewriter.names.official(node.value.func):
            yield node.value


def _argument(site: Site, call: cst.Call, parameter: str) -> str:
    maker = Site(site.rewriter, site.rewriter.names.official(call.func), call, call)
    value = maker.value(parameter)
    return site.rewriter.names.official(value) if value is not None else ""


def _dtypes_of(site: Site, parameter: str) -> list[str]:
    return [_argument(site, call, "dtype") for call in _makers(site, parameter)]


def _is_integer(dtype: str) -> bool:
    known = DTYPES.get(dtype.rpartition(".")[2])
    return known is not None and known.is_integer


def _is_made_in(site: Site, parameter: str, memory: str) -> bool:
    buffers = [_argument(site, call, "buffer") for call in _makers(site, parameter)]
    return bool(buffers) and set(buffers) == {f"nki.language.{memory}"}
