"""`%nki_exercise`."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.display import display

from nki_lab.errors import UsageError
from nki_lab.exercises import ask
from nki_lab.exercises.progress_file import progress
from nki_lab.magics.cells import typed_stack
from nki_lab.session.evaluate import evaluate
from nki_lab.session.reading import option_help, parse_line

_MAGIC = "%nki_exercise"

_DOCUMENTATION = f"""\
Say what an exercise of the workshop asks, help with it, or check an answer.

    %nki_exercise                           which exercises are solved
    %nki_exercise 01.2                      what it asks, its state, the next step
    %nki_exercise 01.2 --hint               the next hint
    %nki_exercise 01.2 --check add_rows     try the kernel

{option_help(_MAGIC)}"""


@magics_class
class ExerciseMagics(Magics):
    """The line magic `%nki_exercise`."""

    @no_var_expand
    @line_magic
    def nki_exercise(self, line: str) -> None:  # noqa: D102 - set below
        def locate(word: str, column: int, width: int) -> Any:
            return typed_stack(f"<{_MAGIC}>", f"{_MAGIC} {line}", 1, word, column, width)

        id, _, rest = line.strip().partition(" ")
        if not id:
            display(progress())
            return
        if id.startswith("-"):
            raise UsageError(
                f"{_MAGIC} needs the number of an exercise in front of its options",
                stack=locate(id, 0, len(id)),
                help=f"for example {_MAGIC} 01.2 --hint",
            )
        options = parse_line(_MAGIC, rest, locate)
        if options.hint:
            ask.hint(id)
        if options.check is not None:
            assert self.shell is not None
            given = evaluate(options.check, self.shell.user_ns, locate)
            ask.check(id, given, cause=options.cause)
        elif not options.hint:
            print(ask.statement(id))

    nki_exercise.__doc__ = _DOCUMENTATION
