"""Copies the workshop's files to a learner, and never touches what the learner wrote.

A learner's changes are found by comparing with a list of digests that is kept with the copy. Of a notebook
only the cells count: running them changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nki_lab.errors import UsageError

SOLUTIONS = "solutions"
_LIST = ".nki_lab_workshop.json"


@dataclass
class Copied:
    """What became of the files, by path in the learner's folder.

    Attributes:
        new: copied now.
        updated: replaced by a newer one; the learner had not changed them.
        older: left as they are, although there is a newer one and the learner has not changed them.
        own: changed by the learner, and kept.
        kept: the same, where there is a newer one.
        beside: the newer ones of these, written beside them under another name.
    """

    new: list[Path] = field(default_factory=list)
    updated: list[Path] = field(default_factory=list)
    older: list[Path] = field(default_factory=list)
    own: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    beside: list[Path] = field(default_factory=list)


def learner_files(source: Path, solutions: bool) -> list[Path]:
    """Return what a learner gets of the folder `source`: notebooks, their pictures and, if asked, solved notebooks."""
    files = [path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()]
    unwanted = {".ipynb_checkpoints"} if solutions else {".ipynb_checkpoints", SOLUTIONS}
    return [f for f in files if f.suffix in (".ipynb", ".svg") and not unwanted & set(f.parts)]


def copy_workshop(
    source: Path, target: Path, *, update: bool = False, solutions: bool = False
) -> Copied:
    """Copy the workshop into the folder `target`, which may hold an earlier copy with a learner's work.

    Args:
        source: folder of the workshop.
        target: made if it is not there.
        update: replace what the learner has not changed, and write newer ones beside what was changed.
        solutions: copy the solutions, too.

    Raises:
        UsageError: the target is not a folder, or nothing can be written there.
    """
    if source.resolve() == target.resolve():
        raise UsageError(f"{target} is the workshop itself", help="name another folder for a copy")
    copied = Copied()
    try:
        target.mkdir(parents=True, exist_ok=True)
        listed = _read_list(target)
        for path in learner_files(source, solutions):
            _place(source / path, target, path, listed, update, copied)
        _write(target / _LIST, json.dumps({"files": listed}, indent=1, sort_keys=True).encode())
    except OSError as error:
        raise UsageError(
            f"cannot copy the workshop to {target}: {error.strerror}",
            help="name a folder that you may write to",
        ) from None
    return copied


def _place(
    new: Path, target: Path, path: Path, known: dict[str, str], update: bool, copied: Copied
) -> None:
    """Copy one file to its place `path` in `target`, unless what lies there is the learner's."""
    there, name = target / path, path.as_posix()
    wanted = _digest(new)
    if not os.path.lexists(there):
        copied.new.append(path)
    elif (digest := _digest(there)) == wanted:
        known[name] = wanted
        return
    elif digest != known.get(name):
        (copied.own if known.get(name) == wanted else copied.kept).append(path)
        if update and path in copied.kept:
            beside = path.with_suffix(f".new{path.suffix}")
            if not os.path.lexists(target / beside):
                _write(target / beside, new.read_bytes())
                copied.beside.append(beside)
        return
    elif update:
        copied.updated.append(path)
    else:
        copied.older.append(path)
        return
    _write(there, new.read_bytes())
    known[name] = wanted


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _read_list(target: Path) -> dict[str, str]:
    """Return the digests of what was copied; without a readable list all files count as the learner's."""
    try:
        files = json.loads((target / _LIST).read_bytes())["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _digest(path: Path) -> str:
    """Return what tells two versions of a file apart; "" for what cannot be read as a file."""
    if not path.is_file():
        return ""
    content = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = [_cell(cell) for cell in json.loads(content)["cells"]]
            content = json.dumps(cells).encode()
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # damaged by its owner, who may want to mend it
    return hashlib.sha256(content).hexdigest()


def _cell(cell: Any) -> tuple[str, str]:
    source = cell["source"]
    return cell["cell_type"], source if isinstance(source, str) else "".join(source)
