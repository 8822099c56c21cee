"""What a batch says beside decisions and emerging subclasses: known classes that drift, outliers; and the counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.config import Parameters
from stream_osr.discovery import events as ev
from stream_osr.discovery.drift import Drift, follow
from stream_osr.discovery.explain import explain_move
from stream_osr.discovery.lifecycle import comes_as_usual
from stream_osr.discovery.lives import Lifecycle
from stream_osr.discovery.rate import UnknownRate, follow_rate, start_rate
from stream_osr.discovery.signals import Signals
from stream_osr.engine.state import Chain, Stream
from stream_osr.model import step as sampler
from stream_osr.model.restaurant import StreamState
from stream_osr.trained import TrainedModel


def follow_known(
    trained: TrainedModel,
    stream: Stream,
    rows: np.ndarray,
    nearest: np.ndarray,
    rank: np.ndarray,
    probabilities: np.ndarray,
    subclass: np.ndarray,
    parameters: Parameters,
    *,
    explained: bool = True,
) -> tuple[Drift, list[ev.Event]]:
    """Follow the known classes through a batch, as the first chain sees them, and tell which have drifted.

    Parameters
    ----------
    trained, stream
        The model, and the stream before the batch.
    rows, nearest, rank
        Whitened rows, nearest class of each and density rank in it, shapes (b, d), (b,) and (b,).
    probabilities
        Of each known class and, last, unknown, as decided, shape (b, J + 1).
    subclass
        Emerging subclass that holds each, -1: none, shape (b,).
    parameters
        Settings.
    explained
        What a new class brings that comes as usual is no evidence; False: as releases before this rule had it.
    """
    if parameters.drift_interval is None:
        return stream.drift, []
    labels, state = stream.labels, stream.state
    accepted = probabilities.argmax(axis=1) < len(labels)
    usual = stream.life.ids[comes_as_usual(stream.life, state.seen) & explained]
    drift, alarms = follow(
        stream.drift,
        nearest,
        rank,
        accepted,
        rows,
        state.seen,
        len(labels),
        parameters.drift_interval,
        np.isin(subclass, usual),
    )
    return drift, [
        ev.ClassDrifted(
            label=labels[alarm.j],
            direction=alarm.direction,
            since=alarm.since,
            size=alarm.size,
            rank_before=alarm.rank_before,
            rank_now=alarm.rank_now,
            movement=explain_move(alarm.mean, alarm.j, stream.known, trained.space, trained.names),
            batch=state.batches,
            seq=state.seen + len(rows) - 1,
            model=trained.fingerprint,
        )
        for alarm in alarms
    ]


def follow_unknown(
    trained: TrainedModel, stream: Stream, probabilities: np.ndarray
) -> tuple[UnknownRate | None, list[ev.Event]]:
    """Follow the share of the stream that is called unknown through a batch, and tell if it has jumped.

    Parameters
    ----------
    trained, stream
        The model, and the stream before the batch.
    probabilities
        Of each known class and, last, unknown, as decided, shape (b, J + 1).
    """
    if trained.background is None:
        return None, []
    state, (n, columns) = stream.state, probabilities.shape
    rate = start_rate(1.0 - trained.report.known_recall) if stream.unknown_rate is None else stream.unknown_rate
    unknown = int((probabilities.argmax(axis=1) == columns - 1).sum())
    rate, jump = follow_rate(rate, unknown, n, state.seen)
    if jump is None:
        return rate, []
    about = {"batch": state.batches, "seq": state.seen + n - 1, "model": trained.fingerprint}
    return rate, [ev.UnknownRateJumped(**jump._asdict(), **about)]


def count_outliers(chain: Chain, after: StreamState, result: sampler.BatchResult) -> int:
    """Count the instances whose subclass has left the model with this batch, and had not emerged.

    Parameters
    ----------
    chain
        A chain before the batch.
    after
        The sampler's state after it.
    result
        What the step found out.
    """
    before = chain.state
    alive = set(after.ids.tolist())
    gone = _never_emerged(
        {*before.ids.tolist(), *result.subclass.tolist(), *result.moved_to.tolist()}, alive, chain.life
    )
    if not gone:
        return 0
    was = _seats(before)
    now = was.copy()
    now[np.searchsorted(before.window_seq, result.moved)] = result.moved_to
    settled = _size(before, gone) - sum(key in gone for key in was.tolist())
    return settled + sum(key in gone for key in [*now.tolist(), *result.subclass.tolist()])


def count_left_behind(chain: Chain, after: StreamState, withdrawn: Sequence[int]) -> int:
    """Count those whose subclass, not emerged, has left because labels took instances out of it.

    Parameters
    ----------
    chain
        A chain before the labels.
    after
        The sampler's state after them.
    withdrawn
        Subclass of each instance that was taken out.
    """
    gone = _never_emerged(set(chain.state.ids.tolist()), set(after.ids.tolist()), chain.life)
    return _size(chain.state, gone) - sum(key in gone for key in withdrawn)


def tally(signals: Signals, events: Sequence[ev.Event], outliers: int) -> Signals:
    """Add what a batch has brought."""
    return signals._replace(
        novelty=signals.novelty + sum(isinstance(event, ev.SubclassEmerged) for event in events),
        drift=signals.drift + sum(isinstance(event, ev.ClassDrifted) for event in events),
        outliers=signals.outliers + outliers,
        recall_drops=signals.recall_drops + sum(isinstance(event, ev.RecallDropped) for event in events),
        rate_jumps=signals.rate_jumps + sum(isinstance(event, ev.UnknownRateJumped) for event in events),
    )


def _never_emerged(ids: set[int], alive: set[int], life: Lifecycle) -> set[int]:
    """Choose the subclasses that are gone and were never announced."""
    announced = set(life.ids[life.emerged].tolist())
    return {key for key in ids - alive if key >= 0 and key not in announced}


def _seats(state: StreamState) -> np.ndarray:
    """Emerging subclass that each instance of the window sits in, -1: none, shape (w,)."""
    n_classes = len(state.franchise.menu) - len(state.ids)
    dish = state.franchise.table_dish[state.window.table]
    return np.append(state.ids, -1)[np.where(dish >= n_classes, dish - n_classes, -1)]


def _size(state: StreamState, ids: set[int]) -> int:
    """Instances in these subclasses together."""
    return sum(
        int(size) for key, size in zip(state.ids.tolist(), state.dishes.size.tolist(), strict=True) if key in ids
    )
