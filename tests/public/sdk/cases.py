"""Says what a block of a page is given, and what it must give."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nki_lab.choices import use_target
from nki_lab.errors import NkiError
from nki_lab.runtime import compare, run
from nki_lab.runtime.jit import jit
from tests.public.sdk.pages import Block
from tests.public.sdk.references import moved, signed

ALL = ("trn1", "trn2", "trn3")
LATER = ("trn2", "trn3")
# A kernel has a result: blocks that are only about views or prints are given one.
_SOMETHING = """\
out = nl.ndarray((1, 1), nl.float32, nl.shared_hbm)
nl.store(out, nl.ones((1, 1), nl.float32))
return out"""


@dataclass(frozen=True)
class Case:
    """One way to run a block.

    Attributes:
        block: "page#number".
        kernel: the function to run; by default the block is the body of one.
        inputs: arrays as "name dtype 4x8", with " +" for numbers away from zero, or " <9" for integers from 0 to 8,
            all different where that is possible.
        expected: what the inputs, in float64, must give; for kernels that return nothing, in their last argument.
        before, after: our lines around a block that is a body; `after` returns what is compared.
        more: arguments after the arrays.
        program: the block is neither a kernel nor the body of one, and is just run.
        part: lines of the block that are run, where it shows what to write instead of what.
        known: names the page takes for granted; modules among them can also be imported.
        holds: for programs, whether what they define is right.
        changes: words to replace, where a page contradicts another one.
        raises: the error there must be, and words of it.
        says: what must be printed.
    """

    block: str
    kernel: str = ""
    inputs: tuple[str, ...] = ()
    expected: Callable[..., Any] | None = None
    before: str = ""
    after: str = _SOMETHING
    more: tuple[Any, ...] = ()
    program: bool = False
    part: tuple[int, int | None] = (0, None)
    known: Mapping[str, Any] = field(default_factory=dict)
    holds: Callable[[dict[str, Any]], bool] | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ALL
    cores: int = 1
    raises: tuple[type[BaseException], str] | None = None
    says: str = ""
    tolerance: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        first, end = self.part
        parts = [self.block.replace("/", "."), self.kernel]
        parts += [f"{self.cores} cores"] if self.cores > 1 else []
        parts += [f"lines {first} to {end or 'end'}"] if first or end else []
        parts += ["changed"] if self.changes else []
        parts += ["refused"] if self.raises else []
        return "-".join(part for part in parts if part)


def check(case: Case, block: Block, target: str, rng: np.random.Generator) -> None:
    """Run a case on one chip and compare everything."""
    arrays = dict(_array(text, rng) for text in case.inputs)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if case.raises is None:
            _compared(case, block, target, arrays)
        else:
            error, words = case.raises
            with pytest.raises(error, match=words):
                _result(case, block, target, [moved(a) for a in arrays.values()])
    assert case.says in printed.getvalue()


def _compared(case: Case, block: Block, target: str, arrays: Mapping[str, np.ndarray]) -> None:
    given = [moved(a) for a in arrays.values()]
    result = _result(case, block, target, given)
    if case.expected is None:
        return
    wide = [a.astype(np.float64) if a.dtype.kind not in "iub" else a for a in arrays.values()]
    expected = case.expected(*wide)
    references = expected if isinstance(expected, tuple) else (expected,)
    found = list(result.outputs) or given[-len(references) :]
    for one, reference in zip(found, references, strict=True):
        comparison = compare(one, reference, **case.tolerance)
        assert comparison.ok, comparison.summary()


def _result(case: Case, block: Block, target: str, given: list[np.ndarray]) -> Any:
    block = block.replaced(dict(case.changes)).lines(*case.part)
    modules = {n: v for n, v in case.known.items() if isinstance(v, (ModuleType, SimpleNamespace))}
    with use_target(target), _importable(modules):
        if case.program:
            names = block.names(**case.known)
            assert case.holds is None or case.holds(names)
            return None
        if case.kernel:
            kernel = block.names(**case.known)[case.kernel]
        else:
            parameters = ", ".join(text.split()[0] for text in case.inputs)
            kernel = block.as_kernel(parameters, case.before, case.after, **case.known)
        launched = jit(kernel)[case.cores] if case.cores > 1 else kernel
        return run(launched, *given, *case.more)


@contextlib.contextmanager
def _importable(modules: Mapping[str, Any]) -> Iterator[None]:
    """Let `import` find modules that are not installed; those it loads meanwhile stay."""
    added = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _array(text: str, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    name, dtype, sizes, *rest = text.split()
    array = signed(rng, tuple(int(n) for n in sizes.split("x")), dtype)
    if rest and rest[0].startswith("<"):
        limit, size = int(rest[0][1:]), array.size
        numbers = rng.permutation(limit)[:size] if size <= limit else rng.integers(limit, size=size)
        array = numbers.reshape(array.shape).astype(array.dtype)
    elif rest:  # quotients and roots are compared where they are tame
        array = (np.abs(array.astype(np.float64)) + 0.5).astype(array.dtype)
    return name, array


def fails(block: Block) -> bool:
    """Tell whether a block runs neither as a module nor as the body of a kernel."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if "jit" in block.text or block.text.lstrip().startswith(("def ", "class ")):
                block.names()
            else:
                run(block.as_kernel("", "", _SOMETHING))
    except (SyntaxError, NameError, ImportError, AttributeError, NkiError):
        return True
    return False
