"""The magics `%%nki` and `%nki`: define kernels of a cell, and answer what their line asks."""

from __future__ import annotations

import ast
import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display

from nki_lab import jax, torch
from nki_lab.choices import CELL, LINE, Choices
from nki_lab.dialects import BETA1, NKI
from nki_lab.errors import NkiError, NoKernel, UnknownOption, show_place, without_our_frames
from nki_lab.frameworks.model_trace import trace_of_runs
from nki_lab.frameworks.operator import AUTO, Operator
from nki_lab.magics.breakpoints import breakpoints
from nki_lab.magics.cells import Cell, typed_stack
from nki_lab.magics.define import (
    EXAMPLE,
    define_kernels,
    dialect_said,
    kernels_in,
    parsed,
    ready_modules,
)
from nki_lab.magics.editor import editor_of
from nki_lab.magics.show import show
from nki_lab.runtime import KernelFunction, Result
from nki_lab.session.evaluate import evaluate
from nki_lab.session.expect import expected
from nki_lab.session.reading import option_help, parse_line
from nki_lab.session.request import Request, session
from nki_lab.source import text_of
from nki_lab.views.difference import show_difference
from nki_lab.views.models.trace import ModelTrace

_DOCUMENTATION = f"""\
Make the cell's function an NKI kernel; with --run, compile, simulate, time and show it.

{EXAMPLE}

The cell is plain Python and runs in the notebook's namespace. Functions decorated with @nki.jit are
kernels; a single function without decorator becomes one. `nki`, `nl` (nki.language) and `nisa`
(nki.isa) may be used without importing them. Without --run the kernel is defined and its text is
checked.

A run leaves its Result in <kernel>_result, or in the variable --name gives; `_nki` is always the
last one. `%nki --run "double(a)"` runs a kernel of an earlier cell.

{option_help(CELL)}"""

# What the line of a cell that was moved does not say any more.
_MOVES = re.compile(r"\s+--(?:migrate\b|(?:nki|dialect|accept)(?:=|\s+)\S+)")


