"""Decisions of a batch, and delayed decisions while later batches re-seat their instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from stream_osr.decision import Decision
from stream_osr.instances.labels import unknown_label
from stream_osr.model.known import Known
from stream_osr.parameters import Parameters
from stream_osr.stream.batch_seating import BatchPosterior, window_together
from stream_osr.stream.chain import IdentityChanges
from stream_osr.stream.state import DelayedDecisions, Stream
from stream_osr.trust.prior_odds import shift_odds

_DECISION: Callable[[Iterable[Any]], Decision] = partial(tuple.__new__, Decision)
"""Make a decision from all fields, like ``Decision._make`` but without a call of Python for each instance."""


def decide(
    stream: Stream,
    times: Sequence[float | None],
    keys: Sequence[Any],
    posterior: BatchPosterior,
    parameters: Parameters,
) -> list[Decision]:
    """Decide provisionally. The leader provides the reasons and the subclass."""
    n, state, result = len(keys), stream.state, posterior.leader
    reported = _decision_columns(stream, posterior.probabilities, result.responsible, result.subclass, parameters)
    near = [stream.labels[j] for j in posterior.nearest.tolist()]
    judgement = near, posterior.distance.tolist(), posterior.rank.tolist()
    place = repeat(state.batches, n), range(state.seen, state.seen + n)
    columns = keys, times, reported[0], *reported, *judgement, *place, repeat((), n)  # in the order of the fields
    return list(map(_DECISION, zip(*columns, strict=True)))


def _decision_columns(
    stream: Stream, probabilities: np.ndarray, responsible: np.ndarray, subclass: np.ndarray, parameters: Parameters
) -> tuple[list[Any], ...]:
    """Columns of the decisions: label, its probability, p_unknown, probabilities, subclass."""
    names = (*stream.labels, unknown_label(parameters.unknown, stream.labels))
    label = most_probable(probabilities, parameters.min_probability)
    return (
        [names[own] for own in label.tolist()],
        probabilities[np.arange(len(label)), label].tolist(),
        probabilities[:, -1].tolist(),
        [dict(zip(names, row, strict=True)) for row in probabilities.tolist()],
        subclasses_of_labels(stream.known, label, responsible, subclass),
    )


def most_probable(probabilities: np.ndarray, least: float) -> np.ndarray:
    """Choose the most probable label of each row. A known label below the least probability becomes unknown."""
    label = probabilities.argmax(axis=1)
    if least > 0.0:
        label[probabilities.max(axis=1) < least] = probabilities.shape[1] - 1
    return np.asarray(label)


def subclasses_of_labels(
    known: Known, label: np.ndarray, responsible: np.ndarray, emerging: np.ndarray
) -> list[int | None]:
    """Subclass of each label: the most responsible known subclass, or the emerging one in which the instance sits."""
    n, n_classes = responsible.shape
    of_class = responsible[np.arange(n), np.minimum(label, n_classes - 1)]
    values = np.where(label < n_classes, np.where(of_class >= 0, known.ids[of_class], -1), emerging)
    return [key if key >= 0 else None for key in values.tolist()]


def wait(
    waiting: DelayedDecisions, decisions: Sequence[Decision], posterior: BatchPosterior, changes: IdentityChanges
) -> DelayedDecisions:
    """Append a batch to the delayed decisions, and update the others.

    Parameters
    ----------
    waiting, decisions
        The delayed decisions, and those of the batch.
    posterior
        The batch, and the results of the chains.
    changes
        Changes of the leader's identities.
    """
    probabilities, subclass, leader = waiting.probabilities, waiting.subclass.copy(), posterior.leader
    begin = waiting.decisions[0].seq if waiting.decisions else decisions[0].seq
    members = leader.window_seq >= begin
    if members.any():
        probabilities = probabilities.copy()
        probabilities[leader.window_seq[members] - begin] = window_together(posterior)[members]
        moved, now = changes.moved
        subclass[moved[moved >= begin] - begin] = now[moved >= begin]
    arrays = (probabilities, posterior.raw), (subclass, leader.subclass), (waiting.responsible, leader.responsible)
    waiting = DelayedDecisions((*waiting.decisions, *decisions), *map(np.concatenate, arrays))
    return _follow_identities(waiting, changes)


def _follow_identities(waiting: DelayedDecisions, changes: IdentityChanges) -> DelayedDecisions:
    """Update the subclasses of the delayed decisions after merges and splits."""
    merged, split = changes.merged, changes.split
    if not merged and not split:
        return waiting
    subclass = waiting.subclass.copy()
    for was, now in merged.items():
        subclass[waiting.subclass == was] = now
    begin = waiting.decisions[0].seq
    for new, (_, seqs) in split.items():
        subclass[seqs[seqs >= begin] - begin] = new
    ended = {*merged, *(old for old, _ in split.values())}

    def has_moved(d: Decision, was: int, key: int) -> bool:
        from_known = was < 0 <= key and d.subclass_id is None and d.p_unknown > 0.5
        return d.subclass_id in ended or d.subclass_id == was != key or from_known

    decisions = tuple(
        d._replace(subclass_id=key) if has_moved(d, was, key) else d
        for d, was, key in zip(waiting.decisions, waiting.subclass.tolist(), subclass.tolist(), strict=True)
    )
    return waiting._replace(decisions=decisions, subclass=subclass)


def release_ready(stream: Stream, delay: int, parameters: Parameters) -> tuple[list[Decision], Stream]:
    """Release the decisions that ``delay`` later instances have followed, in their current form."""
    seen = stream.state.seen
    ready = sum(seen - decision.seq > delay for decision in stream.waiting.decisions)
    if not ready:
        return [], stream
    now, rest = (
        DelayedDecisions._make(part[some] for part in stream.waiting) for some in (slice(ready), slice(ready, None))
    )
    out, counts = list(now.decisions), list(stream.decided)
    if parameters.decision_delay:
        columns = _decision_columns(
            stream, shift_odds(stream.odds, now.probabilities), now.responsible, now.subclass, parameters
        )
        fields = ("label", "probability", "p_unknown", "probabilities", "subclass_id")
        reported = (dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True))
        out = [decision._replace(**row) for decision, row in zip(out, reported, strict=True)]
    number = {name: j for j, name in enumerate(stream.labels)}
    for decision in out:
        counts[number.get(decision.label, -1)] += 1
    return out, stream._replace(waiting=rest, decided=tuple(counts))
