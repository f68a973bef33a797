"""Makes a page in a separate process, so that the server neither waits for it nor falls with it.

In a separate process, with a limit of time and of memory: a file may be huge, or made to do harm. It writes one line
of JSON with a status and, for a page, the page behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from nki_lab.server.page_limits import PageLimits

_MODULE = "nki_lab.server.page_process"


@dataclass(frozen=True)
class PageAnswer:
    """What came of making a page.

    Attributes:
        status: in HTTP.
        page: the page; empty where there is none.
        message: why not, in one sentence.
        help: what to do about it.
    """

    status: int
    page: bytes = b""
    message: str = ""
    help: str = ""


async def make_page(file: Path, theme: str | None, limits: PageLimits) -> PageAnswer:
    """Make the page of a file in another process. Being cancelled ends that process."""
    async with limits.turns:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-P",
                "-m",
                _MODULE,
                str(file),
                theme or "",
                str(limits.memory_bytes),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
        )
        try:
            written, said = await asyncio.wait_for(process.communicate(), limits.seconds)
        except TimeoutError:
            return PageAnswer(504, message=f"{file.name} was not read within {limits.seconds:g} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    head, _, page = written.partition(b"\n")
    if process.returncode == 0 and head:
        return PageAnswer(page=page, **json.loads(head))
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    return PageAnswer(
        500,
        message=f"{file.name} cannot be shown: reading it ended with {process.returncode}"
        + (f", {last}" if last else ""),
        help="a file that is larger than this machine's memory does this; else please report it",
    )


def _environment() -> dict[str, str]:
    """Return the environment of the process: it finds this nki_lab, and nothing in the current folder."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
    return os.environ | {"PYTHONPATH": path}


# -- in the process --------------------------------------------------------------------------------------------------


def main(path: str, theme: str, memory_bytes: str) -> None:
    """Write the page of a file to standard output."""
    _limit_memory(int(memory_bytes))
    answer = answer_for(Path(path), theme or None)
    head = {"status": answer.status, "message": answer.message, "help": answer.help}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + answer.page)


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # not on every system; the limit of time remains
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def answer_for(path: Path, theme: str | None) -> PageAnswer:
    """Return the page of a file, or why there is none."""
    from nki_lab.errors import BadFile, NkiError
    from nki_lab.server.file_page import file_page

    try:
        return PageAnswer(200, file_page(path, theme).encode())
    except BadFile as error:
        return PageAnswer(422, message=error.message, help=error.help)
    except NkiError as error:  # what was read needs a package, or breaks a rule of kernels
        return PageAnswer(501, message=error.message, help=error.help)
    except MemoryError:
        return PageAnswer(507, message=f"{path.name} needs more memory than a page may take")
    except Exception as error:
        what = f"{path.name} cannot be shown: {type(error).__name__}: {error}"
        return PageAnswer(500, message=what, help="please report this")


if __name__ == "__main__":
    main(*sys.argv[1:])
