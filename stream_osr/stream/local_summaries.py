"""Summaries of a stream's emerged subclasses for comparison with other recognizers, and their publication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.event_base import Event, Explanation
from stream_osr.discovery.events import SubclassMerged
from stream_osr.discovery.explain import explain
from stream_osr.discovery.reconcile import LinkChanges, Local, LocalSummary, ReconciledSubclasses, reconcile, restore
from stream_osr.model.marginal import Statistics, dishes_of, of_nobody, of_slots, statistics_of
from stream_osr.model.prior import Prior, statistics_shape
from stream_osr.stream.state import Stream
from stream_osr.training.trained import TrainedModel

GROWN = 1.25
"""Growth factor: a subclass is published again when its size passes a power of this factor, up or down."""

LARGEST_SUM = 1e60
"""Bound on sums over whitened rows, beyond any real sum."""


class SubclassSums(NamedTuple):
    """Sums of an emerged subclass for publication.

    Attributes
    ----------
    id
        Its identity.
    statistics
        Statistics of all its instances, as a single subclass. None if it is no longer emerging.
    absorbed
        Identities that have ended in it.
    """

    id: int
    statistics: Statistics | None
    absorbed: tuple[int, ...] = ()


def emerged_statistics(stream: Stream) -> dict[int, Statistics]:
    """Return the statistics of the emerged subclasses, including dormant ones.

    They come from the first chain, whose subclasses are reported, by identity in ascending order.
    """
    chain = stream.chains[0]
    own = chain.state.ids.tolist()
    found = {key: statistics_of(chain.state.dishes, np.array([slot])) for slot, key in enumerate(own)}
    found |= {key: of_slots(chain.dormant.statistics, [at]) for at, key in enumerate(chain.dormant.ids.tolist())}
    summaries = set(chain.life.ids[chain.life.noticed].tolist())
    return {key: found[key] for key in sorted(found) if key in summaries}


def changed_summaries(
    before: Mapping[int, Statistics], after: Mapping[int, Statistics], events: Iterable[Event]
) -> list[SubclassSums]:
    """Choose the subclasses that a micro-batch has changed enough to publish. Ended ones come last.

    The choice depends only on the statistics before and after the batch, so a replay publishes the same.

    Parameters
    ----------
    before, after
        Statistics of the emerged subclasses.
    events
        Events after the micro-batch. Subclasses with an event are published as well.
    """
    reported: set[int] = set()
    absorbed: dict[int, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, SubclassMerged):
            absorbed[event.into] = (*absorbed.get(event.into, ()), event.subclass_id)
        reported.update(getattr(event, name) for name in ("subclass_id", "new_id", "into") if hasattr(event, name))
    reported |= {key for key, now in after.items() if key not in before or _level(before[key]) != _level(now)}
    out = [SubclassSums(key, now, absorbed.get(key, ())) for key, now in after.items() if key in reported]
    return [*out, *(SubclassSums(key, None) for key in before if key not in after)]


def _level(statistics: Statistics) -> int:
    return math.floor(math.log(max(int(statistics.size[0]), 1), GROWN))


def as_sums(statistics: Statistics, prior: Prior) -> list[list[float]]:
    """Convert the statistics of one subclass to plain sums over its whitened rows, without the prior's part.

    Row i holds the sums of ``x_i x_j`` for j up to i. The last row holds the sums of ``x_j`` and the number of rows.
    With categories, one more row counts the values at all their places.
    """
    sums = (statistics.matrix[0] - of_nobody(prior)).tolist()
    sums = [row[: i + 1] for i, row in enumerate(sums)]
    return [*sums, statistics.counts[0].tolist()] if len(prior.first) else sums


def from_sums(size: int, sums: Sequence[Sequence[float]], prior: Prior) -> Statistics:
    """Read the output of :func:`as_sums`.

    Raises
    ------
    ValueError
        If the sums are not of this shape, or not finite.

    Examples
    --------
    >>> from stream_osr.model.prior import make_prior
    >>> prior = make_prior(2, nu=4, scale=1, beta=1)
    >>> written = [[5.0], [1.0, 2.0], [3.0, -1.0, 4.0]]
    >>> as_sums(from_sums(4, written, prior), prior) == written
    True
    """
    matrix, counts = np.zeros(statistics_shape(prior)), np.zeros(len(prior.pseudo))
    if len(prior.first):
        *sums, values = sums
        counts[:] = _counts(values, prior, size)
    if len(sums) != len(matrix) or size < 1:
        raise ValueError(f"{len(sums)} rows of sums over {size} instances: expected {len(matrix)} over 1 or more")
    for i, row in enumerate(sums):
        vector, length = np.array(row, float), i + 1
        if vector.shape != (length,) or not np.isfinite(vector).all():
            raise ValueError(f"a row of sums does not have {length} finite numbers")
        matrix[i, :length] = vector
        matrix[:length, i] = vector
    return Statistics(np.array([size], np.int64), (matrix + of_nobody(prior))[None], counts[None])


def _counts(values: Sequence[float], prior: Prior, size: int) -> np.ndarray:
    """Check the counts of values among ``size`` instances."""
    counts = np.array(values, float)
    if counts.shape != prior.pseudo.shape or not (np.isfinite(counts) & (counts >= 0.0)).all():
        raise ValueError(f"the last row of sums does not count the values of {len(prior.pseudo)} places")
    columns = np.split(counts, prior.first[1:])
    if any(own[0] != own[1:].sum() or own[0] > size for own in columns):
        raise ValueError(f"the last row of sums does not count the values of {size} instances at most")
    return counts


def describe_statistics(trained: TrainedModel, statistics: Statistics) -> Explanation:
    """Explain a subclass from its statistics alone."""
    known = trained.known
    dishes = dishes_of(statistics, known.prior)
    return explain(
        dishes, 0, known, trained.densities[0], trained.whitening, trained.names, trained.labels, trained.categories
    )


def most_numbers(trained: TrainedModel) -> int:
    """Return the largest number of sums of a subclass."""
    d = trained.known.prior.n_features
    return (d + 1) * (d + 2) // 2 + len(trained.known.prior.pseudo)


def written_sums(trained: TrainedModel, statistics: Statistics) -> list[list[float]]:
    """Write the statistics of a subclass of a trained model (:func:`as_sums`)."""
    return as_sums(statistics, trained.known.prior)


def read_sums(trained: TrainedModel, size: int, sums: Sequence[Sequence[float]]) -> Statistics | None:
    """Read the output of :func:`written_sums` of any recognizer. None if no rows have these sums.

    Raises
    ------
    ValueError
        If the sums are not of this shape, or not finite.
    """
    prior = trained.known.prior
    statistics = from_sums(size, sums, prior)
    matrix = statistics.matrix[0]
    if np.abs(matrix).max() > LARGEST_SUM or abs(matrix[-1, -1] - prior.beta - size) >= 0.5:
        return None
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return statistics


def take_in(
    trained: TrainedModel, state: ReconciledSubclasses, summary: LocalSummary
) -> tuple[ReconciledSubclasses, LinkChanges]:
    """Add one summary of a recognizer on a trained model (:func:`.reconcile.reconcile`)."""
    return reconcile(state, summary, trained.known.prior, trained.known.location)


def taken_in(
    trained: TrainedModel,
    summaries: Iterable[LocalSummary],
    links: Mapping[Local, int],
    merged: Mapping[int, int],
    next_id: int,
) -> ReconciledSubclasses:
    """Restore the state from the summaries of recognizers on a trained model (:func:`.reconcile.restore`)."""
    return restore(summaries, links, merged, next_id, trained.known.prior)
