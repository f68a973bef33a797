"""The magics that show a run, a stored or measured profile, or a NEFF again.

Each takes a run: a variable that holds a Result or a Profile, or the file of a stored profile; without one, the last
run of the notebook.
"""

from __future__ import annotations

import ast
import os
import shlex
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.display import display

from nki_lab.choices import Choices
from nki_lab.errors import NoKernel, UnknownOption, UsageError, close_matches
from nki_lab.hardware.importers import load_profile
from nki_lab.hardware.neff import read_neff
from nki_lab.hardware.neff_layout import VIEWS as NEFF_VIEWS
from nki_lab.hardware.neff_layout import neff_text, neff_view
from nki_lab.magics.show import show
from nki_lab.profiler.analyses.report import summary_text
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result
from nki_lab.session.answers import profile_of
from nki_lab.session.reading import parse_line
from nki_lab.views.display import display as displayed

_LAST = "_nki"
_VALUES = "for example tile_n=128,256,512 target=trn1,trn2, without spaces in between"


@magics_class
class ViewMagics(Magics):
    """The line magics that show a run again."""

    @no_var_expand
    @line_magic
    def nki_ir(self, line: str) -> None:
        """Show the program of a run after each pass.

        %nki_ir                 the last run
        %nki_ir add_result      the run in a variable
        """
        show(self._result(_words(line, "%nki_ir"), "%nki_ir"), ("ir",))

    @no_var_expand
    @line_magic
    def nki_layout(self, line: str) -> None:
        """Show where the tensors of a run lie, and which parts its instructions touch.

        %nki_layout             the last run
        %nki_layout add_result  the run in a variable
        """
        show(self._result(_words(line, "%nki_layout"), "%nki_layout"), ("layout",))

    @no_var_expand
    @line_magic
    def nki_profile(self, line: str) -> None:
        """Show the report of a run: what bounds it, engines, DMA, lines, and what would make it faster.

        %nki_profile                the last run
        %nki_profile add_result     the run in a variable
        %nki_profile add.parquet    a stored profile
        %nki_profile add.parquet --from 1000 --to 250000    a span of its time, in ns
        """
        show(self._part(line, "%nki_profile"), ("report",))

    @no_var_expand
    @line_magic
    def nki_timeline(self, line: str) -> None:
        """Show the timeline of a run or of a stored profile.

        %nki_timeline               the last run
        %nki_timeline add.json      a stored profile, or an export or a capture of neuron-profile or neuron-explorer
        %nki_timeline add.parquet --from 1000 --to 250000    a span of its time, in ns
        %nki_timeline ntff.pftrace --target trn2    an export that does not say which chip it is of
        """
        show(self._part(line, "%nki_timeline"), ("timeline",))

    @no_var_expand
    @line_magic
    def nki_vary(self, line: str) -> None:
        """Show sliders for a kernel's parameters, with the timeline of what they say; no value is computed.

        %nki_vary                                           the last run, with values that suggest themselves
        %nki_vary matmul_result tile_n=128,256,512 target=trn1,trn2
        """
        words = _words(line, "%nki_vary")
        pairs = [word.split("=", 1) for word in words if "=" in word]
        chosen = dict(pairs)
        if len(chosen) < len(pairs):
            name = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
            raise UsageError(f"%nki_vary: {name} is given twice", help=_VALUES)
        values = {name: self._values(name, text) for name, text in chosen.items()}
        display(
            self._result([word for word in words if "=" not in word], "%nki_vary").vary(**values)
        )

    @no_var_expand
    @line_magic
    def nki_summary(self, line: str) -> None:
        """Print the metrics of a run by Neuron Explorer's names, each with its unit.

        %nki_summary                the last run
        %nki_summary add.json       a stored profile

        Every metric stands there, however long the kernel is: their list is Neuron Explorer's, and none is left out.
        """
        print(summary_text(profile_of(self._part(line, "%nki_summary"))))

    @no_var_expand
    @line_magic
    def nki_compare(self, line: str) -> None:
        """Say where the time of two runs differs, by engine, line and opcode, and show both on one timeline.

        %nki_compare before after           two variables
        %nki_compare before.json after      a stored profile and a variable
        """
        words = _words(line, "%nki_compare")
        if len(words) != 2:
            raise UsageError(
                f"%nki_compare takes two runs, found {len(words)}",
                help="for example %nki_compare before_result after_result",
            )
        first, second = (self._named(word) for word in words)
        show(second, ("timeline",), first)

    @no_var_expand
    @line_magic
    def neff_layout(self, line: str) -> None:
        """Show where the official compiler placed what its transfers move, beside where nki_lab did.

        %neff_layout kernel.neff                the last run beside it, where there is one
        %neff_layout kernel.neff add_result     the run in a variable beside it
        """
        words = _words(line, "%neff_layout")
        if not 1 <= len(words) <= 2:
            raise UsageError(
                f"%neff_layout takes a NEFF and perhaps a run, found {len(words)} words",
                help="for example %neff_layout kernel.neff add_result",
            )
        neff = read_neff(words[0])
        beside = self._named(words[1]) if len(words) > 1 else self._names.get(_LAST)
        ours = beside if isinstance(beside, Result) else None
        print(neff_text(neff, None if ours is None else ours.view_data))
        chip = neff.target or Choices.current().chip
        display(displayed(neff_view(neff, chip), NEFF_VIEWS))
        if ours is not None:
            show(ours, NEFF_VIEWS[:1])

    def _values(self, name: str, text: str) -> list[Any]:
        """Return the values of a parameter: Python's literals, names of the notebook, or texts such as trn2."""
        nodes = _elements(text)
        if nodes is None and not any(mark in text for mark in "[](){}"):
            words = [word.strip() for word in text.split(",")]
            nodes = (
                [(_elements(word) or [ast.Constant(word)])[0] for word in words]
                if all(words)
                else []
            )
        if nodes is None:
            raise UsageError(f"%nki_vary: `{text}` holds no values of {name}", help=_VALUES)
        if not nodes:
            raise UsageError(f"%nki_vary: a value of {name} is missing in `{text}`", help=_VALUES)
        return [self._value(name, node) for node in nodes]

    def _value(self, name: str, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            word = ast.unparse(node)
        first, *attributes = word.split(".")
        if not all(part.isidentifier() for part in (first, *attributes)):
            raise UsageError(f"%nki_vary: `{word}` is not a value for {name}", help=_VALUES)
        value = self._names.get(first)
        for attribute in attributes:
            value = getattr(value, attribute, None)
        return word if value is None else value

    def _result(self, words: list[str], magic: str) -> Result:
        """Return a run with its program."""
        result = self._run(words, magic)
        if isinstance(result, Result):
            return result
        raise UsageError(
            f"{magic} needs the program of a run, which a profile does not have",
            help="name a Result such as add_result",
        )

    def _part(self, line: str, magic: str) -> Result | Profile:
        """Return a run, or of a span of its time the profile."""
        words = _words(line, magic)
        first = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
        options = parse_line(magic, shlex.join(words[first:]))
        start, end, target = getattr(options, "from"), options.to, options.target
        named = words[0] if first == 1 else None
        if named is not None and named not in self._names and os.path.exists(named):
            return load_profile(named, target, start, end)
        if target is not None:
            raise UnknownOption(
                "--target says which chip a file is of, and no file is named",
                help=f"name one, such as {magic} ntff.pftrace --target {target}, or leave --target out",
            )
        if start is None and end is None:
            return self._run(words[:first], magic)
        return profile_of(self._run(words[:first], magic)).between(start, end)

    def _run(self, words: list[str], magic: str) -> Result | Profile:
        if len(words) > 1:
            raise UsageError(
                f"{magic} takes one run, found {', '.join(words)}", help=f"write {magic} {words[0]}"
            )
        if words:
            return self._named(words[0])
        last = self._names.get(_LAST)
        if last is None:
            raise NoKernel(
                "nothing has run in this notebook",
                help="run a kernel with %%nki --run 'kernel(a)', or name a stored profile",
            )
        return last

    def _named(self, word: str) -> Result | Profile:
        value = self._names.get(word)
        if isinstance(value, (Result, Profile)):
            return value
        if value is not None:
            return profile_of(value)
        if os.path.exists(word):
            return load_profile(word)
        runs = [name for name, v in self._names.items() if isinstance(v, (Result, Profile))]
        raise UsageError(
            f"`{word}` is neither a run in a variable nor a file",
            help=close_matches(word, runs) or "name a Result, a Profile, or the file of a profile",
        )

    @property
    def _names(self) -> dict[str, Any]:
        assert self.shell is not None
        return self.shell.user_ns


def _words(line: str, magic: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic}: {error}", help="close the quotes") from None


def _elements(text: str) -> list[ast.expr] | None:
    """Return the expressions between commas, also if a list is written around them; None if it is not Python."""
    try:
        elements = ast.parse(f"[{text}]", mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(elements, ast.List)
    one = elements.elts[0] if len(elements.elts) == 1 else None
    return one.elts if isinstance(one, ast.List) else elements.elts
