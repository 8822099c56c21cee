"""Instances unlike those of training: with none of the model's features, or with far fewer than instances had there.

What was imputed would decide about them. Connectors set them aside; in Python, where features may well come and go,
they are taken, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_osr.errors import InvalidInstance
from stream_osr.kinds import Name
from stream_osr.missing import is_missing
from stream_osr.printable_text import brief, listed
from stream_osr.trained import TrainedModel

NEARLY_ALL = 10
"""Training had nearly all features if at most one value in so many was missing."""

FEW = 5
"""So many names are shown in a message."""

NONE = 1
"""As the least number of features: only an instance that has none is refused."""


def least_features(trained: TrainedModel) -> int:
    """Say how many of the model's features an instance has to have: half, if training had nearly all; else one.

    An instance may name no feature that is zero where it is absent.
    """
    if trained.absent_zero:
        return 0
    values = sum(trained.report.instances.values()) * len(trained.names)
    return -(-len(trained.names) // 2) if NEARLY_ALL * trained.report.missing_values <= values else NONE


def check_features(trained: TrainedModel, x: Mapping[Any, object], found: Sequence[Name] | None = None) -> None:
    """Refuse an instance that is unlike those of training: decided, it would look like novelty, or like the mean.

    Parameters
    ----------
    trained
        The model.
    x
        Features and their values; what is no mapping, or has values of other kinds, is for others to refuse.
    found
        Names of the fields that were there; those of ``x`` if not given.

    Raises
    ------
    InvalidInstance
        With the names that were expected and found.

    Examples
    --------
    >>> from stream_osr import OpenSetRecognizer
    >>> model = OpenSetRecognizer()
    >>> for i in range(20):
    ...     model.learn_one({"length": i % 7, "mass": i % 5, "width": i % 3}, "left")
    >>> report = model.freeze()
    >>> check_features(model.trained, {"length": 2, "width": 1})
    >>> check_features(model.trained, {"length": 2, "Mass": 3, "Width": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidInstance: 1 of the model's 3 features is there (empty or null is missing), and ...
    """
    if not isinstance(x, Mapping) or trained.features.plain(x) is not None:
        return
    lacking = [name for name in trained.names if is_missing(x.get(name))]
    if len(trained.names) - len(lacking) < least_features(trained):
        raise InvalidInstance(
            f"{difference(trained, lacking, list(x) if found is None else found)}; name the fields as in training, "
            "or train a model on these"
        )


def difference(trained: TrainedModel, lacking: Sequence[Name], found: Sequence[Name]) -> str:
    """Say which features an instance lacks, and what it has; names that the model does not know come first."""
    p, n = len(trained.names), len(trained.names) - len(lacking)
    those = _few(sorted(found, key=lambda name: name in trained.names))
    if not n:
        return (
            f"none of the model's {p} features is there (empty or null is missing): expected {_few(lacking)}, "
            f"found {those}"
        )
    return (
        f"{n} of the model's {p} features {'is' if n == 1 else 'are'} there (empty or null is missing), and training "
        f"had nearly all: expected {_few(lacking)} as well, found {those}"
    )


def _few(names: Iterable[Name]) -> str:
    """Show some names."""
    return listed(map(brief, names), FEW) or "no field"
