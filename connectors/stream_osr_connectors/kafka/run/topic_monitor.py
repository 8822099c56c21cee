"""Monitoring of the topics of a running service in a separate thread, because calls of the client may block.

Each check has an immutable result. Current problems go to the statistics at once, even if the loop waits for a
transaction. Changes between two checks are logged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from stream_osr.errors import ConnectorError

from ..client.admin import TopicAdmin
from ..client.errors import causes, too_few_replicas
from ..client.interface import ClientError, Committed, ErrorKind, Topic
from ..exits import NoRightError, NoTopicError
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings, milliseconds
from ..stats import PartitionStats, ServiceStats
from .blocked import Unstable
from .topics import READ_FROM, Rights, TopicLimits, compaction, takes_of

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 3.0
TAKES_SECONDS = 10.0
"""Seconds between two requests for the limits of topics."""

OLD_SECONDS = 5.0
"""Seconds after which a check is outdated."""

OF_RECORDS = ("output", "events", "dead_letters")
"""Roles of the topics that receive the outputs of a partition."""

OF_NEW_PARTITIONS = (
    ": the new ones are read from their beginning, each by a new recognizer, and keys may go to other "
    "partitions than before"
)


class TopicsSnapshot(NamedTuple):
    """Result of one check of the topics.

    Attributes
    ----------
    topics
        Topics by name.
    ends
        Last stable offset of each partition, the end of committed records.
    takes
        Limits of the topics.
    """

    topics: Mapping[str, Topic]
    ends: Mapping[Place, int]
    takes: Mapping[str, TopicLimits]


class Watch:
    """Regular checks of the topics.

    Parameters
    ----------
    settings
        Of the service.
    topics
        Roles of the topics by name. Topics with the role of the first one are inputs.
    stats
        Statistics to update.
    rights
        Required rights by role, if not ``WRITE``.

    Attributes
    ----------
    inputs
        Input topics.
    seen
        Latest successful check.
    topic_ids
        Accepted ids of the inputs.
    """

    def __init__(
        self, settings: ServiceSettings, topics: Mapping[str, str], stats: ServiceStats, rights: Rights = READ_FROM
    ) -> None:
        self._settings, self._topics, self._stats, self._rights = settings, dict(topics), stats, rights
        read = next(iter(self._topics.values()))
        self.inputs = [name for name, role in self._topics.items() if role == read]
        self.seen = TopicsSnapshot({}, {}, {})
        self.topic_ids: dict[str, str] = {}
        self._at = 0.0
        self._trouble = ""
        self._admin: TopicAdmin | None = None
        self._stopping, self._poked = threading.Event(), threading.Event()
        self._unstable = Unstable(settings.brokers)
        self._former: set[str] = set()
        self._begun = self._asked = 0.0

    def open(self) -> None:
        """Check for the first time that all topics exist and the user has all rights.

        Raises
        ------
        ClientError
            If no broker answers.
        NoTopicError
            If a topic is missing.
        NoRightError
            If a right is missing.
        ConnectorError
            If a topic has the wrong ``cleanup.policy``.
        """
        self._look()
        logger.info("topics: %s", ", ".join(f"{role} {name}" for name, role in self._topics.items()))
        for name, role in self._topics.items():
            topic = self.seen.topics[name]
            if topic.missing:
                raise NoTopicError(
                    f"{role}: topic {name} does not exist at {self._settings.brokers}. Create it "
                    "(`stream-osr topics --create`), or correct the name (a user without DESCRIBE does not see it)"
                )
            if (lacking := self._lacking(role, topic)) is not None:
                raise NoRightError(
                    f"{role}: the user lacks the right {lacking} on the topic {name}, which the brokers' ACLs grant"
                )
            if (compacted := compaction(role, name, self.seen.takes)) is not None:
                raise ConnectorError(compacted)
        self.topic_ids = {topic: self.seen.topics[topic].id for topic in self.inputs}

    def start(self) -> None:
        """Start regular checks until :meth:`close`. It can be started again."""
        self._stopping = threading.Event()
        self._poked.clear()
        threading.Thread(target=self._run, args=(self._stopping,), name="watch", daemon=True).start()

    def close(self) -> None:
        """Stop the checks."""
        self._stopping.set()
        self._poked.set()

    def has_looked_since(self, moment: float) -> bool:
        """Return whether a check started after a given time. If not, trigger one."""
        if self._begun > moment:
            return True
        self._poked.set()
        return False

    def partitions(self, topic: str) -> int:
        """Return the known number of partitions of a topic."""
        return self.seen.topics[topic].partitions

    @property
    def places(self) -> list[Place]:
        """Partitions of all inputs."""
        return [Place(topic, number) for topic in self.inputs for number in range(self.partitions(topic))]

    def committed(self) -> dict[Place, Committed]:
        """Return the state of each partition of the inputs at the brokers.

        Raises
        ------
        ClientError
            If the brokers do not answer.
        """
        assert self._admin is not None, "open() makes the client"
        led = [place for place in self.places if place.partition not in self.seen.topics[place.topic].offline]
        found, firsts = self._admin.committed(self._settings.group), self._admin.firsts(led)
        ends = self._admin.ends(led)  # requested last, so that they are after the committed offsets
        out = {}
        for place in self.places:
            offset, metadata = found.get(place, (None, ""))
            out[place] = Committed(offset, metadata, firsts.get(place, 0), ends.get(place, offset or 0))
        return out

    def stops(self) -> dict[Place, int]:
        """Return the end offset of each partition from the setting `stop`, or an empty result.

        Raises
        ------
        ConnectorError
            If the time is in the future.
        ClientError
            If the brokers do not answer.
        """
        stop = self._settings.stop
        if stop is None:
            return {}
        unknown = [place for place in self.places if place not in self.seen.ends]
        if unknown:
            raise ClientError(ErrorKind.AGAIN, f"the end of {unknown[0]} is not known: no broker leads it")
        ends = {place: self.seen.ends[place] for place in self.places}
        if stop == "end":
            return ends
        if milliseconds(stop) > 1000 * time.time():
            raise ConnectorError(f"stop is {stop}, in the future. Expected a time in the past, or end")
        assert self._admin is not None, "open() makes the client"
        return {
            place: min(end, ends[place]) for place, end in self._admin.since(self.places, milliseconds(stop)).items()
        }

    def is_broken(self, topic: str) -> bool:
        """Return whether an input is missing, or the user lacks a right on it."""
        its = self.seen.topics[topic]
        return its.missing or self._lacking(self._topics[topic], its) is not None

    def renewed(self, topic: str, client_says: str) -> str:
        """Return the new id of an input that was created again, or an empty text.

        Parameters
        ----------
        topic
            The input.
        client_says
            Id that the consumer knows, possibly newer than the last check.
        """
        accepted = self.topic_ids[topic]
        for found in (self.seen.topics[topic].id, client_says):
            if accepted and found and found != accepted and found not in self._former:
                return found
        return ""

    def accept(self, topic: str, topic_id: str) -> None:
        """Accept a new id of an input."""
        self._former.add(self.topic_ids[topic])
        self.topic_ids[topic] = topic_id

    def tell_ends(self, place: Place, partition: PartitionStats) -> None:
        """Update the end offsets in the statistics of a partition."""
        partition.end = None if self._stale else self.seen.ends.get(place)
        partition.unstable = None if partition.end is None else self._unstable.records(place)

    def held_up(self, place: Place) -> str:
        """Return the reason if a partition without a leader blocks a partition of the input, or an empty text.

        The partition itself, or the partition of an output for its records, may have no leader.
        """
        for name, role in self._topics.items():
            topic = self.seen.topics[name]
            if topic.offline and (name == place.topic or role in OF_RECORDS):
                number = place.partition % topic.partitions
                if number in topic.offline:
                    return f"no broker leads {Place(name, number)}"
        return ""

    def obstacles(self) -> list[str]:
        """Return the current problems of the topics."""
        if self._stale:
            return [f"the brokers do not answer: {self._trouble or 'nothing was heard of them for some seconds'}"]
        found = []
        for name, role in self._topics.items():
            topic = self.seen.topics[name]
            if topic.missing:
                found.append(f"{role} topic {name} was deleted")
            elif (lacking := self._lacking(role, topic)) is not None:
                found.append(f"the user lacks the right {lacking} on the topic {name} ({role})")
            elif name in self._without_replicas:
                found.append(too_few_replicas(name))
            elif (compacted := compaction(role, name, self.seen.takes)) is not None:
                found.append(compacted)
        return found + self._unstable.obstacles(list(self._stats.partitions))

    @property
    def _without_replicas(self) -> list[str]:
        """Output topics that reject all records, because too few replicas are in sync."""
        written = [name for name, role in self._topics.items() if "WRITE" in self._rights.get(role, ("WRITE",))]
        topics, _, takes = self.seen
        there = (name for name in written if name in takes)
        return [n for n in there if 0 < topics[n].in_sync < min(takes[n].in_sync, topics[n].replicas)]

    @property
    def _stale(self) -> bool:
        return time.monotonic() - self._at > OLD_SECONDS

    def _lacking(self, role: str, topic: Topic) -> str | None:
        """Return the missing right, or ``None``."""
        if topic.refused:
            return "DESCRIBE"
        needed = self._rights.get(role, ("WRITE",))
        return next((right for right in needed if not topic.allows(right)), None)

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self._poked.wait(LOOK_SECONDS)
            self._poked.clear()
            before = self.seen
            try:
                self._look()
                self._trouble = ""
                self._compare(before, self.seen)
            except Exception as error:  # any error: the next client may succeed
                self._trouble = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
                self._let_go()
            self._stats.outside = tuple(self.obstacles())
            for place, partition in list(self._stats.partitions.items()):
                self.tell_ends(place, partition)
        self._let_go()

    def _look(self) -> None:
        begun = time.monotonic()
        if self._admin is None:
            self._admin = TopicAdmin(self._settings, ANSWER_SECONDS)
        topics = self._admin.topics(self._topics)
        there = [name for name, topic in topics.items() if topic.partitions]
        places = [
            Place(name, number)
            for name in there
            for number in range(topics[name].partitions)
            if number not in topics[name].offline
        ]
        if any(self._lacking(self._topics[topic], topics[topic]) for topic in self.inputs):
            ends: Mapping[Place, int] = {}
        else:
            last = self._admin.ends((place for place in places if place.topic in self.inputs), stable=False)
            ends = self._ends(self._admin, places)  # later, so that stable records do not count as unstable
            self._unstable.follow(ends, last)
        takes = self.seen.takes
        if self.seen.topics != topics or self._without_replicas or begun - self._asked > TAKES_SECONDS:
            takes, self._asked = takes_of(self._admin, there, takes), begun
        self.seen, self._begun, self._at = TopicsSnapshot(topics, ends, takes), begun, time.monotonic()
        for name in self._without_replicas:
            causes.note(f"replicas of {name}", too_few_replicas(name))
        self._unstable.tell(list(self._stats.partitions), self._admin)

    def _ends(self, admin: TopicAdmin, places: list[Place]) -> Mapping[Place, int]:
        try:
            return admin.ends(places)
        except ClientError:  # a right is missing, or a topic is just being deleted
            return admin.ends([place for place in places if place.topic in self.inputs])

    def _let_go(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(Exception):
                admin.close()

    def _compare(self, before: TopicsSnapshot, now: TopicsSnapshot) -> None:
        """Log changes."""
        for name, role in self._topics.items():
            was, topic = before.topics[name], now.topics[name]
            gone = sum(end for place, end in before.ends.items() if place.topic == name)
            if topic.missing and not was.missing:
                logger.error("%s: topic %s was deleted, with %d offsets. The service waits for it", role, name, gone)
            elif was.id and topic.id and was.id != topic.id and name not in self.inputs:
                logger.error("%s: topic %s was deleted and made again. Its %d offsets are gone", role, name, gone)
            elif was.missing and not topic.missing:
                logger.warning("%s: topic %s is there again, and empty but for what has come since", role, name)
            if was.partitions and topic.partitions > was.partitions:
                news = OF_NEW_PARTITIONS if name in self.inputs else ""
                counts = topic.partitions, was.partitions
                logger.warning("%s: topic %s has %d partitions now, and had %d%s", role, name, *counts, news)
            lacked, lacks = self._lacking(role, was), self._lacking(role, topic)
            if lacks is not None and lacked is None and not topic.missing:
                text = "%s: the user lacks the right %s on the topic %s now, and the service waits for it"
                logger.error(text, role, lacks, name)
            elif lacked is not None and lacks is None and not topic.missing:
                logger.info("%s: the user has the right %s on the topic %s again", role, lacked, name)
            was_compacted, compacted = (compaction(role, name, seen.takes) for seen in (before, now))
            if compacted is not None and was_compacted is None:
                logger.error("%s", compacted)
            elif was_compacted is not None and compacted is None:
                logger.info("%s: topic %s has the right cleanup.policy again", role, name)
