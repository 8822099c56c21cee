"""Recall, signals, candidates and the feature map from the checkpoint of a run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr_connectors.files.checkpoint import load_checkpoint, model_of
from stream_osr_connectors.files.streams import keyed_of
from stream_osr_connectors.summary.model_facts import RememberedInstances, model_view

logger = logging.getLogger("stream_osr")

TURN = 0.5
"""Seconds between two checks of the checkpoint."""
REST = 4.0
"""Wait before the next read, as a multiple of the duration of the last read."""
MOST_KEYS = 200
"""Most keys in the table of a run with a stream for each key."""


class ModelView:
    """Facts that decisions and events do not contain. This base class has none.

    Attributes
    ----------
    version
        Increases with each change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._facts: Mapping[str, Any] = {}
        self._memory: RememberedInstances | None = None
        self._trouble = ""

    def facts(self) -> Mapping[str, Any]:
        """Return the facts for :func:`stream_osr_connectors.summary.view_model.view_model`."""
        return self._facts

    def notes(self) -> Sequence[str]:
        """Return the reason why there are no facts."""
        return [self._trouble] if self._trouble else []

    def note(self, facts: Mapping[str, Any], trouble: str) -> None:
        """Store facts, or the reason why there are none."""
        self.version += (facts, trouble) != (self._facts, self._trouble)
        self._facts, self._trouble = facts, trouble

    def remembered(self, decision: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the features of a decided instance that the memory of the model contains."""
        return None if self._memory is None else self._memory.find(decision.get("seq"))

    def model(self) -> OpenSetRecognizer:
        """Load the model of the last checkpoint.

        Raises
        ------
        StreamOSRError
            If there is none.
        """
        raise ConnectorError("contributions need the checkpoint of a run over files. This page has no checkpoint")

    def look(self) -> float:
        """Read the facts once, and return the seconds until the next read."""
        return TURN

    def stop(self) -> None:
        """Release all resources."""


class PolledView(ModelView):
    """Facts that a thread reads regularly with :meth:`look`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(self.look())

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(10)


class CheckpointView(PolledView):
    """Facts from a checkpoint, read again after each change.

    Parameters
    ----------
    checkpoint
        The checkpoint. It may not exist yet.
    stream
        Key of the stream, if there is one for each key.
    """

    def __init__(self, checkpoint: Path, stream: str | None = None) -> None:
        self._stream = stream
        self._path, self._seen, self._lock = checkpoint, object(), threading.Lock()
        super().__init__("checkpoint")

    def model(self) -> OpenSetRecognizer:
        """Load the model of the last checkpoint."""
        try:
            return model_of(load_checkpoint(self._path), self._path, self._stream)
        except OSError as error:
            raise ConnectorError(f"cannot read the checkpoint {self._path.name}: {error.strerror}") from None

    def _read(self) -> dict[str, Any]:
        checkpoint = load_checkpoint(self._path)
        if checkpoint.keys is None or self._stream is not None:
            model = model_of(checkpoint, self._path, self._stream)
            self._memory = None if model.value.stream is None else RememberedInstances(model)
            return model_view(model)
        keys = keyed_of(checkpoint.model, self._path, checkpoint.keys).summary()
        shown = [{"by": line.by, "n": line.seen, "unknown": line.unknown, "new": line.emerged} for line in keys]
        emerged = sum(line.emerged > 0 for line in keys)
        return {"keys": {"n": len(keys), "new": emerged, "shown": shown[:MOST_KEYS]}}

    def look(self) -> float:
        """Read the checkpoint if it has changed."""
        with self._lock:
            return self._look()

    def _look(self) -> float:
        began, trouble = time.monotonic(), ""
        try:
            found = self._path.stat()
            mark = found.st_ino, found.st_size, found.st_mtime_ns
            if mark != self._seen:
                self.note(self._read(), "")
                self._seen = mark
                return max(TURN, REST * (time.monotonic() - began))
            return TURN
        except FileNotFoundError:
            trouble = f"There is no checkpoint {self._path.name}. Recall and signals are not available."
        except (StreamOSRError, OSError) as error:
            trouble = f"Recall and signals are not available: {error}"
        except Exception:  # a page without them is better than none
            logger.exception("the checkpoint %s was not read", self._path)
            trouble = f"Recall and signals are not available: the checkpoint {self._path.name} was not read."
        self.note(self._facts, trouble)
        return TURN
