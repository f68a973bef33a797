"""Kernel objects: a decorated function, and the call that compiles and runs it."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any, NamedTuple
from weakref import WeakSet

from nki_lab.backends import backend_named, refuse_others
from nki_lab.backends.simulated import SimulatedRun
from nki_lab.choices import BETA1, DEVICE, Choices, Standard, names
from nki_lab.choices import NKI as NKI_VERSION
from nki_lab.compiler.changed_globals import as_defined
from nki_lab.compiler.frontend import KernelObject, SourceKernel
from nki_lab.compiler.passes.author_order import Edges, edges_of
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.reuse import Programs
from nki_lab.dialects import NKI, Dialect
from nki_lab.errors import (
    KernelArgument,
    LncMismatch,
    MixedDialects,
    MixedVersions,
    Needs,
    NkiError,
    NotModelled,
)
from nki_lab.errors.beta1 import older
from nki_lab.ir.building.builder import Watch
from nki_lab.ir.tensor.trace import active
from nki_lab.progress import phase
from nki_lab.runtime.arrays import refuse_compiler
from nki_lab.runtime.call_form import CallForm, check_cores
from nki_lab.runtime.compiled import CompiledFunction, numpy_arguments, recorded, result_of
from nki_lab.runtime.configuration import CompileConfig, Configuration, SpecializationConfig
from nki_lab.runtime.recording import warn_of
from nki_lab.runtime.result import Result
from nki_lab.runtime.steps import kept_inputs
from nki_lab.runtime.unchanged import snapshot
from nki_lab.simulator import EagerRun
from nki_lab.source import headline
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target
from nki_lab.versions import Version


class _Call(NamedTuple):
    """A call that was compiled.

    Attributes:
        given: choices, target and number of cores.
        read: all that tracing it read; None where that cannot be told.
        programs: what the passes made of its trace.
    """

    given: tuple[Any, ...]
    read: Any
    programs: Programs


class KernelFunction(KernelObject):
    """A function that is a kernel: call it with arrays, or from another kernel.

    Attributes:
        func: the author's function, unchanged.
        source: its text as it was when it was defined.
        launched_on: shape of the grid that `kernel[...]` chose; `()` leaves the cores to `use_cores`.
        simulated: run on the simulator even where NKI_SIMULATOR asks for the device.
        debug: run instructions while they are traced.
        nki: version of NKI that it is written for; "" where only a comment or the choices of a call say it.
        platform_target: chip that its decorator chose, as NKI 0.1 and 0.2 had it; or "".
        allow: codes of errors that are findings of this kernel, besides those of NKI_LAB_ALLOW.
        schedule: (name, names it waits for) of instructions, from `with_schedule`.
        ignored: keyword arguments of its decorator that change nothing.
        configuration: what its decorator asks for besides its version, if anything.
        accepts: raises for a target and arguments that it is not made for, before it is traced; or None.
    """

    #: The latest calls that a kernel object keeps, so that a loop of calls compiles each once.
    _KEPT = 4

    launched_on: tuple[int, ...] = ()
    simulated = False
    debug = False
    nki = ""
    platform_target = ""
    allow: tuple[str, ...] = ()
    schedule: Edges = ()
    ignored: tuple[str, ...] = ()
    configuration: Configuration | None = None
    accepts: Callable[[Target, Mapping[str, Any]], None] | None = None

    #: The dialect whose decorator made it; None where a plain function was run.
    decorated_in: Dialect | None = None

    #: The object and class of a method that is a kernel.
    _bound: tuple[Any, Any] | None = None

    def __init__(self, func: Callable[..., Any]) -> None:
        # Shared by the copies that choices make, such as kernel[2]: their programs, and all of them.
        self._latest: deque[_Call] = deque(maxlen=self._KEPT)
        self._copies: WeakSet[KernelFunction] = WeakSet((self,))
        self._take(func)
        _follow_reloads()

    def _take(self, func: Callable[..., Any]) -> None:
        """Be the kernel of a function; its text is read now."""
        if self._bound is not None:
            func = func.__get__(*self._bound)
        self.func = func
        self.source = self._with_choices(SourceKernel.of(func))
        self.__name__: str = func.__name__
        functools.update_wrapper(self, func)
        self.__signature__ = inspect.signature(func)

    def _with_choices(self, source: SourceKernel) -> SourceKernel:
        """Return a source with what the decorator said."""
        return replace(source, configuration=self.configuration, decorated_in=self.decorated_in)

    @property
    def __code__(self) -> CodeType:
        # Where this could be set, reloaders of modules would set it instead of calling `update`.
        raise AttributeError("__code__")

    def update(self, new: KernelFunction | Callable[..., Any]) -> None:
        """Run the function of another kernel from now on, and so do all copies, such as kernel[2].

        What holds the kernel need not look it up again: this is how `%autoreload` replaces the kernels of a module.
        """
        replacement = new if isinstance(new, KernelFunction) else KernelFunction(new)
        for kernel in list(self._copies):
            for choice in ("debug", "nki", "platform_target", "allow", "configuration"):
                setattr(kernel, choice, getattr(replacement, choice))
            kernel._take(replacement.func)

    def __get__(self, owner: Any, kind: Any = None) -> KernelFunction:
        """Return the kernel of an object's method, with the object as its first argument."""
        if owner is None:
            return self
        method = self._with(_bound=(owner, kind))
        method._take(self.func)
        method.source = replace(method.source, modules=self.source.modules)
        return method

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self)

    def __getitem__(self, grid: Any) -> KernelFunction:
        """Choose the launch grid, such as the number of cores: `kernel[1](...)` or `kernel[2](...)`."""
        return self._with(launched_on=self.source.dialect.grid(self.__name__, grid))

    @property
    def grid(self) -> int:
        """Number of cores a call launches on."""
        return self._cores(self.choices(Choices.current()))

    def _cores(self, choices: Choices) -> int:
        return self.source.dialect.cores(choices.grid)

    @property
    def choices_made(self) -> dict[str, Any]:  # type: ignore[override]
        """What a copy of it chooses, or its decorator, by name."""
        chosen = (
            "launched_on",
            "simulated",
            "debug",
            "nki",
            "platform_target",
            "allow",
            "schedule",
        )
        return {name: getattr(self, name) for name in chosen}

    def with_schedule(self, schedule: Sequence[tuple[str, str | Sequence[str]]]) -> KernelFunction:
        """Return the kernel with waits between instructions: `[("second", "first"), ("third", ["first", ...])]`.

        The names are those given as `name=`; a name that several instructions have means each of them. Nothing
        that is computed changes. (nki/guides/how-to-scheduling-apis.rst)
        """
        return self._with(schedule=edges_of(schedule))

    def _with(self, **choices: Any) -> KernelFunction:
        changed = copy.copy(self)
        vars(changed).update(choices)
        self._copies.add(changed)
        return changed

    def __copy__(self) -> KernelFunction:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: Any) -> KernelFunction:
        return self  # as of functions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run and return what the kernel returns; inside a kernel, just run it there."""
        if active.builder is not None:
            self._check_version(active.builder)
            if self.launched_on and self.source.dialect.option == BETA1:
                raise KernelArgument(
                    f"`{self.__name__}` is called with the launch grid {list(self.launched_on)} inside another kernel",
                    notes=[older("err_nested_kernel_with_spmd_grid")],
                    help=f"write {self.__name__}(...); the grid is that of the kernel that is launched",
                )
            if self.configuration is not None:
                place = (self.source.place,)
                self.configuration.check_nested(self.__name__, active.builder, place)
            return as_defined(self.source).function(*args, **kwargs)
        refuse_compiler()
        result = self.launch(*args, **kwargs)
        warn_of(result)
        return result.value

    @property
    def version(self) -> Version:
        """The version of NKI that it is written for: its own, or what the choices say here."""
        return self.choices(Choices.current()).version

    def write_for(self, nki: str) -> None:
        """Take it as written for a version of NKI, unless it says so itself; so do all copies, such as kernel[2]."""
        for kernel in list(self._copies):
            kernel.nki = kernel.nki or kernel.source.nki or nki

    def _check_version(self, builder: Any) -> None:
        """Refuse to be part of a kernel that is written for another version of NKI."""
        nki = self.nki or self.source.nki
        if nki not in ("", BETA1, builder.version.name):
            raise MixedVersions(
                f"`{self.__name__}` is written for NKI {nki}, and the kernel that calls it for NKI"
                f" {builder.version.name}",
                notes=(f"`{self.__name__}` is defined at {self.source.place}",),
                help="write a kernel and every kernel it calls for one version",
                needs=Needs(f"`{self.__name__}`", since=nki, until=nki),
            )

    def launch(self, *args: Any, target: str | Target | None = None, **kwargs: Any) -> Result:
        """Run and return the Result."""
        return self.launch_with(Choices.current().replace(target=target), args, kwargs)

    def launch_with(
        self, choices: Choices, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Result:
        """Run under these choices and return the Result."""
        with phase(self.__name__), _enough_memory(self):
            if choices.debug or self.debug:
                return self._debug(self.choices(choices), args, kwargs)
            compiled = self.compile_with(choices, args, kwargs)
            # Not checked against what was compiled: a kernel may change the objects it is given while it is traced.
            return compiled._launch(args, kwargs, check=False)

    def compile(self, *args: Any, **kwargs: Any) -> CompiledFunction:
        """Compile for these arguments; calling what is returned does not trace again.

        Values the kernel read from outside its arguments (globals, closures) stay as they were at this moment.
        """
        return self.compile_with(Choices.current(), args, kwargs)

    def compile_with(
        self, choices: Choices, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CompiledFunction:
        """Compile for these arguments under these choices."""
        choices = self.choices(choices)
        _, arguments = numpy_arguments(self.source, args, kwargs)
        form = CallForm(arguments)
        compiled = self._compiled(choices, arguments)
        return CompiledFunction(compiled, choices, form, self._retrace(choices, arguments))

    def _compiled(
        self, choices: Choices, arguments: inspect.BoundArguments, watch: Watch | None = None
    ) -> CompiledKernel:
        target, cores = self._target(choices), self._cores(choices)
        if self.accepts is not None:
            self.accepts(target, arguments.arguments)
        given = choices, target, cores
        read = snapshot(self, arguments.arguments) if watch is None else None
        for call in self._latest:
            if read is not None and call.given == given and call.read == read:
                return CompiledKernel.of(call.programs, self.source)
        compiled = compile_kernel(
            self.source, arguments.args, arguments.kwargs, target, choices, cores, watch
        )
        if read is not None and read != snapshot(self, arguments.arguments):
            read = None  # the trace itself changes what it reads
        for call in [*self._latest]:
            if call.programs is compiled.programs:
                self._latest.remove(call)
        assert compiled.programs is not None
        self._latest.append(_Call(given, read, compiled.programs))
        return compiled

    def _retrace(self, choices: Choices, arguments: inspect.BoundArguments) -> Retrace:
        """Return what traces this call again."""
        return Retrace(
            self.source, arguments.args, arguments.kwargs, self._target(choices), choices
        )

    def choices(self, choices: Choices) -> Choices:
        """Return the choices with those that this kernel makes."""
        cores = choices.lnc or choices.logical_core
        choices = choices.with_standard(self.source.dialect.standard).replace(
            nki=self._nki(choices),
            schedule=self.schedule,
            allow=(*choices.allow, *self.allow),
            grid=self.launched_on or (() if cores is None else (cores,)),
            backend=self._backend_of(choices),
        )
        self._check_logical_core(choices)
        return choices

    def _backend_of(self, choices: Choices) -> str | None:
        """Return the backend that the kernel or NKI_SIMULATOR asks for; None leaves it to the choices."""
        if self.simulated:
            return "simulator"
        device = not choices.simulator and isinstance(choices.backend, Standard)
        return DEVICE if device else None

    def _nki(self, choices: Choices) -> str | None:
        """Return the version that it is written for, or "beta1"; None where only the choices say it."""
        dialect, nki = self.source.dialect, self.nki or self.source.nki
        asked = choices.dialect or (BETA1 if (nki or choices.nki) == BETA1 else "")
        of_call = "" if isinstance(choices.nki, Standard) else choices.nki
        version = nki or of_call
        version_of_another = dialect.option == BETA1 and version not in ("", BETA1)
        if asked not in ("", dialect.option) or version_of_another:
            asked = f"version {version}" if version_of_another else f"dialect {asked}"
            raise MixedDialects(
                f"`{self.__name__}` is written in {dialect.title}, and {asked} is asked for",
                stack=(self.source.place,),
                help=f"leave out the version at {self.source.version_place}: the kernel's imports tell its dialect"
                if nki and self.source.version_place is not None
                else "leave out --dialect or --nki: the kernel's imports tell its dialect",
            )
        return BETA1 if dialect.option == BETA1 else nki or None

    def _check_logical_core(self, choices: Choices) -> None:
        """Refuse `kernel[cores]` beside another number in the environment; before 0.7 nothing compared the two.

        (nki/migration/index.html, NKI 0.7.0; compiler/error-codes/EVRF066.html)
        """
        launched, compiler = self.launched_on, choices.logical_core
        if launched and compiler not in (None, launched[0]) and choices.version.plain_python:
            raise LncMismatch(
                f"NKI kernel {self.__name__!r} is configured with LNC={launched[0]}, but the environment says"
                f" LNC={compiler} (NCC_EVRF066)",
                help=f"call it without brackets, or as {self.__name__}[{compiler}], or set"
                f" NEURON_LOGICAL_NC_CONFIG={launched[0]}",
            )

    def _target(self, choices: Choices) -> Target:
        """Return the machine to compile for; refuse what it cannot run, and a backend that cannot run here."""
        asked = self.platform_target or choices.target
        target = get_target(backend_named(choices.backend).chip(asked, choices))
        check_cores(self.__name__, self._cores(choices), target)
        return target

    @property
    def chip(self) -> Target:
        """The chip that a call here is compiled for."""
        choices = self.choices(Choices.current())
        return get_target(self.platform_target) if self.platform_target else choices.chip

    def _debug(self, choices: Choices, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
        """Run while tracing."""
        refuse_others(choices, "a debug run")
        cores = self._cores(choices)
        if cores > 1:
            raise NotModelled(
                f"{self.__name__}[{cores}]: a debug run has one core, since cores are traced one after the other",
                help="launch it on one core, or run it without debug",
            )
        values, arguments = numpy_arguments(self.source, args, kwargs)
        arrays = CallForm(arguments).arrays(arguments, check=False)
        eager = EagerRun(self._target(choices), arrays, choices)
        compiled = self._compiled(choices, arguments, eager)
        before = kept_inputs(compiled.kernel, arrays)  # which are written at the end
        outputs = eager.end(compiled.kernel)
        retrace = self._retrace(choices, arguments)
        run = SimulatedRun.of(compiled, [eager], outputs, retrace)
        return recorded(result_of(compiled, run, values, arrays, choices, retrace, before))

    def __repr__(self) -> str:
        return f"<NKI kernel {self.__name__}{self.__signature__}>"


# -- modules that are reloaded ---------------------------------------------------------------------------------------


def _can_update(old: Any, new: Any) -> bool:
    return isinstance(old, KernelFunction) and isinstance(new, (KernelFunction, FunctionType))


_RELOAD_RULE = (_can_update, KernelFunction.update)


def _follow_reloads() -> None:
    """Have `%autoreload` update kernels that were imported from a module, as it does with functions.

    It is asked when a kernel is defined, and so before a module that is reloaded ends. IPython itself is not loaded.
    """
    reloader = sys.modules.get("IPython.extensions.autoreload")
    rules = getattr(reloader, "UPDATE_RULES", None)
    if rules is not None and _RELOAD_RULE not in rules:
        rules.append(_RELOAD_RULE)


# -- other processes -------------------------------------------------------------------------------------------------


def pickled(kernel: KernelFunction) -> tuple[Any, ...]:
    """Return how a kernel is made again in another process: by its name, as functions are.

    cloudpickle takes the function with its text where a name leads nowhere, as from a notebook.
    """
    choices = kernel.choices_made  # everything else is found with the kernel's name
    # What finds `import nki` here comes first: it is there before anything else is made again.
    finder = next((f for f in sys.meta_path if hasattr(f, "in_sight")), None)
    if kernel._bound is not None:
        return _method, (finder, kernel._bound[0], kernel.func.__name__, choices)
    module, name = kernel.func.__module__, kernel.func.__qualname__
    named = _named(module, name)
    there = getattr(named, "func", named) is kernel.func
    by_cloudpickle = sys._getframe(2).f_globals.get("__name__", "").startswith("cloudpickle")
    if by_cloudpickle and (not there or module == "__main__"):
        source = kernel.source
        texts = source.text, source.filename, source.first_line, source.indent, source.nki
        return _by_value, (as_defined(source).function, texts, choices)
    if not there:
        raise PicklingError(
            f"the kernel {name} cannot go to another process by its name: {_why_not(module, name, named)}."
            " Define it with `def` in a module that can be imported, under the name of the function, or use cloudpickle"
        )
    return _by_name, (finder, module, name, choices)


def _why_not(module: str, name: str, named: Any) -> str:
    if "<locals>" in name:
        return "it is defined inside a function"
    if named is None:
        return f"{module} has nothing of this name"
    return f"{module}.{name} is another object, such as one that was defined later"


def _named(module: str, name: str) -> Any:
    """Return what a dotted name of a module stands for, without calling descriptors; None where there is nothing."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = inspect.getattr_static(value, part, None)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
    return value


def _by_name(finder: Any, module: str, name: str, choices: dict[str, Any]) -> KernelFunction:
    try:
        if module not in sys.modules:
            with finder.in_sight() if finder is not None else nullcontext():
                import_module(module)
    except Exception as error:
        return _Absent(module, name, f", whose import ends with {headline(error)}")
    named = _named(module, name)
    if not isinstance(named, (KernelFunction, FunctionType)):
        return _Absent(module, name)
    return (named if isinstance(named, KernelFunction) else KernelFunction(named))._with(**choices)


class _Absent(KernelFunction):
    """A kernel that another process sent by its name, and which this process does not have.

    Its use raises an error; an error here would end a worker process before it can report anything.
    """

    def __init__(self, module: str, name: str, why: str = "") -> None:
        self._module, self._name, self._why = module, name, why

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__name__":
            raise AttributeError(attribute)
        raise KernelArgument(
            f"this process has no kernel `{self._name}` in {self._module}{self._why}: kernels go to other processes by"
            " their name",
            help="define it with `def` in a file that both processes can import, and import it from there; what a"
            " notebook defines goes with cloudpickle",
        )

    def _with(self, **choices: Any) -> KernelFunction:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _Absent, (self._module, self._name, self._why)

    def __repr__(self) -> str:
        return f"<absent NKI kernel {self._name} of {self._module}>"


def _method(finder: Any, owner: Any, name: str, choices: dict[str, Any]) -> KernelFunction:
    return getattr(owner, name)._with(**choices)


def _by_value(
    func: Callable[..., Any], texts: tuple[str, str, int, str, str], choices: dict[str, Any]
) -> KernelFunction:
    kernel = KernelFunction(func)._with(**choices)
    kernel.source = SourceKernel(func, *texts)
    return kernel


@contextmanager
def _enough_memory(kernel: KernelFunction) -> Iterator[None]:
    try:
        yield
    except NkiError:  # SBUF, PSUM or HBM, some of which are a MemoryError too
        raise
    except MemoryError as error:
        raise NotModelled(
            f"{kernel.__name__}: this computer has too little memory to simulate it: {headline(error)}",
            stack=(kernel.source.place,),
            help="use smaller tensors; what a kernel computes shows on a few tiles",
        ) from None


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    **kwargs: Any,
) -> Any:
    """Make a function a kernel (`nki.jit`); with keyword arguments, return the decorator.

    The two configurations are of nki.compiler and came with NKI 0.7: they are kept, and compared where a kernel calls
    another one.

    `mode=` is accepted and ignored, as in the official package since 0.3. `platform_target=` is the chip of a kernel
    for NKI 0.1 or 0.2, and an error since 0.3: NEURON_PLATFORM_TARGET_OVERRIDE chooses the target, or the call.
    (nki/migration/index.rst)

    Three arguments are ours. `nki="0.6"` is the version of NKI that the kernel is written for, which a comment
    `# nki: 0.6` above it says as well. `debug=True` runs instructions while they are traced: `print(tile)` and
    `breakpoint()` see values. `allow="NKI206"` has codes of errors that are findings instead.
    """
    if compile_config is not None or specialization_config is not None:
        kwargs["configuration"] = Configuration.of(compile_config, specialization_config)
    return decorated(NKI, fn, kwargs)


def decorated(dialect: Dialect, fn: Any, keywords: dict[str, Any]) -> Any:
    """Make a function a kernel, or return the decorator where there is none: what the `jit` of a dialect does."""
    choices = dialect.choices(keywords)
    choices["allow"] = names(choices.get("allow") or "")
    if "nki" in choices:
        choices["nki"] = NKI_VERSION.take(choices["nki"], "nki.jit(nki=...)")
    make = functools.partial(_kernel_of, choices, dialect)
    return make if fn is None else make(fn)


def as_kernel(value: Any) -> KernelFunction:
    """Return a kernel itself, or that of a function, which is of the dialect that its names tell."""
    return value if isinstance(value, KernelFunction) else _kernel_of({}, None, value)


def _kernel_of(choices: dict[str, Any], dialect: Dialect | None, fn: Any) -> KernelFunction:
    if isinstance(fn, KernelFunction):
        check_dialect(dialect, fn.source)
        return fn._with(simulated=False, **choices)
    if not inspect.isfunction(fn):
        of_kernel = isinstance(fn, functools.partial)
        raise KernelArgument(
            f"nki.jit decorates a function, found {type(fn).__name__}",
            help="give arguments to the kernel: functools.partial(nki.jit(function), ...)"
            if of_kernel
            else "write a `def` that returns its output tensors",
        )
    if platform_target := choices.get("platform_target", ""):
        get_target(platform_target)
    ignored = choices.get("ignored", ())
    if dialect is NKI and (
        platform_target or ignored
    ):  # a part of what is told, or refused, when it is launched
        asked = choices.get("configuration") or Configuration()
        asked = replace(asked, platform_target=platform_target, ignored=ignored)
        choices = {**choices, "configuration": asked}
    kernel = KernelFunction(fn)._with(decorated_in=dialect, **choices)
    kernel.source = kernel._with_choices(kernel.source)
    check_dialect(dialect, kernel.source)
    _check_said(kernel)
    return kernel


def _check_said(kernel: KernelFunction) -> None:
    """Refuse a decorator that says another version than a comment above or in the same kernel.

    A comment at the head of a file is for kernels that say nothing themselves, and `nki.jit` called elsewhere chooses
    anew.
    """
    source = kernel.source
    if not kernel.nki or source.nki in ("", kernel.nki):
        return
    comment, is_own = source.version_comment
    decorator = source.version_in_decorator
    if is_own and decorator is not None:
        raise MixedVersions(
            f"the decorator of `{source.name}` says NKI {kernel.nki}, and a comment says NKI {source.nki}",
            stack=(decorator,),
            notes=(f"the comment stands at {comment}",),
            help="leave one of the two out",
        )


def simulate(kernel: Any) -> KernelFunction:
    """Return `kernel` as one that runs on the simulator whatever NKI_SIMULATOR says (`nki.simulate`)."""
    function = as_kernel(kernel)
    check_dialect(NKI, function.source)
    return function._with(simulated=True)


def check_dialect(dialect: Dialect | None, source: SourceKernel) -> None:
    """Refuse a function that is written in another dialect than the decorator or runner it is given to.

    Where names tell nothing, the decorator that made it a kernel does.
    """
    named = {d: name for d, name in source.dialects.items() if name}
    if not named and source.decorated_in is not None:
        named = {source.decorated_in: ""}
    if dialect is not None and named and dialect not in named:
        other, name = next(iter(named.items()))
        raise MixedDialects(
            f"`{source.name}` is written in {other.title}"
            + f": `{name}` belongs to it" * bool(name)
            + f"; it was given to a decorator or runner of {dialect.title}",
            stack=(source.place,),
            help=f"take the decorator from the modules of {other.root}, as the kernel's other names",
        )
