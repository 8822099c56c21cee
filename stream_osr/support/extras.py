"""The message about an optional package that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_osr.errors import MissingExtra


@contextmanager
def needing(message: str) -> Iterator[None]:
    """Name the extra that has the imports within, if a package is missing.

    Parameters
    ----------
    message
        Text of the error, with ``{}`` in place of the missing package.

    Raises
    ------
    MissingExtra
        If a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(message.format(error.name)) from error
