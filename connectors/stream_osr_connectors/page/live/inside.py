"""What only the model knows, from the checkpoint of a run: recall, signals, how many new classes, where they lie."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stream_osr import OpenSetRecognizer
from stream_osr.errors import StreamOSRError
from stream_osr.stream import Stream
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.page.report.axes import planes

logger = logging.getLogger("stream_osr")

TURN = 0.5
"""Seconds between two looks at the checkpoint."""
REST = 4.0
"""Times of a reading that pass before the next."""
Z = 1.96


class Inside(Protocol):
    """What is known beside decisions and events."""

    version: int
    """Grows with what is known."""

    def told(self) -> Mapping[str, Any]:
        """Tell what is known, as :func:`stream_osr_connectors.page.live.shown.shown` takes it."""

    def notes(self) -> Sequence[str]:
        """Say what could not be read."""

    def stop(self) -> None:
        """Let go."""


class Nothing:
    """Nothing is known."""

    version = 0

    def told(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def notes(self) -> Sequence[str]:
        """Nothing."""
        return []

    def stop(self) -> None:
        """Nothing."""


class FromCheckpoint(Nothing):
    """What a checkpoint tells, read again by a thread whenever it has changed.

    Parameters
    ----------
    checkpoint
        The file; it need not be there yet.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint
        self.version = 0
        self._told: Mapping[str, Any] = {}
        self._trouble = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen: object = None
        while not self._stop.is_set():
            began, rest = time.monotonic(), TURN
            try:
                found = self._path.stat()
                mark = found.st_ino, found.st_size, found.st_mtime_ns
                if mark != seen:
                    self._read()
                    seen, self._trouble = mark, ""
                    self.version += 1
                    rest = max(TURN, REST * (time.monotonic() - began))
            except FileNotFoundError:
                self._note(f"There is no checkpoint {self._path.name}: recall and signals are not known.")
            except (StreamOSRError, OSError) as error:
                self._note(f"Recall and signals are not known: {error}")
            except Exception:  # a page without them is better than none
                logger.exception("the checkpoint %s was not read", self._path)
                self._note(f"Recall and signals are not known: the checkpoint {self._path.name} was not read.")
            self._stop.wait(rest)

    def _note(self, trouble: str) -> None:
        self.version += trouble != self._trouble
        self._trouble = trouble

    def _read(self) -> None:
        self._told = what_it_knows(load_checkpoint(self._path).model)

    def told(self) -> Mapping[str, Any]:
        """Tell what the model knows."""
        return self._told

    def notes(self) -> Sequence[str]:
        """Say why nothing is known."""
        return [self._trouble] if self._trouble else []

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(10)


def what_it_knows(model: OpenSetRecognizer) -> dict[str, Any]:
    """Ask a model for what decisions and events do not tell."""
    signals, found, stream = model.signals, model.new_classes(), model.value.stream
    expected = signals.expected_recall
    recall = None
    if expected is not None:
        promised = model.trained.report.known_recall
        told = {"value": expected.recall, "low": expected.low, "high": expected.high}
        recall = {**told, "promised": promised if promised is not None and math.isfinite(promised) else None}
    return {
        "recall": recall,
        "dependent": signals.dependent,
        "recalls": recalls(model),
        "signals": {name: getattr(signals, name) for name in ("novelty", "drift", "outliers", "data_quality")},
        "new_classes": {"number": found.number, "low": found.low, "high": found.high},
        "plane": _plane(model),
        "candidates": [[str(key) for key in candidate.subclasses] for candidate in found.candidates],
        "sizes": {} if stream is None else {str(key): size for key, size in zip(*_sizes(stream), strict=True)},
        "decided": 0 if stream is None else sum(stream.decided),
        "seen": 0 if stream is None else int(stream.state.seen),
    }


def _sizes(stream: Stream) -> tuple[list[int], list[int]]:
    return stream.state.ids.tolist(), stream.state.dishes.size.astype(int).tolist()


def recalls(model: OpenSetRecognizer) -> dict[str, dict[str, float]]:
    """Tell the recall of each known class by its references: right among those asked, with a 95 % interval."""
    stream = model.value.stream
    called = None if stream is None else stream.called
    if stream is None or called is None:
        return {}
    out = {}
    for label, right, asked in zip(stream.labels, called.right.tolist(), called.asked.tolist(), strict=False):
        if asked >= 1.0:
            low, high = interval(right / asked, asked)
            out[str(label)] = {"value": right / asked, "low": low, "high": high}
    return out


def interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's interval of a share.

    >>> [round(end, 3) for end in interval(0.9, 100)]
    [0.826, 0.945]
    """
    centre = (share * n + 0.5 * Z**2) / (n + Z**2)
    half = Z / (n + Z**2) * math.sqrt(share * (1.0 - share) * n + 0.25 * Z**2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _plane(model: OpenSetRecognizer) -> dict[str, Any] | None:
    stream = model.value.stream
    views = () if stream is None else planes(stream)
    if not views:
        return None
    points = []
    for spot in views[-1].spots:
        x, y = np.nan_to_num(spot.centre).tolist()
        kind = "emerging" if spot.label is None else "known"
        points.append({"id": str(spot.id), "x": x, "y": y, "n": spot.size, "kind": kind, "label": spot.label})
    return {"axes": None, "points": points[:300]}
