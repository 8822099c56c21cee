"""The frame of a stream: one offset of all known classes from their training place, found from window to window.

Instances are judged as if they had come without the offset (:mod:`stream_osr.model.shared_offset`). The first batches
after a move decide: if the known classes have left their place together, the batch that shows it is judged again. The
offset then follows a slow move. An event names the features as soon as enough instances have come.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.discovery.event_base import Event, moved_text
from stream_osr.discovery.events import FrameMoved
from stream_osr.errors import NothingToJudge
from stream_osr.instances.kinds import Name
from stream_osr.model import shared_offset
from stream_osr.model.class_places import (
    Places,
    features_unmoved,
    is_typical,
    log_ratio,
    moved,
    place_in_deviations,
    places_of_classes,
    shift_of,
    unmoved,
)
from stream_osr.model.prior import numbers_of, width_of
from stream_osr.stream.arrival_order import Arrival, independent_locations
from stream_osr.stream.batch_seating import BatchPosterior
from stream_osr.support import rules
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.references import References, once

LATEST = 64
"""Instances of the latest part of the window."""
MOVED_ON = 5.0
"""Gain in log likelihood, beside half of each feature, from which the latest part has another offset."""
UNUSUAL, SUSPICIOUS = 0.05, 0.2
"""Density rank below which an instance is unusual, and the unusual share from which an offset is fitted."""
THIN = 16
"""Interval of the instances that are kept for longer if neighbours depend on each other. A window of ``WINDOW`` of
them has 4096 instances, so that several recordings or bouts are in it."""
FEW = 16
"""Instances after a move in which an emerging subclass may begin."""
LONGEST_WAIT, LONGEST_WAIT_DEPENDENT = 4096, 512
"""Most instances between two fits, and if most of a dependent stream is unusual: a bout of one class shows no move.

After each fit without a result, the interval doubles. A fit of 256 instances costs 10 to 20 ms with four classes and
18 features, and 0.1 s in KEYSTROKE, as much as some hundred decisions. A larger share of unusual instances than at
the last fit, by ``SUSPICIOUS``, is a reason not to wait.
"""
REPORTED = 192
"""Instances after a move before it is reported."""
TOGETHER = 3
"""Classes at an offset from which dependent ones have not wandered there by chance, each alone.

