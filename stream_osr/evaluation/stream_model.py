"""Interface of a model in a prequential run; the recognizer implements it, and stands above this package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from stream_osr.config import Label
from stream_osr.decision import Decision
from stream_osr.discovery.events import Event
from stream_osr.discovery.summaries import Summary
from stream_osr.trained import TrainedModel


class StreamModel(Protocol):
    """A model that answers at once, decides later and tells what emerges: :class:`stream_osr.OpenSetRecognizer`."""

    unknown: Label | None
    counters: Counter[str]

    @property
    def trained(self) -> TrainedModel:
        """The frozen known classes."""

    def freeze(self) -> object:
        """End training."""

    def summary(self) -> Summary:
        """Sum up the known classes and the stream."""

    def predict_one(self, x: Mapping[Any, Any]) -> Label | None:
        """Answer at once with a label."""

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """Answer at once with probabilities."""

    def learn_one(
        self, x: Mapping[Any, Any], y: Label | None = None, *, t: float | None = None, key: Any = None
    ) -> None:
        """Take in an instance."""

    def learn_label(self, key: Any, y: Label) -> None:
        """Take in a label that comes late."""

    def flush(self) -> None:
        """Decide whatever waits."""

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions."""

    def drain_events(self) -> Iterator[Event]:
        """Yield the events."""
