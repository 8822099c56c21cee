"""What each exception of kafka-python asks for: the table, and the one place where it is looked up."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kafka import errors

from stream_osr.errors import StreamOSRError

from .causes import LATE, explain
from .seam import ClientError, Kind

_OF_THE_CLIENT = {
    # One message: too large, a time that the topic does not take, bytes that cannot be packed.
    Kind.RECORD: "MessageSizeTooLargeError RecordListTooLargeError InvalidTimestampError InvalidRecordError",
    # A right, or a topic: somebody took it away and may give it back.
    Kind.RIGHT: "AuthorizationError SaslAuthenticationFailedError "
    "UnknownTopicOrPartitionError UnknownTopicIdError InconsistentTopicIdError",
    # Another member of the group with our name; another producer with our transactional id.
    Kind.TAKEN: "FencedInstanceIdError",
    Kind.FENCED: "ProducerFencedError InvalidProducerEpochError",
    # No patience helps.
    Kind.FATAL: "InvalidTopicError InvalidGroupIdError InvalidSessionTimeoutError InvalidTransactionTimeoutError "
    "InvalidRequiredAcksError InconsistentGroupProtocolError GroupMaxSizeReachedError OffsetMetadataTooLargeError "
    "InvalidCommitOffsetSizeError UnsupportedVersionError UnsupportedForMessageFormatError "
    "UnsupportedCompressionTypeError UnsupportedCodecError UnsupportedSaslMechanismError IllegalSaslStateError "
    "SecurityDisabledError KafkaConfigurationError IllegalArgumentError UnrecognizedBrokerVersion",
    # All else of it.
    Kind.AGAIN: "KafkaError",
}

KINDS: dict[type[BaseException], Kind] = {
    **{getattr(errors, name): kind for kind, names in _OF_THE_CLIENT.items() for name in names.split()},
    **dict.fromkeys((TypeError, ValueError, OverflowError, struct.error), Kind.RECORD),
    # Ours: a file of a password, a token or a certificate that cannot be read now; and the system below the client.
    **dict.fromkeys((StreamOSRError, OSError), Kind.AGAIN),
}
"""By class; what is not in it is what its nearest base is, and what has none there asks for patience."""


class Needs(NamedTuple):
    """The right that a call needs, for the text of an error that does not name it.

    Attributes
    ----------
    right
        The right on a topic: ``READ``, ``WRITE`` or ``DESCRIBE``.
    topic, transactional_id
        What it is a right on, where the client's errors do not say.
    """

    right: str = ""
    topic: str = ""
    transactional_id: str = ""


NOTHING = Needs()


def kind_of(error: BaseException) -> Kind:
    """Look up what an exception asks for.

    >>> kind_of(errors.TopicAuthorizationFailedError()), kind_of(errors.KafkaTimeoutError())
    (<Kind.RIGHT: 'right'>, <Kind.AGAIN: 'again'>)
    """
    return next((KINDS[each] for each in type(error).__mro__ if each in KINDS), Kind.AGAIN)


def told(error: BaseException, needs: Needs = NOTHING) -> ClientError:
    """Turn an exception of the client into one of ours.

    The client wraps what a broker has answered into an exception of no kind, or names it in the text of one; what it
    wraps decides then.

    Parameters
    ----------
    error
        What the client has raised.
    needs
        What was needed for it.
    """
    kind, inner = kind_of(error), error
    while type(inner) is errors.KafkaError:
        wrapped = [arg for arg in inner.args if isinstance(arg, BaseException)]
        if not wrapped:
            named = (getattr(errors, word, None) for word in re.findall(r"\w+", str(inner))[1:])
            found = [each for each in named if isinstance(each, type) and issubclass(each, errors.KafkaError)]
            kind = kind_of(found[0]()) if found else kind
            if found and issubclass(found[0], errors.AuthorizationError):
                inner = found[0]()
            break
        inner = wrapped[0]
        kind = kind_of(inner)
    said = _said(inner, needs)
    too_large = kind is Kind.RECORD and "TooLarge" in said
    made = ClientError(kind, explain(said) if isinstance(inner, LATE) else said, too_large=too_large)
    made.__cause__ = inner
    return made


@contextmanager
def translated(needs: Needs = NOTHING) -> Iterator[None]:
    """Let nothing of the client's own exceptions out."""
    try:
        yield
    except (ClientError, MemoryError):
        raise
    except Exception as error:
        raise told(error, needs) from error


def _said(error: BaseException, needs: Needs) -> str:
    """Name and message, in one line; of a right that is missing, which one it is."""
    if isinstance(error, errors.AuthorizationError):
        return f"{type(error).__name__}: the user lacks {_lacked(error, needs)}, which the brokers' ACLs grant"
    name, text = type(error).__name__, " ".join(str(error).split())
    return text if text.startswith(name) else f"{name}: {text}" if text else name


def _lacked(error: errors.AuthorizationError, needs: Needs) -> str:
    """Name the right that an error is about, and what it is a right on."""
    found = error.args[0] if error.args else ""
    names = ", ".join(sorted(map(str, found))) if isinstance(found, set | frozenset | list | tuple) else str(found)
    if isinstance(error, errors.TopicAuthorizationFailedError):
        lacked = f"the right {needs.right or 'READ or WRITE'} on the topic {names or needs.topic}"
    elif isinstance(error, errors.GroupAuthorizationFailedError):
        lacked = f"the right READ on the group {names}"
    elif isinstance(error, errors.TransactionalIdAuthorizationFailedError):
        lacked = f"the right WRITE on the transactional id {needs.transactional_id}"
    else:
        lacked = f"a right on the cluster {names}"
    return lacked.rstrip()
