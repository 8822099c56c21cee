"""What people ask of a stream that runs: labels that come late, names, silence, taking them back; going on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from stream_osr.config import Label
from stream_osr.errors import InvalidParameter
from stream_osr.labels import check_label
from stream_osr.one_writer import one_writer
from stream_osr.stream import Evidence, carry_over, mute, opened_since, promote, undo
from stream_osr.stream.intake import late_label
from stream_osr.stream.recent_instances import recall
from stream_osr.stream.recognizer_state import Outcome
from stream_osr.stream.views import Views
from stream_osr.times_and_keys import key_of


class Requests(Views):
    """What can be asked of a recognizer whose training has ended."""

    @one_writer
    def learn_label(self, key: Any, y: Label) -> None:
        """Take in a label that comes late, for an instance that was decided earlier.

        From the next micro-batch on the instance counts for its class, and no longer for the emerging subclass it
        sat in. Keys beyond ``label_horizon`` (or never seen) are counted, not fatal.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
        >>> model = OpenSetRecognizer(batch_size=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> model.learn_one({"a": 90, "b": 2}, key="first")
        >>> [decision.label for decision in model.drain()]
        ['unknown']
        >>> model.learn_label("first", "far")
        >>> model.flush()
        >>> "far" in model.predict_proba_one({"a": 90, "b": 2})
        True
        """
        value = self.value
        label = late_label(value, y)
        value.evidence.append(Evidence(label, None, key_of(key), value.asked))

    def remembers(self, key: Any) -> bool:
        """Say whether a label for the instance with this key would find it: it waits, or was decided not long ago.

        An instance whose label has taken effect is one no longer, and one whose label waits for the next batch is
        found by no second one.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
        >>> model = OpenSetRecognizer(batch_size=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> model.learn_one({"a": 90, "b": 2}, key="first")
        >>> model.remembers("first"), model.remembers("second")
        (True, False)
        """
        value = self.value
        _, stream = value.running
        if any(each.row is None and each.key == key for each in value.evidence):
            return False
        return recall(stream.past, key) >= 0 or any(each.key == key for each in value.buffer)

    @one_writer
    def promote(self, subclass_ids: Iterable[int], label: Label) -> None:
        """Name what emerged: make emerging subclasses subclasses of a known class, new or not.

        What they have collected becomes the class's, at once and without training: the next batch recognizes it, with
        the odds that the subclasses had. They keep their ids. Of the other ``chains`` the subclasses go with them
        that hold the same instances. A :class:`SubclassPromoted` event for each tells of it. A few labels that open
        a class (:meth:`learn_label`) have no such weight: the subclass that the instances came from keeps its seats,
        and takes most of what comes.

        Promotions take effect when they are called, labels with the next batch; the result depends on their order and
        on the batches between them, not on the instances that wait for theirs.

        Parameters
        ----------
        subclass_ids
            Ids, as decisions, events and :meth:`new_classes` tell them.
        label
            Label of the class.

        Raises
        ------
        InvalidSubclass
            If an id is not one of an emerging subclass. Nothing is changed then.
        InvalidLabel
            If the label cannot be one of a known class.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr import OpenSetRecognizer
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> candidate = model.new_classes().candidates[0]
        >>> model.promote(candidate.subclasses, "above")
        >>> model.predict_one({"a": 10, "b": 20})
        'above'
        """
        value, name = self.value, late_label(self.value, label)
        stream, events = promote(*value.running, subclass_ids, name, value.parameters, value.asked)
        self._go_on(replace(value, stream=stream), Outcome(events=events))

    @one_writer
    def mute(self, subclass_ids: Iterable[int]) -> None:
        """Hear no more of emerging subclasses that are known and of no interest.

        Their instances stay unknown, and decisions go on naming the subclass. No event tells of it again, it is in
        no candidate of :meth:`new_classes` and does not count in their number. It keeps its place in the model before
        all others, so that it does not come back as something new.

        Parameters
        ----------
        subclass_ids
            Ids, as decisions, events and :meth:`new_classes` tell them.

        Raises
        ------
        InvalidSubclass
            If an id is not one of an emerging subclass, or muted already. Nothing is changed then.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr import OpenSetRecognizer
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> model.mute(model.new_classes().candidates[0].subclasses)
        >>> model.new_classes().number, model.predict_one({"a": 10, "b": 20})
        (0, 'unknown')
        """
        value = self.value
        stream, events = mute(*value.running, subclass_ids, value.parameters, value.asked)
        self._go_on(replace(value, stream=stream), Outcome(events=events))

    @one_writer
    def undo(self) -> None:
        """Take back the last promotion, mute or label that came after training, whichever was asked for last.

        What the stream has learnt since stays. Promoted subclasses are emerging again, under their ids, with their
        instances and seats, and with what has sat down beside those instances since; what was muted is told of again.
        An instance with a label leaves its class and goes back to where it sat, if that is still there. A label that
        waits for its batch is dropped. A class that nothing is left of is removed, unless decisions have named it:
        then it stays, and nothing is recognized as it. The last 100 actions can be taken back.

        A :class:`NamingUndone` event tells of promotions and mutes that are taken back; labels have no events.

        Raises
        ------
        NothingToUndo
            If nothing is left to be taken back.
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr import OpenSetRecognizer
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> model.promote(model.new_classes().candidates[0].subclasses, "abvoe")
        >>> model.undo()
        >>> model.predict_one({"a": 10, "b": 20})
        'unknown'
        """
        value = self.value
        trained, stream = value.running
        last = max([action.number for action in stream.actions[-1:]], default=-1)
        if value.evidence and value.evidence[-1].number >= last:
            value.evidence.pop()
            return
        stream, events = undo(trained, stream, value.parameters)
        self._go_on(replace(value, stream=stream), Outcome(events=events))

    @one_writer
    def carry_over(self, earlier: Self) -> None:
        """Go on with what has emerged in the stream of a recognizer over an earlier model.

        For a model that was trained anew while a stream runs. Its recognizer, which has seen nothing yet, takes over
        the emerging subclasses, announced or not, dormant and muted ones too, with their ids, exact statistics,
        samples and lives; the classes that promotions and labels have opened and that it was not trained on; the
        instances that late labels may come for; the place in the stream and the counts. No id is given twice: those
        of its own known subclasses move above all ids that there were, and new ones follow.

        Left behind is what the new model knows: a class that it was trained on, and an emerging subclass whose
        instances one of its classes foresees, all together, about as well as a subclass of their own or better
        (:class:`SubclassForgotten` tells of it). The latest instances stay where they sit and are not re-seated. The
        learnt shift of the odds and the watch for drift begin anew, and what was asked before cannot be undone.

        Statistics are sums over whitened rows. When the models map rows differently they go through the caller's own
        features, exactly, which is possible unless the earlier model's PCA has left something out, or covariances
        are diagonal.

        Parameters
        ----------
        earlier
            Its stream; it does not change. No decision of it may be held back: call its :meth:`flush` before, and
            drain it.

        Raises
        ------
        InvalidParameter
            If this recognizer has begun its stream, the earlier one has not finished, or the models do not fit
            together: other features, another covariance model, coordinates that cannot be changed. Nothing is changed
            then.
        InvalidLabel
            If a class that was opened cannot be one beside the new model's.
        NotTrained
            If the training of one has not ended.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr import OpenSetRecognizer
        >>> rng = np.random.default_rng(0)
        >>> def fitted():
        ...     model = OpenSetRecognizer(batch_size=64, seed=7)
        ...     for a, b in rng.normal(size=(200, 2)):
        ...         model.learn_one({"a": a, "b": b}, "left")
        ...         model.learn_one({"a": a + 20, "b": b}, "right")
        ...     report = model.freeze()
        ...     return model
        >>> earlier, model = fitted(), fitted()
        >>> for a, b in rng.normal([10, 20], size=(64, 2)):
        ...     earlier.learn_one({"a": a, "b": b})
        >>> model.carry_over(earlier)
        >>> model.new_classes().candidates[0].subclasses == earlier.new_classes().candidates[0].subclasses
        True
        """
        value, before = self.value, earlier.value
        (trained, stream), (its, old) = value.running, before.running
        if stream.state.seen or value.buffer or value.evidence or stream.actions:
            raise InvalidParameter("this recognizer has begun a stream; carry over to one that has seen nothing yet")
        if earlier.pending or before.evidence:
            raise InvalidParameter(
                f"the earlier recognizer holds back {earlier.pending} decisions and {len(before.evidence)} labels; "
                "call its flush() before, and drain it"
            )
        for label in opened_since(its, old, trained.labels):
            check_label(label, trained.labels, value.parameters.unknown)
        stream, events = carry_over(its, old, trained, stream)
        self._measured = None
        self._go_on(replace(value, stream=stream), Outcome(events=events, counts=before.counters))
