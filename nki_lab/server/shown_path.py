"""Finds the file that a path of the server means, and refuses those it must never mean.

A path is read as the server's contents manager reads it, below the folder that the server shows. A file that
leads out of that folder, by `..` or by a symbolic link, is refused as if it were not there.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.services.contents.fileio import FileManagerMixin
from jupyter_server.utils import ApiPath, to_os_path

from nki_lab.profiler.formats.explorer_files import is_explorer_folder
from nki_lab.profiler.formats.tables_folder import is_folder

#: Files of these endings may be parts of a profile that is a folder.
_PARTS = (".csv", ".json", ".parquet")
#: Characters of a name in a message; an address may have thousands.
_NAME_SHOWN = 100


class NotShown(Exception):
    """A path that no page is made of.

    Attributes:
        status: of the answer, in HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@asynccontextmanager
async def shown_file(manager: Any, path: str, most_bytes: int) -> AsyncIterator[Path]:
    """Give the file or folder that a path means, for as long as it is being read.

    Args:
        manager: the server's contents manager.
        path: relative to the folder that the server shows.
        most_bytes: larger files are refused.

    Raises NotShown.
    """
    path = path.strip("/")
    if ".." in path.split("/") or "\0" in path or os.path.splitdrive(path)[0]:
        raise NotShown(404, f"{_name(path)} is outside of the folder that this server shows")
    try:
        hidden = not manager.allow_hidden and await ensure_async(manager.is_hidden(path))
        if isinstance(manager, FileManagerMixin) and not hidden:
            file = _on_disk(Path(manager.root_dir), path, most_bytes)  # type: ignore[attr-defined]
    except (OSError, ValueError):  # links in a circle, a file in the place of a folder, a long name
        hidden = True
    if hidden:
        raise NotShown(404, f"there is no file {_name(path)}")
    if isinstance(manager, FileManagerMixin):
        yield file
        return
    # Contents that are kept elsewhere are fetched; of a folder of tables only one file would come.
    with tempfile.TemporaryDirectory(prefix="nki-lab-") as folder:
        copy = Path(folder) / _name(path)
        copy.write_bytes(await _fetched(manager, path, most_bytes))
        yield copy


def _on_disk(root: Path, path: str, most_bytes: int) -> Path:
    root = Path(os.path.realpath(root))
    file = _inside(Path(to_os_path(ApiPath(path), str(root))), root)
    if not file.is_file():
        raise NotShown(404, f"there is no file {_name(path)}")
    shown = _whole(file)
    parts = [_inside(part, root) for part in shown.iterdir()] if shown.is_dir() else [file]
    _check_size(shown.name, sum(part.stat().st_size for part in parts), most_bytes)
    return shown


def _inside(file: Path, root: Path) -> Path:
    """Return where a file really lies; below `root`, or it is refused."""
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(root):
        raise NotShown(404, f"{file.name} is outside of the folder that this server shows")
    return real


def _whole(file: Path) -> Path:
    """Return the folder of a profile that a file is a part of, or else the file."""
    folder = file.parent
    if file.suffix.lower() in _PARTS and is_folder(folder):
        return folder
    if file.suffix.lower() == ".parquet" and is_explorer_folder(folder):
        return folder
    return file


async def _fetched(manager: Any, path: str, most_bytes: int) -> bytes:
    about = await ensure_async(manager.get(path, content=False))
    if about["type"] == "directory":
        raise NotShown(404, f"there is no file {_name(path)}")
    _check_size(_name(path), about.get("size") or 0, most_bytes)
    model = await ensure_async(manager.get(path, content=True, type="file", format="base64"))
    return base64.b64decode(model["content"])


def _check_size(name: str, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise NotShown(413, f"{name} has {size:,} bytes; files of at most {most_bytes:,} are shown")


def _name(path: str) -> str:
    return path.rpartition("/")[2][:_NAME_SHOWN]
