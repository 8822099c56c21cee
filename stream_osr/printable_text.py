"""Foreign text in a form that is safe to display: invisible and control characters are escaped."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 2000
"""Largest number of characters in a line."""

GAP = " ... "

_shortening = reprlib.Repr()
_shortening.maxstring = _shortening.maxother = _shortening.maxlong = 40


def printable(text: str, most: int = LONGEST) -> str:
    r"""Return text as one line without control characters, shortened in the middle if it is long.

    The function escapes control characters, direction marks, zero-width characters, lone surrogates, and white space
    except the blank, as Python does.

    Parameters
    ----------
    text
        Text from outside.
    most
        Largest number of characters of the result, at least 10.

    Examples
    --------
    >>> printable("Ärger")
    'Ärger'
    >>> print(printable("\x1b[2J" + chr(0x202E) + "cod.exe" + chr(10) + "error"))
    \x1b[2J\u202ecod.exe\nerror
    >>> printable("ab" * 50, 20)
    'ababababab ... babab'
    """
    return _cut(_escaped(_cut(text, most)), most)


def escaped_lines(text: str) -> str:
    r"""Escape text as `printable` does, but keep its line feeds and its whole length.

    >>> escaped_lines("one\x07\n\ttwo\n")
    'one\\x07\n\\ttwo\n'
    """
    return "\n".join(map(_escaped, text.split("\n")))


def brief(value: object) -> str:
    """Return a short text for a value in a message.

    Examples
    --------
    >>> brief("warm"), brief("x" * 100), brief(10**5000)
    ("'warm'", "'xxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxx'", 'an int too large to show')
    """
    try:
        return _escaped(_shortening.repr(value))
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        kind = type(value).__name__
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} too large to show"


def typed(value: object) -> str:
    """Return a short text for a value and its type in a message.

    Examples
    --------
    >>> typed("high")
    "'high' (str)"
    """
    return f"{brief(value)} ({type(value).__name__})"


def counted(count: int, one: str, many: str | None = None, *, form: str = "d") -> str:
    """Return a number with its noun, in the singular for 1.

    Parameters
    ----------
    count
        Number of things.
    one, many
        Singular and plural. The default plural is the singular with an s.
    form
        Format of the number. ``","`` separates thousands.

    Examples
    --------
    >>> counted(1, "event"), counted(12_000, "event", form=","), counted(3, "new class", "new classes")
    ('1 event', '12,000 events', '3 new classes')
    """
    return f"{count:{form}} {one if count == 1 else many or one + 's'}"


def listed(texts: Iterable[str], most: int = 12) -> str:
    """List the first of some texts, with the number of the others.

    Examples
    --------
    >>> listed("abcd", 4), listed("abcd", 2)
    ('a, b, c, d', 'a, b and 2 more')
    """
    texts = list(texts)
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", notes: Iterable[str] = ()
) -> str:
    """Return a table for a notebook, as HTML without scripts, styles and resources. All text is escaped.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Values of each row. Long ones are shortened in the middle.
    caption, notes
        Text above the table, and lines of text below it.

    Examples
    --------
    >>> html_table(["label"], [["<b>"]])
    '<table><thead><tr><th>label</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    heading = f"<caption>{_html(caption)}</caption>" if caption else ""
    names = "".join(f"<th>{_html(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{_html(str(each), 80)}</td>' for each in row)}</tr>" for row in rows)
    below = "".join(f"<p>{_html(note)}</p>" for note in notes)
    return f"<table>{heading}<thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{below}"


def _html(text: str, most: int = LONGEST) -> str:
    return escape(printable(text, most))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = (most - len(GAP)) // 3
    return f"{text[: most - len(GAP) - end]}{GAP}{text[-end:]}"


def _escaped(text: str) -> str:
    if text.isprintable():  # as `repr` sees it: of no category Other or Separator, but for the blank
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
