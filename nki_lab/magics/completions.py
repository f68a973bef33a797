"""Completes the options of a magic when the tab key is pressed."""

from __future__ import annotations

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from nki_lab.exercises.catalog import all_problems
from nki_lab.session.questions import options_of


@context_matcher()
def complete_options(context: CompletionContext) -> SimpleMatcherResult:
    """Offer the options of a magic, the values of those that list them, and the numbers of exercises."""
    magic, space, rest = context.text_until_cursor.lstrip().partition(" ")
    if not space or magic not in ("%%nki", "%nki", "%nki_exercise"):
        return SimpleMatcherResult(completions=[])
    if magic == "%nki_exercise" and " " not in rest.lstrip():
        return _offer([id for id in all_problems() if id.startswith(rest.lstrip())], rest.lstrip())
    options = {option.flag: option for option in options_of(magic)}
    words = rest.split(" ")
    token = words[-1]
    flag, equals, value = token.partition("=")
    if not equals:
        flag, value = (words[-2] if len(words) > 1 else ""), token
    option = options.get(flag)
    if option is not None and option.values:
        *given, last = value.split(",")
        offered = [value for value in option.values if value not in given]
        matching = [value for value in offered if value.startswith(last)]
    elif option is not None and not option.is_switch:
        return SimpleMatcherResult(completions=[])  # an expression: names, as anywhere
    else:
        last = token
        matching = [flag for flag in options if flag.startswith(token) and flag not in words]
    return _offer(matching, last)


def _offer(texts: list[str], fragment: str) -> SimpleMatcherResult:
    return SimpleMatcherResult(
        completions=[SimpleCompletion(text, type="param") for text in texts],
        matched_fragment=fragment,
        suppress=True,
    )
