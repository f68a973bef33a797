"""Writes the notebooks of the workshop from the folders in `lessons`.

    python -m workshop.generate                    all notebooks, executed
    python -m workshop.generate 01_first_kernel    one of them
    python -m workshop.generate --text             only their text; a cell keeps its output if its text did not change

In `lessons/NN_name`, `lesson.py` holds the cells (jupytext's percent format) and `solutions.py` the solutions as
ordinary kernels. A lesson with exercises becomes two notebooks: `NN_name.ipynb` for learners, with skeletons, and
`solutions/NN_name.ipynb`, where the function of the same name in `solutions.py` replaces each skeleton, and its entry
in `ANSWERS` each open answer. AUTHORS.md says how to write them.
"""

from __future__ import annotations

import ast
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jupytext
import nbformat
import typer

from nki_lab.cli import notebook_file
from nki_lab.errors import NkiError
from nki_lab.exercises.catalog import lesson_folders

FOLDER = Path(__file__).parent
SOLUTIONS = FOLDER / "solutions"
SECONDS = 120  # for one cell; a whole notebook should take less than half of it

#: Cell attributes of a source, and the tags they become. Their value is the id of an exercise.
ROLES = ("exercise", "check", "needs")
LOAD = """\
%load_ext nki_lab
# "No module named 'nki_lab'"? Run %pip install 'nki-lab[workshop]' in a new cell, then restart the kernel."""
_NUMBER = re.compile(r"(\d\d)_\w+")
_OPEN = re.compile(r"\.\.\.(?=[\s,)]|$)")
_PICTURE = re.compile(r"(\]\()([\w-]+\.svg\))")
_LINK = re.compile(r"(\]\()([^)#:\s]+)([)#])")


class BadSource(ValueError):
    """A lesson that does not give a notebook."""


