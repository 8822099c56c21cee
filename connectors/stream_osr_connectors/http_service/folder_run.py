"""The run over a journal: the file loop in a thread, with all files in one folder."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.new_classes import NewClasses
from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief

from ..files import open_sink
from ..files.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ..files.file_run import FileRun, Sinks, check_outputs
from ..files.locking import sole_writer
from .journal import SEGMENT_BYTES, InstanceJournal, JournalSource
from .outputs import Outputs

FLUSH_SECONDS = 0.1
"""Least seconds between two flushes of the outputs."""


class FolderRun(Thread):
    """A run of `FileRun` over the journal of a folder. Only this thread changes the recognizer.

    The folder contains ``journal.jsonl``, the later segments of the journal, ``decisions.jsonl``, ``events.jsonl``,
    ``errors.jsonl`` and ``decisions.jsonl.checkpoint``. After a crash the run continues from the checkpoint, as
    `stream-osr run --resume` does.

    Parameters
    ----------
    folder
        The folder.
    model
        Model of a new run. A folder with a checkpoint continues with the model in the checkpoint.
    horizon
        Number of keys that are remembered.
    checkpoint_every
        Records between two checkpoints.
    segment_bytes
        As for :class:`.journal.InstanceJournal`.

    Attributes
    ----------
    on_output
        Called in the thread after new output can be read.
    on_end
        Called in the thread at the end of the run.
    failure
        Why the run has ended, or empty text.

    Raises
    ------
    ConnectorError
        If a file cannot be used, or model or arguments differ from those of the folder.
    """

    def __init__(
        self,
        folder: Path,
        model: OpenSetRecognizer,
        *,
        horizon: int = 100_000,
        checkpoint_every: int = 10_000,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        super().__init__(name="stream-osr-run", daemon=True)
        self.failure, self._stopping = "", False
        self.on_output: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._visible, self._flush_at = 0, 0.0
        self.checkpoint = folder / "decisions.jsonl.checkpoint"
        names = [str(name) for name in model.trained.names]
        with ExitStack() as stack:
            self.journal = InstanceJournal(folder / "journal.jsonl", horizon, segment_bytes)
            stack.callback(self.journal.close)
            source = stack.enter_context(JournalSource(self.journal, names))
            paths = [folder / name for name in ("decisions.jsonl", "events.jsonl", "errors.jsonl")]
            started = load_checkpoint(self.checkpoint) if self.checkpoint.exists() else None
            if started is not None:
                check_same(folder, started.model, model)
                check_outputs(started, paths)
            decisions, events, errors = (
                stack.enter_context(open_sink(path, private=path == paths[2])) for path in paths
            )
            sinks = Sinks(decisions, events, errors)
            with sole_writer(self.checkpoint):
                if started is None:  # commands may then come before the first record
                    sinks.flush()
                    reading = {"key": "key", "time": "time", "label": None, "features": names}
                    places = tuple(each.position() for each in (decisions, events, errors))
                    started = Checkpoint(model, None, places, Counter(), reading)
                    save_checkpoint(self.checkpoint, started)
                self._files = FileRun.go_on(
                    started, source, sinks, checkpoint=self.checkpoint, checkpoint_every=checkpoint_every,
                    reading=started.reading, stop=self._between_records, saved=self._forget,
                )  # fmt: skip
                self._forget()
            self.outputs = Outputs(folder, horizon)
            stack.callback(self.outputs.close)
            self._resources = stack.pop_all()

    @property
    def model(self) -> OpenSetRecognizer:
        """The recognizer. Any thread may predict with it."""
        return self._files.model

    @property
    def totals(self) -> Counter[str]:
        """Counts of the run."""
        return self._files.totals

    @property
    def behind(self) -> int:
        """Number of accepted instances that the run has not read."""
        return self.journal.last - self.totals["read"]

    @property
    def frame(self) -> str:
        """Offset of all known classes from their training place, in a line (`Signals.frame`)."""
        return copy.copy(self.model).signals.frame

    def new_classes(self) -> NewClasses:
        """Return the candidate new classes at present."""
        return copy.copy(self.model).new_classes()

    def run(self) -> None:
        """Decide until :meth:`stop`."""
        try:
            self._files.run()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.on_end()

    def stop(self) -> None:
        """End between two records, write a checkpoint, and release all files."""
        self._stopping = True
        if self.ident is not None:
            self.join()
        self._resources.close()

    def _forget(self) -> None:
        """Delete the segments of the journal that are not needed, given that the checkpoint has the present state."""
        self.journal.forget(self.totals["read"] - self.model.pending)

    def _between_records(self) -> bool:
        """Flush new output every ``FLUSH_SECONDS``. Return whether the run is to end."""
        totals, now = self.totals, time.monotonic()
        written = totals["decided"] + totals["events"] + totals["set_aside"]
        if written != self._visible and now >= self._flush_at:
            self._files.sinks.flush()
            self.outputs.grow()
            self._visible, self._flush_at = written, now + FLUSH_SECONDS
            self.on_output()
        return self._stopping


def check_same(folder: Path, before: OpenSetRecognizer, now: OpenSetRecognizer) -> None:
    """Check that a folder continues with its model and its arguments.

    Raises
    ------
    ConnectorError
        If they differ.
    """
    if before.trained.fingerprint != now.trained.fingerprint:
        raise ConnectorError(f"{folder} contains a run of another model. Give that model, or another folder")
    for name, value in before.arguments.items():
        if name != "n_jobs" and value != now.arguments[name]:
            raise ConnectorError(
                f"{name} is {brief(now.arguments[name])}, and the run in {folder} began with {brief(value)}. Give "
                "the same value, or another folder"
            )
