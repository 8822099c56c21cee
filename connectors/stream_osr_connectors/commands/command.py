"""What people ask of the service through the topic of labels: names, mutes, late labels, and taking them back.

Every worker reads the whole topic, of one partition, and each partition of the input applies it, in order, between
two micro-batches. How far it has come is written down with its offset, so that a replay does the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import orjson

from stream_osr import OpenSetRecognizer
from stream_osr.config import Label
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidSubclass, NothingToUndo
from stream_osr.labels import as_known
from stream_osr.limits import MOST_BY_BYTES, MOST_DIGITS, MOST_REASON_BYTES, trouble_with
from stream_osr.showing import shown
from stream_osr_connectors.values import DecodeError, key_of, label_of_json

logger = logging.getLogger("stream_osr.kafka")


class Command(NamedTuple):
    """One thing that is asked.

    Attributes
    ----------
    action
        ``label``: the instance with this key is of this class. ``promote``: so is everything in a subclass.
        ``mute``: nothing more is told of a subclass. ``undo``: take the partition's last one back.
    topic, partition
        Which stream is meant; of a late label None: whichever remembers the key.
    subclass
        Id of the subclass there.
    key
        Of the instance.
    label
        The class.
    run
        Run of the partition that the subclass is of: one that has begun anew uses ids again. None: whichever it is.
    by, reason
        Who asks, and why; for the record, nothing depends on them.
    """

    action: Literal["label", "promote", "mute", "undo"]
    topic: str | None = None
    partition: int | None = None
    subclass: int | None = None
    key: str | int | None = None
    label: Label | None = None
    run: str | None = None
    by: str | None = None
    reason: str | None = None


MOST_COMMAND_BYTES = 1 << 18
"""Of a command: a decision of a class with so long a name never fitted into its topic."""


def parse(value: bytes | None) -> Command:
    """Read a record of the topic.

    Raises
    ------
    DecodeError
        With what is wrong.

    Examples
    --------
    >>> parse(b'{"subclass": "sensors/3:17", "label": "leak", "by": "ann"}')[:6]
    ('promote', 'sensors', 3, 17, None, 'leak')
    >>> parse(b'{"key": "a7", "label": "leak"}').action, parse(b'{"undo": "sensors/3"}').action
    ('label', 'undo')
    """
    if value is not None and len(value) > MOST_COMMAND_BYTES:
        raise DecodeError(f"it has {len(value)} bytes; {MOST_COMMAND_BYTES} are allowed")
    try:
        parsed = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        raise DecodeError("it is not JSON") from None
    if not isinstance(parsed, dict):
        raise DecodeError(f"it holds {shown(parsed)}, not a JSON object")
    command = _meant(parsed)
    by, reason = (_words(name, parsed.get(name), most) for name, most in _WORDS)
    return command._replace(by=by, reason=reason)


_WORDS = (("by", MOST_BY_BYTES), ("reason", MOST_REASON_BYTES))


def _words(name: str, value: object, most: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise DecodeError(f"{name} is {shown(value)}, not text")
    if trouble := trouble_with(value, most):
        raise DecodeError(f"{name} is {shown(value)}: {trouble}")
    return value


def _meant(parsed: Mapping[str, object]) -> Command:
    label = label_of_json(parsed.get("label"), "auto")
    if "undo" in parsed:
        topic, partition, _ = _place(parsed["undo"], whole=False)
        return Command("undo", topic, partition)
    if "subclass" in parsed:
        topic, partition, subclass = _place(parsed["subclass"], whole=True)
        run = parsed.get("run")
        if not (run is None or isinstance(run, str)):
            raise DecodeError(f"run is {shown(run)}, not text")
        if parsed.get("mute") is True:
            return Command("mute", topic, partition, subclass, run=run)
        if label is None:
            raise DecodeError('it names a subclass without a label; add one, or "mute": true')
        return Command("promote", topic, partition, subclass, label=label, run=run)
    key = key_of(parsed.get("key"))
    if key is None or label is None:
        raise DecodeError("it needs a key and a label, a subclass and a label, or undo")
    return Command("label", key=key, label=label)


def apply(command: Command, model: OpenSetRecognizer, topic: str, partition: int, run: str) -> bool:
    """Do what is asked of one partition's recognizer; what cannot be done is logged, and the stream goes on.

    Returns
    -------
    False: it is left. True: it is done, or asked of another partition.
    """
    if command.partition is not None and (command.topic, command.partition) != (topic, partition):
        return True
    if command.run not in (None, run):
        why = "it was asked of an earlier run, and the partition has begun anew since"
        logger.warning("%s/%d: %s was asked for and is left: %s", topic, partition, command.action, why)
        return False
    subclass = [] if command.subclass is None else [command.subclass]
    try:
        if command.action == "undo":
            model.undo()
        elif command.action == "mute":
            model.mute(subclass)
        elif command.label is not None:
            if command.action == "promote":
                model.promote(subclass, as_known(command.label, model.value.labels))
            else:
                model.learn_label(command.key, as_known(command.label, model.value.labels))
    except MemoryError:
        raise
    except (InvalidInstance, InvalidLabel, InvalidSubclass, NothingToUndo) as error:
        logger.warning("%s/%d: %s was asked for and is left: %s", topic, partition, command.action, error)
        return False
    except Exception:  # an error of ours: the topic is kept for ever, and each start would come to it again
        told = "%s/%d: %s was asked for and is left: it failed; nothing was changed"
        logger.exception(told, topic, partition, command.action)
        return False
    if command.action != "label":  # every partition hears of a label, and one knows the key
        logger.info("%s/%d: %s was asked for and is done", topic, partition, command.action)
    return True


def _place(value: object, whole: bool) -> tuple[str, int, int | None]:
    """Read ``topic/partition:id``, or without the id."""
    form = "topic/partition:id" if whole else "topic/partition"
    found = (_WHOLE if whole else _PARTITION).fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise DecodeError(f"{shown(value)} is not of the form {form}, with up to {MOST_DIGITS} digits each")
    topic, partition, *subclass = found.groups()
    return topic, int(partition), int(subclass[0]) if whole else None


_PARTITION = re.compile(rf"(.+)/(\d{{1,{MOST_DIGITS}}})", re.DOTALL)
_WHOLE = re.compile(rf"{_PARTITION.pattern}:(\d{{1,{MOST_DIGITS}}})", re.DOTALL)
