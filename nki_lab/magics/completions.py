"""What does the tab key offer on the first line of a `%%nki` cell?"""

from __future__ import annotations

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from nki_lab.options.table import options_of


@context_matcher()
def complete_options(context: CompletionContext) -> SimpleMatcherResult:
    """Offer the options of `%%nki` and `%nki`, and the values of those that list them."""
    magic, space, rest = context.text_until_cursor.lstrip().partition(" ")
    if not space or magic not in ("%%nki", "%nki"):
        return SimpleMatcherResult(completions=[])
    options = {option.flag: option for option in options_of(magic)}
    words = rest.split(" ")
    token = words[-1]
    flag, equals, value = token.partition("=")
    if not equals:
        flag, value = (words[-2] if len(words) > 1 else ""), token
    option = options.get(flag)
    if option is not None and option.choices:
        *given, last = value.split(",")
        left = [choice for choice in option.choices if choice not in given]
        found = [choice for choice in left if choice.startswith(last)]
    elif option is not None and not option.is_switch:
        return SimpleMatcherResult(completions=[])  # an expression: names, as anywhere
    else:
        last = token
        found = [flag for flag in options if flag.startswith(token) and flag not in words]
    return SimpleMatcherResult(
        completions=[SimpleCompletion(text, type="param") for text in found],
        matched_fragment=last,
        suppress=True,
    )
