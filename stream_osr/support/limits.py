"""Limits on outside input, and functions that check them at every entry point.

``docs/limits.md`` lists them in a table, together with the limits of connectors and engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from stream_osr.errors import InvalidInstance, InvalidLabel
from stream_osr.printable_text import typed

MOST_LABEL_BYTES = 256
"""Largest size of a label as UTF-8. Each decision lists every class: 1000 of them take at most a quarter of a
megabyte."""
MOST_KEY_BYTES = 4096
"""Largest size of a key as UTF-8. The model remembers ``label_horizon`` keys, and an event has five."""
LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1
"""Range of integer labels and keys, which every JSON library supports."""
MOST_NAME_BYTES = 256
"""Largest size of a feature name as UTF-8. Each event of a subclass contains it four times."""
MOST_CATEGORY_BYTES = 256
"""Largest size of a category value as UTF-8. Events contain the values of a subclass."""
MOST_VALUES = 10_000
"""Number of values of a category that training records. Later ones count as never seen."""
MODELLED_VALUES = 1000
"""Number of values of a category with their own probability, the commonest. The others share that of a value never
seen."""
MOST_FEATURES = 10_000
"""Largest number of features of a model. It prevents one record with a million new names from widening all others."""
MOST_DIGITS = 18
"""Largest number of digits of a partition or subclass in a command. Python refuses to read 4301."""
MOST_SUBCLASSES = 1000
"""Largest number of subclasses in one command."""
MOST_REASON_BYTES = 1000
"""Largest size of the reason in a command, as UTF-8."""
MOST_BY_BYTES = 256
"""Largest size of the author's name in a command, as UTF-8."""


def trouble_with(value: object, most_bytes: int) -> str:
    """Return why a text or an integer is not accepted. Empty: it is.

    Parameters
    ----------
    value
        Value to check. Values of other types are accepted.
    most_bytes
        Largest size of a text as UTF-8.

    Examples
    --------
    >>> trouble_with("sky", 256), trouble_with(2**63 - 1, 256), trouble_with("s" * 257, 256)
    ('', '', 'it has 257 bytes as UTF-8, and 256 are allowed')
    >>> trouble_with(2**63, 256)
    'it is a whole number of more than 64 bits'
    """
    if isinstance(value, str):
        if value.isascii():
            size = len(value)
        else:
            try:
                size = len(value.encode())
            except UnicodeEncodeError as error:
                return f"character {error.start + 1} is half of a surrogate pair, which UTF-8 cannot say"
        return "" if size <= most_bytes else f"it has {size} bytes as UTF-8, and {most_bytes} are allowed"
    if isinstance(value, int) and not LEAST_WHOLE <= value <= MOST_WHOLE:
        return "it is a whole number of more than 64 bits"
    return ""


def check_label_length(label: object) -> None:
    """Refuse a label that could open a class but could not be published.

    Raises
    ------
    InvalidLabel
        If it is too long, not valid text, or an integer of more than 64 bits.

    Examples
    --------
    >>> check_label_length("sky")
    >>> check_label_length(10**30)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidLabel: label is 1000000000000000000000000000000 (int): it is a whole number of more \
than 64 bits. Give the class a short name
    """
    trouble = trouble_with(label, MOST_LABEL_BYTES)
    if trouble:
        raise InvalidLabel(f"label is {typed(label)}: {trouble}. Give the class a short name")


def check_room(label: object, others: Collection[object], most: int) -> None:
    """Refuse a label that would open one class too many.

    Parameters
    ----------
    label
        Label of a new class.
    others
        Labels of the present and planned classes.
    most
        Largest number of classes.

    Raises
    ------
    InvalidLabel
        If the limit is reached.

    Examples
    --------
    >>> check_room("sky", {"path", "grass"}, 2)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidLabel: label is 'sky' (str): it would open a class beside 2 others, and max_classes \
allows 2. Is it the label's column? Merge classes, or train with a larger max_classes
    """
    if label not in others and len(others) >= most:
        raise InvalidLabel(
            f"label is {typed(label)}: it would open a class beside {len(others)} others, and max_classes allows "
            f"{most}. Is it the label's column? Merge classes, or train with a larger max_classes"
        )


def check_key(key: Any) -> None:
    """Refuse a key that could not be published. All items of a tuple count together.

    Raises
    ------
    InvalidInstance
        If it is too long, not valid text, or an integer of more than 64 bits.

    Examples
    --------
    >>> check_key("a7"), check_key(("a", 7))
    (None, None)
    >>> check_key("a" * 5000)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidInstance: key is 'aaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaa' (str): it \
has 5000 bytes as UTF-8, and 4096 are allowed. Give a shorter one
    """
    if not isinstance(key, tuple) and fits_as_key(key):
        return
    left, waiting = MOST_KEY_BYTES, [key]
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            waiting += value
            left -= len(value)
        trouble = trouble_with(value, MOST_KEY_BYTES)
        if isinstance(value, str) and not trouble:
            left -= len(value) if value.isascii() else len(value.encode())
        if trouble or left < 0:
            trouble = trouble or f"its items have more than {MOST_KEY_BYTES} bytes together"
            raise InvalidInstance(f"key is {typed(key)}: {trouble}. Give a shorter one")


def fits_as_key(key: object) -> bool:
    r"""Check quickly whether :func:`check_key` accepts a text or an integer.

    Examples
    --------
    >>> fits_as_key("a7"), fits_as_key(2**64), fits_as_key("\ud800")
    (True, False, False)
    """
    if type(key) is str and len(key) <= MOST_KEY_BYTES and key.isascii():
        return True
    return not trouble_with(key, MOST_KEY_BYTES)


def check_storable(names: Iterable[object]) -> None:
    """Refuse feature names that an archive cannot store, before training takes time.

    Raises
    ------
    InvalidInstance
        If a name is not text, a number, or a tuple of them.

    Examples
    --------
    >>> check_storable(["width", 3, ("a", 1)])
    >>> check_storable([b"width"])
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidInstance: the name of a feature is b'width' (bytes): a name is text or a number
    """
    for name in names:
        if isinstance(name, tuple):
            check_storable(name)
        elif not (name is None or isinstance(name, str | int | float)):
            raise InvalidInstance(f"the name of a feature is {typed(name)}: a name is text or a number")


def check_names(new: Iterable[object], count: int) -> None:
    """Refuse feature names that could not be published, and too many of them.

    Parameters
    ----------
    new
        Names of new features.
    count
        Number of features including the new ones.

    Raises
    ------
    InvalidInstance
        If a name is too long or not valid text, or if there are too many.

    Examples
    --------
    >>> check_names(["width"], 10_001)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidInstance: the instance would be the first with feature 'width' (str), and there are \
10001 features then, where 10000 are allowed. Are names made up of values? Give the others as an embedding
    """
    for name in new:
        trouble = trouble_with(name, MOST_NAME_BYTES)
        if trouble:
            raise InvalidInstance(f"the name of a feature is {typed(name)}: {trouble}. Give it a short one")
        if count > MOST_FEATURES:
            raise InvalidInstance(
                f"the instance would be the first with feature {typed(name)}, and there are {count} features then, "
                f"where {MOST_FEATURES} are allowed. Are names made up of values? Give the others as an embedding"
            )
