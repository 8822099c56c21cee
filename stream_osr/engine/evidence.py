"""Labels that come while the stream runs: sequential updates of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.discovery.lifecycle import without_row
from stream_osr.engine.past import recall
from stream_osr.engine.signals import count_left_behind, tally
from stream_osr.engine.state import Chain, Stream, Waiting
from stream_osr.hdp import stream as sampler
from stream_osr.hdp.known import densities, learn_labelled
from stream_osr.hdp.prior import homogeneous
from stream_osr.hdp.regroup import withdraw_aside


class Evidence(NamedTuple):
    """A label that waits for the next batch: for a new row, or (``row`` is None) for an earlier key."""

    label: Label
    row: np.ndarray | None
    key: Any = None


def learn_evidence(stream: Stream, evidence: Sequence[Evidence], parameters: Parameters) -> tuple[Stream, list[Any]]:
    """Let labels take effect, in order: each is a sequential update of its class (or opens a class).

    Returns
    -------
    The next stream, and keys that are not (or no longer) remembered.
    """
    if not evidence:
        return stream, []
    labels, past, decided = list(stream.labels), stream.past, list(stream.decided)
    unknown_keys = []
    rows: list[_Labelled] = []
    for label, row, key in evidence:
        earlier = None
        if row is None:
            found = recall(past, key)
            if found is None:
                unknown_keys.append(key)
                continue
            chunk, at = found
            old = past[chunk]
            row = old.rows[at]
            earlier = _Earlier(old.seq + at, old.seq, old.subclass[:, at].copy())
            subclass, keys = old.subclass.copy(), list(old.keys)
            subclass[:, at], keys[at] = -1, None  # a label counts once
            past = (*past[:chunk], old._replace(subclass=subclass, keys=tuple(keys)), *past[chunk + 1 :])
        if label not in labels:
            labels.append(label)
            decided.insert(-1, 0)
        rows.append(_Labelled(labels.index(label), row, earlier))
    chains = tuple(_learn_labelled(chain, number, rows, parameters) for number, chain in enumerate(stream.chains))
    withdrawn = [int(row.earlier.subclass[0]) for row in rows if row.earlier is not None]
    outliers = count_left_behind(stream.chains[0], chains[0].state, withdrawn)
    return (
        stream._replace(
            labels=tuple(labels),
            chains=chains,
            past=past,
            waiting=_widen(stream.waiting, len(labels)),
            decided=tuple(decided),
            signals=tally(stream.signals, [], outliers),
        ),
        unknown_keys,
    )


class _Earlier(NamedTuple):
    """Where a labelled instance sat: its place in the stream, that of its batch, its subclass in each chain."""

    seq: int
    batch_seq: int
    subclass: np.ndarray


class _Labelled(NamedTuple):
    """A whitened row of shape (d,), its class number, and its seat if it was decided before."""

    j: int
    row: np.ndarray
    earlier: _Earlier | None


def _learn_labelled(chain: Chain, number: int, rows: Sequence[_Labelled], parameters: Parameters) -> Chain:
    """Update the known classes of one chain by labelled rows, in order."""
    before, state, life, aside = chain.known, chain.state, chain.life, chain.aside
    rng = np.random.default_rng([parameters.seed, state.batches, int(before.size.sum()), number])
    known = before
    for j, row, earlier in rows:
        if earlier is not None:
            seat = 0.5 ** ((state.seen - earlier.batch_seq) / parameters.half_life)
            subclass = int(earlier.subclass[number])
            state = sampler.withdraw(before, state, row, earlier.seq, subclass, seat)
            life = without_row(life, subclass, earlier.seq)
            if subclass in aside.ids:
                aside = withdraw_aside(aside, subclass, row, before.prior)
        known = learn_labelled(known, homogeneous(row[None])[0], j, rng, state.next_id)
        state = state._replace(next_id=max(state.next_id, int(known.ids.max()) + 1))
    frozen = densities(known)
    state = sampler.refresh_classes(state, before, known, frozen)
    return chain._replace(known=known, frozen=frozen, state=state, life=life, aside=aside)


def _widen(waiting: Waiting, n_classes: int) -> Waiting:
    """Make room for classes that labels have opened."""
    old = waiting.responsible.shape[1]
    return waiting._replace(
        probabilities=np.insert(waiting.probabilities, [old] * (n_classes - old), 0.0, axis=1),
        responsible=np.insert(waiting.responsible, [old] * (n_classes - old), -1, axis=1),
    )
