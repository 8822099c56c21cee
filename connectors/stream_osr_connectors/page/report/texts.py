"""A million keys in few bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator


class Texts:
    """Texts, one after the other in one buffer: nine bytes and their own for each.

    Examples
    --------
    >>> texts = Texts(["one", "", "zwölf"])
    >>> len(texts), texts[2], list(texts)
    (3, 'zwölf', ['one', '', 'zwölf'])
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes, self._ends = bytearray(), array("q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text; half of a pair of surrogates is one, too."""
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: int) -> str:
        begin = self._ends[at - 1] if at else 0
        return self._bytes[begin : self._ends[at]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[at] for at in range(len(self)))
