"""Compiled kernels: a call binds its arrays and runs the program, without tracing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.backends import Backend, Run, backend_named
from nki_lab.choices import Choices
from nki_lab.compiler.findings import refuse_findings
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.compiler.trace import (
    TensorSpec,
    bind_arguments,
    is_array,
    map_arguments,
)
from nki_lab.errors import (
    KernelArgument,
    NkiError,
    without_our_frames,
)
from nki_lab.runtime.arrays import argument_array, is_foreign_array, library_of, to_library
from nki_lab.runtime.call_form import CallForm, StoredForm
from nki_lab.runtime.recording import record, warn_of
from nki_lab.runtime.result import Result, structured
from nki_lab.runtime.steps import kept_inputs
from nki_lab.simulator import of_rank


class CompiledFunction:
    """A kernel compiled for arguments of one form; a call runs it without tracing.

    Attributes:
        compiled: the program, with its state after each pass.
        choices: it was compiled and is run under.
        runs: how often it has been run.
    """

    def __init__(
        self,
        compiled: CompiledKernel,
        choices: Choices,
        form: CallForm | StoredForm,
        retrace: Retrace | None = None,
    ) -> None:
        self.compiled = compiled
        self._retrace = retrace
        self._form = form
        self.runs = 0
        self.choices = choices

    @property
    def __name__(self) -> str:
        """Name of the kernel."""
        return self.compiled.kernel.name

    @property
    def __signature__(self) -> inspect.Signature:
        """Parameters of the kernel."""
        return self.compiled.source.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on new arrays of the same shapes and dtypes; everything else must be as it was compiled for."""
        result = self.launch(*args, **kwargs)
        warn_of(result)
        return result.value

    @property
    def returns(self) -> Any:
        """What a call returns, with a TensorSpec, its shape and dtype, in place of each array; nothing is run."""
        outputs = [TensorSpec(t.shape, t.dtype) for t in self.compiled.kernel.outputs]
        return structured(self.compiled.kernel.result, outputs)

    def save(self, path: str | Path, source: bool = True) -> Path:
        """Write the kernel to a file that `nki_lab.load` reads, and return its path; see `CompiledKernel.save`."""
        return self.compiled.save(path, source)

    def launch(self, *args: Any, **kwargs: Any) -> Result:
        """Run and return the Result."""
        return self._launch(args, kwargs)

    def inputs(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """Return the NumPy arrays that a call with these arguments runs on."""
        return self._taken(args, kwargs, check=False)[1]

    def launch_ranks(self, calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Result]:
        """Run as several ranks and return the Result of each.

        Args:
            calls: (args, kwargs) of each rank; the arrays of all have the shapes and dtypes compiled for.
        """
        bound = []
        for rank, (args, kwargs) in enumerate(calls):
            try:
                bound.append(self._taken(args, kwargs, check=rank > 0))
            except KernelArgument as error:
                raise of_rank(rank, error) from None
        runs = self._backend.run_ranks(
            self.compiled, [arrays for _, arrays in bound], self.choices, self._retrace
        )
        self.runs += 1
        results = [
            self._result(run, values, arrays, ranks=len(calls))
            for run, (values, arrays) in zip(runs, bound, strict=True)
        ]
        record(results[0])  # one program: the views of a cell show it once
        return results

    def _launch(self, args: tuple[Any, ...], kwargs: dict[str, Any], check: bool = True) -> Result:
        return self._guarded(lambda: self._run_on(*self._taken(args, kwargs, check)))

    def launch_arrays(self, arrays: list[np.ndarray]) -> Result:
        """Run on the NumPy arrays of the kernel's inputs, in their order, which are as it was compiled for."""
        return self._guarded(lambda: self._run_on(arrays, arrays))

    def _guarded(self, run: Callable[[], Result]) -> Result:
        try:
            return recorded(run())
        except BaseException as error:
            if isinstance(error, NkiError) or not isinstance(error, Exception):
                without_our_frames(error)
            raise

    def _run_on(self, values: list[Any], arrays: list[Any]) -> Result:
        before = kept_inputs(self.compiled.kernel, arrays)
        run = self._backend.run(self.compiled, arrays, self.choices, self._retrace)
        self.runs += 1
        return self._result(run, values, arrays, before)

    def _result(
        self, run: Run, values: list[Any], arrays: list[Any], *facts: Any, **more: Any
    ) -> Result:
        return result_of(
            self.compiled, run, values, arrays, self.choices, self._retrace, *facts, **more
        )

    @property
    def _backend(self) -> Backend:
        return backend_named(self.choices.backend)

    def _taken(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], check: bool
    ) -> tuple[list[Any], list[Any]]:
        """Return every array as it was given, and the NumPy arrays of the kernel's inputs."""
        values, arguments = numpy_arguments(self.compiled.source, args, kwargs)
        return values, self._form.arrays(arguments, check)

    def __reduce__(self) -> tuple[Any, ...]:
        return stored_kernel, (self.compiled, self.choices)

    def __repr__(self) -> str:
        return f"<compiled NKI kernel {self.compiled.kernel.name} for {self.compiled.target.name}>"


def stored_kernel(compiled: CompiledKernel, options: Choices) -> CompiledFunction:
    """Return a kernel that was compiled elsewhere and is here without its source, ready to be called."""
    assert isinstance(compiled.source, StoredSource)
    form = StoredForm(compiled.source, compiled.kernel.inputs)
    return CompiledFunction(compiled, options, form)


def result_of(
    compiled: CompiledKernel,
    run: Run,
    given: list[Any],
    arrays: Sequence[np.ndarray],
    options: Choices,
    retrace: Retrace | None,
    before: dict[int, np.ndarray] | None = None,
    ranks: int = 1,
) -> Result:
    """Return the Result of a run on the arrays `given`; `before` are copies of inputs that it wrote."""
    library = next((library_of(v) for v in given if library_of(v) != "numpy"), "numpy")
    value = structured(compiled.kernel.result, [to_library(o, library) for o in run.outputs])
    result = Result(compiled, run, tuple(arrays), value, retrace, before, options, ranks)
    if options.strict:
        refuse_findings(run.findings)
    return result


def recorded(result: Result) -> Result:
    """Return a result after telling whoever collects runs."""
    record(result)
    return result


def numpy_arguments(
    source: SourceKernel | StoredSource, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], inspect.BoundArguments]:
    """Return every array as it was given, and the call with NumPy arrays in their place."""
    bound = bind_arguments(source, args, kwargs)
    arrays: list[Any] = []

    def leaf(name: str, value: Any) -> Any:
        try:
            array = argument_array(name, value)
        except KernelArgument as error:
            error.stack = error.stack or (source.place,)
            raise
        arrays.append(value)
        return array

    call = inspect.BoundArguments(source.signature, {})  # type: ignore[arg-type]
    for name, value in bound.items():
        call.arguments[name] = map_arguments(
            name, value, leaf, lambda v: is_array(v) or is_foreign_array(v)
        )
    return arrays, call
