"""The live view of a run in a notebook: the widget, and what it answers to the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from nki_lab.widgets.modules import Script, module_text, style_text
from nki_lab.widgets.packing import Blocks, UnknownPart
from nki_lab.widgets.theme import theme_table


class LiveView(anywidget.AnyWidget):
    """The views of one run, in a front end that shows widgets.

    Args:
        parts: the data of the run.
        head: title, target and badge above the tabs.
        tabs: names of the views.
        scripts: the modules of the views.

    Attributes:
        theme: colours in light and dark.
        parts: blocks of data that need no kernel.
    """

    _css = style_text()
    head = traitlets.Dict().tag(sync=True)
    tabs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    theme = traitlets.Dict().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        parts: Blocks,
        head: Mapping[str, Any],
        tabs: Sequence[str],
        scripts: tuple[Script, ...],
    ) -> None:
        self._parts: Blocks | None = parts
        self._esm = module_text(scripts)
        super().__init__(
            head=dict(head), tabs=list(tabs), theme=theme_table(), parts=parts.stored(tabs)
        )
        self.on_msg(self._answer)

    def close(self) -> None:
        """Give up the view, the run it shows, and the layout model that ipywidgets makes for every widget."""
        layout = self.layout
        super().close()
        layout.close()
        self._parts = None
        self.parts = {}  # nobody listens any more

    def _answer(self, widget: Any, message: Any, buffers: Any) -> None:
        """Send the blocks of the part the browser asks for, one message each."""
        name = message.get("want") if isinstance(message, dict) else None
        if not isinstance(name, str) or self._parts is None:
            return
        try:
            blocks = self._parts.make(name)
            block = next(blocks)
            for following in blocks:
                self.send({"part": name, "last": False}, [block])
                block = following
            self.send({"part": name, "last": True}, [block])
        except UnknownPart as error:
            self.send({"part": name, "error": str(error)})
        except Exception as error:
            self.send(
                {"part": name, "error": f"{type(error).__name__}: {error}; please report this"}
            )
            raise
