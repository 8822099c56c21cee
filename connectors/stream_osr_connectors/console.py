"""Tables and progress on a terminal, without markup. Lines alone need :mod:`.terminal` only, which starts faster."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from stream_osr.printable_text import printable


class SafeConsole(Console):
    r"""A console that escapes everything in a text that would control the terminal.

    Parameters
    ----------
    stderr
        Write to standard error, for everything that is not a result.

    Examples
    --------
    >>> SafeConsole().say("kind [b]a[/b]" + chr(27) + "[31m")
    kind [b]a[/b]\x1b[31m
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=True)

    def say(self, *lines: str) -> None:
        """Print text, one line for each argument."""
        for line in lines:
            self.print(line)

    def render_str(self, text: str, **more: Any) -> Text:
        """Render a line. All printed text passes through here, in tables as well."""
        return super().render_str(printable(text), **{**more, "markup": False, "emoji": False})
