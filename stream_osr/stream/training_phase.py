"""Training: labelled instances are stored, a provisional model predicts meanwhile, and freezing ends it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from stream_osr.errors import InvalidInstance, InvalidParameter, NotTrained
from stream_osr.instances.features import Features
from stream_osr.instances.kinds import Name
from stream_osr.instances.labels import check_label
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import FeatureName, Label
from stream_osr.stream.late_labels import Evidence
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.stream.state import expect_known, open_stream
from stream_osr.training.trained import TrainedModel, train_model
from stream_osr.training.training_report import understood
from stream_osr.trust.false_unknown_bound import check_references

PROVISIONAL_SWEEPS = 5


def learn(
    state: RecognizerState,
    features: Features,
    row: np.ndarray,
    label: Label,
    x: Mapping[Any, Any],
    group: str | float | None = None,
    provisional: RecognizerState | None = None,
) -> tuple[RecognizerState, bool]:
    """Store a training instance, and extend the provisional model, or drop it when the instances have doubled.

    ``provisional`` is a state with a model that a prediction has trained (:func:`predicting`).

    The state changes in place unless waiting labels are due. Then it stays the same, because closing may fail.

    Returns
    -------
    The next state, and whether its waiting labels are due.
    """
    training, parameters, waiting = state.training, state.parameters, state.evidence
    assert training is not None
    if state.trained is None and (valid := still_valid(provisional, state)) is not None:
        state = replace(state, trained=valid.trained, stream=valid.stream, evidence=[])
        waiting = state.evidence
    n = sum(training.seen) + 1
    if state.trained is not None and n & (n - 1) == 0:
        state = replace(state, trained=None, stream=None, evidence=[])
    due = state.trained is not None and (label not in training.labels or len(waiting) + 1 >= parameters.batch_size)
    if due:
        training, waiting = copy(training), copy(waiting)
        state = replace(state, training=training, evidence=waiting)
    written = [name for at, name in enumerate(features.names) if np.isnan(row[at]) and name in x]
    training.add(features, row[None], [label], written, None if group is None else [group])
    if state.trained is not None:
        whitened = whiten(state.trained.whitening, state.trained.in_order(features, row)[None])[0]
        waiting.append(Evidence(label, whitened))
    return state, due


def predicting(state: RecognizerState, earlier: RecognizerState | None = None) -> RecognizerState:
    """Return a state with a provisional model, trained on the instances so far. The given state does not change.

    The state is the same if it has a model, or if the instances do not span the components of a PCA. It is the
    ``earlier`` one if that is still valid.
    """
    if (valid := still_valid(earlier, state)) is not None:
        return valid
    training, parameters = state.training, state.parameters
    if training is None or state.trained is not None or not len(training):
        return state
    training = copy(training)
    decided, features, group, _ = training.decided(parameters.numeric or (), parameters.absent)
    X = decided.X
    if not features.names or np.isnan(X).all():
        return state
    sweeps = min(PROVISIONAL_SWEEPS, parameters.training_sweeps)
    try:
        trained = train_model(features, X, group, tuple(training.labels), parameters, sweeps=sweeps, draws=1)
    except InvalidParameter:
        if parameters.pca is None:
            raise
        return state
    stream = expect_known(trained, parameters)
    return replace(state, training=training, trained=trained, stream=stream, evidence=[])


def still_valid(provisional: RecognizerState | None, state: RecognizerState) -> RecognizerState | None:
    """Return a provisional state if the instances of a state have no new class and have not doubled since then."""
    if provisional is None or provisional.training is None or state.training is None:
        return None
    before, now = provisional.training, state.training
    alike = len(before.labels) == len(now.labels) and sum(before.seen).bit_length() == sum(now.seen).bit_length()
    return provisional if alike else None


def freeze(state: RecognizerState, progress: Callable[[int], None] | None = None) -> RecognizerState:
    """End training: sweep the training groups, summarise them, and release the instances.

    Raises
    ------
    NotTrained
        If there are no training instances.
    InvalidParameter
        If a declared category or number is not a feature of the instances, or if no feature is left.
    """
    training, chosen = state.training, state.parameters
    if training is None or not len(training):
        raise NotTrained("freeze() needs labelled instances. Learn some first")
    for option in ("categorical", "numeric", "alarms"):
        _check_named(option, getattr(chosen, option) or (), training.features.names)
    decided, features, group, arrived = training.decided(chosen.numeric or (), chosen.absent)
    X = decided.X
    if not features.names:
        why = "; ".join(f"{name!r}: {why}" for name, why in decided.kinds.left_out.items())
        raise InvalidInstance(
            f"the training instances have no feature{why and f' that can be used: {why}'}. Give one"
        )
    order = arrived if chosen.order == "arrival" else None
    labels, units = tuple(training.labels), training.units
    trained = train_model(features, X, group, labels, chosen, order=order, units=units, progress=progress)
    responsibilities, rows = training.count_absent(trained.absent_zero)
    state.counters.subtract({name: n for name, n in (("missing", responsibilities), ("bad_rows", rows)) if n})
    report = replace(trained.report, **understood(decided, trained.values, trained.report.instances))
    if report.by_group is not None:
        report = replace(report, by_group=report.by_group._replace(name=training.group_name))
    return over(state, replace(trained, report=report))


def _check_named(option: str, declared: Collection[FeatureName], names: Collection[Name]) -> None:
    strange = [name for name in declared if name not in names]
    if strange:
        near = get_close_matches(str(strange[0]), [str(name) for name in names], 1)
        meant = f"did you mean {near[0]!r}?" if near else f"the features are {', '.join(map(repr, [*names][:12]))}"
        raise InvalidParameter(
            f"{option} has {strange[0]!r}, which is not a feature of the training instances: {meant}"
        )


def over(state: RecognizerState, trained: TrainedModel) -> RecognizerState:
    """Begin the stream of a trained model."""
    for label in trained.labels:
        check_label(label, trained.labels, state.parameters.unknown)
    check_references(trained.references, trained.labels, state.parameters.max_false_unknown)
    stream = open_stream(trained, state.parameters)
    trained.tell_unguarded()
    return replace(state, training=None, trained=trained, stream=stream, evidence=[])
