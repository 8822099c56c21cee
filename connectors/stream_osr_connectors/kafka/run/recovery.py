"""Recovery of partitions from the newest snapshot before the committed offset and a replay.

If the model of the group has changed, a partition is first restored with the earlier model, and then handed over to
the new one. If the input has deleted the records after the committed offset, `on_gap` determines whether the state is
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_osr import Event, OpenSetRecognizer
from stream_osr.config import WITHOUT_END
from stream_osr.errors import ConnectorError, InvalidLabel, InvalidParameter, PersistenceError

from ..client.interface import Committed
from ..exits import StartAgainError
from ..log import Seldom, logger
from ..places import Place
from ..settings import ServiceSettings
from ..wire.boundaries import Boundary, Progress
from ..wire.messages import PartitionOutput, TakenRecords
from .folder_states import StoreError
from .incarnations import Incarnations
from .models import Journal, ModelFile, identity_of
from .partition import Partition, begin, beginning, ended
from .partition_keys import PartitionKeys
from .partition_position import Change, LostError, PositionReader, StartingPoint
from .snapshots import Snapshots


class LaterModelError(StartAgainError):
    """A newer model of the group has run the partition. The worker waits until it gets that model."""


class NothingToCarryError(ConnectorError):
    """The final state of the earlier model is missing."""


class Recovery:
    """Restores the state of partitions.

    Parameters
    ----------
    settings
        What the operator has set.
    model
        Model of the service.
    snapshots
        Snapshots of the group.
    published
        As for :class:`.partition_position.PositionReader`.

    Attributes
    ----------
    lives
        Incarnations of the input topics.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        model: ModelFile,
        snapshots: Snapshots,
        published: Callable[[Place], int | None] = lambda place: None,
    ) -> None:
        self._settings, self._model, self._snapshots = settings, model, snapshots
        self.lives = {topic: Incarnations(snapshots.states, topic) for topic in settings.inputs}
        self._standing = PositionReader(settings, snapshots, self.lives, published)
        self._size = settings.batch_size or model.batch_size
        self._parted: dict[Place, Partition] = {}
        self._earlier: dict[str, ModelFile] = {}
        self._carries: set[str] = set()
        self._seldom, self._journal = Seldom(), Journal(snapshots.states)

    def progress(self, partition: Partition) -> Progress:
        """Return the metadata of a partition's offset."""
        size = 0 if partition.size >= WITHOUT_END else partition.size
        return Progress(self._model.identity, partition.lineage, partition.history, size, partition.first)

    def remember(self, place: Place, partition: Partition | None, position: int) -> None:
        """Store the state and the decided offset of a partition that another worker gets."""
        here = self._standing.progress_here
        here[place] = max(position, here.get(place, 0))
        if partition is not None:
            self._parted[place] = partition

    def begun(self, place: Place) -> None:
        """Drop the stored state of a partition that was restored."""
        self._parted.pop(place, None)

    def forget(self, topic: str) -> None:
        """Drop all stored state of a topic that was created again."""
        for place in [*self._parted, *self._standing.progress_here]:
            if place.topic == topic:
                self._parted.pop(place, None)
                self._standing.progress_here.pop(place, None)

    def check(self, committed: Mapping[Place, Committed]) -> None:
        """Check that settings, model and state match the committed offsets of the group.

        A lost state is an error only if no partition can be loaded, because other partitions can continue.

        Raises
        ------
        ConnectorError
            With the mismatch and the remedy.
        """
        misfits: list[ConnectorError] = []
        loadable = not committed
        for place, where in committed.items():
            try:
                loadable = self._fits(place, where, load=not loadable) or loadable
            except LaterModelError:
                loadable = True
            except NothingToCarryError as error:
                misfits.append(error)
            except LostError as error:
                if self._settings.on_lost_state == "cold":
                    loadable = True
                else:
                    misfits.append(self._lost(place, where, error))
        if misfits and not loadable:
            raise misfits[0]

    def _fits(self, place: Place, committed: Committed, *, load: bool) -> bool:
        """Return whether a partition can be loaded. Without `load` the state is not read, and the result is False."""
        progress = self._standing.progress(place, committed)
        if progress is None or (committed.offset or 0) > committed.end:  # its leader may be new
            return True
        if progress.model == self._model.identity:
            return load and bool(self._go_on(self._model, place, progress, committed))
        self._check_change(place, progress)
        if self._settings.on_model_change == "carry":
            try:
                if progress.model not in self._carries:
                    self._model.check_carries(self._kept(progress.model))
                    self._carries.add(progress.model)
            except InvalidParameter as error:
                raise ConnectorError(f"{place}: {error} (on_model_change: cold)") from None
            except PersistenceError as error:
                raise self._nothing_to_carry(place, error) from None
        found = self._of_earlier(place, progress, committed) if load else None
        return load and (found is not None or self._settings.on_model_change == "cold")

    def find(self, place: Place, committed: Committed, labels: int) -> StartingPoint:
        """Find the start of a partition.

        Parameters
        ----------
        place
            The partition.
        committed
            State of the partition at the broker.
        labels
            End of the topic of labels, at which a new stream starts to read it.

        Raises
        ------
        LaterModelError
            If a newer model has run the partition. The worker needs that model first.
        ConnectorError
            If the state is lost or the model has changed, and the settings do not allow that.
        """
        separated = self._parted.get(place)
        try:
            progress = self._standing.progress(place, committed)
            if progress is None:
                return self._anew(place, Boundary(self._standing.beginning(place, committed), labels))
            if progress.model == self._model.identity:
                found = self._go_on(self._model, place, progress, committed, separated)
                return self._behind_gap(place, found, committed, labels)
            earlier = self._of_earlier(place, progress, committed)
            if earlier is not None:
                return earlier
        except LostError as error:
            if why := self._snapshots.states.unknown:
                raise StoreError(f"{place}: {error}, and {why}") from None
            if self._settings.on_lost_state == "fail":
                raise self._lost(place, committed, error) from None
            change = self._standing.change(place, committed, self._standing.restart(place, committed))
            return self._anew(place, Boundary(change.begin, labels), change._replace(why=str(error)))
        begin = Boundary(self._standing.restart(place, committed), labels)
        return self._anew(place, begin, self._standing.missed(place, committed))

    def _behind_gap(self, place: Place, found: StartingPoint, committed: Committed, labels: int) -> StartingPoint:
        """Continue after a gap between the committed offset and the first record, if any.

        A kept state is written as a snapshot first, because the records before it are deleted.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        PersistenceError
            If the snapshot cannot be written.
        """
        change, state, first = self._standing.missed(place, committed), found.state, committed.first
        if change is None:
            return found
        if self._settings.on_gap == "cold":
            return self._anew(place, Boundary(first, labels), change._replace(delayed=state.delayed))
        at = Boundary(first, state.history.last.labels, state.history.last.closes)
        carried = self._begin(place, state, at, state.size)
        return StartingPoint(carried, snapshots=(at,), new=True, change=change._replace(carried=True))

    def _begin(self, place: Place, partition: Partition, at: Boundary, size: int) -> Partition:
        """Begin another lineage with the state of a partition, and write its snapshot."""
        begun = begin(
            partition.model, at, fresh=False, mark=self.lives[place.topic].mark, keys=partition.keys, size=size
        )
        begun = begun._replace(waiting=partition.waiting)
        self._snapshots.write(place, begun)
        return begun

    def is_earlier(self, partition: Partition) -> bool:
        """Return whether a partition still has the earlier model or batch size, and must be handed over."""
        return partition.model.trained is not self._model.trained or partition.size != self._size

    def hand_over(self, place: Place, earlier: Partition, labels: int) -> tuple[Partition, PartitionOutput]:
        """End the stream of the earlier model, and start a stream of the new model there.

        The earlier model finalises its delayed decisions, so that every record has one decision. They are published
        in the transaction that commits the new start. If the new stream has state, a snapshot is written first.

        Parameters
        ----------
        place
            The partition.
        earlier
            State at the committed offset. It does not change.
        labels
            End of the topic of labels. Commands to the earlier stream apply to the new one only if its state is
            carried over.

        Returns
        -------
        The partition and its output.

        Raises
        ------
        ConnectorError
            If the models are incompatible.
        PersistenceError
            If the snapshot cannot be written.
        """
        at, mark = earlier.history.last, self.lives[place.topic].mark
        if earlier.model.trained is self._model.trained:
            partition = self._begin(place, earlier, at, self._size)
            logger.info("%s goes on with batch_size %d at %d", place, self._size, at.offset)
            return partition, beginning(partition, PartitionOutput([], [], TakenRecords(), "", -1))
        last, output = ended(earlier, self._settings.contributions)
        model, keys = self._model.recognizer(place), self._no_keys()
        if self._settings.on_model_change == "carry":
            try:
                output.events.extend(_carried_over(last.model, model))
                if last.keys is not None and keys is not None:
                    output = output._replace(streams=[*output.streams, *_carry_keys(last.keys, keys, output.events)])
            except (InvalidParameter, InvalidLabel) as error:
                raise ConnectorError(f"{place}: {error} (on_model_change: cold)") from None
            partition = begin(model, at, fresh=False, mark=mark, keys=keys, size=self._size)
            self._snapshots.write(place, partition)
            logger.info("%s goes on under another model at %d", place, at.offset)
        else:
            at = at._replace(labels=max(at.labels, labels))
            partition = begin(model, at, mark=mark, keys=keys, size=self._size)
            logger.info("%s starts again under another model at %d", place, at.offset)
        return partition, beginning(partition, output)

    def flushed(self, place: Place, partition: Partition) -> tuple[Partition, PartitionOutput]:
        """Finalise the delayed decisions of a stream, and continue from there.

        Returns
        -------
        The partition, with a snapshot, and its output.

        Raises
        ------
        PersistenceError
            If the snapshot cannot be written.
        """
        last, output = ended(partition, self._settings.contributions)
        begun = self._begin(place, last, partition.history.last, partition.size)
        return begun, beginning(begun, output)

    def _go_on(
        self,
        model: ModelFile,
        place: Place,
        progress: Progress,
        committed: Committed,
        partition: Partition | None = None,
    ) -> StartingPoint:
        offset, history = committed.offset, progress.history
        if history.last.offset != offset:
            raise LostError(f"offset {offset} was committed with the micro-batches up to {history.last.offset}")
        if offset > committed.end:
            raise LostError(f"offset {offset} was committed, and the partition ends at {committed.end}")
        if partition is not None and (partition.lineage, partition.history.last) == (progress.lineage, history.last):
            return StartingPoint(partition)
        return self._from_snapshot(model, place, progress, committed.first)

    def _check_change(self, place: Place, progress: Progress) -> str:
        """Describe the change of a partition's model.

        Raises
        ------
        LaterModelError
            If the partition has a newer model.
        ConnectorError
            If the settings refuse a change.
        """
        if self._journal.is_later(progress.model, than=self._model.identity):
            raise LaterModelError(
                f"{place} ran under the newer model {progress.model}, and this worker has {self._model.identity} and "
                "waits for the newer one (SIGHUP to its parent)"
            )

        text = (
            f"the group has run the model {progress.model}, and this one (with its settings) is "
            f"{self._model.identity}"
        )
        if self._settings.on_model_change == "refuse":
            raise ConnectorError(
                f"{place}: {text}. Use that model again, or another group, or set on_model_change: carry keeps "
                "emerged subclasses, cold starts again from the committed offset"
            )
        return text

    def _lost(self, place: Place, committed: Committed, error: LostError) -> ConnectorError:
        """Return an error with the remedy for a lost state."""
        offset, first, where = committed.offset, committed.first, self._snapshots.states.where
        gone = ""
        if offset is not None and offset < first:
            gone = f". The input has deleted the records from {offset} to {first - 1}, and they cannot be restored"
        return ConnectorError(
            f"{place}: {error}{gone}. Restore the snapshots to {where}, or set on_lost_state to cold: the stream "
            "then starts again from the committed offset"
        )

    def _kept(self, identity: str) -> ModelFile:
        """Load an earlier model of the group, which all partitions share."""
        if identity not in self._earlier:
            self._earlier[identity] = ModelFile.kept(self._snapshots.states, identity)
        return self._earlier[identity]

    @staticmethod
    def _nothing_to_carry(place: Place, why: Exception) -> NothingToCarryError:
        return NothingToCarryError(
            f"{place}: nothing can be carried over, the end of the earlier model's stream is missing: {why}. Start "
            "the service with the earlier model once more and stop it (SIGTERM), or set on_model_change to cold"
        )

    def _of_earlier(self, place: Place, progress: Progress, committed: Committed) -> StartingPoint | None:
        """Find the stream of the earlier model for a handover, or return ``None`` if it is not needed."""
        change = self._settings.on_model_change
        fate = f"What emerged is {'carried over' if change == 'carry' else 'discarded'} (on_model_change: {change})"
        self._seldom.say(progress.model, f"{self._check_change(place, progress)}. {fate}")
        try:
            model = self._kept(progress.model)
            if change == "cold" and progress.first is None and not model.arguments["decision_delay"]:
                return None  # an offset of an earlier release does not say whether decisions are delayed
            found = self._go_on(model, place, progress, committed)
            if found.replay and model.features != self._model.features:
                raise LostError("the records since its newest snapshot need the features of that model")
            keys, by = found.state.keys, self._settings.by
            if found.replay and keys is not None and keys.by != by:
                raise LostError(f"the records since its newest snapshot need the setting by={keys.by}")
            if change == "carry" and (None if keys is None else keys.by) != by:
                raise ConnectorError(
                    f"{place}: streams of another setting `by` cannot be carried over (on_model_change: cold)"
                )
        except StoreError:
            raise
        except (LostError, PersistenceError) as error:
            if change == "cold":
                raise LostError(f"the end of the earlier model's stream is missing: {error}") from None
            raise self._nothing_to_carry(place, error) from None
        return found

    def _from_snapshot(self, model: ModelFile, place: Place, progress: Progress, first: int) -> StartingPoint:
        history, lineage = progress.history, progress.lineage
        usable = set(history.boundaries())
        known = [at for at in self._snapshots.boundaries(place, lineage) if at in usable]
        size = progress.size or WITHOUT_END

        def keys_by(by: str) -> PartitionKeys:
            return PartitionKeys(
                model.trained, model.arguments, by, self._settings.max_keys, self._settings.key_memory
            )

        for at in known:
            replay = tuple(history.after(at))
            if replay and at.offset < first:
                break
            snapshot = self._snapshots.read(place, lineage, at, model.trained, keys_by)
            if snapshot is not None:
                snapshot.model.set_min_probability(model.arguments["min_probability"])
                until = history.until(at)
                state = Partition(snapshot.model, snapshot.waiting, lineage, until, snapshot.keys, size)
                return StartingPoint(state, replay, tuple(sorted(known)))
        replay = tuple(history.after(history.base))
        if history.fresh and (history.base.offset >= first or not replay):
            keys = self._no_keys(model)
            if model is not self._model and model.identity == identity_of(model.trained, model.arguments, None):
                keys = None
            elif model is not self._model and model.identity != self._identity_by(model):
                raise LostError("the records since then need the setting `by` of that model")
            begun = begin(model.recognizer(place), history.base, keys=keys, size=size)
            return StartingPoint(begun._replace(lineage=lineage), replay)
        raise LostError(
            f"no snapshot leads to offset {history.last.offset}, with records since {first} "
            f"(the micro-batches since {history.base.offset} are known, snapshots at "
            f"{[at.offset for at in known] or 'none of them'})"
        )

    def _identity_by(self, model: ModelFile) -> str:
        return identity_of(model.trained, model.arguments, self._settings.by)

    def _anew(self, place: Place, start: Boundary, change: Change | None = None) -> StartingPoint:
        model = self._model.recognizer(place)
        mark = self.lives[place.topic].mark
        begun = begin(model, start, mark=mark, keys=self._no_keys(), size=self._size)
        return StartingPoint(begun, new=True, change=change)

    def _no_keys(self, model: ModelFile | None = None) -> PartitionKeys | None:
        """Return the empty collection of keys of a new stream, or ``None`` without the setting `by`."""
        its = self._model if model is None else model
        return PartitionKeys.of(self._settings, its.trained, its.arguments)


def _carried_over(earlier: OpenSetRecognizer, model: OpenSetRecognizer) -> list[Event]:
    """Carry the state of an earlier model's recognizer over to a new one. Return the events."""
    model.carry_over(earlier)
    return list(model.drain_events())


def _carry_keys(earlier: PartitionKeys, keys: PartitionKeys, events: list[Event]) -> list[str]:
    """Carry the states of all keys over to a new model, and add the events. Return the key of each event."""
    streams: list[str] = []
    for by in earlier:
        (model, _), (ends, _) = keys.stream(by), earlier.stream(by)
        own = _carried_over(ends, model)
        events += own
        streams += len(own) * [by]
        keys.put(by, model, (), 0)
        if len(keys) % 20 == 0:
            earlier.make_room()
            keys.make_room()
    return streams
