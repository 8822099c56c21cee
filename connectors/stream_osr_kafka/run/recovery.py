"""How a partition comes back: the newest snapshot that leads to the committed offset, and what to replay after it.

Under another model than the one that the group has run it comes back as it was, by the earlier model, and is handed
over where the earlier one ends.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import NamedTuple

from stream_osr.errors import ConnectorError, InvalidLabel, InvalidParameter, PersistenceError

from ..client import Committed
from ..exits import StartAgainError
from ..log import logger
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary, History, Progress
from ..wire.messages import Outcome, Taken
from .models import Journal, ModelFile
from .partition import RULES, Partition, begin
from .snapshots import Snapshots
from .standing import Incarnations, LostError, Standing


class LaterModelError(StartAgainError):
    """A partition has been run by a model that was given to the group after ours: it waits until we are given it."""


class Found(NamedTuple):
    """Where a partition goes on.

    Attributes
    ----------
    state
        As of its last boundary.
    replay
        Boundaries after it, of micro-batches that have been published before.
    snapshots
        Boundaries at which there are snapshots, the newest last.
    new
        It begins anew, and its beginning has to be committed.
    """

    state: Partition
    replay: tuple[Boundary, ...] = ()
    snapshots: tuple[Boundary, ...] = ()
    new: bool = False


class Recovery:
    """Finds the state of partitions.

    Parameters
    ----------
    settings
        What the operator has set.
    model
        The model.
    snapshots
        Where snapshots are.

    Attributes
    ----------
    incarnations
        Which topic it is, as the folder of the snapshots says.
    """

    def __init__(self, settings: ServiceSettings, model: ModelFile, snapshots: Snapshots) -> None:
        self._settings, self._model, self._snapshots = settings, model, snapshots
        self.incarnations = Incarnations(snapshots.folder, settings.input)
        self._standing = Standing(settings, snapshots, self.incarnations)
        self._parted: dict[int, Partition] = {}
        self._earlier: dict[str, ModelFile] = {}
        self._journal = Journal(snapshots.folder)

    def progress(self, partition: Partition) -> Progress:
        """Say what is committed with a partition's offset."""
        return Progress(self._model.identity, partition.lineage, partition.history, partition.rules)

    @staticmethod
    def upgraded(partition: Partition, written: Collection[Boundary]) -> Partition | None:
        """Let a stream that was begun by earlier rules go on by ours, from its last boundary on.

        A replay is by one set of rules: the history is cut there, and begins with the snapshot of that boundary.

        Parameters
        ----------
        partition
            With nothing left to be replayed.
        written
            Boundaries at which there are snapshots.

        Returns
        -------
        The partition; None: it goes by our rules already, or the snapshot is missing.
        """
        last = partition.history.last
        untouched = partition.history == History(last, fresh=True)
        if partition.rules == RULES or not (untouched or last in written):
            return None
        return partition._replace(rules=RULES, history=History(last, fresh=untouched))

    def remember(self, number: int, partition: Partition) -> None:
        """Keep the state of a partition that goes to another worker; it may come back untouched."""
        self._parted[number] = partition

    def find(self, number: int, committed: Committed, labels: int) -> Found:
        """Find where a partition goes on.

        Parameters
        ----------
        number
            Of the partition.
        committed
            What the broker says.
        labels
            End of the topic of labels: where a stream that begins anew begins in it.

        Raises
        ------
        LaterModelError
            If the model that has run it follows ours: this worker is to be given it first.
        ConnectorError
            If its state is lost, or another model has run it, and the settings say to stop then.
        """
        parted = self._parted.pop(number, None)
        settings, place = self._settings, f"{self._settings.input}/{number}"
        try:
            progress = self._standing.progress(number, committed)
            if progress is None:
                return self._anew(number, Boundary(self._standing.beginning(number, committed), labels))
            if progress.model == self._model.identity:
                return self._go_on(self._model, number, progress, committed, parted)
            if self._journal.is_later(progress.model, than=self._model.identity):
                raise LaterModelError(
                    f"{place}: the model {progress.model} has run it, which followed {self._model.identity}, the one "
                    "here; it waits until this worker is given that model (SIGHUP to its parent)"
                )
            found = self._of_earlier(number, progress, committed)
            if found is not None:
                return found
        except LostError as error:
            if settings.on_lost_state == "fail":
                raise ConnectorError(
                    f"{place}: {error}; bring the snapshots back to {self._snapshots.folder}, or set on_lost_state "
                    "to cold: the stream then begins anew from the committed offset"
                ) from None
            told = self._standing.taken_away(number, self._standing.restart(number, committed))
            logger.warning("%s: %s; the stream begins anew at %s", place, error, told)
        return self._anew(number, Boundary(self._standing.restart(number, committed), labels))

    def is_earlier(self, partition: Partition) -> bool:
        """Say whether a partition is still the earlier model's: at its end it is to be handed over."""
        return partition.model.trained is not self._model.trained

    def hand_over(self, number: int, earlier: Partition, labels: int) -> tuple[Partition, Outcome]:
        """End the stream of the earlier model, and begin that of this one where it ends.

        What the earlier one still holds back it decides as things stand, so that every record has one decision; to be
        published in the transaction that commits the beginning. A beginning that is not empty is a snapshot first:
        nothing else leads there.

        Parameters
        ----------
        number
            Of the partition.
        earlier
            Its state at the committed offset; it does not change.
        labels
            End of the topic of labels. What was asked of the earlier stream is asked of this one if it is carried
            over; of one that begins anew it is not.

        Returns
        -------
        The partition, and what is to be published.

        Raises
        ------
        ConnectorError
            If the models do not fit together.
        PersistenceError
            If the snapshot cannot be written.
        """
        topic, at = self._settings.input, earlier.history.last
        last = copy(earlier.model)
        last.flush()
        decisions = list(zip(earlier.waiting, last.drain(), strict=True))
        events = list(last.drain_events())
        model = self._model.recognizer(topic, number)
        if self._settings.on_model_change == "carry":
            try:
                model.carry_over(last)
            except (InvalidParameter, InvalidLabel) as error:
                raise ConnectorError(f"{topic}/{number}: {error} (on_model_change: cold)") from None
            events += model.drain_events()
            partition = begin(model, at, fresh=False, mark=self.incarnations.mark)
            self._snapshots.write(topic, number, partition)
            logger.info("%s/%d goes on under another model at %d", topic, number, at.offset)
        else:
            at = at._replace(labels=max(at.labels, labels))
            partition = begin(model, at, mark=self.incarnations.mark)
            logger.info("%s/%d begins anew under another model at %d", topic, number, at.offset)
        timestamp = decisions[-1][0].timestamp if decisions else -1
        place = f"{at.offset - 1}-{at.labels}-{partition.lineage}"
        return partition, Outcome(decisions, events, Taken(), place, timestamp)

    def _go_on(
        self, model: ModelFile, number: int, progress: Progress, committed: Committed, parted: Partition | None = None
    ) -> Found:
        offset, _, first, end = committed
        history = progress.history
        if history.last.offset != offset:
            raise LostError(f"offset {offset} was committed with the micro-batches up to {history.last.offset}")
        if not first <= offset <= end:
            raise LostError(f"offset {offset} was committed, and the partition holds {first} to {end}")
        if parted is not None and (parted.lineage, parted.history.last) == (progress.lineage, history.last):
            return Found(parted)
        return self._from_snapshot(model, number, progress, first)

    def _of_earlier(self, number: int, progress: Progress, committed: Committed) -> Found | None:
        """Find the stream of the earlier model, to be handed over at its end; None: nothing of it is needed."""
        place, change = f"{self._settings.input}/{number}", self._settings.on_model_change
        told = (
            f"{place}: the group has run the model {progress.model}, and this one (with its settings) is "
            f"{self._model.identity}"
        )
        if change == "refuse":
            raise ConnectorError(
                f"{told}; give that model again, or another group, or set on_model_change: carry goes on with what "
                "has emerged, cold begins anew from the committed offset"
            )
        logger.warning(told)
        try:
            if progress.model not in self._earlier:  # all partitions share it
                self._earlier[progress.model] = ModelFile.kept(self._snapshots.folder, progress.model)
            model = self._earlier[progress.model]
            if change == "cold" and not model.arguments["decision_delay"]:
                return None
            found = self._go_on(model, number, progress, committed)
            if found.replay and model.features != self._model.features:
                raise LostError("the records since its newest snapshot have to be read with its own features")
        except (LostError, PersistenceError) as error:
            why = f"the end of the earlier model's stream is not there: {error}"
            if change == "cold":
                raise LostError(why) from None
            raise ConnectorError(
                f"{place}: nothing can be carried over, {why}; start the service with the earlier model once more "
                "and stop it (SIGTERM), or set on_model_change to cold"
            ) from None
        return found

    def _from_snapshot(self, model: ModelFile, number: int, progress: Progress, first: int) -> Found:
        history, lineage, topic = progress.history, progress.lineage, self._settings.input
        usable = set(history.boundaries())
        known = [at for at in self._snapshots.boundaries(topic, number, lineage) if at in usable]
        for at in known:
            replay = tuple(history.after(at))
            if replay and at.offset < first:
                break
            snapshot = self._snapshots.read(topic, number, lineage, at, model.trained)
            if snapshot is not None:
                snapshot.model.set_min_probability(model.arguments["min_probability"])
                state = Partition(snapshot.model, snapshot.waiting, lineage, history.until(at), progress.rules)
                return Found(state, replay, tuple(sorted(known)))
        if history.fresh and history.base.offset >= first:
            begun = begin(model.recognizer(topic, number), history.base)
            state = begun._replace(lineage=lineage, rules=progress.rules)
            return Found(state, tuple(history.after(history.base)))
        raise LostError(
            f"no snapshot leads to offset {history.last.offset}, with records since {first} "
            f"(the micro-batches since {history.base.offset} are known, snapshots at "
            f"{[at.offset for at in known] or 'none of them'})"
        )

    def _anew(self, number: int, start: Boundary) -> Found:
        model = self._model.recognizer(self._settings.input, number)
        return Found(begin(model, start, mark=self.incarnations.mark), new=True)
