"""Decisions that wait while later batches re-seat their instances, and what labels they end with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_osr.config import Parameters
from stream_osr.decision import Decision
from stream_osr.engine.followed import Parted
from stream_osr.engine.state import Stream, Waiting
from stream_osr.labels import unknown_label
from stream_osr.model import step as sampler
from stream_osr.model.known import Known
from stream_osr.trust.odds import shift_odds


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


def wait(
    waiting: Waiting, decisions: Sequence[Decision], results: Sequence[sampler.BatchResult], raw: np.ndarray
) -> Waiting:
    """Append a batch to the decisions held back, and note what the others look like after it."""
    probabilities, subclass = waiting.probabilities, waiting.subclass
    if waiting.decisions and len(results[0].window_seq):
        begin = waiting.decisions[0].seq
        again = np.mean([result.window_probabilities for result in results], axis=0)
        inside = results[0].window_seq >= begin
        probabilities = probabilities.copy()
        probabilities[results[0].window_seq[inside] - begin] = again[inside]
        moved, moved_to = results[0].moved, results[0].moved_to
        subclass = subclass.copy()
        subclass[moved[moved >= begin] - begin] = moved_to[moved >= begin]
    return Waiting(
        (*waiting.decisions, *decisions),
        np.concatenate([probabilities, raw]),
        np.concatenate([subclass, results[0].subclass]),
        np.concatenate([waiting.responsible, results[0].responsible]),
    )


def rename_waiting(waiting: Waiting, joined: Mapping[int, int], parted: Mapping[int, Parted]) -> Waiting:
    """Tell of the subclasses that were joined and parted after the instances had been seated."""
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
    waiting = stream.waiting
    ready = len(waiting.decisions)
    while ready and stream.state.seen - waiting.decisions[ready - 1].seq <= delay:
        ready -= 1
    if not ready:
        return [], stream
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    counts = list(stream.decided)
    out = list(waiting.decisions[:ready])
    if parameters.decision_delay:
        probabilities = shift_odds(stream.odds, waiting.probabilities[:ready])
        label = most_probable(probabilities, parameters.min_probability)
        subclass = subclasses_told(stream.known, label, waiting.responsible[:ready], waiting.subclass[:ready])
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
    rest = Waiting(
        waiting.decisions[ready:],
        waiting.probabilities[ready:],
        waiting.subclass[ready:],
        waiting.responsible[ready:],
    )
    return out, stream._replace(waiting=rest, decided=tuple(counts))