With two, the season of METRO is a move, and the recall there falls by 0.04.
"""
ACCEPTED, REJECTED = 1, -1
NONE = np.zeros(0, bool)


class Frame(NamedTuple):
    """Offset of the known classes in a stream with p features, C categories and d whitened numeric dimensions.

    Attributes
    ----------
    rows, thinned
        Latest whitened rows as they came, with flags of missing features, shape (n, C + d + p), and every
        ``THIN``-th one of a longer time, shape (m, C + d + p).
    place, before
        Place of the known classes (:mod:`stream_osr.model.shared_offset`) at present, and before the last move, shape
        (2, p). Instances are judged as if they had come at the training place.
    reported
        Place in the latest event, shape (2, p).
    since
        Position at which the known classes came to the present offset, -1 if they have never moved.
    typical
        Share of the latest instances that are typical of a known class at the offset. If the classes have not moved:
        share of those that were not unusual at the last fit.
    unusual
        Whether each of the latest instances is unusual for its nearest class, shape (m,).
    untested, wait
        Instances since the last fit, and the number of instances after which to fit again.
    verdict
        ``ACCEPTED`` or ``REJECTED`` by a person, or 0.
    """

    rows: Annotated[np.ndarray, rules.array("f", "*", "v", low=-1e12, high=1e12)]
    thinned: Annotated[np.ndarray, rules.array("f", "*", "v", low=-1e12, high=1e12)]
    place: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    before: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    reported: Annotated[np.ndarray, rules.array("f", "2", "p", low=-1e300, high=1e300)]
    since: rules.Position = -1
    typical: rules.Share = 1.0
    unusual: Annotated[np.ndarray, rules.array("b", "*")] = NONE
    untested: rules.Count = 0
    wait: Annotated[int, rules.whole(1, rules.LARGEST)] = LATEST
    verdict: Annotated[int, rules.whole(-1, 1)] = 0

    @property
    def has_moved(self) -> bool:
        """Whether the known classes are away from the training place and no person has accepted the new one."""
        return self.verdict != ACCEPTED and bool(self.place.any())


def start_frame(trained: TrainedModel) -> Frame | None:
    """Begin at the training place. ``None`` without references or without numeric features."""
    prior, references = trained.known.prior, trained.references
    if references is None or not len(references.group) or not prior.n_features or len(trained.labels) < 2:
        return None
    nothing = np.zeros((2, len(trained.whitening.center)))
    none = np.zeros((0, width_of(prior) + len(trained.whitening.center)))
    return Frame(none, none, nothing, nothing, nothing)


@once
def _places_of(references: References, trained: TrainedModel) -> Places:
    return places_of_classes(trained.known, trained.whitening, references.rows)


def _places(trained: TrainedModel) -> Places:
    assert trained.references is not None
    return _places_of(trained.references, trained)


def at_training(trained: TrainedModel, frame: Frame | None, rows: np.ndarray, first: int | None = None) -> np.ndarray:
    """Move whitened rows, shape (n, C + d), to the training place.

    If the rows are those from position ``first`` on, those from before the last move come from the place before, and
    all others from the present place.
    """
    if frame is None or not (frame.place.any() or frame.before.any()):
        return rows
    space, numbers = trained.whitening, numbers_of(rows, trained.known.prior)
    earlier = 0 if first is None else min(max(frame.since - first, 0), len(rows))
    places = [(numbers[:earlier], frame.before), (numbers[earlier:], frame.place)]
    numbers = np.concatenate([unmoved(space, own, place) if place.any() else own for own, place in places])
    return np.hstack([rows[:, : len(trained.known.prior.first)], numbers])


def features_at_training(trained: TrainedModel, frame: Frame | None, bent: np.ndarray) -> np.ndarray:
    """Move transformed features, NaN = missing, shape (n, p), from the present place to the training place."""
    if frame is None or not frame.place.any():
        return bent
    return features_unmoved(trained.whitening, bent, frame.place)


def follow_frame(
    trained: TrainedModel,
    frame: Frame,
    posterior: BatchPosterior,
    lacks: np.ndarray | None,
    seen: int,
    arrival: Arrival | None,
) -> tuple[Frame, bool]:
    """Add a batch, and fit the offset if many instances are unusual or the frame has moved.

    Parameters
    ----------
    trained
        The model.
    frame
        The frame with which the batch was judged.
    posterior
        The batch.
    lacks
        Whether its instances lack each feature, shape (b, p), or ``None``.
    seen
        Position after the batch.
    arrival
        Order of arrival in the stream.

    Returns
    -------
    The frame, and whether the batch must be judged again because the classes have moved.
    """
    numbers = moved(trained.whitening, numbers_of(posterior.rows, trained.known.prior), frame.place)
    flags = np.zeros((len(numbers), len(trained.whitening.center))) if lacks is None else lacks
    came = np.hstack([posterior.rows[:, : len(trained.known.prior.first)], numbers, flags])
    frame = frame._replace(
        rows=np.concatenate([frame.rows, came])[-shared_offset.WINDOW :],
        thinned=np.concatenate([frame.thinned, came[(len(came) - seen) % THIN :: THIN]])[-shared_offset.WINDOW :],
        unusual=_unusual(trained, frame, posterior, arrival),
        untested=frame.untested + len(came),
    )
    share = float(frame.unusual.mean())
    more = share > 1.0 - frame.typical + SUSPICIOUS and frame.untested >= LATEST
    if frame.untested < frame.wait and not more:
        return frame, False
    places, frame = _places(trained), frame._replace(untested=0)
    independent = independent_locations(arrival, trained.order)
    if share > SUSPICIOUS:
        stays = shared_offset.stay(places, frame.rows[-LATEST:], frame.place)
        for rows, step in () if stays else _windows(places, frame, independent):
            found = shared_offset.find_shared_offset(places, rows, frame.place, independent if step == 1 else 1.0)
            stayed = found.before >= shared_offset.STAYED
            wanders = independent < 1.0 and stayed and (step > 1 or found.classes < TOGETHER)
            rejected = frame.verdict == REJECTED and _alike(places, found.place, frame.reported)
            if found.has_moved and not wanders and not rejected:
                all_rows = frame.rows if step == 1 else rows
                first = _since(places, all_rows, found.place, frame.place)
                there = frame._replace(place=found.place, before=frame.place, typical=found.after, verdict=0)
                return there._replace(since=max(0, seen - step * (len(all_rows) - first)), wait=LATEST), True
        if not frame.has_moved:
            longest = LONGEST_WAIT_DEPENDENT if share > 0.5 and independent < 1.0 else LONGEST_WAIT
            return frame._replace(wait=min(2 * frame.wait, longest), typical=1.0 - share), False
    if frame.has_moved:
        rows, step = (_windows(places, frame, independent) or [(frame.rows, 1)])[-1]
        since = (seen - frame.since) // step
        if step > 1 and since < LATEST:  # most of the rows are from before the move
            return frame._replace(wait=LATEST), False
        rows = rows[-min(max(since, LATEST), len(rows)) :]
        if step > 1:
            apart = min(1.0, step * independent)
            found = shared_offset.find_shared_offset(places, rows, frame.place, apart, track=True)
            gain = apart * log_ratio(places, rows, found.place, frame.place).sum()
            if gain <= MOVED_ON + 0.5 * found.parameters:
                return frame._replace(wait=LATEST), False
        elif shared_offset.contradict(places, rows[-LATEST:], frame.place, independent):
            found = _followed(places, rows, frame.place, independent)
        else:
            return frame._replace(wait=LATEST), False
        frame = frame._replace(place=found.place, typical=found.after) if found.place.any() else frame
        return frame._replace(wait=LATEST), False
    return frame._replace(wait=LATEST, typical=1.0), False


def _windows(places: Places, frame: Frame, independent: float) -> list[tuple[np.ndarray, int]]:
    """Windows of the stream, the shortest first, and the interval of their instances.

    A window with less information than one independent instance shows no class. If dependent neighbours say little
    about the spread of the classes, a longer window of instances that are further apart comes last.
    """
    rows = [frame.rows[-n:] for n in (LATEST, shared_offset.WINDOW) if n == LATEST or len(frame.rows) > LATEST]
    windows = [(each, 1) for each in rows if independent * len(each) > 1.0]
    if shared_offset.is_narrow(places, frame.rows, independent) and len(frame.thinned) >= LATEST:
        windows.append((frame.thinned, THIN))
    return windows


def _unusual(trained: TrainedModel, frame: Frame, posterior: BatchPosterior, arrival: Arrival | None) -> np.ndarray:
    """Whether each of the latest instances is unusual. In a dependent stream the ranks follow the classes."""
    unusual = ((posterior.rank < UNUSUAL) | posterior.is_unknown)[-LATEST:]
    if arrival is not None and arrival.process is not None:
        unusual = unusual | ~is_typical(_places(trained), numbers_of(posterior.rows[-LATEST:], trained.known.prior))
    return np.concatenate([frame.unusual, unusual])[-LATEST:]


def _since(places: Places, rows: np.ndarray, place: np.ndarray, before: np.ndarray) -> int:
    """Position in some rows from which their likelihood at a place exceeds that at the place before by most."""
    gain = log_ratio(places, rows, place, before)
    return int(np.cumsum(gain[::-1])[::-1].argmax())


def _followed(places: Places, rows: np.ndarray, now: np.ndarray, independent: float) -> shared_offset.SharedOffset:
    """Fit the place again to the rows since the move, or to the latest ones if these have moved on."""
    whole = shared_offset.find_shared_offset(places, rows, now, independent, track=True)
    if len(rows) <= LATEST or not shared_offset.contradict(places, rows[-LATEST:], whole.place, independent):
        return whole
    latest = shared_offset.find_shared_offset(places, rows[-LATEST:], now, independent, track=True)
    gain = independent * log_ratio(places, rows[-LATEST:], latest.place, whole.place).sum()
    return latest if gain > MOVED_ON + 0.5 * latest.parameters else whole


def _alike(places: Places, place: np.ndarray, other: np.ndarray) -> bool:
    """Whether the difference of two places is less than half of the first, or negligible."""
    own, beside = (place_in_deviations(places, each) for each in (place, other))
    size, apart = float(np.linalg.norm(own)), float(np.linalg.norm(own - beside))
    return apart <= max(0.5 * size, shared_offset.SMALL)


class Explanations:
    """Moves of all known classes that may explain an emerging subclass: the last one, and one that begins.

    Parameters
    ----------
    trained, frame
        The model, and the frame with which a batch was judged.
    posterior
        The batch. A move that begins in it is fitted to its unusual instances, and then to all since its beginning.
    arrival
        Order of arrival in the stream.
    """

    def __init__(
        self, trained: TrainedModel, frame: Frame | None, posterior: BatchPosterior, arrival: Arrival | None
    ) -> None:
        self._trained, self._frame, self._posterior, self._arrival = trained, frame, posterior, arrival

    @cached_property
    def _moves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of places: that at which a subclass was judged, and that to which the classes have moved."""
        trained, frame, posterior = self._trained, self._frame, self._posterior
        if frame is None or frame.verdict == REJECTED:
            return []
        moves = [(frame.before, frame.place), (frame.place, frame.before)] if frame.since >= 0 else []
        unusual = _unusual(trained, frame, posterior, self._arrival)[-len(posterior.rows) :]
        if unusual.mean() > 1.0 - frame.typical + SUSPICIOUS:  # more than at the last fit
            places, here = _places(trained), frame.place * 0.0
            rows = posterior.rows[-len(unusual) :, : width_of(trained.known.prior)]
            if shared_offset.stay(places, rows[-FEW:], here):
                return moves
            independent = independent_locations(self._arrival, trained.order)
            found = shared_offset.find_shared_offset(places, rows[unusual], here, independent)
            if not found.is_near:
                return moves
            since = _since(places, rows, found.place, here)
            found = shared_offset.find_shared_offset(places, rows[since:], here, independent)
            moves += [(here, found.place)] if found.has_moved else []
        return moves

    def __call__(self, mean: np.ndarray) -> bool:
        """Whether a subclass with this mean, shape (d,), would be typical of a known class without a move."""
        return any(self._explains(mean[None], *move) for move in self._moves)

    def _explains(self, mean: np.ndarray, here: np.ndarray, there: np.ndarray) -> bool:
        space = self._trained.whitening
        return bool(is_typical(_places(self._trained), unmoved(space, moved(space, mean, here), there))[0])


