"""A recognizer in an archive: as plain values and records, whole or beside a trained part that several share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np

from stream_osr.archive import check_recognizer, read_archive, write_archive
from stream_osr.atomic import remove_unfinished
from stream_osr.config import parameters
from stream_osr.discovery.summaries import Unmet
from stream_osr.engine.value import Holder
from stream_osr.errors import PersistenceError
from stream_osr.showing import printable
from stream_osr.trained import TrainedModel
from stream_osr.training_set import TrainingSet


class Saved(Holder):
    """What can be saved, and goes on bit for bit."""

    def save(self, path: str | PathLike[str]) -> None:
        """Save everything, buffer included, as arrays and a JSON manifest; :meth:`load` goes on bit for bit.

        What a call that was killed has left beside the file is removed.
        """
        remove_unfinished(path)
        write_archive(path, "recognizer", self.as_state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load what :meth:`save` wrote. Nothing in the file is executed."""
        return cls.from_state(read_archive(path, "recognizer"), str(path))

    def as_state(self) -> dict[str, Any]:
        """Return everything as plain values and records, for an archive: both parts, buffer, what is not drained."""
        value = self.value
        state = {
            "arguments": self.arguments,
            "counters": dict(value.counters),
            "training": None if value.training is None else value.training.as_state(),
            "trained": value.trained,
            "stream": value.stream,
            "buffer": [each._replace(row=np.array(each.row, dtype=float)) for each in value.buffer],
            "evidence": value.evidence,
            "decisions": list(value.decisions),
            "events": list(value.events),
        }
        return state if value.unmet is None else {**state, "unmet": value.unmet.in_order()}

    def stream_state(self) -> dict[str, Any]:
        """Return what :meth:`as_state` does, without the trained part, for recognizers that share one.

        It refers to arrays of the trained part: an archive of it is written and read beside ``trained.shared``.
        """
        return {**self.as_state(), "trained": None, "fingerprint": self.value.running[0].fingerprint}

    @classmethod
    def from_stream_state(
        cls, trained: TrainedModel, state: Mapping[str, Any], name: str = "the saved recognizer"
    ) -> Self:
        """Make the recognizer that :meth:`stream_state` described, over the trained model that it had.

        Raises
        ------
        PersistenceError
            If it describes none, or one over another trained model.
        """
        if state.get("fingerprint") != trained.fingerprint:
            raise PersistenceError(
                f"the saved stream belongs to the trained model {str(state.get('fingerprint'))[:12]}, and this is "
                f"{trained.fingerprint[:12]}; give the model that it was saved with"
            )
        return cls.from_state({**state, "trained": trained}, name)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], name: str = "the saved recognizer") -> Self:
        """Make the recognizer that :meth:`as_state` described; ``name`` is what an error calls it.

        Raises
        ------
        PersistenceError
            If it describes none.
        """
        try:
            model = cls(**state["arguments"])
            check_recognizer(state, parameters(**model.arguments), name)
            model.value = replace(
                model.value,
                training=None
                if state["training"] is None
                else TrainingSet.from_state(state["training"], model.value.parameters.markers),
                trained=state["trained"],
                stream=state["stream"],
                buffer=list(state["buffer"]),
                evidence=list(state["evidence"]),
                counters=Counter(state["counters"]),
                decisions=deque(state["decisions"]),
                events=deque(state["events"]),
                unmet=_unmet(state.get("unmet")),
            )
        except (LookupError, TypeError, ValueError) as error:
            told = printable(str(error), 300)
            raise PersistenceError(
                f"{name} cannot be used ({told}); was it saved by another version of stream-osr?"
            ) from error
        if model.value.training is None and model.value.trained is not None:
            model.value.trained.tell_unguarded()
        return model


def _unmet(parts: tuple[tuple[Any, ...], ...] | None) -> Unmet | None:
    """Read what the stream has not met; ``None``: nothing has been noted."""
    return None if parts is None else Unmet(frozenset(parts[0]), frozenset(parts[1]), parts[2])
