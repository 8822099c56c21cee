"""What the detectors of drift do with a batch, class by class and block by block, in Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.doors.discovery import (
    BLOCK,
    DENSER,
    LATELY,
    LEAST_PACE,
    MOST_OWED,
    PRIOR_BLOCKS,
    SHARES_HALF_LIFE,
    SPARSER,
    TOLERANCE,
    Alarm,
    Drift,
    threshold_for,
)


def follow(
    drift: Drift,
    nearest: np.ndarray,
    rank: np.ndarray,
    accepted: np.ndarray,
    rows: np.ndarray,
    first: int,
    interval: float,
    usual: np.ndarray | None = None,
) -> tuple[Drift, list[Alarm]]:
    """Take in a batch, as :func:`stream_osr.discovery.drift.follow`; the classes are as many as before."""
    n_classes = len(drift.owed)
    counts, drift = _count(drift, nearest, accepted, accepted if usual is None else accepted | usual)
    order = np.flatnonzero(counts)
    order = order[np.argsort(nearest[order], kind="stable")]
    label, values = nearest[order], np.column_stack([np.ones(len(order)), rank[order], rows[order]])
    ranks, after = rank[order].tolist(), (first + 1 + order).tolist()
    begins = np.searchsorted(label, np.arange(n_classes + 1)).tolist()
    detectors, pending, usual = drift.detectors.tolist(), drift.pending.tolist(), drift.usual.tolist()
    alarms: list[Alarm] = []
    threshold = threshold_for(interval) / BLOCK
    for j, (begin, end) in enumerate(pairwise(begins)):
        waiting, total = pending[j]
        last = begin
        for at in range(begin + BLOCK - int(waiting), end + 1, BLOCK):
            mean = (total + sum(ranks[last:at])) / BLOCK
            last, waiting, total = at, 0, 0.0
            detectors[j] = numbers = _update(detectors[j], mean)
            _, _, increase, decrease, least, largest = numbers
            for side, against in enumerate((decrease >= largest, increase <= least)):  # sparser, denser
                if against:
                    usual[j][side] = [after[at - 1], *numbers[:2]]
            if max(increase - least, largest - decrease) > threshold:
                side = int(increase - least > largest - decrease)
                since, blocks, before = usual[j][side]
                age = np.arange(at - begin, -1, -1)
                lately = 0.5 ** (age / LATELY) @ np.vstack([drift.lately[j], values[begin:at]])
                now, *row = (lately[1:] / lately[0]).tolist()
                size = BLOCK * int(numbers[0] - blocks)
                alarms.append(Alarm(j, (SPARSER, DENSER)[side], int(since), size, before, now, np.array(row)))
                detectors[j] = _begin(now)
                usual[j] = [[after[at - 1], *detectors[j][:2]]] * 2
        pending[j] = [waiting + end - last, total + sum(ranks[last:end])]
    came = np.diff(begins)
    weight = 0.5 ** ((np.array(begins)[1:][label] - 1 - np.arange(len(order))) / LATELY)
    member = (label == np.arange(n_classes)[:, None]) * weight
    lately = 0.5 ** (came / LATELY)[:, None] * drift.lately + member @ values
    detectors, pending, usual = np.array(detectors), np.array(pending), np.array(usual)
    return drift._replace(detectors=detectors, pending=pending, usual=usual, lately=lately), alarms


def _count(
    drift: Drift, nearest: np.ndarray, accepted: np.ndarray, explained: np.ndarray
) -> tuple[np.ndarray, Drift]:
    """Choose the instances that count for their nearest class: all accepted ones, some that nothing explains."""
    n, n_classes = len(nearest), len(drift.owed)
    came = np.bincount(nearest[accepted], minlength=n_classes)
    pace = (came.sum() - came) / np.maximum(drift.arrived.sum() - drift.arrived, 1.0)
    expected = drift.arrived * np.maximum(pace, LEAST_PACE * n / max(drift.seen, 1.0))
    owed = np.minimum(np.maximum(drift.owed + expected - came, -MOST_OWED), MOST_OWED)
    counts, places = accepted.copy(), owed.tolist()
    unknown = np.flatnonzero(~explained)
    for i, j in zip(unknown.tolist(), nearest[unknown].tolist(), strict=True):
        if places[j] >= 1.0:
            places[j] -= 1.0
            counts[i] = True
    fade = 0.5 ** (n / SHARES_HALF_LIFE)
    return counts, drift._replace(
        arrived=fade * drift.arrived + np.bincount(nearest[counts], minlength=n_classes),
        seen=fade * drift.seen + n,
        owed=np.array(places),
    )


def _begin(level: float) -> list[float]:
    """Begin a detector at a mean rank."""
    return [PRIOR_BLOCKS, level, 0.0, 0.0, 0.0, 0.0]


def _update(numbers: list[float], value: float) -> list[float]:
    """Let a detector go on from these numbers with one value."""
    n, mean, increase, decrease, least, largest = numbers
    n += 1.0
    mean += (1.0 / n) * (value - mean)
    off = value - mean
    increase, decrease = increase + off - TOLERANCE, decrease + off + TOLERANCE
    return [n, mean, increase, decrease, min(least, increase), max(largest, decrease)]
