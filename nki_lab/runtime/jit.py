"""What is a kernel object, and what happens when it is called?"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.author_order import Edges, edges_of
from nki_lab.compiler.pipeline import CompiledKernel, compile_kernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.errors import KernelArgument, NkiError, NotModelled, ToolchainError
from nki_lab.ir.instruction import active
from nki_lab.ir.watch import Watch
from nki_lab.progress import phase
from nki_lab.runtime.call_form import CallForm
from nki_lab.runtime.chosen import chosen_cores, current_target, within
from nki_lab.runtime.compiled import (
    CompiledFunction,
    check_cores,
    numpy_arguments,
    recorded,
    result_of,
    simulation_options,
)
from nki_lab.runtime.recording import warn_of
from nki_lab.runtime.result import Result
from nki_lab.runtime.steps import kept_inputs
from nki_lab.settings import Settings, names_in
from nki_lab.simulator import EagerRun
from nki_lab.source import headline
from nki_lab.targets.spec import Target


class KernelFunction:
    """A function that is a kernel: call it with arrays, or from another kernel.

    Attributes:
        func: the author's function, unchanged.
        source: its text as it was when it was defined.
        launched_on: number of cores that `kernel[...]` chose; None leaves it to `use_cores`.
        simulated: run on the simulator even where NKI_SIMULATOR asks for the device.
        debug: run instructions while they are traced.
        allow: codes of errors that are findings of this kernel, besides those of NKI_LAB_ALLOW.
        schedule: (name, names it waits for) of instructions, from `with_schedule`.
    """

    #: Programs of the latest calls that a kernel object keeps, so that a loop of calls compiles each once.
    _KEPT = 4

    launched_on: int | None = None
    simulated = False
    debug = False
    allow: tuple[str, ...] = ()
    schedule: Edges = ()

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.source = SourceKernel.of(func)
        self._latest: deque[Any] = deque(
            maxlen=self._KEPT
        )  # shared by the copies that choices make
        self.__name__: str = self.func.__name__
        functools.update_wrapper(self, self.func)
        self.__signature__ = inspect.signature(self.func)

    def __get__(self, owner: Any, kind: Any = None) -> KernelFunction:
        """Return the kernel of an object's method, with the object as its first argument."""
        if owner is None:
            return self
        made = copy.copy(self)
        made.__init__(self.func.__get__(owner, kind))  # type: ignore[misc]
        made._latest = self._latest
        return made

    def __getitem__(self, grid: Any) -> KernelFunction:
        """Choose the number of cores: `kernel[1](...)` or `kernel[2](...)`."""
        cores = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if type(cores) is not int or cores not in (1, 2):
            raise KernelArgument(
                f"{self.__name__}[{grid!r}]: a kernel is launched on 1 or 2 cores",
                help="write kernel[1](...) or kernel[2](...)",
            )
        return self._with(launched_on=cores)

    @property
    def grid(self) -> int:
        """Number of cores a call launches on."""
        return self.launched_on or chosen_cores() or 1

    def with_schedule(self, schedule: Sequence[tuple[str, str | Sequence[str]]]) -> KernelFunction:
        """Return the kernel with waits between instructions: `[("second", "first"), ("third", ["first", ...])]`.

        The names are those given as `name=`; a name that several instructions have means each of them. Nothing
        that is computed changes. (nki/guides/how-to-scheduling-apis.rst)
        """
        return self._with(schedule=edges_of(schedule))

    def _with(self, **choices: Any) -> KernelFunction:
        made = copy.copy(self)
        vars(made).update(choices)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the simulator and return what the kernel returns; inside a kernel, just run it there."""
        if active.builder is not None:
            return self.func(*args, **kwargs)
        result = self.launch(*args, **kwargs)
        warn_of(result)
        return result.value

    def launch(self, *args: Any, target: str | Target | None = None, **kwargs: Any) -> Result:
        """Run on the simulator and return everything that is known about the run."""
        with phase(self.__name__), within(target), _enough_memory(self):
            settings = Settings.read()
            if settings.debug or self.debug:
                return self._debug(settings, args, kwargs)
            compiled = self.compile(*args, **kwargs)
            # Not checked against what was compiled: a kernel may change the objects it is given while it is traced.
            return compiled._launch(args, kwargs, check=False)

    def compile(self, *args: Any, **kwargs: Any) -> CompiledFunction:
        """Compile for these arguments; calling what is returned does not trace again.

        Values the kernel read from outside its arguments (globals, closures) stay as they were at this moment.
        """
        settings = Settings.read()
        _, arguments = numpy_arguments(self.source, args, kwargs)
        form = CallForm(arguments)
        compiled = self._compiled(settings, arguments)
        retrace = self._retrace(settings, arguments)
        return CompiledFunction(compiled, simulation_options(settings), form, retrace)

    def _compiled(
        self, settings: Settings, arguments: inspect.BoundArguments, watch: Watch | None = None
    ) -> CompiledKernel:
        compiled = compile_kernel(
            self.source, arguments.args, arguments.kwargs, self._target(settings),
            self.options(settings), self.grid, watch,
        )  # fmt: skip
        if compiled.programs in self._latest:
            self._latest.remove(compiled.programs)
        self._latest.append(compiled.programs)
        return compiled

    def _retrace(self, settings: Settings, arguments: inspect.BoundArguments) -> Retrace:
        """Return what traces this call again."""
        return Retrace(
            self.source, arguments.args, arguments.kwargs, self._target(settings), self.options(settings),
        )  # fmt: skip

    def options(self, settings: Settings) -> CompileOptions:
        """Return the choices of a compilation: those of the environment, and of this kernel."""
        has_grid = (self.launched_on or chosen_cores()) is not None
        return replace(
            CompileOptions.from_settings(settings),
            schedule=self.schedule,
            allow=(*settings.allow, *self.allow),
            grid=has_grid,
        )

    def _target(self, settings: Settings) -> Target:
        """Return the machine to compile for; refuse what it cannot run."""
        if not (settings.simulator or self.simulated):
            raise ToolchainError(
                "NKI_SIMULATOR=0 asks for the device, and running on a device is not supported yet",
                help="unset NKI_SIMULATOR to run on the simulator",
            )
        target = current_target(settings)
        check_cores(self.__name__, self.grid, target)
        return target

    def _debug(self, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
        """Run while tracing."""
        if self.grid > 1:
            raise NotModelled(
                f"{self.__name__}[{self.grid}]: a debug run has one core, since cores are traced one after the other",
                help="launch it on one core, or run it without debug",
            )
        values, arguments = numpy_arguments(self.source, args, kwargs)
        arrays = CallForm(arguments).arrays(arguments, check=False)
        options = simulation_options(settings)
        eager = EagerRun(self._target(settings), arrays, options)
        compiled = self._compiled(settings, arguments, eager)
        before = kept_inputs(compiled.kernel, arrays)  # which are written at the end
        outputs = eager.end(compiled.kernel)
        retrace = self._retrace(settings, arguments)
        return recorded(
            result_of(compiled, [eager], values, arrays, outputs, options, retrace, before)
        )

    def __repr__(self) -> str:
        return f"<NKI kernel {self.__name__}{self.__signature__}>"


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


def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Make a function a kernel (`nki.jit`); with keyword arguments, return the decorator.

    `mode=` is accepted and ignored, as in the official package since 0.3; `platform_target=` is an error there and
    here: the target is chosen by NEURON_PLATFORM_TARGET_OVERRIDE, or per call. (nki/migration/index.rst)

    Two arguments are ours. `debug=True` runs instructions while they are traced: `print(tile)` and `breakpoint()` see
    values. `allow="NKI206"` has codes of errors that are findings instead, for kernels written for an older NKI.
    """
    if "platform_target" in kwargs:
        raise KernelArgument(
            "nki.jit(platform_target=...) has been removed from NKI",
            help="set NEURON_PLATFORM_TARGET_OVERRIDE, or use %%nki --target / nki_lab.run(..., target=...)",
        )
    debug = bool(kwargs.get("debug", False))
    allow = kwargs.get("allow")
    ignored = set(kwargs) - {"allow", "debug", "mode", "debug_kernel", "show_compiler_tb"}
    if ignored:
        warnings.warn(f"nki.jit ignores {', '.join(sorted(ignored))}", stacklevel=2)
    if fn is None:
        return functools.partial(jit, debug=debug, allow=allow)
    if isinstance(fn, KernelFunction):
        return fn._with(simulated=False, debug=debug, allow=names_in(allow))
    if not inspect.isfunction(fn):
        of_kernel = isinstance(fn, functools.partial)
        raise KernelArgument(
            f"nki.jit decorates a function, found {type(fn).__name__}",
            help="give arguments to the kernel: functools.partial(nki.jit(function), ...)"
            if of_kernel
            else "write a `def` that returns its output tensors",
        )
    return KernelFunction(fn)._with(debug=debug, allow=names_in(allow))


def simulate(kernel: Any) -> KernelFunction:
    """Return `kernel` as one that runs on the simulator whatever NKI_SIMULATOR says (`nki.simulate`)."""
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    return made._with(simulated=True)