def report_frame(
    trained: TrainedModel, frame: Frame, seen: int, common_fields: dict[str, Any]
) -> tuple[Frame, list[Event]]:
    """Report a move once, as soon as enough instances have come, and again if the offset has changed as much."""
    if frame.since < 0 or frame.verdict or (frame.place.any() and seen - frame.since < REPORTED):
        return frame, []
    places = _places(trained)
    if _alike(places, frame.place, frame.reported) and frame.place.any() == frame.reported.any():
        return frame, []
    columns, offset, shift = describe_frame(trained, frame)
    event = FrameMoved(
        columns=columns, offset=offset, shift=shift, since=max(frame.since, 0), share=frame.typical, **common_fields
    )
    return frame._replace(reported=frame.place), [event]


def describe_frame(
    trained: TrainedModel, frame: Frame
) -> tuple[tuple[Name, ...], dict[Hashable, float], dict[Hashable, float]]:
    """Columns that moved, the largest shift first, and the offset of each in the caller's units and in deviations."""
    places = _places(trained)
    at = shared_offset.features_that_moved(places, frame.place)
    shift, own = shift_of(places, frame.place)[at], frame.place[0, at]
    order = np.argsort(-np.abs(shift), kind="stable").tolist()
    names = [trained.names[c] for c in at.tolist()]
    columns = tuple(names[k] for k in order)
    return (
        columns,
        {names[k]: float(own[k]) for k in order},
        {names[k]: float(shift[k]) for k in order},
    )


def frame_text(trained: TrainedModel, frame: Frame | None) -> str:
    """Describe the present offset in a line. It is empty at the training place, and after it was accepted."""
    if frame is None or not frame.has_moved:
        return ""
    _, offset, shift = describe_frame(trained, frame)
    return moved_text(offset, shift, frame.since)


def judged(frame: Frame, *, accept: bool) -> Frame:
    """Accept the present place as the reference, or return to the training place.

    Raises
    ------
    NothingToJudge
        If the known classes have not moved.
    """
    if not frame.has_moved:
        raise NothingToJudge("the stream has not moved away from training: there is no place to accept or reject")
    if accept:
        return frame._replace(verdict=ACCEPTED, reported=frame.place)
    return frame._replace(verdict=REJECTED, reported=frame.place, before=frame.place, place=frame.place * 0.0)
