"""The loop of a worker: read, prepare, and publish with the offsets in one transaction.

A :class:`.job.Job` processes the records, for the service or for the reconciliation. A failed transaction is
reverted, and the committed offsets determine the state. Assigned partitions are loaded one by one. A partition that
cannot be loaded is suspended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stream_osr.errors import ConnectorError

from ..backoff import CLOSE_SECONDS, Backoff, Running
from ..client.errors import quieten, start_explained
from ..client.interface import ClientError, ErrorKind
from ..client.producer import TransactionalProducer, transactional_id
from ..exits import NoBrokerError, NoRightError, NoTopicError
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import STARTING, ServiceStats
from .assignment import Assignment
from .job import Job, TransactionContent
from .models import CurrentModel, ModelFile
from .progress_log import ProgressLog
from .reading import POLL_SECONDS, Reader
from .reconcile import Reconciliation
from .streams import Streams
from .topic_monitor import Watch
from .topics import topics_of
from .transactions import InDoubtError, Transactions, UnpublishableError

PUBLISH_SECONDS = 5.0
"""Seconds after which an iteration of the loop begins no further transaction, so that the consumer polls in time."""

LOADING_SECONDS = 0.5
"""The same while partitions are loaded, which get as much time (:data:`.assignment.TURN_SECONDS`)."""


class Loop:
    """The loop that feeds a job and publishes its results.

    Parameters
    ----------
    settings
        Settings of the service.
    job
        Job to run.
    watch
        State of the topics.
    stats
        Statistics to update.
    make_producer
        Factory of the producer.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        job: Job,
        watch: Watch,
        stats: ServiceStats,
        make_producer: Callable[[ServiceSettings], TransactionalProducer] = TransactionalProducer,
    ) -> None:
        self._settings, self._job, self._watch, self.stats = settings, job, watch, stats
        self._reader = reader = Reader(settings, watch.inputs, job.most_read, stats)
        self._transactions = transactions = Transactions(make_producer, settings, stats)
        self._backoff = Backoff()
        self._loading = Assignment(job, reader, transactions, watch, stats, settings.start_time)
        self._seldom = Seldom()
        self._doubtful: TransactionContent | None = None
        self._trouble = ""
        self._telling = ProgressLog(job, reader, watch, stats, settings.max_wait)

    def run(self, stop: Callable[[], bool], stay: Callable[[], bool] = lambda: False) -> None:
        """Run until ``stop`` returns true.

        Parameters
        ----------
        stop
            Function that returns whether to stop.
        stay
            Function that returns whether a successor starts at once. Then the group keeps the membership for any
            `on_stop`.

        Raises
        ------
        ConnectorError
            If the worker cannot continue without a person, or must be restarted.
        """
        quieten()
        self.stats.obstacles = (STARTING,)
        leave = False
        try:
            while not stop() and not self._is_open():
                self.stats.turn()
                time.sleep(POLL_SECONDS)
            finished = False
            while not stop() and not (finished := self._is_finished()):
                self.stats.turn()
                self._read()
                if self._doubtful is None:
                    self._loading.load()
                self._job.work()
                self._publish()
                self._suspend()
                if self._doubtful is None:
                    self._job.work_after_commit()
                self._telling.look(self._loading.waiting, self._trouble)
            if self._doubtful is None:
                self._job.finish()
            leave = self._settings.on_stop == "leave" and (finished or not stay())
        finally:
            self._close(leave=leave)

    def _suspend(self) -> None:
        """Suspend failed partitions."""
        for place, why in self._job.failed().items():
            at = self.stats.partitions.get(place)
            self._job.drop(place)
            self._reader.put_off(place)
            self._loading.suspend(place, why, 0 if at is None else at.position)

    # Beginning and end.

    def _is_finished(self) -> bool:
        """Return whether a bounded run has reached its end in all partitions of the group."""
        if self._settings.stop is None or self._doubtful is not None or not self._reader.is_member:
            return False
        if (
            self._loading.waiting
            or not self._telling.has_its_share
            or not self._job.finished(
                lambda place: self._reader.client.where([place], self._settings.start_time)[place]
            )
        ):
            return False
        logger.info("the end that the setting stop names is reached")
        return True

    def _is_open(self) -> bool:
        """Connect to the brokers. The first failure is an error. A process that was connected before retries."""
        if not self._backoff.due:
            return False
        try:
            self._open()
        except (NoBrokerError, NoTopicError, NoRightError) as error:
            if not self.stats.opened_at:
                raise
            self._close()
            self._backoff.fail()
            self._seldom.say("open", str(error))
            return False
        self._backoff.succeed()
        return True

    def _open(self) -> None:
        """Check all requirements, and connect."""
        with start_explained(self._settings):
            self._watch.open()
            self._job.check(self._watch)
            self._reader.open()
            self._check_group()
            try:
                self._transactions.open()
            except InDoubtError as error:
                cause = error.__cause__
                if isinstance(cause, ClientError) and cause.kind is ErrorKind.RIGHT:
                    raise NoRightError(
                        f"cannot begin transactions at {self._settings.brokers}: {error}. The user lacks a right "
                        f"(WRITE on the transactional id {transactional_id(self._settings)})"
                    ) from None
                logger.warning("no transaction can be begun yet: %s", error)
        self._watch.start()
        self.stats.opened_at = True

    def _check_group(self) -> None:
        """Check the right to use the group. An open transaction hides the committed offset until it ends."""
        try:
            self._reader.client.committed(Place(self._watch.inputs[0], 0))
        except ClientError as error:
            if error.kind is not ErrorKind.AGAIN:
                raise
            logger.warning("%s", error)

    def _close(self, *, leave: bool = False) -> None:
        self._watch.close()
        self._reader.close(leave=leave)
        self._job.close()
        self._transactions.close(CLOSE_SECONDS)

    # Reading.

    def _read(self) -> None:
        """Drop revoked partitions, and read records of assigned ones."""
        polled = self._reader.poll(wait=self._doubtful is not None or not self._backoff.due)
        gone = self._reader.gone()
        for place in gone:
            self._job.drop(place)
            reason = "is dropped until the brokers answer" if self._reader.trouble else "is another worker's now"
            self._seldom.say(f"dropped {place}", f"{place} {reason}", logging.INFO)
        if gone:
            self._loading.forget(*gone)
            self.stats.add("rebalances", by=not self._reader.trouble)
        for topic in self._watch.inputs:
            renewed = self._watch.renewed(topic, self._reader.topic_id(topic))
            if renewed:
                self._start_over(topic, renewed)
                return
        for place, records in polled.items():
            self._job.accept(place, records)

    def _start_over(self, topic: str, topic_id: str) -> None:
        """Discard the records of an input that was created again."""
        self._job.input_recreated(topic, topic_id)
        self._watch.accept(topic, topic_id)
        for place in self._job.owned:
            self._job.drop(place)
        self._doubtful, self._trouble = None, ""
        self._loading.forget(*self._loading.waiting)
        self._reader.renew()
        self._reader.gone()

    # Publishing.

    def _publish(self) -> None:
        """Publish ready micro-batches for some seconds. While one transaction runs, the next is prepared."""
        if not self._backoff.due or (self._doubtful is not None and not self._clear_up(self._doubtful)):
            return
        if self._trouble and not any(self._job.measure(place) for place in self._job.owned):
            self._trouble = ""  # the failed records belong to another worker now
        running: tuple[TransactionContent, Running] | None = None
        ahead: TransactionContent | None = None
        ends = time.monotonic() + (LOADING_SECONDS if self._loading.is_busy else PUBLISH_SECONDS)
        try:
            while True:
                ahead = None if time.monotonic() > ends else self._job.prepare()
                while running is not None:
                    running = self._finished(*running)
                if ahead is None:
                    break
                running = ahead, self._begin(ahead)
                ahead = None
        except (InDoubtError, ClientError) as error:
            if ahead is not None:
                self._job.undo(ahead)
            self._doubtful = None if running is None else running[0]
            self._trouble = str(error)
            self._backoff.fail()
            self._seldom.say("failed", f"a transaction failed and is tried again: {error}")
            self.stats.add("transactions_failed")
            self.stats.counts["transactions_abandoned", None] = self._transactions.stuck

    def _begin(self, group: TransactionContent) -> Running:
        self._transactions.open()
        return self._transactions.begin(group.messages, group.offsets, self._reader.client.membership)

    def _finished(self, group: TransactionContent, running: Running) -> tuple[TransactionContent, Running] | None:
        """Wait for a transaction. If a topic rejects messages, replace them in a new transaction."""
        try:
            self._transactions.finish(running)
        except UnpublishableError as error:
            self.stats.add("transactions_retried")
            refused = self._transactions.culprits(group.messages, error.refused, self.stats.turn)
            group = self._job.replace_refused(group, refused)
            return group, self._begin(group)
        self.stats.observe("transaction", running.seconds)
        self._note_commit(group, running.ended)
        return None

    def _note_commit(self, group: TransactionContent, at: float) -> None:
        self.stats.add("transactions")
        self._telling.committed = time.monotonic()
        self._backoff.succeed()
        if self._trouble:
            self._trouble = ""
            self._seldom.forget("failed", "transactions are committed again")
        self._job.committed(group, at)

    def _clear_up(self, group: TransactionContent) -> bool:
        """Determine the result of a transaction, and revert an uncommitted one. Return False if it is unknown.

        The next producer forces the broker to end the transaction. Then the committed offsets show the state before
        or after the transaction, or another state if another worker has the partition.
        """
        try:
            self._transactions.open()
            truth = {place: self._reader.client.committed(place) for place in group.offsets}
        except (ClientError, InDoubtError) as error:
            self._trouble = str(error)
            self._backoff.fail()
            self._seldom.say("failed", f"waiting for the brokers: {error}")
            return False
        self._doubtful = None
        if any(truth[place] == offset for place, offset in group.offsets.items()):
            # as a whole: a partition with another offset is another worker's since, which has gone on
            logger.info("the transaction was committed after all")
            self._note_commit(group, time.time())
        else:
            self._job.undo(group)
            self.stats.add("transactions_retried")
        for place in group.offsets:
            if place in self._job.owned and not self._job.matches(place, truth[place]):
                logger.warning("%s was committed elsewhere than by us, and is loaded again", place)
                self._job.drop(place)
                self._reader.put_off(place)
        return True


