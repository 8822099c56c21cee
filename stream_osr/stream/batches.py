"""The micro-batch of a recognizer: closed before it is full, or set aside if it cannot be closed."""

from __future__ import annotations

from stream_osr.decision import FailedDecision
from stream_osr.one_writer import one_writer
from stream_osr.stream.recognizer_state import Holder, close, set_aside


class Batches(Holder):
    """What a caller does with the unfinished micro-batch."""

    def _close(self, *, release: bool = False) -> None:
        self._go_on(*close(self.value, release=release))

    @one_writer
    def flush(self) -> None:
        """Close the micro-batch as it is, however few instances it has, and hold no decision back any longer."""
        value, stream = self.value, self.value.stream
        if stream and (value.buffer or value.evidence or stream.waiting.decisions or stream.telling.counts):
            value, outcome = close(value, release=True)
            if value.evidence:
                value, later = close(value, release=True)
                outcome = outcome.then(later)
            self._go_on(value, outcome)

    @one_writer
    def close_batch(self) -> None:
        """Close the micro-batch as it is, however few instances it has; decisions may be held back further.

        For a caller who keeps book of where batches end: the same instances and the same ends give the same bits.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
        >>> model = OpenSetRecognizer(batch_size=100, decision_delay=1)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        ...     model.learn_one({"a": 20 + i % 7, "b": i % 5}, "right")
        >>> for a in (2, 21, 3):
        ...     model.learn_one({"a": a, "b": 2})
        >>> model.close_batch()
        >>> [decision.label for decision in model.drain()], model.pending
        (['left', 'right'], 1)
        """
        if self.value.buffer or self.value.evidence:
            self._close()

    @one_writer
    def set_batch_aside(self, reason: str) -> list[FailedDecision]:
        """Give up the instances of the unfinished micro-batch, when closing it fails again and again.

        The stream goes on without them, and they are not decided. Labels that wait are given up too if they cannot
        take effect without these instances.

        Parameters
        ----------
        reason
            Why they were not decided.

        Returns
        -------
        What was given up, in order; ``counters["failed"]`` counts it.

        Raises
        ------
        NotTrained
            If training has not ended.

        Examples
        --------
        >>> from stream_osr import OpenSetRecognizer
        >>> model = OpenSetRecognizer(batch_size=100)
        >>> for i in range(40):
        ...     model.learn_one({"a": i % 7, "b": i % 5}, "left")
        >>> model.learn_one({"a": 2, "b": 3}, key="k1")
        >>> model.set_batch_aside("out of memory")
        [FailedDecision(key='k1', t=None, x={'a': 2.0, 'b': 3.0}, label=None, reason='out of memory')]
        """
        self.value, failed = set_aside(self.value, reason)
        self.value.counters["failed"] += len(failed)
        return failed
