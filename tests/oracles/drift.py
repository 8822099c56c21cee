"""What the detectors of drift do with a batch, class by class and block by block, in Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stream_osr.discovery import drift as fast


def follow(
    drift: fast.Drift,
    nearest: np.ndarray,
    rank: np.ndarray,
    accepted: np.ndarray,
    rows: np.ndarray,
    first: int,
    interval: float,
    usual: np.ndarray | None = None,
    independent: float = 1.0,
) -> tuple[fast.Drift, list[fast.Alarm]]:
    """Take in a batch, as :func:`stream_osr.discovery.drift.follow`; the classes are as many as before."""
    n_classes = len(drift.owed)
    counts, drift = _count(drift, nearest, accepted, accepted if usual is None else accepted | usual)
    order = np.flatnonzero(counts)
    order = order[np.argsort(nearest[order], kind="stable")]
    label, values = nearest[order], np.column_stack([np.ones(len(order)), rank[order], rows[order]])
    ranks, after = rank[order].tolist(), (first + 1 + order).tolist()
    begins = np.searchsorted(label, np.arange(n_classes + 1)).tolist()
    detectors, pending, usual = drift.detectors.tolist(), drift.pending.tolist(), drift.usual.tolist()
    alarms: list[fast.Alarm] = []
    threshold = fast.threshold_for(interval) / fast.BLOCK
    for j, (begin, end) in enumerate(pairwise(begins)):
        waiting, total = pending[j]
        last = begin
        for at in range(begin + fast.BLOCK - int(waiting), end + 1, fast.BLOCK):
            mean = (total + sum(ranks[last:at])) / fast.BLOCK
            last, waiting, total = at, 0, 0.0
            detectors[j] = numbers = _update(detectors[j], mean, independent)
            _, _, increase, decrease, least, largest = numbers
            for side, against in enumerate((decrease >= largest, increase <= least)):  # sparser, denser
                if against:
                    usual[j][side] = [after[at - 1], *numbers[:2]]
            side = int(increase - least > largest - decrease)
            since, blocks, before = usual[j][side]
            independents = fast.BLOCK * (numbers[0] - blocks)
            if max(increase - least, largest - decrease) > threshold and independents >= fast.LEAST_MOVED:
                age = np.arange(at - begin, -1, -1)
                lately = 0.5 ** (age / fast.LATELY) @ np.vstack([drift.lately[j], values[begin:at]])
                now, *row = (lately[1:] / lately[0]).tolist()
                off, was = now - 0.5, before - 0.5
                back, begin_at = abs(off) < abs(was) / 2, before
                if back:
                    begin_at = now if off * was > 0 else 0.5
                elif abs(off - was) >= abs(was):
                    begin_at, size = now, fast.BLOCK * round(independents / fast.BLOCK / independent)
                    direction = (fast.SPARSER, fast.DENSER)[side]
                    alarms.append(fast.Alarm(j, direction, int(since), size, before, now, np.array(row)))
                detectors[j] = _begin(begin_at)
                usual[j] = [[after[at - 1], *detectors[j][:2]]] * 2
        pending[j] = [waiting + end - last, total + sum(ranks[last:end])]
    came = np.diff(begins)
    weight = 0.5 ** ((np.array(begins)[1:][label] - 1 - np.arange(len(order))) / fast.LATELY)
    member = (label == np.arange(n_classes)[:, None]) * weight
    lately = 0.5 ** (came / fast.LATELY)[:, None] * drift.lately + member @ values
    detectors, pending, usual = np.array(detectors), np.array(pending), np.array(usual)
    return drift._replace(detectors=detectors, pending=pending, usual=usual, lately=lately), alarms


def _count(
    drift: fast.Drift, nearest: np.ndarray, accepted: np.ndarray, explained: np.ndarray
) -> tuple[np.ndarray, fast.Drift]:
    """Choose the instances that count for their nearest class: all accepted ones, some that nothing explains."""
    n, n_classes = len(nearest), len(drift.owed)
    came = np.bincount(nearest[accepted], minlength=n_classes)
    pace = (came.sum() - came) / np.maximum(drift.arrived.sum() - drift.arrived, 1.0)
    expected = drift.arrived * np.maximum(pace, fast.LEAST_PACE * n / max(drift.seen, 1.0))
    owed = np.minimum(np.maximum(drift.owed + expected - came, -fast.MOST_OWED), fast.MOST_OWED)
    counts, places = accepted.copy(), owed.tolist()
    unknown = np.flatnonzero(~explained)
    for i, j in zip(unknown.tolist(), nearest[unknown].tolist(), strict=True):
        if places[j] >= 1.0:
            places[j] -= 1.0
            counts[i] = True
    fade = 0.5 ** (n / fast.SHARES_HALF_LIFE)
    return counts, drift._replace(
        arrived=fade * drift.arrived + np.bincount(nearest[counts], minlength=n_classes),
        seen=fade * drift.seen + n,
        owed=np.array(places),
    )


def _begin(level: float) -> list[float]:
    """Begin a detector at a mean rank."""
    return [fast.PRIOR_BLOCKS, level, 0.0, 0.0, 0.0, 0.0]


def _update(numbers: list[float], value: float, weight: float) -> list[float]:
    """Let a detector go on from these numbers with one value that counts as so many."""
    n, mean, increase, decrease, least, largest = numbers
    n += weight
    mean += (weight / n) * (value - mean)
    increase += weight * (value - mean - fast.TOLERANCE)
    decrease += weight * (value - mean + fast.TOLERANCE)
    return [n, mean, increase, decrease, min(least, increase), max(largest, decrease)]
