"""Labels of the known classes, and the unknown label."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_osr.errors import InvalidLabel
from stream_osr.instances.reading import kind_of_labels, label_as, spelled_label
from stream_osr.printable_text import typed

Label = bool | int | str
"""Types of a label."""


def clean_label(y: object) -> Label:
    """Convert a label to a plain ``str``, ``int`` or ``bool``.

    Raises
    ------
    InvalidLabel
        For any other type, which could not be saved or compared.

    Examples
    --------
    >>> import numpy as np
    >>> clean_label(np.int64(3)), clean_label(np.str_("cat"))
    (3, 'cat')
    """
    scalar = hasattr(y, "item") and getattr(y, "ndim", 1) == 0 and y is not np.ma.masked  # which would give 0
    value: object = y.item() if scalar else y  # type: ignore[attr-defined]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)  # of a member of an enumeration its value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise InvalidLabel(f"label is {typed(value)}: expected str, int or bool, or None for an instance without a label")


def unknown_label(given: Label | None, known: Sequence[Label]) -> Label:
    """Return the label of unknown instances: the given one, or one that fits the known labels.

    Examples
    --------
    >>> unknown_label(None, ["cat", "dog"]), unknown_label(None, [0, 1]), unknown_label(None, [])
    ('unknown', -1, 'unknown')
    """
    if given is not None:
        return given
    return -1 if known and not isinstance(known[0], str) else "unknown"


def label_array(labels: Sequence[Label | None]) -> np.ndarray:
    """Return labels as an array of their common type, or of objects if their types differ.

    >>> label_array([1, 2, -1]), label_array(["red", "unknown"]), label_array([True, "unknown"])
    (array([ 1,  2, -1]), array(['red', 'unknown'], dtype='<U7'), array([True, 'unknown'], dtype=object))
    """
    kinds = {type(label) for label in labels}
    alike = kinds <= {str} or kinds <= {bool, int}
    return np.array(labels) if labels and alike else np.array(labels, dtype=object)


def spelled_alike(label: Label, known: Sequence[Label]) -> Label | None:
    """Find a known label that differs only by Unicode normalization or white space.

    Examples
    --------
    >>> spelled_alike("cat ", ["dog", "cat"]), spelled_alike("Cat", ["cat"])
    ('cat', None)
    >>> spelled_alike("cafe" + chr(0x301), ["caf" + chr(0xE9)])
    'café'
    """
    if not isinstance(label, str):
        return None
    own = _spelling(label)
    return next((one for one in known if isinstance(one, str) and one != label and _spelling(one) == own), None)


def _spelling(label: str) -> str:
    return " ".join(unicodedata.normalize("NFC", label).split())


def as_known(y: Any, known: Sequence[Label]) -> Any:
    """Return the known label with the same spelling, or convert the label to the type of the known labels.

    Labels of files, records and commands are matched in this way.

    >>> as_known("1.0", [1, 2]), as_known(1, ["1", "2"]), as_known("3", [1, 2]), as_known("idle ", ["idle"])
    (1, '1', 3, 'idle')
    """
    if isinstance(y, str | int) and y in known and isinstance(y, bool) == isinstance(known[known.index(y)], bool):
        return y
    if not isinstance(y, str | int | float | np.generic) or not known:
        return y
    text = spelled_label(y)
    found = next((label for label in known if spelled_label(label) == text), None)
    if found is not None:
        return found
    if isinstance(known[0], str):
        return text
    return label_as(text, "int") if isinstance(y, str) and kind_of_labels([text], minus_one=True) == "int" else y


MANY_CLASSES, FEW_INSTANCES, SOME_CLASSES = 100, 3.0, 5
"""Thresholds of :func:`doubtful`.

At ``MANY_CLASSES`` classes with fewer than ``FEW_INSTANCES`` instances on average, the labels are doubtful. From
``SOME_CLASSES`` classes on, they are doubtful if most instances have a label of their own."""


def doubtful(classes: int, instances: int) -> str | None:
    """Return a question if nearly every instance has a different label. ``None``: the labels look plausible.

    Examples
    --------
    >>> doubtful(900, 990)
    'there are 900 classes with 1.1 instances each: are these the classes, or numbers, keys, times?'
    >>> doubtful(90, 90)
    'there are 90 classes with 1.0 instances each: are these the classes, or numbers, keys, times?'
    >>> doubtful(200, 1000)
    """
    few = classes >= MANY_CLASSES and instances < FEW_INSTANCES * classes
    if not few and not (classes >= SOME_CLASSES and instances <= 1.5 * classes):
        return None
    return (
        f"there are {classes} classes with {instances / classes:.1f} instances each: "
        "are these the classes, or numbers, keys, times?"
    )


def check_label(y: object, known: Sequence[Label], given: Label | None) -> Label:
    """Clean a label, and check that it can name a known class.

    Raises
    ------
    InvalidLabel
        If it equals the unknown label, is blank, or mixes strings with numbers.
    """
    label = clean_label(y)
    if isinstance(label, str) and not label.strip():
        raise InvalidLabel(f"label is {label!r}, which is blank. Give the class a name")
    others = known or [label]
    unknown = unknown_label(given, others)
    if label == unknown and isinstance(label, str) == isinstance(unknown, str):
        raise InvalidLabel(
            f"label {label!r} is the label of unknown instances. Rename the class, or pass another one as unknown=..."
        )
    if isinstance(label, str) != isinstance(others[0], str):
        raise InvalidLabel(
            f"label is {typed(label)}, but the known labels are like {others[0]!r}. Use labels of one type"
        )
    return label
