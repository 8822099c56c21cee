"""What a recognizer hands out: decisions and events, each once; as data frames, and in pictures."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from stream_osr.decision import Decision
from stream_osr.discovery.events import Event
from stream_osr.errors import MissingExtra
from stream_osr.frames import Library, decisions_frame, subclasses_frame
from stream_osr.stream.discovery_table import lines
from stream_osr.stream.views import Views


class Results(Views):
    """What has come of the stream."""

    def drain(self) -> Iterator[Decision]:
        """Yield the final decisions, in order of arrival, each once: of finished micro-batches, or later (delay)."""
        while self.value.decisions:
            yield self.value.decisions.popleft()

    def drain_events(self) -> Iterator[Event]:
        """Yield the events of finished micro-batches, each once."""
        while self.value.events:
            yield self.value.events.popleft()

    def decisions_frame(self, *, probabilities: bool = False, library: Library = "pandas") -> Any:
        """Drain the final decisions into a data frame (:func:`stream_osr.frames.decisions_frame`)."""
        frame = decisions_frame(self.value.decisions, probabilities=probabilities, library=library)
        self.value.decisions.clear()
        return frame

    def to_frame(self, *, library: Library = "pandas") -> Any:
        """Put the discovery table into a data frame: a row for each subclass. Nothing changes.

        Parameters
        ----------
        library
            ``"pandas"`` or ``"polars"``.

        Returns
        -------
        The subclasses of each known class, then the emerging ones, the largest first, a column for each field of
        :class:`stream_osr.stream.discovery_table.Line`.

        Raises
        ------
        NotTrained
            If nothing was learnt before.
        MissingExtra
            If the library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from stream_osr import OpenSetRecognizer
        >>> rng = np.random.default_rng(0)
        >>> model = OpenSetRecognizer(batch_size=64, seed=7)
        >>> for a, b in rng.normal(size=(200, 2)):
        ...     model.learn_one({"a": a, "b": b}, "left")
        ...     model.learn_one({"a": a + 20, "b": b}, "right")
        >>> for a, b in rng.normal([15, 20], size=(64, 2)):
        ...     model.learn_one({"a": a, "b": b})
        >>> frame = model.to_frame()
        >>> frame.loc[frame["kind"] == "new", ["size", "share", "stage", "nearest_class", "new_class"]]
           size  share   stage nearest_class  new_class
        2    64    1.0  active         right          0
        """
        found = self.new_classes()
        assert self.value.stream is not None
        return subclasses_frame(lines(self.value.stream, found), library=library)

    @property
    def plot(self) -> Any:
        """The figures of the report (:class:`stream_osr.plot.Figures`), as Altair charts: extra ``plot``.

        ``plot.timeline(decisions, events)``, ``plot.plane()``, ``plot.emerged()``, ``plot.calibration(decisions,
        labels)``. They stand above the recognizer, which finds them by their entry point (group
        ``stream_osr.figures``), and knows nothing else of them.

        Raises
        ------
        MissingExtra
            If the extra ``plot`` is not installed.
        """
        found = next(iter(entry_points(group="stream_osr.figures")), None)
        if found is None:
            raise MissingExtra("the installation names no figures; pip install 'stream-osr[plot]' mends it")
        return found.load()(self)
