"""What is promised of the known classes, and whether it holds: the recall told by references, the gate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_osr.config import Parameters
from stream_osr.discovery import events as ev
from stream_osr.engine.guard import Guarded
from stream_osr.engine.state import Stream, references_of
from stream_osr.engine.waiting import most_probable
from stream_osr.model import step as sampler
from stream_osr.trained import TrainedModel
from stream_osr.trust.conformal import call_known, plausible
from stream_osr.trust.odds import shift_odds
from stream_osr.trust.recall import ExpectedRecall, call, expect, has_dropped, nothing_called
from stream_osr.trust.references import References


def keep_promise(
    references: References | None, results: Sequence[sampler.BatchResult], max_false_unknown: float | None
) -> list[sampler.BatchResult]:
    """Call nobody unknown who is plausible for a known class, if that is promised."""
    if references is None or max_false_unknown is None:
        return list(results)
    batch = plausible(references, np.mean([r.log_density for r in results], axis=0), max_false_unknown)
    out = [r._replace(probabilities=call_known(r.probabilities, batch)) for r in results]
    if len(results[0].window_seq):  # only looked at where decisions wait
        window = plausible(references, np.mean([r.window_log_density for r in results], axis=0), max_false_unknown)
        out = [r._replace(window_probabilities=call_known(r.window_probabilities, window)) for r in out]
    return out


def follow_recall(
    trained: TrainedModel, stream: Stream, guarded: Sequence[Guarded], parameters: Parameters
) -> tuple[Stream, list[ev.Event]]:
    """Note what the references were called beside a batch, and tell when the recall has dropped below the promise.

    Parameters
    ----------
    trained
        Promised it.
    stream
        The stream after the batch.
    guarded
        What the guard of each chain has found.
    parameters
        Those by which labels are chosen.
    """
    references = references_of(trained, stream)
    assert references is not None
    at, n = guarded[0].references, len(guarded[0].result.probabilities)
    group = references.group[at]
    probabilities = np.mean([one.probabilities for one in guarded], axis=0)
    if parameters.max_false_unknown is not None:
        density = np.mean(references.log_density, axis=0)[at]
        probabilities = call_known(probabilities, plausible(references, density, parameters.max_false_unknown))
    label = most_probable(shift_odds(stream.odds, probabilities), 0.0)
    shares = np.mean([one.guard.shares.classes for one in guarded], axis=0)
    called = nothing_called(len(shares)) if stream.called is None else stream.called
    called = call(called, label, group, shares, n)
    stream = stream._replace(called=called)
    now, promised = expected_recall(trained, stream), trained.report.recall_interval
    if now is None or promised is None:
        return stream, []
    dropped = has_dropped(called, now, promised, _distinct(references, len(shares)))
    stream = stream._replace(called=called._replace(dropped=dropped))
    if not dropped or called.dropped:
        return stream, []
    state = stream.state
    return stream, [
        ev.RecallDropped(
            recall=now.recall,
            low=now.low,
            high=now.high,
            false_unknown=now.false_unknown,
            promised=trained.report.known_recall,
            batch=state.batches - 1,
            seq=state.seen - 1,
            model=trained.fingerprint,
        )
    ]


def expected_recall(trained: TrainedModel, stream: Stream) -> ExpectedRecall | None:
    """Say which share of the known instances gets its own label now; ``None``: no reference was asked yet."""
    references = references_of(trained, stream)
    if references is None or stream.called is None:
        return None
    return expect(stream.called, _distinct(references, len(stream.called.shares)))


def _distinct(references: References, n_classes: int) -> np.ndarray:
    return np.bincount(references.group, minlength=n_classes)
