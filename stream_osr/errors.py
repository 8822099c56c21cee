"""Errors that stream-osr raises on purpose.

- ``StreamOSRError``: base class

  - ``InvalidInstance``: one record is unusable, and the stream can continue without it

    - ``InvalidFeature``: one field of the record is the reason

  - ``InvalidLabel``: a label cannot name a known class (it equals the unknown label, say)
  - ``InvalidSubclass``: an id does not exist, or does not allow the operation
  - ``InvalidParameter``: a constructor argument or option is out of range
  - ``NotTrained``: the operation requires a trained model
  - ``NothingToUndo``: no action is left to undo
  - ``ConcurrentChange``: two threads change one recognizer at once
  - ``PersistenceError``: a saved model is missing, damaged, or of another version

    - ``RefusedState``: a state fails its checks before saving, and is not written

  - ``ConnectorError``: a source or sink cannot be opened, read, written or resumed

    - ``InUse``: another process is writing it

  - ``MissingExtra``: an optional dependency is not installed

Every message states what was found, what was expected, and how to fix it. The classes also derive from the built-in
exception that a caller would expect (``ValueError``, ``OSError``, ...).
"""

from __future__ import annotations

from stream_osr.printable_text import typed


class StreamOSRError(Exception):
    """Base class of all errors that stream-osr raises on purpose."""


class InvalidInstance(StreamOSRError, ValueError):
    """Error for an unusable instance. The model is unchanged."""


class InvalidFeature(InvalidInstance):
    """Error for a field of an instance whose value cannot be used.

    Parameters
    ----------
    feature
        Name of the field.
    found
        Value that was found.
    expected
        Value that was expected, and the remedy.
    row
        Position in the data frame, or of the record in its file, if there is one.

    Attributes
    ----------
    frame
        Number of the data frame among those of an iterator, from 0. ``None``: there is only one.
    """

    def __init__(self, feature: object, found: object, expected: str, row: int | None = None) -> None:
        self.feature = feature
        self.found = found
        self.expected = expected
        self.row = row
        self.frame: int | None = None
        super().__init__(feature, found, expected, row)

    def __str__(self) -> str:
        where = f"feature {self.feature!r}" + (f" of row {self.row}" if self.row is not None else "")
        where += "" if self.frame is None else f" of frame {self.frame}"
        return f"{where} is {typed(self.found)}: {self.expected}"


class InvalidLabel(StreamOSRError, ValueError):
    """Error for a label that cannot name a known class."""


class InvalidSubclass(StreamOSRError, ValueError):
    """Error for a subclass id that does not exist, or does not allow the operation."""


class InvalidParameter(StreamOSRError, ValueError):
    """Error for an argument that is out of range."""


class NotTrained(StreamOSRError, RuntimeError):
    """Error for an operation that requires a trained model."""


class NothingToUndo(StreamOSRError, RuntimeError):
    """Error for an undo without an action to undo."""


class NothingToJudge(StreamOSRError, RuntimeError):
    """Error for accepting or rejecting the place of a stream that has not moved away from training."""


class ConcurrentChange(StreamOSRError, RuntimeError):
    """Error for a call while another thread changes the recognizer. The call changed nothing."""


class PersistenceError(StreamOSRError, OSError):
    """Error for a saved model that cannot be read or written."""


class RefusedState(PersistenceError):
    """Error for a state that fails its checks before saving.

    It is a defect, since the archive could not be read again.
    """


class ConnectorError(StreamOSRError, OSError):
    """Error for a source or a sink that cannot be opened, read, written or resumed."""


class InUse(ConnectorError):
    """Error for a file that another process is writing."""


class MissingExtra(StreamOSRError, ImportError):
    """Error for a missing optional dependency. The message names the extra to install."""
