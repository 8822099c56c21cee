"""The read-me's example runs and gives the output that is printed there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class NearlyEqual(doctest.OutputChecker):
    """Numbers may be a fifth off: another processor type may end in another of the sampler's states."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        same_text = NUMBER.sub("#", want) == NUMBER.sub("#", got)
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=same_text)
        return same_text and all(float(a) == pytest.approx(float(b), rel=0.2, abs=2) for a, b in pairs)


def test_the_example_gives_the_output_that_is_printed():
    test = doctest.DocTestParser().get_doctest(README.read_text(), {}, "README.md", str(README), 0)
    report: list[str] = []
    doctest.DocTestRunner(NearlyEqual()).run(test, out=report.append)
    assert not report, "".join(report)
    assert len(test.examples) > 8
