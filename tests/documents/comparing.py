"""Whether what was printed is what a page shows."""

from __future__ import annotations

import doctest
import math
import re

NUMBER = r"\d+(?:\.\d+)?|\.\d+"
PIECE = re.compile(rf"\.\.\.|{NUMBER}")
NOTCH = 0.05
"""A number with a fraction may be so much off, and a whole one by two, or either by a fifth."""


def alike(want: str, got: str) -> bool:
    """Compare two texts: numbers may be off, as another type of processor may end in another state of the sampler.

    ``...`` stands for any text; spaces count as one.

    >>> alike("12 found ...", "11   found by 7"), alike("recall .95", "recall .85"), alike("a b", "a c")
    (True, True, False)
    >>> alike("recall .95", "recall .5"), alike("3 found", "13 found")
    (False, False)
    """
    want, pattern, numbers, at = " ".join(want.split()), "", [], 0
    for piece in PIECE.finditer(want):
        pattern += re.escape(want[at : piece.start()]) + (".*" if piece[0] == "..." else f"({NUMBER})")
        numbers += [] if piece[0] == "..." else [piece[0]]
        at = piece.end()
    pattern += re.escape(want[at:])
    found = re.fullmatch(pattern, " ".join(got.split()), re.DOTALL)
    return found is not None and all(map(_near, numbers, found.groups()))


def _near(want: str, got: str) -> bool:
    least = NOTCH if "." in want else 2.0
    return math.isclose(float(want), float(got), rel_tol=0.2, abs_tol=least)


def occurs(shown: str, printed: str) -> bool:
    """Say whether lines that a page shows are among those that were printed; a line ``...`` stands for any lines.

    >>> occurs("b\\n...\\nd", "a\\nb\\nc\\nd\\ne"), occurs("b\\nd", "a\\nb\\nc\\nd")
    (True, False)
    """
    lines, at = printed.splitlines(), 0
    for part in re.split(r"^\s*\.\.\.\s*$", shown.strip("\n"), flags=re.MULTILINE):
        wanted = part.strip("\n").splitlines()
        places = range(at, len(lines) - len(wanted) + 1)
        begin = next((i for i in places if all(map(alike, wanted, lines[i : i + len(wanted)]))), None)
        if begin is None:
            return False
        at = begin + len(wanted)
    return True


class Alike(doctest.OutputChecker):
    """The same for the examples in Python."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Compare what is written with what came."""
        return alike(want, got) or super().check_output(want, got, optionflags)
