"""Adds pages with the views of profiles and compiled kernels to a Jupyter server.

    __init__        what a Jupyter server looks for; it imports nothing before it is asked
    extension       the route, and messages to the front end
    page_limits     how long, how much and how many at once
    page_route      a request becomes a page, or a status with one sentence
    shown_path      which file a path means, and which it must never mean
    page_process    makes a page in a separate process, which may fail alone
    file_page       a file becomes a page

Installing the package enables it (`etc/jupyter/jupyter_server_config.d/nki_lab.json`).
"""

from __future__ import annotations

from typing import Any

from nki_lab import __version__

#: A server names the version of what it loads.
__all__ = ["__version__"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "nki_lab.server"}]


def _load_jupyter_server_extension(server: Any) -> None:
    from nki_lab.server.extension import load

    load(server)
