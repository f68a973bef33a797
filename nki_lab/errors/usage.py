"""Errors NKI6xx: the use of notebooks, the command line and files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nki_lab.errors.nki_error import NkiError
from nki_lab.source import blanks, printable

_COPY = """\
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


class UsageError(NkiError):
    """A notebook cell, command line or file was used wrongly."""

    code = "NKI600"
    page = "A magic, a command, a file or an expression was used wrongly. The kernel itself may be right."
    wrong = f'%%nki --run "kernel(y)"\n{_COPY}'
    right = f'%%nki --run "kernel(x)"\n{_COPY}'


class CheckFailed(UsageError, AssertionError):
    """A result differs from its reference by more than the tolerance.

    Attributes:
        comparisons: how the results compare up to the one that differs, a Comparison for each.
        difference: where that one differs, a Difference to be shown; None where no values were compared.
    """

    code = "NKI601"
    _is_one_line = False  # the check of an operator tells a table
    comparisons: tuple[Any, ...] = ()
    difference: Any = None
    page = """
        The result and the reference given to --check differ by more than the tolerance, which follows from
        the narrowest dtype involved: about 1e-5 of the value for float32, 2e-2 for bfloat16, nothing for
        integers. The message names the worst element. A different shape is an error as well. Or an
        `assert nl.equal(a, b)` of the kernel does not hold for the values of this run.
        """
    wrong = f'%%nki --run "kernel(x)" --check "x + 1"\n{_COPY}'
    right = wrong.replace("x + 1", "x")


class TimedOut(UsageError, TimeoutError):
    """A kernel did not finish within its time limit."""

    code = "NKI602"
    page = """
        The run took longer than --timeout allows. The lines show where it was. Loops over range() are
        unrolled while tracing, so a loop with millions of passes takes long, and a Python `while` whose
        condition never becomes false never ends.
        """
    wrong = f"%%nki --timeout 0.5\nwhile True:\n    pass\n\n{_COPY}"
    right = f"%%nki --timeout 60\n{_COPY}"


class UnknownOption(UsageError):
    """An option that the magic or command does not have, or a value it cannot take."""

    code = "NKI603"
    page = """
        The magic or command does not have this option, or the option does not take this value. Values are
        quoted as in a shell: --run 'add(a, b)'. One that starts with a dash is written --check='-a'.
        """
    wrong = f'%%nki --run "kernel(x)" --target trn0\n{_COPY}'
    right = wrong.replace("trn0", "trn3")


class BadFile(UsageError, ValueError):
    """A file that is not what it should be: corrupt, of another kind or from a newer version."""

    code = "NKI604"
    page = "A file cannot be used: it is damaged, of another kind, or written by a newer version."
    wrong = "$ nki-lab execute copy.py"
    right = "$ nki-lab run copy.py --input x=randn:128x64"

    @classmethod
    def unwritable(cls, path: Any, error: OSError) -> BadFile:
        """Return the error of a file that the system does not let us write."""
        return cls(
            f"{path} cannot be written: {error.strerror or type(error).__name__}",
            help="name a file in a folder that is there and that you may write to",
        )


class UnknownTarget(UsageError, ValueError):
    """A target name that nki_lab has no data for."""

    code = "NKI605"
    page = """
        Targets are chips. Each has a name, such as trn2, and other names, such as gen3. The message lists
        all of them.
        """
    wrong = 'import nki_lab\n\nnki_lab.get_target("trn0")'
    right = wrong.replace("trn0", "trn3")


class BadKernelText(BadFile):
    """The text form of a kernel (.nkir) says something that cannot be read.

    Args:
        line, column: where, both counted from 1.
        text: the whole line.
    """

    code = "NKI606"
    page = """
        The text form of a kernel (.nkir) cannot be read at the place marked. It is what `--show ir` prints;
        take such a text as a pattern.
        """
    wrong = """
        nkir 1
        kernel copied on trn2 {
          param x = %x
          storage %x: float32[128x4] in shared_hbm, input
          storage %t: float33[128x4] in sbuf

          dma_copy(dst=%t, src=%x)
          dma_copy(dst=%x, src=%t)
        }
        """
    right = wrong.replace("float33", "float32")

    def __init__(
        self,
        message: str,
        *,
        line: int,
        column: int,
        text: str,
        notes: Iterable[str] = (),
        help: str = "",
    ) -> None:
        super().__init__(f"line {line}, column {column}: {message}", notes=notes, help=help)
        self.line = line
        self.column = column
        self.text = text

    def render(self, heading: bool = False) -> list[str]:
        """Return the error as lines, the line of the text among them."""
        first, *rest = super().render(heading)
        gutter = f"   {self.line} | "
        before = printable(self.text[: self.column - 1], "\t")
        mark = f"{'| ':>{len(gutter)}}{blanks(before)}^"
        return [first, gutter + printable(self.text, "\t"), mark, *rest]


class NoKernel(UsageError):
    """A cell, file or expression holds no kernel, or leaves open which one is meant."""

    code = "NKI607"
    page = """
        A kernel was expected, but there is none, or there are several and none is chosen. A `%%nki` cell
        defines functions decorated with @nki.jit, or exactly one function. On the command line a kernel is
        named file.py:kernel.
        """
    wrong = """
        %%nki
        size = 128
        """
    right = f"%%nki\n{_COPY}"


class UnknownTopic(UsageError, LookupError):
    """`explain` has no page of this name; it offers close matches."""

    code = "NKI608"
    page = """
        `explain` knows error codes (NKI203), instructions (nc_matmul), functions of nki.language
        (nl.softmax), methods of tensors (t.reshape), named choices (nisa.dge_mode), what nki and nki_lab
        offer (nki_lab.launch), options (--check), environment variables and targets.
        """
    wrong = "$ nki-lab explain nc_matmull"
    right = "$ nki-lab explain nc_matmul"


class ErrorNotRaised(UsageError):
    """A cell was expected to end with an error, but ended without one."""

    code = "NKI609"
    page = """
        With --expect a cell shows a mistake on purpose: it succeeds only if it ends with the error named
        there. This cell ended without an error. Put the mistake back, or remove --expect.
        """
    wrong = f'%%nki --run "kernel(x)" --expect NKI203\n{_COPY}'
    right = """
        %%nki --run "kernel(x)" --expect NKI203
        def kernel(x):
            t = nl.load(x)
            nisa.tensor_copy(dst=t, src=t[:, 0:2])
            return x
        """


class ExerciseFailed(UsageError, AssertionError):
    """The answer to an exercise is wrong, or not there yet."""

    code = "NKI610"
    page = """
        The kernel, slice or answer that was handed in does not do what the exercise asks. The message names
        what was found and with which arguments. Each check draws new arguments, so an answer passes only if
        it is right for all of them. hint("01.2") helps in three steps, %nki_exercise 01.2 shows again
        what is asked.
        """
    wrong = """
        import numpy as np
        from nki_lab.exercises import check

        check("01.3", np.ones(4))
        """
    right = """
        import nki
        import nki.language as nl
        from nki_lab.exercises import check

        @nki.jit
        def distance(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.abs(nl.subtract(nl.load(x), 1.0)))
            return out

        check("01.3", distance)
        """


class UnknownExercise(UsageError, LookupError):
    """There is no exercise of this number."""

    code = "NKI611"
    page = """
        An exercise is named by the number of its notebook and its own, in quotes: check("01.2", kernel).
        progress() lists all of them.
        """
    wrong = 'from nki_lab.exercises import hint\n\nhint("01.22")'
    right = wrong.replace("01.22", "01.2")
