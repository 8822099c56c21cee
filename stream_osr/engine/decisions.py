"""What is decided of a batch, and how decisions wait while later batches re-seat their instances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from stream_osr.config import Parameters
from stream_osr.decision import Decision
from stream_osr.engine.state import Arrived, Stream, Waiting
from stream_osr.ensemble.chain import IdentityChanges
from stream_osr.ensemble.step import Judged, window_together
from stream_osr.labels import unknown_label
from stream_osr.model.known import Known
from stream_osr.trust.odds import shift_odds


def decide(stream: Stream, arrived: Sequence[Arrived], judged: Judged, parameters: Parameters) -> list[Decision]:
    """Decide for now; why, and the subclass, are told from the leader."""
    leader, probabilities, n = stream.chains[0], judged.probabilities, len(arrived)
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    label = most_probable(probabilities, parameters.min_probability)
    _, times, keys = zip(*arrived, strict=True)
    told, first = [names[own] for own in label.tolist()], leader.state.seen
    columns = zip(  # in the order of the fields
        keys,
        times,
        told,
        told,
        probabilities[np.arange(n), label].tolist(),
        probabilities[:, -1].tolist(),
        [dict(zip(names, row, strict=True)) for row in probabilities.tolist()],
        subclasses_told(leader.known, label, judged.leader.responsible, judged.leader.subclass),
        [names[near] for near in judged.nearest.tolist()],
        judged.distance.tolist(),
        judged.rank.tolist(),
        repeat(leader.state.batches, n),
        range(first, first + n),
        strict=True,
    )
    return list(map(Decision._make, columns))


def most_probable(probabilities: np.ndarray, least: float) -> np.ndarray:
    """Choose the most probable label of each row; a known one below the least probability asked for is unknown."""
    label = probabilities.argmax(axis=1)
    if least > 0.0:
        label[probabilities.max(axis=1) < least] = probabilities.shape[1] - 1
    return np.asarray(label)


def subclasses_told(
    known: Known, label: np.ndarray, responsible: np.ndarray, emerging: np.ndarray
) -> list[int | None]:
    """Subclass that each label stands for: the most responsible known one, or the emerging one it sits in."""
    n, n_classes = responsible.shape
    of_class = responsible[np.arange(n), np.minimum(label, n_classes - 1)]
    told = np.where(label < n_classes, np.where(of_class >= 0, known.ids[of_class], -1), emerging)
    return [key if key >= 0 else None for key in told.tolist()]


def wait(waiting: Waiting, decisions: Sequence[Decision], judged: Judged, changes: IdentityChanges) -> Waiting:
    """Append a batch to the decisions held back; the others are what they look like after it.

    Parameters
    ----------
    waiting, decisions
        Those that wait, and those of the batch.
    judged
        The batch, and what the chains have made of it.
    changes
        What has happened to identities of the leader.
    """
    probabilities, subclass, leader = waiting.probabilities, waiting.subclass.copy(), judged.leader
    begin = waiting.decisions[0].seq if waiting.decisions else decisions[0].seq
    inside = leader.window_seq >= begin
    if inside.any():
        probabilities = probabilities.copy()
        probabilities[leader.window_seq[inside] - begin] = window_together(judged)[inside]
        moved, now = changes.moved
        subclass[moved[moved >= begin] - begin] = now[moved >= begin]
    return _follow_identities(
        Waiting(
            (*waiting.decisions, *decisions),
            np.concatenate([probabilities, judged.raw]),
            np.concatenate([subclass, leader.subclass]),
            np.concatenate([waiting.responsible, leader.responsible]),
        ),
        changes,
    )


def _follow_identities(waiting: Waiting, changes: IdentityChanges) -> Waiting:
    """Tell of the subclasses that were joined and parted after the instances had been seated."""
    joined, parted = changes.joined, changes.parted
    if not joined and not parted:
        return waiting
    subclass = waiting.subclass.copy()
    for was, now in joined.items():
        subclass[waiting.subclass == was] = now
    begin = waiting.decisions[0].seq
    for new, (_, seqs) in parted.items():
        subclass[seqs[seqs >= begin] - begin] = new
    ended = {*joined, *(old for old, _ in parted.values())}
    decisions = tuple(
        d._replace(subclass_id=key) if d.subclass_id in ended or d.subclass_id == was != key else d
        for d, was, key in zip(waiting.decisions, waiting.subclass.tolist(), subclass.tolist(), strict=True)
    )
    return waiting._replace(decisions=decisions, subclass=subclass)


def release_ready(stream: Stream, delay: int, parameters: Parameters) -> tuple[list[Decision], Stream]:
    """Let go of the decisions that ``delay`` later instances have followed, as they are now."""
    waiting, leader = stream.waiting, stream.chains[0]
    ready = len(waiting.decisions)
    while ready and leader.state.seen - waiting.decisions[ready - 1].seq <= delay:
        ready -= 1
    if not ready:
        return [], stream
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    counts = list(stream.decided)
    out = list(waiting.decisions[:ready])
    if parameters.decision_delay:
        probabilities = shift_odds(stream.odds, waiting.probabilities[:ready])
        label = most_probable(probabilities, parameters.min_probability)
        subclass = subclasses_told(leader.known, label, waiting.responsible[:ready], waiting.subclass[:ready])
        for i, (row, own) in enumerate(zip(probabilities.tolist(), label.tolist(), strict=True)):
            out[i] = out[i]._replace(
                label=names[own],
                probability=row[own],
                p_unknown=row[-1],
                probabilities=dict(zip(names, row, strict=True)),
                subclass_id=subclass[i],
            )
    number = {name: j for j, name in reversed(list(enumerate(names)))}
    for decision in out:
        counts[number[decision.label]] += 1
    rest = Waiting._make(part[ready:] for part in waiting)
    return out, stream._replace(waiting=rest, decided=tuple(counts))