@dataclass(frozen=True)
class Solutions:
    """The solutions of one notebook.

    Attributes:
        functions: text of each function of `solutions.py`, by name.
        answers: text of each entry of its `ANSWERS`, by the id of the exercise.
    """

    functions: dict[str, str]
    answers: dict[str, str]

    @classmethod
    def of(cls, name: str) -> Solutions:
        """Read the solutions of the lesson `NN_name`; a lesson without exercises has none."""
        path = lesson_folders()[name] / "solutions.py"
        text = path.read_text("utf-8") if path.exists() else ""
        functions, answers = {}, {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = _segment(text, node)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ANSWERS":
                assert isinstance(node.value, ast.Dict)
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    segment = ast.get_source_segment(text, value)
                    assert key is not None and segment is not None
                    answers[ast.literal_eval(key)] = segment
        return cls(functions, answers)


def names() -> list[str]:
    """Return the names of all lessons, in order."""
    return list(lesson_folders())


def learner(name: str) -> Any:
    """Return the notebook for learners, without outputs."""
    text = (lesson_folders()[name] / "lesson.py").read_text("utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    for cell in notebook.cells:
        facts = cell.metadata
        if "id" not in facts:
            raise BadSource(f"{name}: a cell has no id: {cell.source[:60]!r}")
        cell.id = facts["id"]
        if cell.id == "load":
            cell.source = LOAD
        if cell.cell_type == "markdown":
            cell.source = _PICTURE.sub(r"\1pictures/\2", cell.source)
        tags = [
            *facts.get("tags", ()),
            *(f"{role}-{facts[role]}" for role in ROLES if role in facts),
        ]
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
    notebook_file.clean(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def solved(name: str) -> Any:
    """Return the notebook with every exercise solved, without outputs."""
    notebook = learner(name)
    solutions = Solutions.of(name)
    for cell in notebook.cells:
        id = role_of(cell, "exercise")
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(_moved, cell.source)
        elif id is not None:
            cell.source = _solved(name, id, cell.source, solutions)
    return notebook


def has_exercises(name: str) -> bool:
    """Tell whether a notebook has exercises, and so a notebook of solutions."""
    return any(role_of(cell, "exercise") for cell in learner(name).cells)


def role_of(cell: Any, role: str) -> str | None:
    """Return the exercise whose `exercise`, `check` or `needs` cell this is; None where it is none."""
    for tag in cell.metadata.get("tags", ()):
        if tag.startswith(f"{role}-"):
            return tag.removeprefix(f"{role}-")
    return None


def write(name: str, execute: bool = True) -> None:
    """Write a notebook, and that of its solutions."""
    path = FOLDER / f"{name}.ipynb"
    of_learner = learner(name)
    main, of_main = (
        (SOLUTIONS / path.name, solved(name)) if has_exercises(name) else (path, of_learner)
    )
    _keep_outputs(of_main, main)
    _write(of_main, main)
    if execute:
        of_main = notebook_file.execute(main, SECONDS).notebook
        _write(of_main, main)
    if main != path:
        _take_outputs(of_learner, of_main)
        _write(of_learner, path)


def _segment(text: str, node: ast.FunctionDef) -> str:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _solved(name: str, id: str, source: str, solutions: Solutions) -> str:
    """Return the text of an exercise's cell with its skeletons and its open answer filled in."""
    head, body = "", source
    if source.startswith("%%"):
        head, _, body = source.partition("\n")
        head += "\n"
    lines = body.splitlines()
    defined = [n for n in ast.parse(body).body if isinstance(n, ast.FunctionDef)]
    known = [node for node in defined if node.name in solutions.functions]
    for node in reversed(known):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        lines[first - 1 : node.end_lineno] = [_place(node.name)]
    text = "\n".join(lines)
    answered = 0
    if id in solutions.answers:
        text, answered = _OPEN.subn(lambda _: solutions.answers[id], text, count=1)
    if not known and not answered:
        raise BadSource(f"{name}: nothing in its solutions.py solves the cell of {id}")
    for node in known:  # last, since a solution may hold `...` itself
        text = text.replace(_place(node.name), solutions.functions[node.name])
    return head + text


def _place(function: str) -> str:
    return f"<the solution {function}>"


def _moved(link: re.Match[str]) -> str:
    """Let a link of a learner's notebook lead to the same place from the folder of solutions."""
    target = link[2]
    stem = _NUMBER.fullmatch(target.removesuffix(".ipynb"))
    stays = (
        target.endswith(".ipynb")
        and stem
        and target.removesuffix(".ipynb") in names()
        and has_exercises(stem[0])
    )
    return link[0] if stays else f"{link[1]}../{target}{link[3]}"


def _keep_outputs(notebook: Any, path: Path) -> None:
    """Give cells whose text did not change the outputs that the file has for them."""
    if not path.exists():
        return
    before = {c.id: c for c in notebook_file.read(path).cells if c.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.id in before and before[cell.id].source == cell.source:
            cell.outputs = before[cell.id].outputs


def _take_outputs(of_learner: Any, of_solved: Any) -> None:
    """Give the cells that are the same for learners their outputs; what an answer brings about is left out."""
    known = {cell.id: cell for cell in of_solved.cells}
    for cell in of_learner.cells:
        if cell.cell_type == "code" and not any(role_of(cell, role) for role in ROLES):
            cell.outputs = known[cell.id].outputs


def _write(notebook: Any, path: Path) -> None:
    notebook_file.clean(notebook)
    if not path.exists():
        path.write_text("")
    notebook_file.write(notebook, path)


def main(
    wanted: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    text: Annotated[bool, typer.Option("--text", help="do not run them")] = False,
) -> None:
    """Write the notebooks of the workshop from their lessons."""
    chosen = [Path(name).stem for name in wanted or names()]
    for name in chosen:
        start = time.perf_counter()
        try:
            write(name, execute=not text)
        except (BadSource, NkiError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        typer.echo(f"{name}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
