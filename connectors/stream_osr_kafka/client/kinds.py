"""What each exception of kafka-python asks for: the table, and the one place where it is looked up."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors

from stream_osr.errors import StreamOSRError

from .seam import ClientError, Kind

KINDS: dict[type[BaseException], Kind] = {
    # One message: too large, a time that the topic does not take, bytes that cannot be packed.
    errors.MessageSizeTooLargeError: Kind.RECORD,
    errors.RecordListTooLargeError: Kind.RECORD,
    errors.InvalidTimestampError: Kind.RECORD,
    errors.InvalidRecordError: Kind.RECORD,
    TypeError: Kind.RECORD,
    ValueError: Kind.RECORD,
    OverflowError: Kind.RECORD,
    struct.error: Kind.RECORD,
    # Ours: a file of a password, a token or a certificate that cannot be read now.
    StreamOSRError: Kind.AGAIN,
    # A right, or a topic: somebody took it away and may give it back.
    errors.AuthorizationError: Kind.RIGHT,
    errors.SaslAuthenticationFailedError: Kind.RIGHT,
    errors.UnknownTopicOrPartitionError: Kind.RIGHT,
    errors.UnknownTopicIdError: Kind.RIGHT,
    errors.InconsistentTopicIdError: Kind.RIGHT,
    # Another process of the same name.
    errors.ProducerFencedError: Kind.TAKEN,
    errors.InvalidProducerEpochError: Kind.TAKEN,
    errors.FencedInstanceIdError: Kind.TAKEN,
    # No patience helps.
    errors.InvalidTopicError: Kind.FATAL,
    errors.InvalidGroupIdError: Kind.FATAL,
    errors.InvalidSessionTimeoutError: Kind.FATAL,
    errors.InvalidTransactionTimeoutError: Kind.FATAL,
    errors.InvalidRequiredAcksError: Kind.FATAL,
    errors.InconsistentGroupProtocolError: Kind.FATAL,
    errors.GroupMaxSizeReachedError: Kind.FATAL,
    errors.OffsetMetadataTooLargeError: Kind.FATAL,
    errors.InvalidCommitOffsetSizeError: Kind.FATAL,
    errors.UnsupportedVersionError: Kind.FATAL,
    errors.UnsupportedForMessageFormatError: Kind.FATAL,
    errors.UnsupportedCompressionTypeError: Kind.FATAL,
    errors.UnsupportedCodecError: Kind.FATAL,
    errors.UnsupportedSaslMechanismError: Kind.FATAL,
    errors.IllegalSaslStateError: Kind.FATAL,
    errors.SecurityDisabledError: Kind.FATAL,
    errors.KafkaConfigurationError: Kind.FATAL,
    errors.IllegalArgumentError: Kind.FATAL,
    errors.UnrecognizedBrokerVersion: Kind.FATAL,
    # All else of the client, and of the system below it.
    errors.KafkaError: Kind.AGAIN,
    OSError: Kind.AGAIN,
    TimeoutError: Kind.AGAIN,
    Exception: Kind.AGAIN,
}
"""By class; what is not in it is what its nearest base is."""


def kind_of(error: BaseException) -> Kind:
    """Look up what an exception asks for.

    >>> kind_of(errors.TopicAuthorizationFailedError()), kind_of(errors.KafkaTimeoutError())
    (<Kind.RIGHT: 'right'>, <Kind.AGAIN: 'again'>)
    """
    return next((KINDS[each] for each in type(error).__mro__ if each in KINDS), Kind.AGAIN)


def told(error: BaseException) -> ClientError:
    """Turn an exception of the client into one of ours.

    The client wraps what a broker has answered into an exception of no kind, or names it in the text of one; what it
    wraps decides then.
    """
    kind, inner = kind_of(error), error
    while type(inner) is errors.KafkaError:
        wrapped = [arg for arg in inner.args if isinstance(arg, BaseException)]
        if not wrapped:
            named = (getattr(errors, word, None) for word in re.findall(r"\w+", str(inner))[1:])
            found = [each for each in named if isinstance(each, type) and issubclass(each, errors.KafkaError)]
            kind = kind_of(found[0]()) if found else kind
            break
        inner = wrapped[0]
        kind = kind_of(inner)
    made = ClientError(kind, _said(inner))
    made.__cause__ = inner
    return made


@contextmanager
def translated() -> Iterator[None]:
    """Let nothing of the client's own exceptions out."""
    try:
        yield
    except (ClientError, MemoryError):
        raise
    except Exception as error:
        raise told(error) from error


def _said(error: BaseException) -> str:
    """Name and message, in one line."""
    name, text = type(error).__name__, " ".join(str(error).split())
    return text if text.startswith(name) else f"{name}: {text}" if text else name
