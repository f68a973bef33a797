"""Writes down which sources the built files of the extension come from, so that stale ones are found without a build.

    python digest.py

The last step of `npm run build:prod`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
#: Beside the built files, in nki_lab/labextension.
WRITTEN = Path("nki_lab", "labextension", "sources.sha256")
_FILES = ("package.json", "package-lock.json", "rspack.config.cjs", "tsconfig.json")
_FOLDERS = ("src", "style", "schema")


def digest(folder: Path) -> str:
    """Return the SHA-256 of the names and bytes of all files of `folder` that go into the built extension."""
    files = [folder / name for name in _FILES]
    files += [file for name in _FOLDERS for file in (folder / name).rglob("*") if file.is_file()]
    found = hashlib.sha256()
    for file in sorted(files):
        data = file.read_bytes()
        found.update(f"{file.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()


if __name__ == "__main__":
    (HERE.parent / WRITTEN).write_text(digest(HERE) + "\n")
