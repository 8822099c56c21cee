"""Combinations of the values of independent parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def each_value(*parameters: Sequence[Any], first: int) -> list[Any]:
    """Combinations that have every value of every parameter; the first tier runs some of them.

    The combinations are as many as the longest parameter has values. The others take turns.
    """
    number = max(map(len, parameters))
    combinations = [[values[at % len(values)] for values in parameters] for at in range(number)]
    marks = [()] * first + [pytest.mark.thorough] * (number - first)
    return [pytest.param(*values, marks=mark) for values, mark in zip(combinations, marks, strict=True)]
