"""Tables and progress on a terminal, without markup. Lines alone need :mod:`.terminal` only, which starts faster."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from stream_osr.printable_text import printable


class SafeConsole(Console):
    """The console of a :class:`.terminal.Terminal`, which escapes everything that would control the terminal."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=True)

    def render_str(self, text: str, **more: Any) -> Text:
        """Render a line. All printed text passes through here, in tables as well."""
        return super().render_str(printable(text), **{**more, "markup": False, "emoji": False})
