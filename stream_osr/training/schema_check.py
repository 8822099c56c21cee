"""Check for instances that lack the model's features.

A decision on such an instance would depend on imputed values. Connectors set it aside. In Python, where features may
come and go, the recognizer accepts and counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_osr.errors import InvalidInstance
from stream_osr.instances.kinds import Name
from stream_osr.instances.missing_values import is_missing
from stream_osr.printable_text import brief, listed
from stream_osr.training.trained import TrainedModel

NEARLY_ALL = 10
"""Training had nearly all features if at most one value in this number was missing."""

FEW = 5
"""Number of names that a message shows."""

NONE = 1
"""Least number of features if training lacked many: only an instance without any is refused."""


def least_features(trained: TrainedModel) -> int:
    """Return the least number of features of an instance: half, if training had nearly all, else one.

    It is 0 if the model has features that are zero when absent.
    """
    if trained.absent_zero:
        return 0
    values = sum(trained.report.instances.values()) * len(trained.names)
    return -(-len(trained.names) // 2) if NEARLY_ALL * trained.report.missing_values <= values else NONE


def check_features(trained: TrainedModel, x: Mapping[Any, object], found: Sequence[Name] | None = None) -> None:
    """Refuse an instance that lacks most of the model's features.

    A decision would wrongly show novelty, or an average instance.

    Parameters
    ----------
    trained
        Trained model.
    x
        Features and their values. Other checks refuse values of wrong types.
    found
        Names of the fields of the instance. The default are those of ``x``.

    Raises
    ------
    InvalidInstance
        With the expected names and the names that were found.

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
    found = list(x) if found is None else found
    x = trained.features.expanded(x)
    lacking = [name for name in trained.names if is_missing(x.get(name))]
    if len(trained.names) - len(lacking) < least_features(trained):
        raise InvalidInstance(
            f"{difference(trained, lacking, found)}. Name the fields as in training, or train a model on these"
        )


def difference(trained: TrainedModel, lacking: Sequence[Name], found: Sequence[Name]) -> str:
    """Describe the features that an instance lacks and those that it has. Names unknown to the model come first."""
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
    """List the first names."""
    return listed(map(brief, names), FEW) or "no field"
