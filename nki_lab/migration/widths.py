"""Breaks long lines of a text that was moved, inside the brackets that they have."""

from __future__ import annotations

import ast
import io
import tokenize

#: Columns that a line may have, as in texts that Ruff or Black formats here.
WIDTH = 100
_INDENT = "    "
_OPEN, _CLOSE = "([{", ")]}"


def with_short_lines(text: str, before: str) -> str:
    """Return a text whose long lines are broken, but for those that it had before and those without brackets.

    Args:
        text: what was written.
        before: the text it was made from.
    """
    kept = {line.strip() for line in before.splitlines() if len(line) > WIDTH}
    lines = text.splitlines()
    for number, end in _alone(text):
        line = lines[number]
        if end > WIDTH and line.strip() not in kept:
            indent = line[: len(line) - len(line.lstrip())]
            lines[number] = "\n".join(_broken(line[:end].strip(), indent)) + line[end:]
    result = "\n".join(lines) + "\n" * text.endswith("\n")
    return result if ast.dump(ast.parse(result)) == ast.dump(ast.parse(text)) else text


def _alone(text: str) -> list[tuple[int, int]]:
    """Return lines that are a whole statement or its head: their number, from 0, and where their code ends."""
    lines, first, end = [], 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            if first == token.start[0]:
                lines.append((first - 1, end))
            first = 0
        elif token.type != tokenize.COMMENT and token.string.strip():
            first, end = first or token.start[0], token.end[1]
    return lines


def _broken(code: str, indent: str) -> list[str]:
    """Return the lines of a statement, or of a part of it within brackets."""
    if len(indent + code) <= WIDTH:
        return [indent + code]
    groups = _groups(code)
    if not groups:
        return [indent + code]
    first, last, commas = max(groups, key=lambda group: group[1] - group[0])
    parts = [
        code[a + 1 : b].strip()
        for a, b in zip([first, *commas], [*commas, last], strict=True)
        if code[a + 1 : b].strip()
    ]
    inner = code[first + 1 : last].strip()
    within = [f"{indent}{_INDENT}{inner}"]
    if len(within[0]) > WIDTH:
        within = []
        for part in parts:
            *lines, end = _broken(part, indent + _INDENT)
            within += [*lines, end + "," * (len(parts) > 1)]
    return [f"{indent}{code[: first + 1]}", *within, f"{indent}{code[last:]}"]


def _groups(code: str) -> list[tuple[int, int, list[int]]]:
    """Return where each outer bracket opens and closes, and the commas in it."""
    groups: list[tuple[int, int, list[int]]] = []
    depth, start, commas = 0, 0, list[int]()
    for token in tokenize.generate_tokens(io.StringIO(f"({code}\n)").readline):
        at = token.start[1] - 1
        if token.start[0] > 1:
            break
        if token.type != tokenize.OP:
            continue
        if token.string in _OPEN:
            depth += 1
            if depth == 2:
                start, commas = at, []
        elif token.string in _CLOSE:
            if depth == 2 and at > start + 1:
                groups.append((start, at, commas))
            depth -= 1
        elif token.string == "," and depth == 2:
            commas.append(at)
    return groups
