"""The frame of a stream: one offset of all known classes from their training place, found from window to window.

Instances are judged as if they had come without the offset (:mod:`stream_osr.model.shared_offset`). The first batches
after a move decide: if the known classes have left their place together, the batch that shows it is judged again. The
offset then follows a slow move. An event names the features as soon as enough instances have come.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stream_osr.model.prior import numbers_of
from stream_osr.model.shared_offset import Places, find_shared_offset, moved_since, places_of_classes
from stream_osr.stream.seating import BatchPosterior
from stream_osr.trained import TrainedModel

WINDOW, LATEST, TRACKED = 256, 64, 128
"""Instances of the window, of its latest part, and of the part to which a present offset is fitted again."""
UNUSUAL, SUSPICIOUS = 0.05, 0.3
"""Density rank below which an instance is unusual, and the unusual share of instances from which an offset is fitted."""
LONGEST = 512
"""Most instances between two fits. After each fit without a result, the interval doubles."""
REPORTED = 192
"""Instances after a move before it is reported."""
ACCEPTED, REJECTED = 1, -1


class Frame(NamedTuple):
    """Offset of the known classes in a stream with p features and d whitened numeric dimensions.

    Attributes
    ----------
    rows
        Latest numeric whitened rows as they came, shape (n, d).
    offset
        Present offset of the transformed features, shape (p,). Instances are judged without it.
    reported
        Offset in the latest event, shape (p,).
    since
        Position at which the known classes came to the offset, -1 at the training place.
    typical
        Share of the latest instances that are typical of a known class at the offset.
    unusual, untested, wait
        Unusual instances and all instances since the last fit, and the number of instances after which to fit again.
    verdict
        ``ACCEPTED`` or ``REJECTED`` by a person, or 0.
    """

    rows: np.ndarray
    offset: np.ndarray
    reported: np.ndarray
    since: int = -1
    typical: float = 1.0
    unusual: int = 0
    untested: int = 0
    wait: int = LATEST
    verdict: int = 0

    @property
    def has_moved(self) -> bool:
        """Whether the known classes are away from the training place and nobody has accepted the new one."""
        return self.since >= 0 and self.verdict == 0


def start_frame(trained: TrainedModel) -> Frame | None:
    """Begin at the training place. ``None`` without references or without numeric features."""
    d = trained.known.prior.n_features
    if trained.references is None or not d or len(trained.labels) < 2:
        return None
    nothing = np.zeros(len(trained.whitening.center))
    return Frame(np.zeros((0, d)), nothing, nothing)


@lru_cache(maxsize=16)
def _places(same: _Same) -> Places:
    trained = same.trained
    assert trained.references is not None
    return places_of_classes(trained.known, trained.whitening, trained.references.rows)


class _Same:
    """Trained model as a cache key, equal only to the same object."""

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained

    def __hash__(self) -> int:
        return id(self.trained)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.trained is other.trained


def move_of(trained: TrainedModel, frame: Frame | None) -> np.ndarray | None:
    """Offset in whitened coordinates, shape (C + d,), or ``None`` if there is none."""
    if frame is None or frame.since < 0 or not frame.offset.any():
        return None
    return np.concatenate([np.zeros(len(trained.known.prior.first)), frame.offset @ trained.whitening.forward])


def follow_frame(trained: TrainedModel, frame: Frame, posterior: BatchPosterior, seen: int, independent: float) -> tuple[Frame, bool]:
    """Add a batch, and fit the offset if many instances are unusual or the frame has moved.

    Parameters
    ----------
    trained
        The model.
    frame
        The frame with which the batch was judged.
    posterior
        The batch.
    seen
        Position after the batch.
    independent
        Number of independent instances with the information of one stream instance.

    Returns
    -------
    The frame, and whether the batch must be judged again because the classes have moved.
    """
    came = numbers_of(posterior.rows, trained.known.prior)
    move = frame.offset @ trained.whitening.forward if frame.since >= 0 else 0.0
    frame = frame._replace(
        rows=np.concatenate([frame.rows, came + move])[-WINDOW:],
        unusual=frame.unusual + int((posterior.rank < UNUSUAL).sum()),
        untested=frame.untested + len(came),
    )
    if frame.verdict == REJECTED or frame.untested < frame.wait:
        return frame, False
    suspicious, places = frame.unusual > SUSPICIOUS * frame.untested, _places(_Same(trained))
    frame = frame._replace(unusual=0, untested=0)
    if suspicious:
        for n in (LATEST, WINDOW):
            found = find_shared_offset(places, frame.rows[-n:], frame.offset, independent)
            if found.has_moved:
                first = seen - len(frame.rows) + moved_since(places, frame.rows, found.offset, frame.offset)
                since = first if found.offset.any() else -1
                return frame._replace(offset=found.offset, since=since, typical=found.after, wait=LATEST), True
            if len(frame.rows) <= n:
                break
        if frame.since < 0:
            return frame._replace(wait=min(2 * frame.wait, LONGEST)), False
    if frame.since < 0:
        return frame._replace(wait=LATEST), False
    latest = frame.rows[-min(TRACKED, max(seen - frame.since, LATEST)) :]
    found = find_shared_offset(places, latest, frame.offset, track=True)
    if found.offset.any() and found.after >= frame.typical - 0.1:
        frame = frame._replace(offset=found.offset, typical=found.after)
    return frame._replace(wait=LATEST), False