@magics_class
class NkiMagics(Magics):
    """The cell magic `%%nki` and the line magic `%nki`."""

    @no_var_expand
    @line_cell_magic
    def nki(self, line: str, cell: str | None = None) -> None:  # noqa: D102 - set below
        try:
            with breakpoints(self.ip):
                if cell is None:
                    self._line(line)
                else:
                    self._cell(line, cell)
        except NkiError as error:
            without_our_frames(error)
            raise
        except Exception:
            raise
        except BaseException as error:  # an interrupt, or what a kernel raises to get past everyone
            show_place(error)
            without_our_frames(error)
            raise

    nki.__doc__ = _DOCUMENTATION

    @property
    def ip(self) -> InteractiveShell:
        """The IPython these magics are registered with."""
        assert self.shell is not None
        return self.shell

    def _cell(self, line: str, body: str) -> None:
        cell = Cell.of(self.ip, CELL, line, body)
        editor = editor_of(self.ip)
        if editor is not None:
            editor.defined(cell)
        options = parse_line(CELL, line, cell.option_stack)
        Request(CELL, options, self.ip.user_ns, cell.option_stack).refuse_alone()
        if options.accept and not options.migrate:
            raise UnknownOption(
                "--accept says what may differ where --migrate moves the cell, but --migrate is not given",
                stack=cell.option_stack("--accept"),
                help="add --migrate, or leave --accept out",
            )
        if options.migrate:
            if options.dialect == BETA1.option:  # of the cell, not of the new text
                options.dialect, options.nki = None, BETA1.option
            with (
                expected(options, cell.option_stack),
                session(options, cell.option_stack("--timeout")),
            ):
                self._migrate(cell, options)
            return
        with expected(options, cell.option_stack) as printed:
            with session(options, cell.option_stack("--timeout")) as runs:
                kernels = define_kernels(self.ip, cell, options.nki)
                name = kernels[0].__name__ if kernels else "kernel"
                operator = self._operator(kernels, options, cell)
                request = Request(CELL, options, self.ip.user_ns, cell.option_stack, kernel=name)
                self._answer(request, runs, operator)
                chips = [kernel.chip.name for kernel in kernels]
            if not runs and not options.quiet:
                for kernel, chip in zip(kernels, chips, strict=True):
                    parameters = ", ".join(kernel.__signature__.parameters)
                    print(text_of([f"kernel {kernel.__name__}({parameters}) for {chip}"]))
            if operator is not None and not options.quiet:
                print(text_of([str(operator)]))
        if editor is not None:
            editor.expected(printed)

    def _operator(self, kernels: list[KernelFunction], options: Any, cell: Cell) -> Operator | None:
        """Make a kernel of the cell an operator where its line asks for one, in the variable of its name."""
        option = "torch" if options.torch else "jax"
        name = options.torch or options.jax
        if name is None:
            return None
        short = name.partition("::")[2]
        forward = [k for k in kernels if not k.__name__.endswith("_backward")]
        forward = [k for k in forward if k.__name__ == short] or forward
        if len(forward) != 1:
            raise UnknownOption(
                f"--{option} {name}: the cell has {len(forward)} kernels that it could mean",
                stack=cell.option_stack(f"--{option}"),
                help="call the operator as its kernel; a kernel whose name ends in _backward is not meant",
            )
        (kernel,) = forward
        backward = self.ip.user_ns.get(f"{kernel.__name__}_backward", AUTO)
        make = (torch if options.torch else jax).custom_op
        operator = make(name, kernel, backward=backward)
        self.ip.push({short: operator})
        return operator

    def _migrate(self, cell: Cell, options: Any) -> None:
        """Insert the cell below, as it is written for today's NKI."""
        # LibCST alone takes as long to load as half of the rest.
        from nki_lab.migration.modules import Module
        from nki_lab.migration.moving import migrated, since_named

        if options.run is None:
            raise UnknownOption(
                "--migrate compares both versions of the cell by what --run computes, but --run is not given",
                stack=cell.option_stack("--migrate"),
                help="add --run 'kernel(a, b)'",
            )
        tree = parsed(cell)
        said = dialect_said(tree, Choices.current()) or (NKI if options.nki else None)
        ready = ready_modules(said, self.ip.user_ns)
        module = Module(cell.text, cell.filename, None, self.ip.user_ns | ready)

        def call(names: dict[str, Any]) -> None:
            kernels_in(tree, names, cell)
            evaluate(options.run, names, cell.option_stack)

        migration = migrated(
            module,
            call,
            since_named(BETA1.option if said is BETA1 else options.nki, module),
            accepted=options.accept or "",
        )
        print(migration.report())
        if not migration.is_moved:
            return
        migration.refuse_difference()
        _, _, body = migration.text.partition(f"# {cell.typed}\n")
        line = _MOVES.sub("", cell.typed)
        self.ip.set_next_input(f"{line}\n{body}".rstrip("\n"), replace=False)

    def _line(self, line: str) -> None:
        def locate(word: str, column: int, width: int) -> Any:
            return typed_stack("<%nki>", f"{LINE} {line}", 1, word, column, width)

        options = parse_line(LINE, line, locate)
        if options.run is None:
            raise NoKernel(
                "%nki runs a kernel of an earlier cell, but none is named",
                stack=locate("", 0, 0),
                help="write %nki --run 'kernel(a, b)', or %%nki to define a kernel",
            )
        request = Request(LINE, options, self.ip.user_ns, locate)
        request.refuse_alone()
        with expected(options, locate), session(options, locate("--timeout", 0, 0)) as runs:
            self._answer(request, runs)

    def _answer(
        self, request: Request, runs: list[Result], operator: Operator | None = None
    ) -> None:
        """Keep the last run in its variables, and tell what came out."""
        answer = request.answer(runs)
        if answer is None:
            return
        name = request.options.name or f"{answer.result.name}_result"
        self.ip.push({name: answer.result, "_nki": answer.result})

        def show_views(views: tuple[str, ...] | None) -> None:
            own = None if operator is None else operator.kernel.__name__
            is_plain = views is None and answer.other is None and answer.failed is None
            if operator is not None and is_plain and any(run.name == own for run in runs):
                display(self._both(operator, request, runs).show("kernels", "operators", "calls"))
            else:
                show(answer.result, views, answer.other, tells=False)

        answer.tell(print, print, show_views, name, show_difference)

    def _both(self, operator: Operator, request: Request, runs: list[Result]) -> ModelTrace:
        """Return an operator with its backward: as --run ran them, else for the arguments that --run calls it with."""
        if any(run.name != operator.kernel.__name__ for run in runs):
            return trace_of_runs(operator, runs)
        call = ast.parse(request.asks("run").text.strip(), mode="eval").body
        named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if not named or self.ip.user_ns.get(call.func.id) is not operator:  # type: ignore[attr-defined]
            return trace_of_runs(operator, runs)
        call.func.id = name = "_traced"  # type: ignore[attr-defined]
        scope = self.ip.user_ns | {name: operator.trace}
        return eval(compile(ast.Expression(call), "<--run>", "eval"), scope)  # type: ignore[no-any-return]
