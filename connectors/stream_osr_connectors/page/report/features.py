"""What instances are like: from records that are given, or from what a model remembers of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_osr.discovery.explain import values_of
from stream_osr.errors import ConnectorError
from stream_osr.showing import counted
from stream_osr.stream import Stream
from stream_osr.trained import TrainedModel
from stream_osr_connectors.page.report.pool import Pool

Instances: TypeAlias = Iterable[tuple[Any, Mapping[Any, Any]]]
"""Key, ``None`` without one, and features of each instance."""


class Features(NamedTuple):
    """What some instances of a pool are like.

    Attributes
    ----------
    names
        Names of their features.
    values
        Their values, by place in the pool.
    table
        The same as numbers to measure with, shape (d,) each; nan: none.
    """

    names: tuple[str, ...]
    values: Mapping[int, tuple[Any, ...]]
    table: Mapping[int, NDArray[np.float64]]


NOTHING = Features((), {}, {})


def remembered(pool: Pool, stream: Stream) -> NDArray[np.bool_]:
    """Say which instances of a pool a model remembers, shape (n,)."""
    at = pool.seq - stream.recent.seq
    return np.asarray((at >= 0) & (at < len(stream.recent.keys)))


def from_model(pool: Pool, wanted: NDArray[np.int64], trained: TrainedModel, stream: Stream) -> Features:
    """Take what a model remembers of these places of a pool."""
    wanted = wanted[remembered(pool, stream)[wanted]]
    rows = stream.recent.rows[pool.seq[wanted] - stream.recent.seq]
    columns = values_of(rows, trained.space, trained.names, trained.categories)
    values = dict(zip(wanted.tolist(), zip(*columns.values(), strict=True), strict=True)) if columns else {}
    measured = rows[:, len(trained.space.places) :]  # whitened numbers: distances are those of the model
    return Features(tuple(str(name) for name in columns), values, dict(zip(wanted.tolist(), measured, strict=True)))


def from_instances(pool: Pool, wanted: NDArray[np.int64], instances: Instances) -> Features:
    """Find these places of a pool among records: by key, or, where they have none, one record for each instance.

    Records of one key belong to the instances of that key in their order.

    Raises
    ------
    ConnectorError
        If records without keys are not as many as instances, or none with a key is one of them.
    """
    by_key = _occurrences(pool, wanted)
    places = set(wanted.tolist())
    found: dict[int, Mapping[Any, Any]] = {}
    seen: Counter[str] = Counter()
    keyed, count = False, 0
    for count, (key, features) in enumerate(instances, start=1):  # counted
        if key is None:
            if count - 1 in places:
                found[count - 1] = features
            continue
        keyed, text = True, str(key)
        if text in by_key:
            at = seen[text]
            seen[text] += 1
            if at < len(by_key[text]) and (place := by_key[text][at]) in places:
                found[place] = features
    if not keyed and count != len(pool.seq):
        raise ConnectorError(
            f"found {counted(len(pool.seq), 'decision')} and {counted(count, 'record')} of --input; "
            "say --key COLUMN, so that each record is found by the key of its decision"
        )
    for text, own in by_key.items():
        if keyed and seen[text] != len(own):  # some were not decided, and nobody knows which
            for place in own:
                found.pop(place, None)
    if keyed and len(places) and not found:
        raise ConnectorError(
            f"none of the {count} records of --input has the key of an instance that is shown; say --key and the "
            "column that `run` took the keys from, or leave it out if there was none"
        )
    names = tuple(dict.fromkeys(name for features in found.values() for name in features))
    values = {place: tuple(features.get(name) for name in names) for place, features in found.items()}
    return Features(
        tuple(str(name) for name in names),
        values,
        {place: np.array([_number(value) for value in row], float) for place, row in values.items()},
    )


def _occurrences(pool: Pool, wanted: NDArray[np.int64]) -> dict[str, list[int]]:
    """Find all places of the keys of some places."""
    out: dict[str, list[int]] = {text: [] for place in wanted.tolist() if (text := pool.name(place))}
    if out:
        for place in range(len(pool.seq)):
            if (own := out.get(pool.name(place))) is not None:
                own.append(place)
    return out


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
