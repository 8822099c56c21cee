"""A command to a stream (promote, mute, label, a verdict on a moved frame, or undo)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from stream_osr import OpenSetRecognizer
from stream_osr.errors import (
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    InvalidSubclass,
    NothingToJudge,
    NothingToUndo,
)
from stream_osr.instances.labels import as_known, clean_label
from stream_osr.keyed import full_id
from stream_osr.parameters import Label
from stream_osr.printable_text import brief, typed
from stream_osr.support import limits

from ..values import DecodeError, key_of
from .names import Partition, parse_name

logger = logging.getLogger("stream_osr")

Action: TypeAlias = Literal["promote", "mute", "undo", "label", "accept_frame", "reject_frame"]
"""Kinds of commands. :class:`Command` describes them."""
OF_STREAM = ("undo", "accept_frame", "reject_frame")
"""Kinds of commands to a stream as a whole."""
Result: TypeAlias = Literal["done", "refused", "left"]
"""Applied, impossible, or meant for an earlier run and therefore skipped."""

MOST_COMMAND_BYTES = 1 << 18
"""Largest size of a command in JSON, in bytes. A longer class name would not fit into a topic."""
MOST_ON_PAGE = 100
"""Most subclasses of one command of the page."""


class CommandResult(NamedTuple):
    """Result of a command.

    Attributes
    ----------
    outcome
        Whether the command was applied.
    after
        Number of records that the run had read. After a crash, the command is applied at the same place again.
    why, error
        Reason and name of the error if the command was not applied.
    place
        Place of the command in the undo order. For an undo: the place of the command that it undoes.
    """

    outcome: Result
    after: int = 0
    why: str | None = None
    error: str | None = None
    place: int | None = None


class CommandReceipt(NamedTuple):
    """Answer to the sender of a command.

    Attributes
    ----------
    message
        A sentence about the state of the command.
    status
        ``done``, or ``queued`` for the run or the service.
    n
        Number in the log, or offset in the topic.
    """

    message: str
    status: Literal["done", "queued"]
    n: int


class Command(NamedTuple):
    """One command to a stream.

    Attributes
    ----------
    action
        ``promote``: make these subclasses part of this class. ``mute``: stop events of these subclasses. ``label``:
        give the instance with this key this class. ``accept_frame``, ``reject_frame``: accept the present place of
        the known classes as the reference, or treat it as new. ``undo``: undo the last of these commands.
    subclasses
        Ids of emerging subclasses.
    label
        Name of the class.
    key
        Key of the instance.
    partition
        Partition of a Kafka service. ``None`` means the stream of the checkpoint, or for a late label every partition
        that remembers the key.
    run
        Run of the partition in which the subclasses emerged, because a new run uses the same ids again.
        ``None`` means any run.
    reason, by
        Reason and author, for the audit log only.
    stream
        Key of the stream in a run or a service with a recognizer for each key. In a service with ``partition=None``
        the command applies to each partition that has the key.
    """

    action: Action
    subclasses: tuple[int, ...] = ()
    label: Label | None = None
    key: str | int | None = None
    partition: Partition | None = None
    run: str | None = None
    reason: str | None = None
    by: str | None = None
    stream: str | None = None

    @property
    def place(self) -> str:
        """Name of the partition, the key of the stream, or both, as in ``sensors/3:pump 1``. Otherwise empty text."""
        partition = "" if self.partition is None else "/".join(map(str, self.partition))
        return ":".join(part for part in (partition, self.stream) if part)

    @property
    def names(self) -> list[str]:
        """Names of the subclasses, as in events and on pages.

        >>> Command("mute", (11, 12)).names, Command("mute", (17,), partition=("sensors", 3)).names
        (['11', '12'], ['sensors/3:17'])
        >>> Command("mute", (11,), stream="pump 1").names
        ['pump 1/11']
        >>> Command("mute", (11,), partition=("sensors", 3), stream="pump 1").names
        ['sensors/3:pump 1/11']
        """
        if self.stream is not None:
            return [full_id(self.place, each) for each in self.subclasses]
        return [f"{self.place}:{each}" if self.partition else str(each) for each in self.subclasses]

    def checked(self) -> Command:
        """Check everything that can be checked without the stream.

        Raises
        ------
        InvalidParameter, InvalidLabel, InvalidInstance
            If the command is incomplete, too long or contradictory.

        Examples
        --------
        >>> Command("mute", (11,), reason=" a lamp ").checked().reason
        'a lamp'
        >>> Command("promote", (11,)).checked()
        Traceback (most recent call last):
            ...
        stream_osr.errors.InvalidParameter: promote without a label. Give the name of a class
        """
        action, label = self.action, self.label
        if action not in get_args(Action):
            raise InvalidParameter(f"action is {typed(action)}. Expected one of {', '.join(get_args(Action))}")
        there = {"subclass": bool(self.subclasses), "label": label is not None, "key": self.key is not None}
        for name, remedy, needed_by in _NEEDED:
            if action in needed_by and not there[name]:
                raise InvalidParameter(f"{action} without a {name}. {remedy}")
            if action not in needed_by and there[name]:
                raise InvalidParameter(f"{action} with a {name}. Leave it out")
        if len(self.subclasses) > limits.MOST_SUBCLASSES:
            raise InvalidParameter(
                f"{len(self.subclasses)} subclasses at a time. At most {limits.MOST_SUBCLASSES} are allowed"
            )
        for each in self.subclasses:
            if type(each) is not int or not 0 <= each <= limits.MOST_WHOLE:
                raise InvalidParameter(f"subclass id is {typed(each)}. Expected whole numbers from 0, such as 7")
        if label is not None:
            label = clean_label(label)
            limits.check_label_length(label)
        try:
            limits.check_key(self.stream)
            limits.check_key(key_of(self.key))
        except DecodeError as error:
            raise InvalidParameter(f"key {error}") from None
        reason, by = ((text or "").strip() or None for text in check_words(self.reason, self.by))
        return self._replace(subclasses=tuple(self.subclasses), label=label, reason=reason, by=by)

    def describe(self) -> str:
        """Describe the command in a few words.

        >>> Command("promote", (11, 12), "sky").describe(), Command("undo", partition=("sensors", 3)).describe()
        ('promote 11, 12 to sky', 'undo sensors/3')
        """
        if self.action == "label":
            return f"label {self.key} as {self.label}" + (f" in {self.stream}" if self.stream is not None else "")
        to = f" to {self.label}" if self.action == "promote" else ""
        return f"{self.action.replace('_', ' ')} {', '.join(self.names) or self.place}".rstrip() + to

    def effect(self) -> str:
        """Describe the effect of the command.

        >>> Command("mute", (11,)).effect()
        'subclass 11 is muted: still unknown, no further events'
        """
        if self.action in _EFFECTS:
            return _EFFECTS[self.action]
        if self.action == "label":
            return f"{self.key} counts as {self.label} from the next micro-batch on"
        those = f"subclass {self.names[0]} is" if len(self.names) == 1 else f"subclasses {', '.join(self.names)} are"
        if self.action == "mute":
            return f"{those} muted: still unknown, no further events"
        return f"{those} {self.label} from the next micro-batch on"

    def records(self) -> list[dict[str, object]]:
        """Write the command as records of the command topic, one for each subclass.

        Raises
        ------
        DecodeError
            If the command needs a partition and names none.

        Examples
        --------
        >>> Command("promote", (17,), "leak", partition=("sensors", 3), by="ann").records()
        [{'subclass': 'sensors/3:17', 'label': 'leak', 'by': 'ann'}]
        >>> Command("undo", stream="pump 1").records(), Command("mute", (11,), stream="pump 1").records()
        ([{'undo': True, 'stream': 'pump 1'}], [{'subclass': 'pump 1/11', 'stream': 'pump 1', 'mute': True}])
        """
        of: list[dict[str, object]] = [{"subclass": name, "run": self.run} for name in self.names]
        if self.action in OF_STREAM:
            of = [{self.action: self.place if self.stream is None else True}]
        if self.stream is not None:
            of = [{**each, "stream": self.place} for each in of or [{}]]
        what = {"mute": True if self.action == "mute" else None, "key": self.key, "label": self.label}
        given = [{**each, **what, "reason": self.reason, "by": self.by} for each in of or [{}]]
        if self.partition is None and self.stream is None and self.action != "label":
            parse_name(*(self.names[:1] or [self.place]), whole=self.action not in OF_STREAM)
        return [{name: value for name, value in each.items() if value is not None} for each in given]

    def apply(self, model: OpenSetRecognizer, *, keys_elsewhere: bool = False) -> CommandResult:
        """Apply the command to a recognizer. A command that fails changes nothing.

        Parameters
        ----------
        model
            The recognizer of the stream.
        keys_elsewhere
            Whether the instance of a late label may be in another stream.
        """
        place = model.value.asked - (self.action == "undo")
        try:
            self._apply(model, keys_elsewhere)
        except (InvalidInstance, InvalidLabel, InvalidSubclass, NothingToJudge, NothingToUndo) as error:
            return CommandResult("refused", why=str(error), error=type(error).__name__)
        except MemoryError:
            raise
        except Exception:  # an error of ours: commands are kept, and each start would come to it again
            logger.exception("%s failed", self.action)
            return CommandResult("refused", why="it failed because of a defect in stream-osr. Nothing was changed")
        return CommandResult("done", place=place)

    def _apply(self, model: OpenSetRecognizer, keys_elsewhere: bool) -> None:
        if self.action in OF_STREAM:
            getattr(model, self.action)()
        elif self.action == "mute":
            model.mute(self.subclasses)
        elif self.label is not None:
            label = as_known(self.label, model.value.labels)
            if self.action == "promote":
                model.promote(self.subclasses, label)
            elif keys_elsewhere or model.value.remembers(self.key):
                model.learn_label(self.key, label)
            else:
                raise InvalidInstance(_unheard_of(self.key, model))


_NEEDED = (
    ("subclass", "Give an id from an event or a decision", ("promote", "mute")),
    ("label", "Give the name of a class", ("promote", "label")),
    ("key", "Give the key of an instance", ("label",)),
)
_EFFECTS: Mapping[str, str] = {
    "undo": "the last change is undone",
    "accept_frame": "the present place of the known classes is the reference",
    "reject_frame": "the present place of the known classes is new",
}


def check_words(reason: object, by: object) -> tuple[Any, Any]:
    """Check reason and author."""
    for name, text, most in (("reason", reason, limits.MOST_REASON_BYTES), ("by", by, limits.MOST_BY_BYTES)):
        if not (text is None or isinstance(text, str)):
            raise InvalidParameter(f"{name} is {typed(text)}. Expected text")
        if trouble := limits.trouble_with(text, most):
            raise InvalidParameter(f"{name} is {typed(text)}: {trouble}. Use fewer words")
    return reason, by


def _unheard_of(key: object, model: OpenSetRecognizer) -> str:
    reason = (
        f"no instance with key {brief(key)} waits for a label: it was never seen, has one already, or is older than "
        f"the last {model.value.parameters.label_horizon}"
    )
    if isinstance(key, str) and key.lstrip("-").isdigit() and model.value.remembers(int(key)):
        reason += ". The whole number is a key: use --int-key"
    return reason
