"""Answers a request for the page of a file."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from nki_lab.server.page_limits import PageLimits
from nki_lab.server.page_process import PageAnswer, make_page
from nki_lab.server.shown_path import NotShown, shown_file

_THEMES = ("light", "dark")


class PageHandler(JupyterHandler):
    """GET nki-lab/page/PATH?theme=dark: the page that shows a file, or a status and {"message": ..., "help": ...}."""

    auth_resource = "contents"

    def initialize(self, limits: PageLimits) -> None:  # type: ignore[override]
        """Keep the limits."""
        super().initialize()
        self._limits = limits
        self._making: asyncio.Task[PageAnswer] | None = None

    @property
    def content_security_policy(self) -> str:
        """A page may run its own script and reach nothing, this server included, even where it is opened directly."""
        return f"{super().content_security_policy}; sandbox allow-scripts"

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Answer with the page of a file of the server."""
        self.check_xsrf_cookie()  # as for contents: only pages of this server may ask
        theme = self.get_query_argument("theme", None)
        if theme is not None and theme not in _THEMES:
            answer = PageAnswer(400, message=f"themes are light and dark; found {theme[:40]}")
        else:
            answer = await self._answer(path, theme)
        self.set_status(answer.status)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        if answer.status == 200:
            self.set_header("Content-Type", "text/html; charset=UTF-8")
            self.finish(answer.page)
            return
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"message": answer.message, "help": answer.help}))

    async def _answer(self, path: str, theme: str | None) -> PageAnswer:
        manager, limits = self.contents_manager, self._limits
        try:
            async with shown_file(manager, path, limits.file_bytes) as file:
                self._making = asyncio.create_task(make_page(file, theme, limits))
                return await self._making
        except NotShown as error:
            return PageAnswer(error.status, message=str(error))
        except asyncio.CancelledError:
            return PageAnswer(499, message="nobody waits for this page any longer")

    def get_login_url(self) -> str:
        """Refuse whoever has not logged in: what asks is a script, which no login form helps."""
        raise web.HTTPError(403, "not logged in")

    def on_connection_close(self) -> None:
        """Stop making a page that nobody waits for."""
        if self._making is not None:
            self._making.cancel()
        super().on_connection_close()

    def write_error(self, status_code: int, **facts: Any) -> None:
        """Answer in JSON, as the rest of this route does."""
        self.set_header("Content-Type", "application/json")
        error = facts.get("exc_info", (None, None, None))[1]
        message = getattr(error, "log_message", None) or self._reason
        self.finish(json.dumps({"message": str(message), "help": ""}))
