"""Everything stream-osr raises on purpose.

::

    StreamOSRError
    ├── InvalidInstance        one record is unusable: the stream can go on without it
    │   └── InvalidFeature     ... because of one field of it
    ├── InvalidLabel           a label that cannot be a known class (it equals the unknown label, say)
    ├── InvalidSubclass        an id that names no subclass of which this can be asked
    ├── InvalidParameter       a constructor argument or option out of its range
    ├── NotTrained             the model was asked for something that needs training first
    ├── NothingToUndo          no command is left to be taken back
    ├── ConcurrentChange       two threads change one recognizer at once
    ├── PersistenceError       a saved model is missing, damaged, or of another version
    │   └── RefusedState       ... or would be refused when it is read: it is not written
    ├── ConnectorError         a source or sink cannot be opened, read, written or resumed
    │   └── InUse              ... because somebody else is writing it
    └── MissingExtra           an optional dependency is not installed

Every message says what was found, what was expected, and what to do about it. The classes also derive
from the built-in exception that a caller would expect (``ValueError``, ``OSError``, ...).
"""

from __future__ import annotations

from stream_osr.printable_text import typed


class StreamOSRError(Exception):
    """Base of all errors that stream-osr raises on purpose."""


class InvalidInstance(StreamOSRError, ValueError):
    """One instance is unusable; the model is as it was before it."""


class InvalidFeature(InvalidInstance):
    """A field of an instance has a value that cannot be used.

    Parameters
    ----------
    feature
        Name of the offending field.
    found
        What stood there.
    expected
        What should have stood there, and the remedy.
    row
        Position in the data frame (or of the record in its file), if there is one.
    """

    def __init__(self, feature: object, found: object, expected: str, row: int | None = None) -> None:
        self.feature = feature
        self.found = found
        self.expected = expected
        self.row = row
        super().__init__(feature, found, expected, row)

    def __str__(self) -> str:
        where = f"feature {self.feature!r}" + (f" of row {self.row}" if self.row is not None else "")
        return f"{where} is {typed(self.found)}: {self.expected}"


class InvalidLabel(StreamOSRError, ValueError):
    """A label that cannot name a known class."""


class InvalidSubclass(StreamOSRError, ValueError):
    """A subclass id that names no subclass of which this can be asked."""


class InvalidParameter(StreamOSRError, ValueError):
    """An argument out of its range."""


class NotTrained(StreamOSRError, RuntimeError):
    """The model has to be trained before this can be answered."""


class NothingToUndo(StreamOSRError, RuntimeError):
    """No command is left to be taken back."""


class ConcurrentChange(StreamOSRError, RuntimeError):
    """Another thread is changing the recognizer; the call that raised this changed nothing."""


class PersistenceError(StreamOSRError, OSError):
    """A saved model cannot be read or written."""


class RefusedState(PersistenceError):
    """Failed check of a state before saving: a defect, since the archive could not be read again."""


class ConnectorError(StreamOSRError, OSError):
    """A source or a sink cannot be opened, read, written or resumed."""


class InUse(ConnectorError):
    """Somebody else is writing the file."""


class MissingExtra(StreamOSRError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""
