"""Runs when a Jupyter server starts: adds the routes."""

from __future__ import annotations

from typing import Any

from jupyter_server.utils import url_path_join

from nki_lab.server.page_limits import PageLimits
from nki_lab.server.page_route import PageHandler

#: The route below the server's address; what follows it is the path of a file.
ROUTE = "nki-lab/page"
#: An entry of JupyterLab's page configuration. Where it is missing, the extension offers no views of files.
PAGE_OPTION = "nkiLabPages"


def load(server: Any) -> None:
    """Add the route to a running server, and tell its front ends that it is there."""
    web = server.web_app
    base = url_path_join(web.settings["base_url"], ROUTE)
    limits = PageLimits(parent=server)
    web.add_handlers(".*$", [(rf"{base}/(?P<path>.+)", PageHandler, {"limits": limits})])
    web.settings.setdefault("page_config_data", {})[PAGE_OPTION] = "true"