class Service(Loop):
    """One worker of the service.

    Parameters
    ----------
    settings
        Settings of the service.
    model
        Trained model. Default: the model of the settings.
    make_producer
        Factory of the producer.
    stats
        Statistics to update. Default: new statistics.

    Raises
    ------
    PersistenceError
        If the model or the folder of snapshots cannot be used.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        model: ModelFile | None = None,
        make_producer: Callable[[ServiceSettings], TransactionalProducer] = TransactionalProducer,
        stats: ServiceStats | None = None,
    ) -> None:
        stats = ServiceStats() if stats is None else stats
        model = CurrentModel(settings).model if model is None else model
        streams = Streams(settings, model, stats)
        super().__init__(settings, streams, Watch(settings, topics_of(settings), stats), stats, make_producer)


class Reconciler(Loop):
    """The process of `stream-osr reconcile`, which reads the summaries of all partitions.

    Parameters
    ----------
    settings
        Settings of the service. The group has the suffix ``-reconcile``.
    model
        Trained model. Default: the model of the settings.
    stats
        Statistics to update. Records are summaries, and events are global events. Default: new statistics.

    Raises
    ------
    ConnectorError
        If the settings have no topic of summaries.
    PersistenceError
        If the model cannot be used.
    """

    def __init__(
        self, settings: ServiceSettings, *, model: ModelFile | None = None, stats: ServiceStats | None = None
    ) -> None:
        topic = settings.subclasses
        if topic is None:
            raise ConnectorError(
                "there is no topic of summaries: set subclasses (for the workers, too), such as INPUT.subclasses"
            )
        own = settings.model_copy(update={"group": f"{settings.group}-reconcile"})
        stats = ServiceStats() if stats is None else stats
        roles = {topic: "subclasses", settings.links: "links", settings.global_events: "global_events"}
        job = Reconciliation(own, topic, ModelFile.load(settings) if model is None else model, stats)
        watch = Watch(own, roles, stats, {"subclasses": ("READ",), "links": ("READ", "WRITE")})
        super().__init__(own, job, watch, stats)
