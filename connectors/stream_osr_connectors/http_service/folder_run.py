"""The run over a journal: the file loop in a thread, with all files in one folder."""

from __future__ import annotations

import copy
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, InvalidParameter
from stream_osr.printable_text import brief

from ..files import open_sink
from ..files.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ..files.file_run import FileRun, Sinks, check_outputs
from ..files.locking import sole_writer
from ..files.streams import keyed_of, no_keys
from .instances import fields_of
from .journal import SEGMENT_BYTES, InstanceJournal, JournalSource
from .outputs import Outputs

logger = logging.getLogger("stream_osr")

FLUSH_SECONDS = 0.1
"""Least seconds between two flushes of the outputs."""
ANSWER_SECONDS = 10.0
"""Longest wait for an answer of the run."""


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
    by
        Field with the key of the stream, or ``None``. Each key has its own recognizer.
    contributions
        Number of features whose contributions each decision has, or ``None``.
    carries
        Whether the streams of another model in the folder continue with ``model``
        (:meth:`.file_run.FileRun.go_on`). Otherwise another model is refused.

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
        by: str | None = None,
        contributions: int | None = None,
        carries: bool = False,
    ) -> None:
        super().__init__(name="stream-osr-run", daemon=True)
        self.failure, self._stopping = "", False
        self._questions = SimpleQueue[Callable[[], None]]()
        self.on_output: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._visible, self._flush_at = 0, 0.0
        self.checkpoint = folder / "decisions.jsonl.checkpoint"
        fields = fields_of(model, None if by is None else "by")  # in the journal
        with ExitStack() as stack:
            self.journal = InstanceJournal(folder / "journal.jsonl", horizon, segment_bytes)
            stack.callback(self.journal.close)
            source = stack.enter_context(JournalSource(self.journal, fields))
            paths = [folder / name for name in ("decisions.jsonl", "events.jsonl", "errors.jsonl")]
            started = load_checkpoint(self.checkpoint) if self.checkpoint.exists() else None
            reading: dict[str, Any] = {"key": "key", "time": "time", "label": "label", "by": by}
            reading |= {"features": fields.features, "contributions": contributions}
            successor = None
            if started is not None:
                before = started.reading or {}
                change = None if before.get("contributions") == contributions else "number of contributions"
                if before.get("by") != by:
                    raise ConnectorError(_differs(folder, "--by", by, before.get("by")))
                if carries and started.model.trained.fingerprint != model.trained.fingerprint:
                    successor, change = model, "model"
                    _tell_changes(started.model, model)
                else:
                    check_same(folder, started.model, model)
                check_outputs(started, paths, change)
            decisions, events, errors = (
                stack.enter_context(open_sink(path, private=path == paths[2])) for path in paths
            )
            sinks = Sinks(decisions, events, errors)
            with sole_writer(self.checkpoint):
                if started is None:  # commands may then come before the first record
                    sinks.flush()
                    places = tuple(each.position() for each in (decisions, events, errors))
                    keys = None if by is None else no_keys(model)
                    started = Checkpoint(model, None, places, Counter(), reading, keys=keys)
                    save_checkpoint(self.checkpoint, started)
                keyed = keyed_of(started.model, self.checkpoint, started.keys) if by is not None else None
                self._files = FileRun.go_on(
                    started, source, sinks, successor, checkpoint=self.checkpoint, checkpoint_every=checkpoint_every,
                    reading=reading, stop=self._between_records, keyed=keyed,
                    contributions=contributions,
                )  # fmt: skip
                self._files.saved = self._forget
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
    def contributions(self) -> int | None:
        """Number of features whose contributions each decision has, or ``None``."""
        return self._files.contributions

    @property
    def keys(self) -> int | None:
        """Number of streams, or ``None`` if there is only one."""
        return None if self._files.keyed is None else len(self._files.keyed)

    @property
    def frame(self) -> str:
        """Offset of all known classes from their training place, in a line (`Signals.frame`). Empty with keys."""
        return copy.copy(self.model).signals.frame

    def recognizer(self, stream: str | None = None) -> OpenSetRecognizer:
        """Return a copy of the recognizer, or of that of a key.

        Raises
        ------
        InvalidParameter
            If there are streams by key and none is given, or the reverse, or there is no such key.
        ConnectorError
            If the run does not answer.
        """
        if (keyed := self._files.keyed) is None:
            if stream is not None:
                raise InvalidParameter("this service has one stream. Leave out stream")
            return copy.copy(self.model)
        if stream is None:
            raise InvalidParameter("this service has a stream for each key. Name one: stream=KEY")
        answer = Future[OpenSetRecognizer]()

        def look() -> None:  # only the thread of the run may read the recognizers by key
            try:
                if stream not in keyed:
                    raise InvalidParameter(f"there is no stream with key {brief(stream)}")
                answer.set_result(copy.copy(keyed[stream]))
            except Exception as error:
                answer.set_exception(error)

        self._questions.put(look)
        try:
            return answer.result(ANSWER_SECONDS)
        except TimeoutError:
            raise ConnectorError("the run does not answer at present. Try again") from None

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
        self.journal.forget(self.totals["read"] - self.model.pending)  # a checkpoint has the rows of quiet keys

    def _between_records(self) -> bool:
        """Flush new output every ``FLUSH_SECONDS``. Return whether the run is to end."""
        while not self._questions.empty():  # only this thread takes from it
            self._questions.get()()
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
        raise ConnectorError(
            f"{folder} contains a run of another model. Give that model, another folder, or "
            "--on-model-change carry to keep the subclasses"
        )
    for name, value in before.arguments.items():
        if name != "n_jobs" and value != now.arguments[name]:
            raise ConnectorError(_differs(folder, name, now.arguments[name], value))


def _differs(folder: Path, name: str, now: object, before: object) -> str:
    return (
        f"{name} is {brief(now)}, and the run in {folder} began with {brief(before)}. Give the same value, or "
        "another folder"
    )


def _tell_changes(before: OpenSetRecognizer, now: OpenSetRecognizer) -> None:
    """Log that another model continues, and the arguments that change with it."""
    other = [
        f"{name} is {brief(value)}, before {brief(before.arguments[name])}"
        for name, value in now.arguments.items()
        if value != before.arguments[name]
    ]
    logger.warning("another model continues the streams. %s", "; ".join(other) or "All arguments stay")
