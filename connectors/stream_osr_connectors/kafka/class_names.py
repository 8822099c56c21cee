"""Known classes as values of a label of metrics: few, short, of one line each, whatever people call them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from stream_osr.config import Label
from stream_osr.printable_text import printable

MOST_CLASSES = 50
"""Known classes of a partition that have time series of their own: the first ones of the model, always the same."""

LONGEST_NAME = 64
"""Characters of a name; longer ones are cut in their middle."""

OTHER = "other"
"""All classes beyond the first, and those that could not be told from another by name."""


@lru_cache(maxsize=8)
def class_names(labels: tuple[Label, ...]) -> Mapping[Label, str]:
    r"""Name each known class.

    Parameters
    ----------
    labels
        Labels of the known classes, in the order of the model.

    Examples
    --------
    >>> class_names(("sky", 7, "a\nb", "other"))
    {'sky': 'sky', 7: '7', 'a\nb': 'a\\nb', 'other': 'other'}
    >>> [*class_names(tuple(range(52))).values()][-3:]
    ['49', 'other', 'other']
    """
    named: dict[Label, str] = {}
    taken = {OTHER, ""}
    for label in labels:
        name = printable(str(label), LONGEST_NAME)
        own = len(taken) < MOST_CLASSES + 2 and name not in taken
        named[label] = name if own else OTHER
        taken.add(named[label])
    return named
